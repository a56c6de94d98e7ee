"""Writes `fluidlite/ir/refused_kinds.txt` from the calls that PaddlePaddle 2.6.2 refuses.

A TypeError is about a kind. An error of another class is, where it comes for a dtype whatever the dtypes of
the other arguments are, and where `OF_KINDS` says so: others are about shapes and values. Arguments of which
2.6.2 takes each dtype, and no two together, are alike.

python tests/house/refused_kinds.py
"""

from __future__ import annotations

import ast
import functools
import gzip
import importlib
import inspect
import json
import pathlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from golden.wrong_kinds_2x import DTYPES, KEPT, OF_KINDS, kind_of  # noqa: E402  # found by the path above

ROOT = HERE.parents[1]
TARGET = ROOT / "fluidlite" / "ir" / "refused_kinds.txt"
RECORDED = ROOT / "tests" / "golden" / "wrong_kinds_2x.json.gz"

_KINDS = {"Variable": "float32", "Variable[int64]": "int64"}
_ORDER = ["None", "int", "float", "str", "list", "tuple", "array", *DTYPES]
_DEFAULTS = {type(None): "None", int: "int", float: "float", str: "str", list: "list", tuple: "tuple"}


@functools.cache
def recorded() -> dict[str, Any]:
    """The rows that 2.6.2 takes, and function -> case -> the class of the error, "" without one."""
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def home_of(path: str) -> Any:
    """FluidLite's function of the name `paddle.x`, as its own module has it; None where it has none."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(f"fluidlite.{module}"), name, None)
    found = inspect.unwrap(found) if callable(found) else None
    return found if inspect.isfunction(found) else None


def _names(path: str) -> list[str]:
    """The parameters of a function, which are 2.6.2's (`tests/paddle/test_signatures.py`)."""
    function = home_of(path)
    return [] if function is None else list(inspect.signature(function).parameters)


def _own_kind(code: str) -> str:
    """The kind of an argument's code in a row that 2.6.2 takes."""
    one = ast.parse(code, mode="eval").body
    if isinstance(one, ast.Name):
        return kind_of(one.id)[1]
    try:
        value = ast.literal_eval(one)
    except ValueError:
        return ""
    return _DEFAULTS.get(type(value), "")


@functools.cache
def _taken() -> Mapping[str, set[tuple[str, str]]]:
    """Function -> arguments with the kinds that 2.6.2 takes for them in some row, or by default."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in recorded()["rows"]:
        call = ast.parse(row, mode="eval").body
        path = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or path not in recorded()["functions"]:
            continue
        given = dict(zip(_names(path), map(ast.unparse, call.args)))
        given |= {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg}
        found[path] |= {(name, _own_kind(code)) for name, code in given.items()}
    return found


def _cases(path: str) -> Iterator[tuple[str, str, str]]:
    """(Argument, kind, outcome) of a function's cases."""
    names = _names(path)
    for case, outcome in recorded()["functions"][path].items():
        place, _, kind = case.partition(": ")
        if not place.isdigit() or int(place) < len(names):
            yield names[int(place)] if place.isdigit() else place, _KINDS.get(kind, kind), outcome


def _tried(path: str) -> dict[str, dict[str, bool]]:
    """Argument -> kind -> True where 2.6.2 refuses it, for the kinds that were tried."""
    outcomes = {(name, kind): outcome for name, kind, outcome in _cases(path)}
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for (name, kind), outcome in outcomes.items():
        # one dtype beside another one may be what is refused: both are tried
        together = outcomes.get((name, f"all of {kind}"), outcome)
        if not kind.startswith("all of "):
            of_kind = kind.startswith("dtype ") or kind in OF_KINDS.get(path, {}).get(name, "").split()
            is_refused = bool(outcome and together) if of_kind else outcome == "TypeError"
            found[name][kind.removeprefix("dtype ")] = is_refused
    return found


def alike(path: str) -> list[str]:
    """The arguments of a function that have one dtype: 2.6.2 takes another one for all of them alone."""
    outcomes = {(name, kind): outcome for name, kind, outcome in _cases(path)}
    found = [
        name
        for (name, kind), outcome in outcomes.items()
        if kind.startswith("dtype ") and outcome and not outcomes[name, f"all of {kind}"]
    ]
    # a weight is refused beside an input, which is taken with all others where no weight is given
    found = list(dict.fromkeys(found if len(set(found)) != 1 else [_names(path)[0], *found]))
    return [] if any(name in KEPT.get(path, {}) for name in found) else found


def _of_ours(path: str, function: Any) -> dict[tuple[str, str], bool]:
    """(Argument, kind) -> True where FluidLite refuses it, for the kinds that were tried."""
    parameters = inspect.signature(function).parameters
    found = {}
    for name, kinds in _tried(path).items():
        taken = {kind for argument, kind in _taken()[path] if argument == name}
        taken.add(_DEFAULTS.get(type(parameters[name].default), ""))
        taken |= {"int"} if "float" in taken else set()  # an integer is a number
        taken |= set(KEPT.get(path, {}).get(name, "").split())
        found |= {(name, kind): refused and kind not in taken for kind, refused in kinds.items()}
    return found


def written() -> str:
    """The text of the file."""
    functions: dict[str, dict[tuple[str, str], bool]] = defaultdict(dict)
    together: dict[str, list[str]] = {}
    for path in recorded()["functions"]:
        function = home_of(path)
        if function is None or not function.__module__.startswith("fluidlite.paddle."):
            continue
        key = f"{function.__module__.removeprefix('fluidlite.paddle.')}.{function.__name__}"
        together.setdefault(key, alike(path))
        for argument, refused in _of_ours(path, function).items():
            # what one name of a function takes, all take
            functions[key][argument] = functions[key].get(argument, True) and refused
    lines = []
    for key, tried in sorted(functions.items()):
        kinds: dict[str, list[str]] = defaultdict(list)
        for name, kind in sorted(tried, key=lambda each: _ORDER.index(each[1])):
            if tried[name, kind]:
                kinds[name].append(kind)
        said = [f"  {name}: {' '.join(found)}" for name, found in sorted(kinds.items())]
        said += [f"  alike: {' '.join(together[key])}"] if together[key] else []
        lines += [key, *said] if said else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf8")
