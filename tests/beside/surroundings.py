"""Everything that calls stand in, whatever they are: arrays that are views of others, bodies of branches and
loops, forms of attributes that most layers take, other dtypes.

Changes of a drawn case, made in place by `beside.variations`, each at times.
"""

from __future__ import annotations

import copy
import inspect
import random
from typing import Any

import numpy as np

from beside.language import Case, array_of, listed

__all__ = ["in_body", "of_other_dtype", "of_views", "once_more", "replaced", "with_attributes"]

API = {"18": "fluid.layers", "26": "paddle"}


def replaced(item: Any, old: str, new: str) -> Any:
    """An argument or call with another Variable's name in place of `old`."""
    if isinstance(item, list):
        return [replaced(one, old, new) for one in item]
    if isinstance(item, dict):
        found = {key: replaced(one, old, new) for key, one in item.items()}
        if item.get("$") == "var" and item["name"] == old:
            found["name"] = new
        if item.get("$") == "item" and item["of"] == old:
            found["of"] = new
        first, point, method = item.get("call", "").partition(".")
        if first == old:  # a method
            found["call"] = new + point + method
        return found
    return item


def _var(name: str) -> Case:
    return {"$": "var", "name": name}


# ---------------------------------------------------------------------- views
def of_views(case: Case, rng: random.Random) -> None:
    """One input is a view of what is fed: its transpose, or a part of it; or it is fed column by column."""
    names = [
        name
        for name, feed in case["feeds"].items()
        if feed["shape"] and not feed.get("lengths") and not (feed["fixed"] and feed["known"])
    ]
    if not names:
        return
    name = rng.choice(names)
    feed = case["feeds"][name]
    kind = rng.choice(["transpose", "transpose", "part", "part", "columns"])
    if kind == "columns":
        feed["columns"] = True
        return
    call = _transposed(case, feed) if kind == "transpose" else _part(case, feed, rng)
    front = {"to": "viewed", "args": [_var(name)], **call}
    case["calls"] = [front, *(replaced(one, name, "viewed") for one in case["calls"])]


def _refed(feed: Case, array: np.ndarray, declared: list[int]) -> None:
    # the first size is that of no batch any more
    declared = [array.shape[0], *declared[1:]]
    feed.update(shape=list(array.shape), values=listed(array), declared=declared)


def _transposed(case: Case, feed: Case) -> Case:
    _refed(feed, array_of(feed).transpose(), feed["declared"][::-1])
    perm = list(range(len(feed["shape"])))[::-1]
    return {"call": f"{API[case['door']]}.transpose", "kwargs": {"perm": perm}}


def _part(case: Case, feed: Case, rng: random.Random) -> Case:
    array = array_of(feed)
    axis = rng.randrange(array.ndim)
    size = array.shape[axis]
    where = [(0, 0)] * array.ndim
    where[axis] = (1, 1)
    # numbers that the function knows already, where it asks something of them
    wider = np.pad(array, where, "edge") if array.size else array
    start = 1 if array.size else 0
    declared = list(feed["declared"])
    declared[axis] = wider.shape[axis] if declared[axis] != -1 else -1
    _refed(feed, wider, declared)
    kwargs = {"axes": [axis], "starts": [start], "ends": [start + size]}
    return {"call": f"{API[case['door']]}.slice", "kwargs": kwargs}


# ---------------------------------------------------------------------- bodies
def in_body(case: Case, rng: random.Random) -> None:
    """All calls are made within a branch, a loop, a step or a case."""
    if not case["wrt"] or not case["outputs"]:
        return
    if any("with" in call for call in case["calls"]) or "optimizer" in case["function"]:
        return
    kinds = [_in_branch, _in_branch, _in_loop]
    if case["door"] == "18" and len(case["outputs"]) == 1:
        kinds += [_in_steps, _in_switch]
    case["inside"] = True
    rng.choice(kinds)(case, rng)


