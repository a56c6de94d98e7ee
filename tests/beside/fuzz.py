"""Random programs beside PaddlePaddle; `make fuzz` runs this, from the folder `tests`:

    python -m beside.fuzz --kind networks --seed 1 --count 1000 [--only WORD ...]

Prints a report of one screen. Each new difference is shrunk to a script of its own in the folder `--out`.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from beside.backends import ENGINES, MissingOracle, engine, oracle
from beside.draw import generators
from beside.kinds import Beside, Engines, Found, Jobs, Networks
from beside.language import Case
from beside.script import script
from beside.shrink import shrink

__all__ = ["main"]


# ---------------------------------------------------------------------- a run
@dataclass
class Run:
    """Cases of the seeds, one by one, with a line of progress."""

    beside: Beside
    found: list[Found] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def go(self, seeds: range) -> None:
        """Run the case of each seed."""
        start = time.monotonic()
        for at, seed in enumerate(seeds, 1):
            case = self.beside.case(seed)
            self.reached[case["function"]] += 1
            self.found += self.beside.differences(case)
            self.seconds = time.monotonic() - start
            if sys.stderr.isatty() or at % 500 == 0:
                left = self.seconds / at * (len(seeds) - at)
                print(f"\r{at}/{len(seeds)}, {self.mine} differ, {left:.0f} s left ", end="", file=sys.stderr)
        print(file=sys.stderr)

    @property
    def mine(self) -> int:
        """Cases with a difference that is ours."""
        return len({found.case["seed"] for found in self.found if found.ours})

    def examples(self) -> dict[tuple[str, str], Found]:
        """The first difference of each key that is ours."""
        first: dict[tuple[str, str], Found] = {}
        for found in self.found:
            if found.ours:
                first.setdefault(found.key, found)
        return first

    def shrunk(self, example: Found) -> Found:
        """The example as small as it gets."""

        def same(case: Case) -> bool:
            return self._first(case, example) is not None

        case = shrink(copy.deepcopy(example.case), same)
        return self._first(case, example) or example

    def _first(self, case: Case, example: Found) -> Found | None:
        return next(
            (one for one in self.beside.differences(case) if one.ours and one.key == example.key), None
        )


def write_examples(run: Run, out: pathlib.Path, limit: int) -> None:
    """A script and a case as JSON for each kind of difference, shrunk."""
    out.mkdir(parents=True, exist_ok=True)
    for count, example in enumerate(list(run.examples().values())[:limit]):
        name = f"{count:03d}_{example.key[0].rpartition('.')[2]}"
        if "job" in example.case:
            (out / f"{name}.json").write_text(json.dumps(example.case))
            continue
        small = run.shrunk(example)
        remarks = [f"{example.key[0]}: {small.difference.aspect}", small.difference.text[:400]]
        (out / f"{name}.py").write_text(script(small.case, remarks))
        (out / f"{name}.json").write_text(json.dumps(small.case))


def report(run: Run) -> str:
    """One screen: how many of what."""
    total = sum(run.reached.values())
    ours = [found for found in run.found if found.ours]
    lines = [
        f"{total} cases of {len(run.reached)} functions, {run.mine} differ",
        f"{run.seconds / max(total, 1) * 1000:.0f} ms a case",
        "outcomes: " + _counts(run.beside.outcomes),
        "back ends: "
        + "; ".join(
            f"{one.name}: {one.crashes} crashes, {one.hangs} hangs"
            for one in (run.beside.ours, run.beside.other)
        ),
        "rows of pages: " + _counts(Counter(found.row for found in run.found if found.row)),
        "PaddlePaddle wrong by central differences: "
        + _counts(Counter(found.case["function"] for found in run.found if found.theirs)),
        "by aspect: " + _counts(Counter(found.difference.aspect for found in ours)),
        "by function:",
        *_by_function(ours),
    ]
    never = _never(run)
    if never:
        lines.append(
            f"never reached ({len(never)}): " + ", ".join(name.rpartition(".")[2] for name in never)[:300]
        )
    return "\n".join(lines)


def _never(run: Run) -> list[str]:
    """Functions of the door that no case was about."""
    if run.beside.only or run.beside.door not in ("18", "26"):
        return []
    return sorted(set(generators(run.beside.door)) - set(run.reached))


def _by_function(ours: list[Found], limit: int = 40) -> list[str]:
    keys = Counter(found.key for found in ours)
    first = {found.key: found for found in reversed(ours)}
    lines = []
    for key, count in keys.most_common(limit):
        seed, text = first[key].case["seed"], first[key].difference.text
        lines.append(f"  {count:4d} {key[0]}, {key[1]}: seed {seed}: {text[:150]}")
    return lines


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common(20)) or "none"


def held_against(chosen: Any) -> Beside:
    """The two sides that a kind holds against each other."""
    often = {name: float(chance) for name, chance in (word.split("=") for word in chosen.often)}
    if chosen.kind == "engines":
        one, two = map(engine, chosen.engines)
        return Engines(one, two, chosen.door, chosen.only, often)
    if chosen.kind == "networks":
        return Networks(engine("plan"), oracle("185"), "networks", chosen.only)
    if chosen.kind == "jobs":
        return Jobs(engine("plan"), oracle("185"), "jobs", chosen.only)
    name = {"functions18": "185", "functions26": "262"}[chosen.kind]
    return Beside(engine("plan"), oracle(name), chosen.kind[-2:], chosen.only, often)


def options() -> Any:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--kind", choices=["functions18", "functions26", "engines", "networks", "jobs"], default="functions18"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=[], help="functions whose names hold one of these words")
    parser.add_argument("--engines", nargs=2, choices=sorted(ENGINES), default=["plan", "naive"])
    parser.add_argument("--door", choices=["18", "26", "networks"], default="18", help="of the kind engines")
    parser.add_argument(
        "--often", nargs="*", default=[], help="chances, such as empty=0.3 (sizes of 0) or same_twice=0.5"
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("../build/fuzz"))
    parser.add_argument("--shrink", type=int, default=20, help="how many kinds of difference are shrunk")
    return parser.parse_args()


def main() -> int:
    """Run, report; 1 where something differs that is ours."""
    chosen = options()
    try:
        beside = held_against(chosen)
    except MissingOracle as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2
    run = Run(beside)
    run.go(range(chosen.seed, chosen.seed + chosen.count))
    print(report(run))
    write_examples(run, chosen.out / f"{chosen.kind}-{chosen.seed}", chosen.shrink)
    run.beside.close()
    return 1 if run.mine else 0


if __name__ == "__main__":
    sys.exit(main())
