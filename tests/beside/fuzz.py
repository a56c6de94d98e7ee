"""Random programs beside PaddlePaddle; `make fuzz` runs this, from the folder `tests`:

    python -m beside.fuzz --kind functions18|functions26|engines --seed 1 --count 1000 [--only WORD]

Prints a report of one screen. Each new difference is shrunk to a script of its own in the folder `--out`.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from beside.backends import ENGINES, Backend, Facts, MissingOracle, engine, oracle
from beside.compare import Difference, compare, wrong_by_differences
from beside.draw import generators, make_case
from beside.language import Case
from beside.observe import PARTS
from beside.rows import excuse
from beside.script import script
from beside.shrink import shrink
from beside.variations import vary

__all__ = ["main"]

DOORS = {"functions18": ("18", "185"), "functions26": ("26", "262")}


def drawn(door: str, seed: int, only: list[str]) -> Case:
    """The case of a seed, with its variations."""
    return vary(make_case(door, seed, only), random.Random(f"variations {seed}"))


def parts_of(case: Case) -> tuple[str, ...]:
    """What is compared of a case: second derivatives where it asks for them."""
    return PARTS if case["second"] else tuple(part for part in PARTS if part != "second")


@dataclass(frozen=True)
class Found:
    """One difference of one case."""

    case: Case
    difference: Difference
    row: str = ""  # the id of the row of DIFFERENCES that asks for it
    theirs: bool = False  # PaddlePaddle is wrong, by central differences

    @property
    def key(self) -> tuple[str, str]:
        """What differences are sorted by."""
        return self.case["function"], self.difference.aspect

    @property
    def ours(self) -> bool:
        """True if it is ours to mend, or to explain."""
        return not self.row and not self.theirs


@dataclass
class Beside:
    """A back end of ours, and one that it is held against."""

    ours: Backend
    other: Backend
    same_system: bool = False
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    outcomes: Counter[str] = field(default_factory=Counter)

    def facts(self, case: Case) -> tuple[Facts, Facts]:
        """What both say, asked at the same time."""
        parts = parts_of(case)
        answers = [self.pool.submit(one.ask, case, parts) for one in (self.ours, self.other)]
        return answers[0].result(), answers[1].result()

    def differences(self, case: Case) -> list[Found]:
        """All differences of a case, with who is right where that can be told."""
        mine, other = self.facts(case)
        self.outcomes[_outcome(mine, other)] += 1
        found = compare(mine, other, case["random"])
        ops = mine.get("build", {}).get("ops", [])
        if self.same_system:
            return [Found(case, one) for one in found]
        wrong = wrong_by_differences(case, mine)
        if found and self._is_unstable(case, other):
            return []
        result = [self._judged(case, one, ops, mine, other) for one in found]
        for name in wrong:
            difference = Difference("wrong by differences", f"gradient by {name}", name)
            result.append(Found(case, difference, excuse(case, ops, difference)))
        return result

    def _is_unstable(self, case: Case, other: Facts) -> bool:
        """True if the other system, asked again, says something else: it reads memory that nobody wrote."""
        return bool(compare(other, self.other.ask(case, parts_of(case)), case["random"]))

    def _judged(self, case: Case, one: Difference, ops: list[str], mine: Facts, other: Facts) -> Found:
        row = excuse(case, ops, one)
        if row or not one.aspect.startswith("gradient") or one.where == "":
            return Found(case, one, row)
        name = one.where.rpartition(" ")[2]
        theirs = name in wrong_by_differences(case, {**other, "slopes": mine.get("slopes", {})})
        return Found(case, one, theirs=theirs and name not in wrong_by_differences(case, mine))

    def close(self) -> None:
        """End both."""
        for one in (self.ours, self.other):
            one.close()
        self.pool.shutdown()


def _outcome(mine: Facts, other: Facts) -> str:
    if "fault" in other:
        return f"{other['fault'].partition(':')[0]} in the other"
    failed = ["error" in side.get(part, {}) for side in (mine, other) for part in ("build", "runs")]
    if any(failed[:2]) and any(failed[2:]):
        return "refused by both"
    if any(failed[2:]):
        return "refused by the other alone"
    return "compared"


# ---------------------------------------------------------------------- a run
@dataclass
class Run:
    """Cases of the seeds, one by one, with a line of progress."""

    beside: Beside
    door: str
    only: list[str]
    found: list[Found] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def go(self, seeds: range) -> None:
        """Run the case of each seed."""
        start = time.monotonic()
        for at, seed in enumerate(seeds, 1):
            case = drawn(self.door, seed, self.only)
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
        small = run.shrunk(example)
        name = f"{count:03d}_{example.key[0].rpartition('.')[2]}"
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
        "rows of DIFFERENCES: " + _counts(Counter(found.row for found in run.found if found.row)),
        "PaddlePaddle wrong by central differences: "
        + _counts(Counter(found.case["function"] for found in run.found if found.theirs)),
        "by aspect: " + _counts(Counter(found.difference.aspect for found in ours)),
        "by function:",
        *_by_function(ours),
    ]
    never = sorted(set(generators(run.door)) - set(run.reached))
    if never and not run.only:
        lines.append(
            f"never reached ({len(never)}): " + ", ".join(name.rpartition(".")[2] for name in never)[:300]
        )
    return "\n".join(lines)


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


def backends(kind: str, engines: list[str]) -> tuple[Beside, str]:
    """What a kind is run with, and its door."""
    if kind in DOORS:
        door, name = DOORS[kind]
        return Beside(engine("plan"), oracle(name)), door
    return Beside(engine(engines[0]), engine(engines[1]), same_system=True), "18"


def options() -> Any:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=[*DOORS, "engines"], default="functions18")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=[], help="functions whose names hold one of these words")
    parser.add_argument("--engines", nargs=2, choices=sorted(ENGINES), default=["plan", "naive"])
    parser.add_argument("--door", choices=["18", "26"], help="of the kind engines")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("../build/fuzz"))
    parser.add_argument("--shrink", type=int, default=20, help="how many kinds of difference are shrunk")
    return parser.parse_args()


def main() -> int:
    """Run, report; 1 where something differs that is ours."""
    chosen = options()
    try:
        beside, door = backends(chosen.kind, chosen.engines)
    except MissingOracle as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2
    run = Run(beside, chosen.door or door, chosen.only)
    run.go(range(chosen.seed, chosen.seed + chosen.count))
    print(report(run))
    write_examples(run, chosen.out / f"{chosen.kind}-{chosen.seed}", chosen.shrink)
    run.beside.close()
    return 1 if run.mine else 0


if __name__ == "__main__":
    sys.exit(main())