def _branch_of(case: Case) -> str:
    return "fluid.layers" if case["door"] == "18" else "paddle.static.nn"


def _fed_truth(case: Case, rng: random.Random) -> Case:
    case["feeds"]["truth"] = {
        "shape": [1],
        "dtype": "bool",
        "values": [rng.random() < 0.5],
        "declared": [1],
        "stop": True,
        "fixed": False,
        "known": True,
    }
    return _var("truth")


def _block(case: Case, takes: list[str], gives: Any) -> Case:
    return {"$": "block", "takes": takes, "calls": copy.deepcopy(case["calls"]), "gives": gives}


def _in_branch(case: Case, rng: random.Random) -> None:
    gives = [_var(name) for name in case["outputs"]]
    branches = [_block(case, [], gives), _block(case, [], gives)]
    call = {"to": "branched", "call": f"{_branch_of(case)}.cond", "kwargs": {}}
    case["calls"] = [{**call, "args": [_fed_truth(case, rng), *branches]}]
    case["outputs"] = ["branched"]


def _in_loop(case: Case, rng: random.Random) -> None:
    """The calls, and once more in the rounds of a loop that hands on their results."""
    api = API[case["door"]]
    outside = case["calls"]
    fill = "fluid.layers.fill_constant" if case["door"] == "18" else "paddle.full"
    start, limit = (
        [[1], "int64", count] if case["door"] == "18" else [[1], count, "int64"]
        for count in (0, rng.randint(0, 2))
    )
    numbers = [{"to": "at", "call": fill, "args": start}, {"to": "limit", "call": fill, "args": limit}]
    loop = [f"loop{count}" for count in range(len(case["outputs"]))]
    more = {"$": "call", "call": "op.add", "args": [_var("round"), 1]}
    body = _block(case, ["round", *loop], [more, *map(_var, case["outputs"])])
    test = {"$": "call", "call": f"{api}.less_than", "args": [_var("round"), _var("limit")]}
    goes_on = {"$": "block", "takes": ["round", *loop], "calls": [], "gives": test}
    args = [goes_on, body, [_var("at"), *map(_var, case["outputs"])]]
    call = {"to": "looped", "call": f"{_branch_of(case)}.while_loop", "args": args, "kwargs": {}}
    case["calls"] = [*outside, *numbers, call]
    case["outputs"] = ["looped"]


def _in_steps(case: Case, rng: random.Random) -> None:
    """The steps of a StaticRNN: one input has a dimension more, along which the steps go."""
    feeds = case["feeds"]
    names = [name for name in case["wrt"] if feeds[name]["shape"] and not feeds[name].get("lengths")]
    if not names:
        return
    name = rng.choice(names)
    feed, steps = feeds[name], rng.randint(1, 2)
    array = array_of(feed)
    changes = [0] * steps if feed["fixed"] else range(steps)
    wider = np.stack([np.roll(array.reshape(-1), by).reshape(array.shape) for by in changes])
    _refed(feed, wider, [steps, *feed["declared"]])
    step = [{"to": "word", "call": "rnn.step_input", "args": [_var(name)]}]
    step += [replaced(call, name, "word") for call in case["calls"]]
    step += [{"call": "rnn.step_output", "args": [_var(case["outputs"][0])]}]
    case["calls"] = [
        {"to": "rnn", "call": "fluid.layers.StaticRNN", "kwargs": {}},
        {"with": "rnn.step", "calls": step},
        {"to": "stepped", "call": "rnn", "kwargs": {}},
    ]
    case["outputs"] = ["stepped"]


