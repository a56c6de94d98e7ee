"""Rows for fluidlite.ops.pool; the references look at each window by itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(9)


def distinct(*shape: int) -> Any:
    """Values that differ by at least 0.1, so that differences do not move a maximum."""
    return (RNG.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 2).astype("float32")


def spans(
    size: int, kernel: int, stride: int, pad: tuple[int, int], ceil: bool, adaptive: bool
) -> list[tuple[int, int]]:
    """[start, end) of each window along one dimension, cut to what lies inside."""
    if adaptive:
        return [(i * size // kernel, -(-(i + 1) * size // kernel)) for i in range(kernel)]
    count = (size + sum(pad) - kernel + (stride - 1) * ceil) // stride + 1
    return [(max(i * stride - pad[0], 0), min(i * stride - pad[0] + kernel, size)) for i in range(count)]


def pooled(
    x: Any,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    average: bool = False,
    exclusive: bool = True,
    ceil: bool = False,
    adaptive: bool = False,
) -> tuple[Any, Any]:
    """The pool of x (channels first) and the places of the maxima."""
    axes = [spans(*item, ceil, adaptive) for item in zip(x.shape[2:], ksize, strides, pads)]
    shape = (*x.shape[:2], *map(len, axes))
    out, places = np.zeros(shape), np.zeros(shape, int)
    numbers = np.arange(np.prod(x.shape[2:])).reshape(x.shape[2:])
    for place in itertools.product(*(range(len(axis)) for axis in axes)):
        window = tuple(slice(*axis[i]) for axis, i in zip(axes, place))
        inside = x[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1)
        count = inside.shape[2] if exclusive or adaptive else np.prod(ksize)
        out[(slice(None), slice(None), *place)] = inside.sum(2) / count if average else inside.max(2)
        places[(slice(None), slice(None), *place)] = numbers[window].reshape(-1)[inside.argmax(2)]
    return out, places


def pool(
    name: str,
    x: tuple[int, ...],
    ksize: Sequence[int],
    kind: str = "max",
    strides: Any = None,
    paddings: Any = None,
    same: Any = None,
    last: bool = False,
    exclusive: bool = True,
    ceil: bool = False,
    **flags: Any,
) -> Case:
    """A row; `same` are the paddings that "SAME" amounts to, `last` puts the channels last."""
    dims = len(ksize)
    strides, paddings = strides or [1] * dims, paddings or [0] * dims
    pads = same or (
        [(p, p) for p in paddings] if len(paddings) == dims else list(zip(paddings[::2], paddings[1::2]))
    )

    def reference(X: Any) -> Any:
        array = np.moveaxis(X, -1, 1) if last else X
        size = array.shape[2:] if flags.get("global_pooling") else ksize
        out, _ = pooled(
            array,
            size,
            strides,
            [(0, 0)] * dims if flags.get("global_pooling") else pads,
            kind == "avg",
            exclusive,
            ceil,
            flags.get("adaptive", False),
        )
        return np.moveaxis(out, 1, -1) if last else out

    layout = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[dims][last]
    attrs = {
        "pooling_type": kind,
        "ksize": list(ksize),
        "strides": strides,
        "paddings": paddings,
        "exclusive": exclusive,
        "ceil_mode": ceil,
        "data_format": layout,
        **flags,
    }
    return Case(
        f"pool{dims}d", {"X": distinct(*x)}, reference, grad=["X"], attrs=attrs, name=f"{kind} {name}"
    )


def indexed(
    name: str,
    x: tuple[int, ...],
    ksize: Sequence[int],
    strides: Any = None,
    paddings: Any = None,
    adaptive: bool = False,
) -> Case:
    """A row for the pools that also give places; the declared type of Mask is X's, what comes is int32."""
    dims = len(ksize)
    strides, paddings = strides or [1] * dims, paddings or [0] * dims
    attrs = {"ksize": list(ksize), "strides": strides, "paddings": paddings, "adaptive": adaptive}
    return Case(
        f"max_pool{dims}d_with_index",
        {"X": distinct(*x)},
        grad=["X"],
        attrs=attrs,
        name=name,
        ignore=["Mask"],
        expect=lambda X: pooled(X, ksize, strides, [(p, p) for p in paddings], adaptive=adaptive)[0],
    )


