"""Cases of the rows of docs/DIFFERENCES.md: for each row with a remark, one that differs as the row says,
beside what PaddlePaddle gave.

    python -m beside.row_cases ID build/fuzz/functions18-1/000_relu.json

from the folder `tests` adds one. Each line of `tests/beside/cases/rows18.jsonl` (and 26) holds {"row",
"case", "ours", "theirs"}: facts as `beside.observe` gives them. CI runs our side again: it gives what was
kept, and differs from PaddlePaddle's as the row says.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from beside.backends import Backend, Facts, engine, oracle
from beside.compare import Difference, compare, wrong_by_differences
from beside.kept import FOLDER, ORACLES
from beside.kinds import parts_of
from beside.language import Case
from beside.rows import Row, rows

__all__ = ["add", "contradictions", "held"]

JUDGED = {"slopes": "wrong by differences", "bends": "second wrong by differences"}


def held(door: str) -> list[dict[str, Any]]:
    """All cases of a door, with the rows that they show."""
    lines = (FOLDER / f"rows{door}.jsonl").read_text(encoding="utf8").splitlines()
    return [json.loads(line) for line in lines]


def contradictions(backend: Backend, item: dict[str, Any]) -> list[str]:
    """Lines that a run says against a row: other values than were kept, or no such difference."""
    case, row = item["case"], _row(item["row"])
    mine = backend.ask(case, _parts(case, row))
    moved = [f"{one.aspect}: {one.text}" for one in compare(mine, item["ours"], case["random"])]
    lines = [f"{row.id}: not the values that were kept: {line}" for line in moved]
    if not _shown(row, case, mine, item["theirs"]):
        lines.append(f"{row.id}: this case does not differ as the row says")
    return lines


def _row(name: str) -> Row:
    return next(row for row in rows() if row.id == name)


def _parts(case: Case, row: Row) -> tuple[str, ...]:
    """The parts that are compared; central differences, which take time, where the row is about them."""
    judged = any("wrong" in aspect for aspect in row.aspects)
    return tuple(part for part in parts_of(case) if judged or part not in JUDGED)


def _shown(row: Row, case: Case, mine: Facts, other: Facts) -> bool:
    """True if the row asks for one of the differences."""
    ops = mine.get("build", {}).get("ops", [])
    return any(row.holds(case, ops, one) for one in _differences(case, mine, other))


def _differences(case: Case, mine: Facts, other: Facts) -> Iterator[Difference]:
    yield from compare(mine, other, case["random"])
    for part, aspect in JUDGED.items():
        for name in wrong_by_differences(case, mine, part):
            yield Difference(aspect, f"gradient by {name}", name)


def add(name: str, case: Case) -> None:
    """Append a case that shows a row; ValueError for one that does not."""
    sides = engine("plan"), oracle(ORACLES[case["door"]])
    try:
        mine, other = (side.ask(case, _parts(case, _row(name))) for side in sides)
    finally:
        for side in sides:
            side.close()
    if not _shown(_row(name), case, mine, other):
        raise ValueError(f"the case of {case['function']} does not differ as the row {name!r} says")
    facts = [{part: found for part, found in side.items() if part not in JUDGED} for side in (mine, other)]
    item = {"row": name, "case": case, "ours": facts[0], "theirs": facts[1]}
    with open(FOLDER / f"rows{case['door']}.jsonl", "a", encoding="utf8") as out:
        out.write(json.dumps(item, sort_keys=True) + "\n")


if __name__ == "__main__":
    add(sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf8")))
