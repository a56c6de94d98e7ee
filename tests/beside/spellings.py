"""Variations of how calls are written, which change nothing of what they mean: numbers of NumPy's types,
tuples for lists, dtypes as objects, names, another default dtype.

Each takes a case of the 2.x door and changes it in place; `beside.variations.vary` calls them at times.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import random
from collections.abc import Iterator
from typing import Any

from beside.language import DTYPES, Case

__all__ = ["as_doubles", "dtype_objects", "named", "numpy_numbers", "tuples"]


def _places(item: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Each argument within calls, as what holds it, its key there, and itself."""
    if isinstance(item, list):
        pairs: Any = list(enumerate(item))
    elif isinstance(item, dict) and ("call" in item or "with" in item):
        pairs = []
        yield from _places(item.get("calls", []))
        yield from _places(item.get("args", []))
        for key, one in list(item.get("kwargs", {}).items()):
            yield item["kwargs"], key, one
            yield from _places(one)
    elif isinstance(item, dict) and item.get("$") in ("tuple", "slice"):
        yield from _places(item["items" if item["$"] == "tuple" else "parts"])
        return
    elif isinstance(item, dict) and item.get("$") == "block":
        yield from _places(item["calls"])
        return
    else:
        return
    for key, one in pairs:
        if not (isinstance(one, dict) and "call" in one and "$" not in one):
            yield item, key, one
        yield from _places(one)


def numpy_numbers(case: Case, rng: random.Random) -> None:
    """A number in an argument is one of NumPy's."""
    found = [place for place in _places(case["calls"]) if type(place[2]) in (int, float)]
    for holder, key, value in rng.sample(found, min(len(found), rng.randint(1, 3))):
        dtypes = ("int64", "int32") if isinstance(value, int) else ("float64", "float32")
        holder[key] = {"$": "numpy", "dtype": rng.choice(dtypes), "value": value}


def tuples(case: Case, rng: random.Random) -> None:
    """A list of numbers is a tuple."""
    found = [
        place
        for place in _places(case["calls"])
        if isinstance(place[2], list) and place[2] and all(type(one) in (int, float) for one in place[2])
    ]
    if found:
        holder, key, value = rng.choice(found)
        holder[key] = {"$": "tuple", "items": value}


def dtype_objects(case: Case, rng: random.Random) -> None:
    """A dtype by name is an object of NumPy or of the system."""
    found = [place for place in _places(case["calls"]) if place[2] in DTYPES.values()]
    for holder, key, value in found:
        root = "paddle" if value == "bfloat16" else rng.choice(["paddle", "np"])
        holder[key] = {"$": "var", "name": f"{root}.{'bool_' if (root, value) == ('np', 'bool') else value}"}


@functools.cache
def _takes_name(path: str) -> bool:
    found: Any = importlib.import_module("fluidlite.paddle")
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    try:
        return found is not None and "name" in inspect.signature(found).parameters
    except (TypeError, ValueError):
        return False


def named(case: Case, rng: random.Random) -> None:
    """Functions and layers get a name."""
    for count, call in enumerate(case["calls"]):
        path = call.get("call", "")
        if path.startswith("paddle.") and _takes_name(path) and "name" not in call.get("kwargs", {}):
            call["kwargs"] = {**call.get("kwargs", {}), "name": f"given{count}"}


def as_doubles(case: Case, rng: random.Random) -> None:
    """The default dtype is float64, and so is what was fed as float32."""
    if "set_default_dtype" in repr(case["calls"]):
        return
    for feed in case["feeds"].values():
        if feed["dtype"] == "float32":
            feed["dtype"] = "float64"
    first = {"call": "paddle.set_default_dtype", "args": ["float64"]}
    case["calls"] = [first, *case["calls"]]
