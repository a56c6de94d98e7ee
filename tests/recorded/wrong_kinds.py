"""Calls of layers with one argument of a wrong kind, and what building them raises.

The same source runs under PaddlePaddle 1.8.5 (`record_wrong_kinds.py`) and under FluidLite (the tests). A
case is one of `beside.draw`: feeds, and calls of which one is that of the function. Each of its arguments,
and each parameter that the call leaves out, is replaced by each of `KINDS` in turn, and nothing is run.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from beside.language import Case, Player

KINDS: Dict[str, Any] = {  # noqa: UP006
    "None": None,
    "int": 3,
    "float": 2.5,
    "negative": -1,
    "text": "text",
    "bool": True,
    "dict": {"$": "dict", "items": {"a": 1}},
    "array": {"$": "array", "dtype": "float32", "shape": [2, 3], "values": [1.0] * 6},
    "nothing": [],
    "numbers": [1, 2],
    "tuple": {"$": "tuple", "items": [1, 2]},
    "floats": [1.5, 2.5],
    "texts": ["a", "b"],
    "a number of NumPy": {"$": "numpy", "dtype": "int64", "value": 1},
    "a fraction of NumPy": {"$": "numpy", "dtype": "float32", "value": 0.5},
}
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
VARIABLE = {"$": "var", "name": "w"}
Key = Tuple[str, Any]


def call_of(case: Case) -> Any:
    """The statement that calls the function of the case, be it within others; None where there is none."""
    found = [item for item in _statements(case["calls"]) if item.get("call") == case["function"]]
    return found[-1] if found else None


def _statements(items: Iterable[Case]) -> Iterator[Case]:
    for item in items:
        yield item
        yield from _statements(item["calls"] if "with" in item else ())


def keys_of(call: Case, parameters: List[str]) -> List[str]:  # noqa: UP006
    """The arguments of a call, and the parameters that it leaves out: places, and names."""
    return [*map(str, range(len(call["args"]))), *parameters[len(call["args"]) :]]


def _place(call: Case, key: str) -> Key:
    return ("args", int(key)) if key.isdigit() else ("kwargs", key)


def wrong(case: Case, key: str) -> Iterator[Tuple[str, Case]]:  # noqa: UP006
    """Kind -> the case with that in place of one argument."""
    field, at = _place(call_of(case), key)
    given = call_of(case)["kwargs"].get(at) if field == "kwargs" else call_of(case)["args"][at]
    for kind, value in KINDS.items():
        yield kind, _with(case, key, value)
    feed = _feed_of(case, given)
    shape, level = (feed["declared"], len(feed.get("lengths", ()))) if feed else ([2, 3], 0)
    for dtype in DTYPES:
        if not feed or feed["dtype"] != dtype:
            yield "a Variable of " + dtype, _with(case, key, VARIABLE, (shape, dtype, level))
    if feed:
        yield "list of it", _with(case, key, [given])
        yield "tuple of it", _with(case, key, {"$": "tuple", "items": [given]})
    if isinstance(given, list) and given:
        yield from _wrong_firsts(case, key, given)


def _wrong_firsts(case: Case, key: str, given: List[Any]) -> Iterator[Tuple[str, Case]]:  # noqa: UP006
    """The same for a list whose first item is of a wrong kind."""
    for kind in ("None", "float", "text", "array"):
        yield "first " + kind, _with(case, key, [KINDS[kind], *given[1:]])
    first = _feed_of(case, given[0])
    for dtype in DTYPES:
        shape = first["declared"] if first else [1]
        yield "first of " + dtype, _with(case, key, [VARIABLE, *given[1:]], (shape, dtype, 0))


def _feed_of(case: Case, given: Any) -> Any:
    """The array that is fed as an argument; None for what is no fed Variable."""
    is_variable = isinstance(given, dict) and given.get("$") == "var"
    return case["feeds"].get(given["name"]) if is_variable else None


def _with(case: Case, key: str, value: Any, declared: Any = None) -> Case:
    made = copy.deepcopy(case)
    call = call_of(made)
    field, at = _place(call, key)
    call[field][at] = value
    made["declared"] = declared
    return made


def raised(fluid: Any, case: Case) -> List[str]:  # noqa: UP006
    """Text and classes of what building a case raises; nothing where it is built."""
    try:
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
            _build(fluid, case)
    except BaseException as error:  # SystemExit is one, too
        return [str(error)[-400:], *(kind.__name__ for kind in type(error).__mro__[:-2])]
    return []


def _build(fluid: Any, case: Case) -> None:
    names = {}
    for name, feed in case["feeds"].items():
        level = len(feed.get("lengths", ()))
        names[name] = fluid.data(name, feed["declared"], feed["dtype"], lod_level=level)
        names[name].stop_gradient = feed.get("stop", True)
    if case.get("declared"):
        shape, dtype, level = case["declared"]
        names["w"] = fluid.data("w", shape, dtype, lod_level=level)
    Player({"fluid": fluid}).play(case["calls"], names)
