"""Kinds of random programs: functions, networks and jobs beside PaddlePaddle, our engines beside each
other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from beside.backends import Backend, Facts
from beside.compare import (
    Difference,
    compare,
    has_gradient,
    is_nearer,
    is_rounding,
    right_by_differences,
    wrong_by_differences,
)
from beside.draw import make_case
from beside.jobs import differences, make_job
from beside.language import Case
from beside.networks import calm, make_network
from beside.observe import PARTS
from beside.rows import excuse, rows
from beside.variations import apart, in_double, ordinary, shaken, vary

__all__ = ["Beside", "Engines", "Found", "Jobs", "Networks", "is_explained", "moves_far", "with_consequences"]

GRADIENTS = ("gradient", "second")
KEPT = ("declared dtype", "refused build", "unclear refusal")
"""Aspects that tell something where other functions stand behind than in the other system."""
JUDGES = {"gradient": ("slopes", "rough"), "second": ("bends", "roughly bends")}
NEEDED = {"rough": ("runs", "rough", "grads"), "roughly bends": ("runs", "grads", "second", "roughly bends")}


def parts_of(case: Case) -> tuple[str, ...]:
    """The parts of a case that are compared: second derivatives where it asks for them."""
    return PARTS if case["second"] else tuple(part for part in PARTS if part not in ("second", "bends"))


@dataclass(frozen=True)
class Found:
    """One difference of one case."""

    case: Case
    difference: Difference
    row: str = ""  # the id of the row of a page that asks for it
    theirs: bool = False  # PaddlePaddle is wrong, by central differences

    @property
    def key(self) -> tuple[str, str]:
        """The function and the aspect, by which differences are sorted."""
        return self.case["function"], self.difference.aspect

    @property
    def ours(self) -> bool:
        """True if it is ours to mend, or to explain."""
        return not self.row and not self.theirs


@dataclass
class Beside:
    """Functions of one door: a back end of ours, and one that it is held against."""

    ours: Backend
    other: Backend
    door: str
    only: list[str]
    often: dict[str, float] = field(default_factory=dict)
    """Chances in place of those of variations, by name, and of sizes of 0: "empty"."""
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        environment = {**self.other.environment, "FLAGS_init_allocated_mem": "1"}
        self.filled = replace(self.other, environment=environment)

    def case(self, seed: int) -> Case:
        """The case of a seed, with its variations."""
        case = make_case(self.door, seed, self.only, self.often.get("empty"))
        return vary(case, random.Random(f"variations {seed}"), self.often)

    def facts(self, case: Case, parts: tuple[str, ...]) -> tuple[Facts, Facts]:
        """The facts of both sides, asked for at the same time."""
        compared = tuple(part for part in parts if part not in ("slopes", "bends", "shaken"))
        answers = [
            self.pool.submit(one.ask, case, asked)
            for one, asked in ((self.ours, parts), (self.other, compared))
        ]
        return answers[0].result(), answers[1].result()

    def differences(self, case: Case) -> list[Found]:
        """All differences of a case, with who is right where that can be told."""
        mine, other = self.facts(case, parts_of(case))
        self.outcomes[_outcome(mine, other)] += 1
        found = compare(mine, other, case["random"])
        if mine.get("build", {}).get("handed") != other.get("build", {}).get("handed"):
            # declared dtypes differ, so that other functions stand behind
            found = [one for one in found if one.aspect in KEPT]
        ops = mine.get("build", {}).get("ops", [])
        wrong = [
            (part, name)
            for part in (() if case["random"] else ("slopes", "bends"))  # two runs draw two functions
            for name in wrong_by_differences(case, mine, part)
        ]
        if found:
            unwritten = self._unwritten(case, other)
            found = [one for one in found if not one.where or one.where not in unwritten]
            if any(where.startswith("output") for where in unwritten):
                # what follows from such a value tells nothing either
                found = [one for one in found if one.aspect.startswith(("declared", "value", "refused"))]
            found = self._beyond_rounding(case, found, mine)
        theirs = self._theirs(case, found, mine, other)
        result = []
        excused = [excuse(case, ops, one) for one in found]
        nan = _of_nan(excused)
        for one, row in zip(found, excused, strict=True):
            row = row or (nan if one.aspect == "state" else "")
            is_theirs = one.aspect.startswith(theirs) or (
                one.aspect.endswith(" extra") and self._is_right(case, one, mine)
            )
            result.append(Found(case, one, row, is_theirs and not row))
        for part, name in wrong:
            if case["feeds"].get(name, {}).get("shared") and self._is_right_apart(case, name, part):
                continue  # one of the places counts as a constant, as labels do
            aspect = "wrong by differences" if part == "slopes" else "second wrong by differences"
            difference = Difference(aspect, f"gradient by {name}", name)
            result.append(Found(case, difference, excuse(case, ops, difference)))
        return with_consequences(result)

    def _unwritten(self, case: Case, other: Facts) -> set[str]:
        """Places where the other system shows memory that nobody wrote: it says something else when new
        memory is filled.
        """
        again = self.filled.ask(case, parts_of(case))
        return {one.where for one in compare(other, again, case["random"])}

    def _beyond_rounding(self, case: Case, found: list[Difference], mine: Facts) -> list[Difference]:
        """Differences beyond rounding: of large numbers that cancel, the order of a sum decides."""
        if not any(one.numbers is not None for one in found):
            return found
        moved = [self.ours.ask(shaken(case, number), parts_of(case)) for number in (1, 2, 3)]
        return [one for one in found if not is_rounding(one, moved)]

    def _theirs(self, case: Case, found: list[Difference], mine: Facts, other: Facts) -> tuple[str, ...]:
        """Of "gradient" and "second", those that differ, and where differences say that ours are right and
        theirs are not.
        """
        for at, aspect in enumerate(GRADIENTS):
            differ = any(one.aspect.startswith(aspect) for one in found)
            if differ and self._is_theirs(case, aspect, mine, other):
                # derivatives of what is wrong are wrong
                return GRADIENTS[at:]
        if any(one.aspect.startswith(GRADIENTS) for one in found):
            # what is wrong for ordinary numbers is no better for others, nor for those with fewer digits
            for plain in (ordinary(case), in_double(case), apart(case)):
                if plain != case:
                    return self._theirs(plain, found, *self.facts(plain, parts_of(plain)))
        return ()

    def _is_theirs(self, case: Case, aspect: str, mine: Facts, other: Facts) -> bool:
        for part in JUDGES[aspect]:
            if part in NEEDED:
                mine = self.ours.ask(case, NEEDED[part])
            if wrong_by_differences(case, mine, part):
                return False
            if wrong_by_differences(case, {**other, part: mine.get(part, {})}, part, none_is_zero=True):
                return True
            if "error" not in mine.get(part, {}) and is_nearer(case, mine, other, part):
                return True
        return False

    def _is_right(self, case: Case, extra: Difference, mine: Facts) -> bool:
        """True if a gradient that the other system lacks is that of central differences."""
        parts = JUDGES[extra.aspect.split()[0]]
        if right_by_differences(case, mine, extra.where, parts[0]):
            return True
        plain = ordinary(case)
        pairs = [*((plain, part) for part in parts), (in_double(plain), parts[0])]
        for one, part in pairs:
            facts = self.ours.ask(one, ("runs", "grads", "second", part))
            if right_by_differences(one, facts, extra.where, part):
                return True
        shared = case["feeds"].get(extra.where, {}).get("shared")
        return bool(shared) and any(self._is_right_apart(one, extra.where, part) for one, part in pairs)

    def _is_right_apart(self, case: Case, name: str, part: str) -> bool:
        """True if the gradients by the places of f(x, x), each an input of its own, are right or none."""
        places = apart(case)
        facts = self.ours.ask(places, ("runs", "grads", "second", part))
        grads = facts.get("second" if part.endswith("bends") else "grads", {})
        there = [
            place
            for place in places["wrt"]
            if (place == name or place.startswith(f"{name}_")) and has_gradient(case, grads.get(place))
        ]
        return bool(there) and all(right_by_differences(places, facts, place, part) for place in there)

    def close(self) -> None:
        """End both."""
        for one in (self.ours, self.other, self.filled):
            one.close()
        self.pool.shutdown()


class Engines(Beside):
    """Two engines of ours on the same functions or networks: they agree in everything."""

    def case(self, seed: int) -> Case:
        """A function of the door, or a network."""
        return make_network(seed) if self.door == "networks" else super().case(seed)

    def differences(self, case: Case) -> list[Found]:
        """All differences; drawn numbers are the same, too, but for test programs and 2.x, which have no
        seed.
        """
        parts = ("runs", "test", "shaken") if self.door == "networks" else (*parts_of(case), "shaken")
        if case["random"]:
            parts = tuple(part for part in parts if part != "test")
        mine, other = self.facts(case, parts)
        self.outcomes[_outcome(mine, other)] += 1
        found = compare(mine, other, case["random"] and self.door == "26")
        if found and case["random"]:
            # what no seed decides is not even what the same engine draws again
            again = compare(mine, self.ours.ask(case, parts))
            unseeded = {(one.aspect, one.where) for one in again}
            found = [one for one in found if (one.aspect, one.where) not in unseeded]
        return [Found(case, one) for one in found]


class Networks(Beside):
    """Networks beside 1.8.5: three steps, two devices, and the programs that the other system wrote."""

    def case(self, seed: int) -> Case:
        """The network of a seed."""
        return make_network(seed)

    def differences(self, case: Case) -> list[Found]:
        """All differences, those of loaded programs included; where rounding alone makes as much, those of
        the same network with plain steps, too.
        """
        mine, other = self.facts(case, ("runs", "test", "program", "parallel", "shaken"))
        self.outcomes[_outcome(mine, other)] += 1
        found = [*compare(mine, other), *self._loaded(case, mine, other)]
        plain = calm(case)
        again = plain != case and (moves_far(mine) or is_explained(mine, other, found))
        if plain != case and moves_far(mine):
            found = [one for one in found if one.numbers is None or _is_of_the_first_run(one)]
        ops = mine.get("build", {}).get("ops", [])
        excused = [excuse(case, ops, one) for one in found]
        nan = _of_nan(excused)
        told = [Found(case, one, row or nan) for one, row in zip(found, excused, strict=True)]
        if not again:
            return told
        self.outcomes["with plain steps, too"] += 1
        return told + self.differences(plain)

    def _loaded(self, case: Case, mine: Facts, other: Facts) -> Iterator[Difference]:
        """Each system runs what the other wrote, and gets what the other got."""
        if any(
            "error" in side.get(part, {"error": ""}) for side in (mine, other) for part in ("runs", "program")
        ):
            return
        readers = (("we load theirs", self.ours, other), ("they load ours", self.other, mine))
        for title, reader, writer in readers:
            found = reader.ask(case, ("runs",), writer["program"])
            for part in ("build", "runs"):
                if "error" in found.get(part, {}):
                    yield Difference(f"{title}: refused", found[part]["text"])
            if "error" not in found.get("runs", {"error": ""}):
                first = {"runs": mine["runs"], "shaken": mine["shaken"]}
                for one in compare(first, {"runs": found["runs"]}):
                    yield replace(one, aspect=f"{title}: {one.aspect}")


class Jobs(Beside):
    """Jobs of trainers and servers: the programs of each role beside 1.8.5's, and our own proofs."""

    def case(self, seed: int) -> Case:
        """The job of a seed, in place of a case."""
        job = make_job(seed)
        return {"function": job["mode"], "seed": seed, "door": "18", "job": job}

    def differences(self, case: Case) -> list[Found]:
        """Ops that differ, and what a proof of ours says is wrong."""
        request = {"job": case["job"]}
        answers = [self.pool.submit(one.send, request) for one in (self.ours, self.other)]
        mine, other = (answer.result() for answer in answers)
        if "fault" in mine:
            self.outcomes["fault of ours"] += 1
            return [Found(case, Difference("crash", mine["fault"]))]
        self.outcomes[_outcome_of_job(mine, other)] += 1
        proof = {
            name: text for name, text in mine["proof"].items() if name != "refused" or not _refuses(mine)
        }
        found = [Difference(f"proof: {name}", str(text)) for name, text in proof.items()]
        # a program that the other system cannot build makes no job there
        if "fault" not in other and "error" not in other["facts"]["one"]:
            found += [Difference("programs", line) for line in differences(mine["facts"], other["facts"])]
        return [Found(case, one, excuse(case, [], one)) for one in found]


