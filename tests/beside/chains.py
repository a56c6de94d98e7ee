"""Variations of what a function of the 2.x door stands beside: inputs that are views of other memory, and
many functions behind it. A kernel that assumes an order of memory, a plan that merges too much, show here.

Each takes a case and changes it in place; `beside.variations.vary` calls them at times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from beside.language import Case, array_of, listed
from beside.surroundings import replaced

__all__ = ["followed", "viewed"]

View = tuple[np.ndarray, list[int], Case]
"""An array, its declared sizes, and the call that gives what was fed before."""


def _transposed(array: np.ndarray, declared: list[int], rng: random.Random) -> View:
    order = rng.sample(range(array.ndim), array.ndim)
    back = [int(at) for at in np.argsort(order)]
    call = {"call": "paddle.transpose", "kwargs": {"perm": back}}
    return array.transpose(order), [declared[at] for at in order], call


def _reversed(array: np.ndarray, declared: list[int], rng: random.Random) -> View:
    axis = rng.randrange(array.ndim)
    return np.flip(array, axis), declared, {"call": "paddle.flip", "kwargs": {"axis": [axis]}}


def _within(array: np.ndarray, declared: list[int], rng: random.Random) -> View:
    """Cut out of a larger array."""
    axis, front, behind = rng.randrange(array.ndim), rng.randint(0, 2), rng.randint(0, 2)
    pads = [(front, behind) if at == axis else (0, 0) for at in range(array.ndim)]
    larger = [size + front + behind if at == axis and size >= 0 else size for at, size in enumerate(declared)]
    ends = {"axes": [axis], "starts": [front], "ends": [front + array.shape[axis]]}
    return np.pad(array, pads), larger, {"call": "paddle.slice", "kwargs": ends}


def _every_second(array: np.ndarray, declared: list[int], rng: random.Random) -> View:
    axis = rng.randrange(array.ndim)
    larger = [2 * size if at == axis and size >= 0 else size for at, size in enumerate(declared)]
    steps = {"axes": [axis], "starts": [0], "ends": [2 * array.shape[axis]], "strides": [2]}
    return np.repeat(array, 2, axis), larger, {"call": "paddle.strided_slice", "kwargs": steps}


def _flat(array: np.ndarray, declared: list[int], rng: random.Random) -> View:
    call = {"call": "paddle.reshape", "kwargs": {"shape": list(array.shape)}}
    return array.reshape(-1), [array.size], call


def _one_more(array: np.ndarray, declared: list[int], rng: random.Random) -> View:
    """A further dimension of size 1, which is taken away."""
    axis = rng.randint(0, array.ndim)
    sizes = [*declared[:axis], 1, *declared[axis:]]
    return np.expand_dims(array, axis), sizes, {"call": "paddle.squeeze", "kwargs": {"axis": [axis]}}


VIEWS: list[Callable[[np.ndarray, list[int], random.Random], View]] = [
    _transposed,
    _transposed,
    _reversed,
    _within,
    _every_second,
    _flat,
    _one_more,
]


def viewed(case: Case, rng: random.Random) -> None:
    """Inputs are views: what is fed is laid out otherwise, and another function undoes that."""
    names = [
        name
        for name, feed in case["feeds"].items()
        if feed["shape"] and not feed.get("lengths") and not feed.get("shared") and not feed["fixed"]
    ]
    front = []
    case["viewed"] = True
    for name in rng.sample(names, min(len(names), rng.randint(1, 2))):
        feed = case["feeds"][name]
        array, declared, call = rng.choice(VIEWS)(array_of(feed), list(feed["declared"]), rng)
        feed.update(shape=list(array.shape), values=listed(array), declared=declared)
        case["calls"] = [replaced(one, name, f"view_{name}") for one in case["calls"]]
        front.append({"to": f"view_{name}", "args": [{"$": "var", "name": name}], **call})
    case["calls"] = front + case["calls"]


BEHIND: list[tuple[str, dict[str, Any]]] = [
    ("paddle.t", {}),
    ("paddle.moveaxis", {"source": 0, "destination": -1}),
    ("paddle.flip", {"axis": -1}),
    ("paddle.reshape", {"shape": [-1]}),
    ("paddle.unsqueeze", {"axis": 0}),
    ("paddle.squeeze", {}),
    ("paddle.sum", {"axis": -1}),
    ("paddle.mean", {"axis": 0, "keepdim": True}),
    ("paddle.max", {}),
    ("paddle.logsumexp", {"axis": -1}),
    ("paddle.cumsum", {"axis": 0}),
    ("paddle.sort", {"axis": -1}),
    ("paddle.roll", {"shifts": 1}),
    ("paddle.tile", {"repeat_times": [2]}),
    ("paddle.cast", {"dtype": "float64"}),
    ("paddle.clip", {"min": -0.5, "max": 0.5}),
    ("paddle.exp", {}),
    ("paddle.abs", {}),
    ("paddle.square", {}),
    ("paddle.abs", {}),
    ("paddle.scale_", {"scale": 0.5, "bias": 0.1}),
    ("paddle.matmul", {"y": None, "transpose_y": True}),
    ("paddle.multiply", {"y": None}),
    ("paddle.subtract", {"y": None}),
    ("paddle.maximum", {"y": None}),
    ("paddle.nn.functional.softmax", {}),
    ("paddle.nn.functional.log_softmax", {"axis": 0}),
    ("paddle.nn.functional.gelu", {}),
    ("paddle.nn.functional.softplus", {}),
    ("paddle.nn.functional.normalize", {"axis": -1}),
    ("paddle.nn.functional.dropout", {"p": 0.0}),
    ("op.getitem", {"at": 0}),
]


def followed(case: Case, rng: random.Random) -> None:
    """Outputs pass through a chain of functions."""
    name = rng.choice(case["outputs"])
    before = name
    for count in range(rng.randint(1, 3)):
        path, kwargs = rng.choice(BEHIND)
        var = {"$": "var", "name": before}
        given = {key: var if value is None else value for key, value in kwargs.items()}
        args = [var, *given.values()] if path.startswith("op.") else [var]
        given = {} if path.startswith("op.") else given
        before = f"follow{count}"
        case["calls"].append(
            {"to": before, "behind": var["name"], "call": path, "args": args, "kwargs": given}
        )
    if rng.random() < 0.5:
        case["outputs"].remove(name)
    case["outputs"].append(before)
