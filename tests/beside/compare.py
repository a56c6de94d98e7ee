"""Two systems' facts of one case: what differs, and who is right where central differences can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beside.language import Case, array_of
from beside.observe import direction_of, numbers_of

__all__ = [
    "Difference",
    "alike",
    "compare",
    "has_gradient",
    "is_rounding",
    "near",
    "right_by_differences",
    "wrong_by_differences",
]

Facts = dict[str, Any]
TOLERANCE = {"float16": 5e-3, "bfloat16": 5e-2, "float32": 3e-4, "complex64": 3e-4}


_UNCLEAR = ("(IndexError)", "(AttributeError)", "(TypeError)", "(KeyError)", "(ZeroDivisionError)")
"""Ends of messages of errors that a shape rule raised without meaning to."""


@dataclass(frozen=True)
class Difference:
    """One respect in which facts differ: `aspect` sorts it, `text` tells both sides."""

    aspect: str
    text: str
    where: str = ""
    numbers: tuple[np.ndarray, np.ndarray] | None = None
    path: tuple[Any, ...] = ()  # where the numbers stand within their part of the facts


def compare(ours: Facts, theirs: Facts, random: bool = False) -> list[Difference]:
    """All that differs; what either lacks because of an earlier error is not compared.

    `random`: the values are drawn, so that shapes and dtypes alone are compared. Where our facts have a part
    "shaken", numbers may differ as much as rounding in the parameters moves them.
    """
    return list(_differences(ours, theirs, random))


def _differences(ours: Facts, theirs: Facts, random: bool) -> Iterator[Difference]:
    if "fault" in ours:
        yield Difference("crash", ours["fault"])
    if "fault" in ours or "fault" in theirs:
        return  # what ends a PaddlePaddle tells nothing about us
    if any(word in ours.get("build", {}).get("text", "") for word in _UNCLEAR):
        yield Difference("unclear refusal", ours["build"]["text"])
    for part in ("build", "runs", "test", "grads", "second", "parallel"):
        if part not in ours and part not in theirs:
            continue
        mine, other = ours.get(part, {}), theirs.get(part, {})
        if "error" in other or (mine.get("at") and mine["at"] in other.get("handed", ())):
            return  # where theirs has another dtype, the function that refuses does not stand there
        if part == "build" and "error" not in mine and "error" in theirs.get("runs", {}):
            continue  # what is declared of a program that cannot run tells nothing
        if "error" in mine:
            # what neither can run may as well be refused when it is built
            if part != "build" or "error" not in theirs.get("runs", {}):
                yield _refused(mine)
            return
        for found in _PARTS[part](mine, other, random):
            if _counts(found, part, ours, theirs):
                yield found


def _counts(found: Difference, part: str, ours: Facts, theirs: Facts) -> bool:
    if found.path and "error" in ours.get("runs", {}) and "error" in theirs.get("runs", {}):
        return False  # what is declared of a program that neither can run
    if part == "build" and (_is_refuted(found, ours, theirs) or _is_more_exact(found, ours, theirs)):
        return False
    return not _is_shaky(found, part, ours)


def _is_refuted(found: Difference, ours: Facts, theirs: Facts) -> bool:
    """True if what they declare is not what they compute, and what we declare is what we compute: of two
    batches, too.
    """
    if not found.path:
        return False
    at, what = found.path
    fits = []
    for facts in (ours, theirs):
        values = _values_of(facts, at)
        if not values:
            return False
        fits.append(all(_declares(facts["build"]["outputs"][at][what], value, what) for value in values))
    return fits == [True, False]


def _values_of(facts: Facts, at: int) -> list[Facts]:
    """An output in the first run, and in that of two batches."""
    runs = [facts.get("runs", {}).get(run) for run in ("first", "double")]
    return [run[at] for run in runs if isinstance(run, list) and at < len(run) and "data" in run[at]]


def _is_more_exact(found: Difference, ours: Facts, theirs: Facts) -> bool:
    """True if we declare sizes that they leave open, and all runs have those: that of two batches, too."""
    if not found.path or found.path[1] != 0:
        return False
    at = found.path[0]
    mine, other = (facts["build"]["outputs"][at][0] for facts in (ours, theirs))
    values = _values_of(ours, at)
    return (
        len(mine) == len(other)
        and all(one == two or two == -1 for one, two in zip(mine, other, strict=True))
        and bool(values)
        and all(_declares(mine, value, 0) for value in values)
    )


def _declares(declared: Any, value: Facts, what: int) -> bool:
    """True if a declared shape (0), dtype (1) or level (2) is that of a value."""
    if what == 0:
        sizes = value["shape"]
        return len(declared) == len(sizes) and all(
            one in (-1, two) for one, two in zip(declared, sizes, strict=True)
        )
    return bool(declared == (value["dtype"] if what == 1 else len(value["lengths"])))


def _is_shaky(found: Difference, part: str, ours: Facts) -> bool:
    """True if our numbers move about as far when the parameters are shaken, or each result is, as rounding
    would.
    """
    if found.numbers is None or not isinstance(ours.get("shaken"), list):
        return False
    mine, other = found.numbers
    # the largest move of the array: which element a rounding meets is chance
    slack = 100 * max([_move(found, part, ours, facts) for facts in ours["shaken"]])
    return bool(
        (np.abs(mine.astype("float64") - other) <= slack + 1e-5 * np.abs(mine).max(initial=0.0)).all()
    )


def _move(found: Difference, part: str, ours: Facts, shaken: Facts) -> float:
    """How far the numbers of a difference move at most in a shaken run.

    Steps on two devices, which the interpreter does not run, move as those of one do.
    """
    path = found.path
    if part == "parallel" and part not in shaken:
        # the loss behind two steps, and the state
        part, path = "runs", ("third", 0) if path[0] == "first" else ("state behind three", *path[1:])
    mine, moved = (_at(facts.get(part, {}), path) for facts in (ours, shaken))
    if mine is None or moved is None or moved.shape != mine.shape:
        return 0.0
    with np.errstate(all="ignore"):
        moves = np.abs(moved.astype("float64") - mine)
    return float(np.nan_to_num(moves, posinf=np.inf).max(initial=0.0))


def is_rounding(found: Difference, moved: Iterable[Facts]) -> bool:
    """True if each number that differs moves about as far when what is fed is shaken as rounding would.

    `moved`: our facts of shaken feeds.
    """
    if found.numbers is None:
        return False
    mine, other = (array.astype("float64") for array in found.numbers)
    part = _ASPECTS.get(found.aspect, "runs")
    off = ~near(mine, other)
    off &= np.isfinite(mine) | np.isfinite(other)  # what overflows is an infinity, or nan by another order
    reach = np.zeros(mine.shape)
    for facts in moved:
        there = _at(facts.get(part, {}), found.path)
        if there is not None and there.shape == mine.shape:
            with np.errstate(all="ignore"):
                reach = np.maximum(reach, np.nan_to_num(np.abs(there - mine), nan=np.inf))
    with np.errstate(all="ignore"):
        return bool((np.abs(mine - other) <= 100 * reach)[off].all())


def near(mine: np.ndarray, other: np.ndarray) -> Any:
    """True for each number that differs by less than the order of a sum, or a factor in float32, explains."""
    return np.isclose(mine, other, rtol=3e-4, atol=1e-9, equal_nan=True)


def _at(facts: Any, path: tuple[Any, ...]) -> np.ndarray | None:
    for key in path:
        try:
            facts = facts[key]
        except (KeyError, IndexError):
            return None
    return numbers_of(facts) if "data" in facts else None


def _refused(error: Facts) -> Difference:
    return Difference(f"refused {error['stage']}", f"{error['error']}: {error['text']}", error["text"][:60])


def _build(mine: Facts, other: Facts, random: bool) -> Iterator[Difference]:
    for at, (one, two) in enumerate(zip(mine["outputs"], other["outputs"], strict=False)):
        names = ("shape", "dtype", "lod_level")
        for what, (left, right) in enumerate(zip(one, two, strict=False)):
            if left != right:
                text = f"output {at}: {left}, PaddlePaddle {right}"
                yield Difference(f"declared {names[what]}", text, path=(at, what))
    if mine["parameters"] != other["parameters"]:
        yield Difference("parameters", f"{mine['parameters']}, PaddlePaddle {other['parameters']}")


def _runs(mine: Facts, other: Facts, random: bool) -> Iterator[Difference]:
    for run in ("first", "again", "third", "double"):
        if run not in mine or run not in other or "error" in other[run]:
            continue
        if "error" in mine[run]:
            yield _refused(mine[run])
            continue
        for at, (one, two) in enumerate(zip(mine[run], other[run], strict=False)):
            suffix = "" if run == "first" else f" of the {run} run"
            yield from _values(one, two, f"output {at}{suffix}", "value", random, (run, at))
    for part in ("state", "state behind three"):
        for name in sorted(set(mine.get(part, ())) & set(other.get(part, ()))):
            left, right = mine[part][name], other[part][name]
            if left is not None and right is not None:
                yield from _values(left, right, f"{part} {name}", "state", random, (part, name))


def _test(mine: Facts, other: Facts, random: bool) -> Iterator[Difference]:
    for at, (one, two) in enumerate(zip(mine["first"], other["first"], strict=False)):
        yield from _values(one, two, f"output {at} of the test program", "test", random, ("first", at))


def _grads(mine: Facts, other: Facts, random: bool) -> Iterator[Difference]:
    yield from _gradients(mine, other, "gradient", random)


def _second(mine: Facts, other: Facts, random: bool) -> Iterator[Difference]:
    yield from _gradients(mine, other, "second", random)


def _parallel(mine: Facts, other: Facts, random: bool) -> Iterator[Difference]:
    for one in _runs(mine, other, random):
        yield replace(one, aspect=f"parallel {one.aspect}")


_PARTS = {
    "build": _build,
    "runs": _runs,
    "test": _test,
    "grads": _grads,
    "second": _second,
    "parallel": _parallel,
}


def _gradients(mine: Facts, other: Facts, aspect: str, random: bool) -> Iterator[Difference]:
    for name in sorted(set(mine) & set(other)):
        left, right = mine[name], other[name]
        if (left is None) != (right is None):
            there = right if left is None else left
            zero = "data" in there and alike(numbers_of(there), np.zeros(there["shape"]))
            if not zero:  # one of zeros, but for rounding, and none mean the same
                yield Difference(
                    f"{aspect} missing" if left is None else f"{aspect} extra", f"by {name}", name
                )
        elif left is not None:
            yield from _values(left, right, f"{aspect} by {name}", aspect, random, (name,))


def _values(
    one: Facts, two: Facts, where: str, aspect: str, random: bool, path: tuple[Any, ...] = ()
) -> Iterator[Difference]:
    if "array" in one or "array" in two:
        first, second = one.get("array", []), two.get("array", [])
        if len(first) != len(second):
            yield Difference(f"{aspect} shape", f"{where}: arrays of {len(first)}, {len(second)}", where)
        for left, right in zip(first, second, strict=False):
            yield from _values(left, right, where, aspect, random)
        return
    # a gradient has the level of detail of its variable, which 1.8.5 hands on now and then
    lengths = ("lengths",) if aspect not in ("gradient", "second") else ()
    for what in ("dtype", "shape", *lengths, "rows"):
        if one.get(what) != two.get(what):
            text = f"{where}: {one.get(what)}, PaddlePaddle {two.get(what)}"
            yield Difference(f"{aspect} {what}", text, where)
            if what in ("shape", "rows"):
                return
    if random:
        return
    left, right = numbers_of(one), numbers_of(two)
    # what comes in for a gradient is near 1: what cancels to less is rounding
    least = 1.0 if aspect in ("gradient", "second") and left.dtype == np.float64 else 1e-2
    if left.shape == right.shape and not alike(left, right, least):
        text = f"{where}: {_text(left)}, PaddlePaddle {_text(right)}"
        yield Difference(aspect, text, where, (left, right), path)


def alike(left: np.ndarray, right: np.ndarray, least: float = 1e-2) -> bool:
    """True for numbers that are equal but for rounding, in arrays whose largest number counts as `least` or
    more; nan is nan, infinities have signs.
    """
    if left.dtype.kind not in "fc" and right.dtype.kind not in "fc":
        return bool(np.array_equal(left, right))
    looser = max(TOLERANCE.get(str(array.dtype), 1e-7) for array in (left, right))
    wide = [array.astype("complex128" if array.dtype.kind == "c" else "float64") for array in (left, right)]
    finite = [np.abs(array[np.isfinite(array)]) for array in wide]
    scale = max([float(part.max()) for part in finite if part.size] or [0.0])
    with np.errstate(all="ignore"):
        return bool(
            np.allclose(*wide, rtol=looser, atol=looser * min(max(scale, least), 1e3), equal_nan=True)
        )


def _text(array: np.ndarray) -> str:
    flat = array.reshape(-1)
    shown = ", ".join(f"{item:.6g}" if array.dtype.kind == "f" else str(item) for item in flat[:8])
    return f"[{shown}{', ...' if flat.size > 8 else ''}]"


_ASPECTS = {"gradient": "grads", "second": "second", "test": "test"}  # parts that are not "runs"


# ---------------------------------------------------------------------- who is right
def wrong_by_differences(
    case: Case, facts: Facts, part: str = "slopes", none_is_zero: bool = False
) -> list[str]:
    """Inputs and parameters whose gradient is not what central differences of the outputs say.

    Kinks are left out: there left and right differences disagree. `part`: "rough" holds the gradients of
    float32 against differences that have fewer digits; "bends" and "roughly bends" are about second
    derivatives. `none_is_zero`: what has no gradient is held to one of zeros; otherwise it says that there is
    none, such as by a function that has none in either system.
    """
    slopes, grads = facts.get(part, {}), facts.get("second" if part.endswith("bends") else "grads", {})
    if "error" in slopes or "error" in grads:
        return []
    loose = 20.0 if part.startswith("rough") else 1.0
    if part.endswith("bends"):
        # what counts as a constant does so in all orders
        none_is_zero, first = True, facts.get("grads", {})
        slopes = {name: found for name, found in slopes.items() if first.get(name) is not None}
    return [
        name
        for name, found in slopes.items()
        if (grads.get(name) is not None or none_is_zero)
        and _is_reliable(case, found, loose)
        and _off(found, grads.get(name), loose)
        and (grads.get(name) is None or has_gradient(case, grads[name]))
    ]


def is_nearer(case: Case, ours: Facts, theirs: Facts, part: str) -> bool:
    """True if, of the gradients that differ more than differences may be wrong, one of ours is five times
    nearer to these than theirs, and none of theirs than ours.

    Differences of float32 leave 2 of 100 open: who is nearer says more. How far they may be wrong is what
    differences of two steps, and of two sides, say about each other.
    """
    kind = "second" if part.endswith("bends") else "grads"
    near, far = 0, 0
    for name, found in ours.get(part, {}).items():
        grads = [facts.get(kind, {}).get(name) for facts in (ours, theirs)]
        if None in grads or any("rows" in one for one in grads) or not _is_usable(case, found):
            continue
        mine, other = (abs(_along(one) - found[2]) for one in grads)
        left, right, central, wide, _, _ = found
        noise = 1e-5 if part.startswith("rough") else 1e-10
        least = max(1e-3 * abs(central), 5 * abs(central - wide), noise)
        if _has_kink(found):
            least = max(least, abs(left - right))
        near += other > max(5 * mine, least)
        far += mine > max(5 * other, least)
    return near > 0 and not far


def has_gradient(case: Case, grad: Facts | None) -> bool:
    """True but for none, and for what a block hands on by an input whose op has no gradient for it: zeros."""
    return grad is not None and not (case.get("inside") and not numbers_of(grad).any())


def right_by_differences(case: Case, facts: Facts, name: str, part: str = "slopes") -> bool:
    """True if the gradient by an input is what central differences say, and these say something; `part`
    "bends" and "roughly bends" are about second derivatives. At a kink it lies between those of both sides.
    """
    kind = "second" if part.endswith("bends") else "grads"
    slopes, grad = facts.get(part, {}), facts.get(kind, {}).get(name)
    if "error" in slopes or name not in slopes or grad is None or "rows" in grad:
        return False
    loose = 20.0 if part.startswith("rough") else 1.0
    found = slopes[name]
    if not _has_kink(found):
        return not _off(found, grad, loose)
    least, largest = sorted(found[:2])
    slack = 1e-3 * loose * max(abs(least), abs(largest), 1e-2)
    return bool(least - slack <= _along(grad) <= largest + slack)


def _is_usable(case: Case, found: list[float]) -> bool:
    """True for differences of finite numbers, which are small enough to have digits left."""
    arrays = [array_of(feed) for feed in case["feeds"].values() if feed["dtype"].startswith("float")]
    # beside infinities a gradient may be nan although the result is none
    if any(word in feed["values"] for feed in case["feeds"].values() for word in ("nan", "inf", "-inf")):
        return False
    # large numbers leave no digits for a difference
    largest = max((np.abs(array).max(initial=0) for array in arrays), default=0)
    return bool(np.isfinite(found).all()) and abs(found[-1]) <= 1e5 and largest <= 1e3


def _is_reliable(case: Case, found: list[float], loose: float) -> bool:
    left, right, central, wide, _, _ = found
    if not _is_usable(case, found):
        return False
    scale = max(abs(central), 1e-2)
    # kinks may be nearly as steep on both sides: only what is rounding is taken for none
    is_smooth = abs(left - right) <= 2e-5 * loose * scale or not _has_kink(found)
    return is_smooth and abs(central - wide) <= 1e-4 * loose * scale


def _has_kink(found: list[float]) -> bool:
    """True if the slopes of both sides do not differ by the step alone."""
    return not 1.9 < found[4] < 2.1


def _off(found: list[float], grad: Facts | None, loose: float) -> bool:
    central = found[2]
    if grad is None:
        product = 0.0
    elif "rows" in grad:
        return False
    else:
        product = _along(grad)
    return not abs(product - central) <= 1e-3 * loose * max(abs(central), 1e-2)


def _along(grad: Facts) -> float:
    """A gradient along the direction of the differences."""
    return float((numbers_of(grad).astype("float64") * direction_of(grad["shape"])).sum())