LOST = 0.1
"""The part of a parameter by which rounding alone moves it, so that what follows tells nothing."""


def moves_far(mine: Facts) -> bool:
    """True if rounding moves what is kept by `LOST`."""
    shaken = mine.get("shaken")
    if not isinstance(shaken, list):
        return False
    moved = [one for facts in shaken for one in compare({"runs": mine["runs"]}, {"runs": facts["runs"]})]
    return any(one.aspect == "state" and _part_moved(one) > LOST for one in moved)


def is_explained(mine: Facts, other: Facts, found: list[Difference]) -> bool:
    """True if rounding explains differences beside those that were found."""
    firm = {part: facts for part, facts in mine.items() if part != "shaken"}
    known = {(one.aspect, one.where) for one in found}
    return any((one.aspect, one.where) not in known for one in compare(firm, other))


def _part_moved(found: Difference) -> float:
    """The largest difference of two arrays, as a part of their largest number."""
    assert found.numbers is not None
    one, two = (np.nan_to_num(array.astype("float64")) for array in found.numbers)
    return float(np.abs(one - two).max(initial=0) / max(np.abs(one).max(initial=0), 1e-2))


def _is_of_the_first_run(found: Difference) -> bool:
    """True for what is computed before any step is made."""
    return found.path[:1] == ("first",) and "parallel" not in found.aspect


