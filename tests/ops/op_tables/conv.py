"""Rows for fluidlite.ops.conv and fluidlite.ops.conv_transpose; the references multiply window by window."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(7)


def values(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype("float32")


def convolved(
    x: Any,
    w: Any,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    groups: int,
) -> Any:
    """The convolution of x (channels first) by its definition, in float64."""
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in pads]])
    x = x[(..., *[slice(max(-a, 0), min(b, 0) or None) for a, b in pads])]
    sizes = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations)
    ]
    out = np.zeros((len(x), len(w), *sizes))
    parts = np.split(x, groups, axis=1)
    for o in range(len(w)):
        group = parts[o * groups // len(w)]
        for place in itertools.product(*map(range, sizes)):
            window = tuple(
                slice(p * s, p * s + d * (k - 1) + 1, d)
                for p, s, k, d in zip(place, strides, w.shape[2:], dilations)
            )
            out[(slice(None), o, *place)] = (
                (group[(slice(None), slice(None), *window)] * w[o]).reshape(len(x), -1).sum(1)
            )
    return out


def pairs(paddings: Sequence[int], dims: int) -> list[tuple[int, int]]:
    return [(p, p) for p in paddings] if len(paddings) == dims else list(zip(paddings[::2], paddings[1::2]))


def conv(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: Any = None,
    paddings: Any = None,
    dilations: Any = None,
    groups: int = 1,
    algorithm: str = "EXPLICIT",
    same: Any = None,
    last: bool = False,
    op: str = "",
    grad: bool = True,
) -> Case:
    """A row; `same` are the paddings that "SAME" amounts to, `last` puts the channels last."""
    dims = len(w) - 2
    strides, dilations = strides or [1] * dims, dilations or [1] * dims
    paddings = paddings or [0] * dims

    def reference(Input: Any, Filter: Any) -> Any:
        x = np.moveaxis(Input, -1, 1) if last else Input
        out = convolved(
            x, Filter, strides, same or pairs(paddings, dims), [1] * dims if same else dilations, groups
        )
        return np.moveaxis(out, 1, -1) if last else out

    layout = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[dims][last]
    return Case(
        op or f"conv{dims}d",
        {"Input": values(*x), "Filter": values(*w)},
        reference,
        rtol=1e-4,
        atol=1e-5,
        name=name,
        grad=["Input", "Filter"] if grad else [],
        attrs={
            "strides": strides,
            "paddings": paddings,
            "dilations": dilations,
            "groups": groups,
            "padding_algorithm": algorithm,
            "data_format": layout,
        },
    )


def transposed(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    out: Sequence[int],
    strides: Any = None,
    paddings: Any = None,
    dilations: Any = None,
    groups: int = 1,
    asked: bool = False,
    last: bool = False,
    op: str = "",
    algorithm: str = "EXPLICIT",
    same: Any = None,
) -> Case:
    """A row whose reference is the adjoint of the convolution from `out` places back to the input's."""
    dims = len(w) - 2
    strides, dilations, paddings = strides or [1] * dims, dilations or [1] * dims, paddings or [0] * dims

    def reference(Input: Any, Filter: Any) -> Any:
        x = np.moveaxis(Input, -1, 1) if last else Input
        shape = (1, w[1] * groups, *out)
        result = np.zeros((len(x), *shape[1:]))
        for index in np.ndindex(*shape):
            unit = np.zeros(shape)
            unit[index] = 1
            seen = convolved(
                unit,
                Filter,
                strides,
                same or pairs(paddings, dims),
                [1] * dims if same else dilations,
                groups,
            )
            result[(slice(None), *index[1:])] = (x * seen).reshape(len(x), -1).sum(1)
        return np.moveaxis(result, 1, -1) if last else result

    attrs = {
        "strides": strides,
        "paddings": paddings,
        "dilations": dilations,
        "groups": groups,
        "padding_algorithm": algorithm,
        "data_format": "NHWC" if last else "NCHW",
        "output_size": list(out) if asked else [],
    }
    return Case(
        op or f"conv{dims}d_transpose",
        {"Input": values(*x), "Filter": values(*w)},
        reference,
        rtol=1e-4,
        atol=1e-5,
        grad=["Input", "Filter"],
        name=name,
        attrs=attrs,
    )


DOUBLE = {
    "Input": values(1, 2, 3, 3),
    "Filter": values(2, 2, 3, 3),
    "DOutput": values(1, 2, 3, 3),
    "DDInput": values(1, 2, 3, 3),
    "DDFilter": values(2, 2, 3, 3),
}


def second(x: str, w: str) -> Any:
    """One half of DDOutput of conv2d_grad_grad."""
    return convolved(DOUBLE[x], DOUBLE[w], [1, 1], [(1, 1), (1, 1)], [1, 1], 1)