TIES = np.array([[[[0, 5, 5, 1], [5, 5, 0, 1]]]], "float32")
CASES: list[Case] = [
    pool("halves", (2, 3, 4, 6), [2, 2], strides=[2, 2]),
    pool("overlap", (1, 2, 5, 6), [3, 2], strides=[2, 1], paddings=[1, 0]),
    pool("ceil", (1, 2, 6, 7), [3, 3], strides=[2, 2], ceil=True),
    pool("four paddings", (1, 2, 4, 5), [2, 3], strides=[2, 2], paddings=[0, 1, 1, 0]),
    pool("global", (2, 2, 3, 4), [1, 1], global_pooling=True),
    pool("adaptive", (1, 2, 5, 7), [2, 3], adaptive=True),
    pool("last", (1, 4, 5, 2), [2, 2], strides=[2, 2], last=True),
    pool("same", (1, 2, 5, 6), [3, 2], strides=[2, 2], padding_algorithm="SAME", same=[(1, 1), (0, 0)]),
    pool(
        "valid",
        (1, 2, 5, 6),
        [3, 2],
        strides=[2, 2],
        paddings=[1, 1],
        padding_algorithm="VALID",
        same=[(0, 0), (0, 0)],
    ),
    pool("halves", (2, 2, 4, 6), [2, 2], "avg", strides=[2, 2]),
    pool("exclusive", (1, 2, 5, 6), [3, 3], "avg", strides=[2, 2], paddings=[1, 1]),
    pool("inclusive", (1, 2, 5, 6), [3, 3], "avg", strides=[2, 2], paddings=[1, 1], exclusive=False),
    pool("ceil", (1, 2, 6, 6), [3, 3], "avg", strides=[2, 2], ceil=True),
    pool("gaps", (1, 1, 7, 8), [2, 1], "avg", strides=[3, 2]),
    pool("global", (2, 2, 3, 4), [1, 1], "avg", paddings=[1, 1], global_pooling=True),
    pool("adaptive", (1, 2, 5, 3), [3, 4], "avg", adaptive=True),
    pool("last", (1, 4, 5, 2), [3, 3], "avg", paddings=[1, 1], last=True),
    pool("volume", (1, 2, 4, 3, 4), [2, 3, 2], strides=[2, 1, 1], paddings=[0, 1, 1]),
    pool("volume", (1, 2, 4, 3, 4), [2, 2, 2], "avg", strides=[2, 1, 1], paddings=[1, 0, 0]),
    pool("volume adaptive", (1, 2, 4, 3, 4), [2, 2, 3], "avg", adaptive=True),
    pool("volume last", (1, 3, 3, 4, 2), [2, 2, 2], strides=[1, 1, 2], last=True),
    Case(
        "pool2d_grad",
        {"X": TIES, "Out": np.array([[[[5, 5]]]], "float32"), "Out@GRAD": np.array([[[[1, 2]]]], "float32")},
        {"X@GRAD": np.array([[[[0, 1, 2, 0], [0, 0, 0, 0]]]], "float32")},
        name="the first of equals",
        attrs={"pooling_type": "max", "ksize": [2, 2], "strides": [2, 2]},
    ),
    indexed("halves", (2, 3, 4, 6), [2, 2], [2, 2]),
    indexed("overlap", (1, 2, 5, 6), [3, 3], [2, 2], [1, 1]),
    indexed("adaptive", (1, 2, 5, 7), [2, 3], adaptive=True),
    indexed("volume", (1, 2, 4, 3, 4), [2, 2, 2], [2, 1, 1], [0, 1, 0]),
    Case(
        "unpool",
        {"X": distinct(1, 2, 2, 2), "Indices": np.array([[[[0, 3], [9, 15]], [[5, 6], [8, 11]]]], "int32")},
        grad=["X"],
        attrs={"ksize": [2, 2], "strides": [2, 2], "unpooling_type": "max"},
        expect=lambda X, Indices: np.array(
            [
                [
                    [dict(zip(i.reshape(-1), x.reshape(-1))).get(place, 0) for place in range(16)]
                    for x, i in zip(X[0], Indices[0])
                ]
            ],
            "float32",
        ).reshape(1, 2, 4, 4),
    ),
]