def _in_switch(case: Case, rng: random.Random) -> None:
    """The calls, and once more in a case of a Switch, which assigns to their result."""
    out = _var(case["outputs"][0])
    again = [replaced(call, case["outputs"][0], "again") for call in copy.deepcopy(case["calls"])]
    for call in again:
        if call.get("to") == out["name"]:
            call["to"] = "again"
    if not any(call.get("to") == "again" for call in again):
        return
    assign = {"call": "fluid.layers.assign", "args": [_var("again"), out]}
    inner = {"with": "switch.case", "args": [_fed_truth(case, rng)], "calls": [*again, assign]}
    case["calls"].append({"with": "fluid.layers.Switch", "to": "switch", "calls": [inner]})


def once_more(case: Case, rng: random.Random) -> None:
    """All calls are made a second time: layers that are made after others have names of their own."""
    calls = case["calls"]
    if any("with" in call or "'$': 'block'" in repr(call) for call in calls) or not case["wrt"]:
        return
    again = copy.deepcopy(calls)
    for name in [call["to"] for call in calls if "to" in call]:
        again = [replaced(call, name, f"{name}_again") for call in again]
    for call in again:
        call.update({key: f"{call[key]}_again" for key in ("to", "behind") if key in call})
    case["calls"] = [*calls, *again]
    bound = {call["to"] for call in calls if "to" in call}
    case["outputs"] = [*case["outputs"], *(f"{name}_again" for name in case["outputs"] if name in bound)]


# ---------------------------------------------------------------------- attributes
ACTS = ["relu", "tanh", "sigmoid", "softmax", "leaky_relu", "gelu", "swish", "square", "elu", "abs"]


def with_attributes(case: Case, rng: random.Random) -> None:
    """A call is given attributes of its parameters, an activation or a name, in all forms that there are."""
    options = [(call, key) for call in case["calls"] for key in _accepted(call)]
    if not options:
        return
    call, key = rng.choice(options)
    known = call.setdefault("kwargs", {})
    if key == "name":
        known[key] = "given"
    elif key == "act":
        known[key] = rng.choice(ACTS)
    elif key not in known:
        known[key] = rng.choice(_forms(key, "fluid" if case["door"] == "18" else "paddle"))


def _accepted(call: Case) -> list[str]:
    """Which of the attributes the called function has."""
    path = call.get("call", "")
    if not path.startswith(("fluid.", "paddle.")):
        return []
    import fluidlite
    import fluidlite.paddle

    found: Any = {"fluid": fluidlite, "paddle": fluidlite.paddle}[path.partition(".")[0]]
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    has = inspect.signature(found).parameters
    return [key for key in ("param_attr", "weight_attr", "bias_attr", "act", "name") if key in has]


def _forms(key: str, root: str) -> list[Any]:
    def made(path: str, *args: Any, **kwargs: Any) -> Case:
        return {"$": "call", "call": f"{root}.{path}", "args": list(args), "kwargs": kwargs}

    constant = made("initializer.Constant" if root == "fluid" else "nn.initializer.Constant", 0.3)
    decay = made("regularizer.L2Decay", 0.1)
    options = [{"name": "given"}, {"initializer": constant}, {"learning_rate": 0.5}, {"trainable": False}]
    forms = [made("ParamAttr", **one) for one in (*options, {"regularizer": decay}, {})]
    return [*forms, "given", constant, *([False, False] if key == "bias_attr" else [])]


# ---------------------------------------------------------------------- dtypes
OTHERS = {
    "float32": ["float64"],
    "float64": ["float32"],
    "int64": ["int32", "int32", "int16", "uint8"],
    "int32": ["int64", "int64", "int16", "uint8"],
    "bool": ["int32"],
}


def of_other_dtype(case: Case, rng: random.Random) -> None:
    """One input has another dtype than the function's generator has drawn."""
    names = [name for name, feed in case["feeds"].items() if feed["dtype"] in OTHERS]
    if not names:
        return
    feed = case["feeds"][rng.choice(names)]
    kind = rng.choice(OTHERS[feed["dtype"]])
    values = array_of(feed)
    if kind == "uint8" and (values < 0).any():
        return
    feed.update(dtype=kind, values=listed(values.astype(kind)))
