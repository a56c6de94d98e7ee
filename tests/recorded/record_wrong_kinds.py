"""Record what 1.8.5 raises where one argument of a layer is of a wrong kind; nothing here is needed to use
FluidLite.

    cd tests && PADDLE_PYTHON=python-of-1.8.5 python -m recorded.record_wrong_kinds [--ours]

Each function of `fluid.layers` that has a generator gets one case that both systems build. `--ours` records
none of it, but writes down where 1.8.5 raises and we do not, or an error of another class, and where we raise
and it does not: a line that comes in addition is a check that is missing, or one that is too strict.
"""

from __future__ import annotations

import gzip
import inspect
import json
import pathlib
import random
import sys
from typing import Any

from beside.backends import Backend, engine, oracle
from beside.draw import Draw, generators
from beside.language import Case

import fluidlite as fluid

from .wrong_kinds import call_of, keys_of, wrong

PATH = pathlib.Path(__file__).parent / "wrong_kinds.json.gz"
KNOWN = PATH.with_name("wrong_kinds.txt")
"""The lines of all differences, as `--ours` writes them."""
DELIBERATE = ("TypeError", "ValueError", "AssertionError", "EnforceNotMet")
"""Errors of checks; others come of what went wrong later, and any of ours will do."""
FIELDS = ("declared", "dtype", "stop", "lengths")
TRIES = 12


def load() -> dict[str, Any]:
    """Function -> {"case", "raises": argument -> kind -> class, or "" where the process ended}."""
    with gzip.open(PATH, "rt") as source:
        found: dict[str, Any] = json.load(source)
    return found


def drawn(name: str, seed: int) -> Case:
    """The case of a seed, without the values of what is fed."""
    draw = Draw(random.Random(f"{name} {seed}"), "18")
    generators("18")[name](draw, name)
    feeds = {key: {one: feed[one] for one in FIELDS if one in feed} for key, feed in draw.feeds.items()}
    return {"function": name, "feeds": feeds, "calls": draw.calls}


def parameters_of(name: str) -> list[str]:
    """The parameters of a function of fluid; none where it is a class of its own."""
    function: Any = fluid
    for part in name.split(".")[1:]:
        function = getattr(function, part)
    return list(inspect.signature(function).parameters) if inspect.isfunction(function) else []


def recorded(name: str, sides: list[Backend]) -> Any:
    """The error that the first system raises for the first case that all build; None where none is."""
    for seed in range(TRIES):
        case = drawn(name, seed)
        if call_of(case) is None or any(side.send({"built": case}) for side in sides):
            continue
        raises: dict[str, dict[str, str]] = {}
        for key in keys_of(call_of(case), parameters_of(name)):
            found = {kind: sides[0].send({"built": bad}) for kind, bad in wrong(case, key)}
            raises[key] = {kind: _class(one) for kind, one in found.items() if one}
        return {"case": case, "raises": raises}
    return None


def _class(answer: Any) -> str:
    """The class of an error; "" where the process ended or hung."""
    return "" if isinstance(answer, dict) else str(answer[1])


def differences(name: str, item: Any, found: Any) -> list[str]:
    """The places where a check of 1.8.5 raises, and `found` (case -> text and classes) does not ("built"), or
    something else ("other"), and where 1.8.5 builds what `found` does not ("refused"): a line for each
    argument and kind of difference.
    """
    lines = []
    for key, raises in item["raises"].items():
        # None where 1.8.5 builds it; what it fails with later is left out
        wanted = {kind: raises.get(kind) for kind, _ in wrong(item["case"], key)}
        wanted = {kind: error for kind, error in wanted.items() if error in (*DELIBERATE, None)}
        given = {kind: found(bad) for kind, bad in wrong(item["case"], key) if kind in wanted}
        built = [kind for kind, answer in given.items() if not answer and wanted[kind]]
        other = [kind for kind, answer in given.items() if answer and wanted[kind] not in (*answer, None)]
        refused = [kind for kind, answer in given.items() if answer and wanted[kind] is None]
        for what, kinds in (("built", built), ("other", other), ("refused", refused)):
            if kinds:
                lines.append(f"{name.rpartition('.')[2]} {key} {what}: {', '.join(kinds)}")
    return lines


def main() -> None:
    """Record all functions, or write what differs."""
    if "--ours" in sys.argv:
        ours = engine("plan")
        found = [
            differences(name, item, lambda case: ours.send({"built": case})) for name, item in load().items()
        ]
        KNOWN.write_text("".join(f"{line}\n" for lines in found for line in lines))
        ours.close()
        return
    sides = [oracle("185"), engine("plan")]
    for side in sides:
        side.limit = 20.0
    items = {name: recorded(name, sides) for name in generators("18") if name.startswith("fluid.layers.")}
    kept = {name: item for name, item in items.items() if item}
    with gzip.GzipFile(PATH, "wb", mtime=0) as out:
        out.write(json.dumps(kept, sort_keys=True).encode())
    print(f"{len(kept)} functions; no case of", [name for name, item in items.items() if not item])
    for side in sides:
        side.close()


if __name__ == "__main__":
    main()