CASES: list[Case] = [
    conv("plain", (2, 3, 5, 6), (4, 3, 3, 3)),
    conv("padded", (2, 2, 4, 5), (3, 2, 3, 3), paddings=[1, 2]),
    conv("padding beyond the kernel", (1, 2, 3, 3), (2, 2, 2, 2), paddings=[2, 3]),
    conv("four paddings", (2, 2, 4, 5), (3, 2, 3, 2), strides=[2, 1], paddings=[0, 1, 2, 1]),
    conv("strided", (2, 2, 6, 5), (3, 2, 3, 3), strides=[2, 2], paddings=[1, 1]),
    conv("cut", (2, 2, 6, 5), (3, 2, 2, 3), strides=[2, 1], paddings=[-1, 2]),
    conv("cut at one side", (1, 5, 6, 2), (2, 2, 2, 2), paddings=[-2, 1, 0, -3], last=True),
    conv("cut away", (1, 2, 3, 4), (2, 2, 2, 2), dilations=[1, 2], paddings=[-4, 4, 1, 0]),
    conv("dilated", (1, 2, 6, 6), (2, 2, 2, 3), paddings=[1, 1], dilations=[2, 1]),
    conv("groups", (2, 4, 4, 4), (6, 2, 3, 3), paddings=[1, 1], groups=2),
    conv(
        "same",
        (1, 2, 5, 6),
        (3, 2, 3, 2),
        strides=[2, 1],
        dilations=[2, 2],
        algorithm="SAME",
        same=[(1, 1), (0, 1)],
    ),
    conv("valid", (1, 2, 4, 4), (2, 2, 3, 3), paddings=[1, 1], algorithm="VALID", same=[(0, 0), (0, 0)]),
    conv("channels last", (2, 4, 5, 3), (4, 3, 3, 3), paddings=[1, 0], last=True),
    conv("pointwise", (2, 3, 3, 4), (4, 3, 1, 1)),
    conv("pointwise strided", (2, 3, 4, 5), (2, 3, 1, 1), strides=[2, 2]),
    conv("pointwise padded", (1, 3, 3, 3), (2, 3, 1, 1), paddings=[1, 0]),
    conv("plain", (2, 4, 4, 5), (4, 1, 3, 3), paddings=[1, 1], groups=4, op="depthwise_conv2d"),
    conv("multiplied", (2, 3, 4, 5), (6, 1, 2, 3), strides=[1, 2], groups=3, op="depthwise_conv2d"),
    conv("last", (2, 4, 5, 3), (3, 1, 3, 3), paddings=[1, 1], groups=3, last=True, op="depthwise_conv2d"),
    conv("plain", (1, 2, 3, 4, 4), (2, 2, 2, 3, 2), paddings=[1, 0, 1]),
    conv("cut", (1, 2, 3, 4, 4), (2, 2, 2, 2, 2), paddings=[0, -1, 1]),
    conv(
        "groups strided", (1, 2, 4, 4, 3), (4, 1, 2, 2, 2), strides=[2, 1, 1], dilations=[1, 2, 1], groups=2
    ),
    conv("last", (1, 3, 3, 4, 2), (2, 2, 2, 2, 2), last=True),
    transposed("plain", (2, 3, 3, 3), (3, 2, 3, 3), (5, 5)),
    transposed("strided", (2, 2, 3, 2), (2, 3, 3, 3), (5, 3), strides=[2, 2], paddings=[1, 1]),
    transposed(
        "output size", (1, 2, 3, 3), (2, 2, 3, 3), (6, 5), strides=[2, 2], paddings=[1, 1], asked=True
    ),
    transposed("dilated", (1, 2, 3, 3), (2, 2, 2, 2), (4, 5), paddings=[1, 0, 0, 0], dilations=[2, 2]),
    transposed("cut", (1, 2, 3, 3), (2, 2, 2, 3), (8, 5), strides=[2, 1], paddings=[-1, 0]),
    transposed("groups", (1, 4, 2, 3), (4, 1, 2, 2), (3, 4), groups=2),
    transposed("channels last", (1, 2, 3, 3), (3, 2, 2, 2), (3, 4), last=True),
    transposed(
        "same", (1, 2, 3, 3), (2, 2, 3, 3), (5, 5), strides=[2, 2], algorithm="SAME", same=[(1, 1), (1, 1)]
    ),
    transposed(
        "plain", (1, 3, 2, 3), (3, 1, 3, 2), (5, 6), strides=[2, 2], groups=3, op="depthwise_conv2d_transpose"
    ),
    transposed("plain", (1, 2, 2, 2, 2), (2, 1, 2, 2, 2), (3, 3, 3)),
    Case(
        "conv2d_grad_grad",
        DOUBLE,
        {"DDOutput": second("DDInput", "Filter") + second("Input", "DDFilter")},
        attrs={"paddings": [1, 1]},
        rtol=1e-4,
        atol=1e-5,
    ),
]
