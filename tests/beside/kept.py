"""Cases that once differed, with the right values: CI replays them without any oracle.

    python -m beside.kept build/fuzz/functions18-1/*.json

from the folder `tests` adds cases: the values are those of PaddlePaddle, or ours where a row of
docs/DIFFERENCES.md or central differences say that PaddlePaddle's are wrong. Each line of a file in
`tests/beside/cases` holds one: {"case", "facts"}.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterable
from typing import Any

from beside.backends import Backend, engine, oracle
from beside.compare import compare, wrong_by_differences
from beside.kinds import Beside, parts_of
from beside.language import Case

__all__ = ["add", "kept", "replay"]

FOLDER = pathlib.Path(__file__).parent / "cases"
ORACLES = {"18": "185", "26": "262"}


def kept(door: str) -> list[dict[str, Any]]:
    """All cases of a door, with their facts."""
    file = FOLDER / f"functions{door}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def replay(backend: Backend, items: Iterable[dict[str, Any]]) -> list[str]:
    """Differences from what was recorded, a line each."""
    lines = []
    for item in items:
        case = item["case"]
        facts = backend.ask(case, parts_of(case))
        found = [f"{one.aspect}: {one.text}" for one in compare(facts, item["facts"], case["random"])]
        found += [f"the gradient by {name} is wrong" for name in wrong_by_differences(case, facts)]
        lines += [f"{case['function']} {case['seed']}: {line}" for line in found]
    return lines


def add(cases: Iterable[Case]) -> None:
    """Append cases with the right values; one that differs still, by our fault, is kept with theirs."""
    for case in cases:
        ours, theirs = engine("plan"), oracle(ORACLES[case["door"]])
        beside = Beside(ours, theirs, case["door"], [])
        mine, other = beside.facts(case, parts_of(case))
        right = other if any(found.ours for found in beside.differences(case)) else mine
        beside.close()
        if "fault" not in right:
            _append(case, right)


def _append(case: Case, facts: dict[str, Any]) -> None:
    FOLDER.mkdir(exist_ok=True)
    facts = {part: found for part, found in facts.items() if part != "slopes"}
    with open(FOLDER / f"functions{case['door']}.jsonl", "a") as out:
        out.write(json.dumps({"case": case, "facts": facts}, sort_keys=True) + "\n")


if __name__ == "__main__":
    add(json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:])