def with_consequences(found: list[Found]) -> list[Found]:
    """The same; numbers beside a result that a row gives another shape are excused by that row: they may be
    computed of it.
    """
    row = next((one.row for one in found if one.row and one.difference.aspect == "value shape"), "")
    return [
        replace(one, row=row) if one.ours and one.difference.numbers is not None else one for one in found
    ]


def _of_nan(excused: list[str]) -> str:
    """The row of a case by which one system has nan: that moves what is trained beside it, too."""
    return next((row.id for row in rows() if "nan" in (row.theirs, row.ours) and row.id in excused), "")


def _outcome_of_job(mine: Facts, other: Facts) -> str:
    if "fault" in other:
        return f"{other['fault'].partition(':')[0]} in the other"
    if _refuses(other):
        return "refused by both" if _refuses(mine) else "refused by the other alone"
    return "compared"


def _refuses(side: Facts) -> bool:
    """True if a role of a job is not made."""
    return any("error" in role for role in side["facts"].values())


def _outcome(mine: Facts, other: Facts) -> str:
    if "fault" in other:
        return f"{other['fault'].partition(':')[0]} in the other"
    failed = ["error" in side.get(part, {}) for side in (mine, other) for part in ("build", "runs")]
    if any(failed[:2]) and any(failed[2:]):
        return "refused by both"
    if any(failed[2:]):
        return "refused by the other alone"
    return "compared"
