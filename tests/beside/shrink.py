"""A case made smaller while it still differs in the same respect."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np

from beside.language import Case, array_of, listed

__all__ = ["shrink"]


def shrink(case: Case, differs: Callable[[Case], bool], tries: int = 80) -> Case:
    """The smallest case found within so many tries; `differs` says if a case still shows the difference."""
    found = True
    while found and tries > 0:
        found = False
        for smaller in _smaller(case):
            tries -= 1
            if differs(smaller):
                case, found = smaller, True
                break
            if tries <= 0:
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    yield from _without_calls(case)
    yield from _without_arguments(case)
    yield from _without_wrt(case)
    yield from _plainer_feeds(case)


def _copy(case: Case) -> Case:
    return copy.deepcopy(case)


def _without_calls(case: Case) -> Iterator[Case]:
    for at in reversed(range(len(case["calls"]))):
        call = case["calls"][at]
        if call.get("call", "").endswith(".eval"):
            continue  # layers that drop out elements draw them otherwise
        smaller = _copy(case)
        del smaller["calls"][at]
        to = call.get("to")
        if to in case["outputs"]:
            smaller["outputs"].remove(to)
            if not smaller["outputs"]:
                continue
        elif to == "front":
            smaller["calls"] = [_renamed(one, to, call["args"][0]["name"]) for one in smaller["calls"]]
        yield smaller


def _renamed(item: object, old: str, new: str) -> object:
    if isinstance(item, list):
        return [_renamed(one, old, new) for one in item]
    if isinstance(item, dict):
        found = {key: _renamed(one, old, new) for key, one in item.items()}
        if found.get("$") == "var" and found.get("name") == old:
            found["name"] = new
        return found
    return item


def _without_arguments(case: Case) -> Iterator[Case]:
    for at, call in enumerate(case["calls"]):
        for key in call.get("kwargs", {}):
            smaller = _copy(case)
            del smaller["calls"][at]["kwargs"][key]
            yield smaller


def _without_wrt(case: Case) -> Iterator[Case]:
    if case["second"]:
        yield {**_copy(case), "second": False}
    if not case["sums"]:
        yield {**_copy(case), "sums": True}
    for name in case["wrt"]:
        smaller = _copy(case)
        smaller["wrt"].remove(name)
        smaller["feeds"][name]["stop"] = True
        yield smaller


def _plainer_feeds(case: Case) -> Iterator[Case]:
    for name, feed in case["feeds"].items():
        array = array_of(feed)
        used = repr(case["calls"])
        if f"'{name}'" not in used:
            smaller = _copy(case)
            del smaller["feeds"][name]
            smaller["wrt"] = [one for one in smaller["wrt"] if one != name]
            yield smaller
        for axis in range(array.ndim):
            if array.shape[axis] > 1 and not feed.get("lengths"):
                yield _with_array(case, name, np.take(array, [0], axis))
        plain = np.arange(1, 1 + array.size).reshape(array.shape).astype(array.dtype)
        if array.dtype.kind == "f" and not np.array_equal(plain, array) and not feed["fixed"]:
            yield _with_array(case, name, plain)
        if feed["declared"] != feed["shape"] and not feed.get("lengths"):
            smaller = _copy(case)
            smaller["feeds"][name]["declared"] = list(feed["shape"])
            yield smaller


def _with_array(case: Case, name: str, array: np.ndarray) -> Case:
    smaller = _copy(case)
    feed = smaller["feeds"][name]
    declared = [-1 if old == -1 else size for old, size in zip(feed["declared"], array.shape, strict=True)]
    feed.update(shape=list(array.shape), values=listed(array), declared=declared)
    return smaller
