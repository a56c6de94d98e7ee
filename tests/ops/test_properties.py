"""Properties of element-wise ops, slices, pooling and convolution: whatever the shapes and options, NumPy
says the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from properties import EXAMPLES, append, run, seeds, upstream, values

from fluidlite import layers

# ---------- broadcasting
Derivative = Callable[[Any, Any], tuple[Any, Any]]
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Derivative]] = {
    "add": (np.add, lambda x, y: (1.0, 1.0)),
    "sub": (np.subtract, lambda x, y: (1.0, -1.0)),
    "mul": (np.multiply, lambda x, y: (y, x)),
    "div": (np.divide, lambda x, y: (1 / y, -x / y**2)),
    "max": (np.maximum, lambda x, y: (x > y, x <= y)),
    "min": (np.minimum, lambda x, y: (x < y, x >= y)),
}


@st.composite
def broadcast_shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """X, Y and the axis of X at which Y begins; dimensions of 1 in either, and 1s behind Y."""
    full = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(full) - 1))
    part = full[axis : draw(st.integers(axis + 1, len(full)))]
    x = [draw(st.sampled_from([dim, dim, dim, 1])) for dim in full]
    y = [draw(st.sampled_from([dim, dim, dim, 1])) for dim in part]
    return tuple(x), tuple(y), -1 if axis + len(y) == len(full) and draw(st.booleans()) else axis


def reduced(array: Any, like: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A gradient summed over what was broadcast."""
    axes = tuple(
        axis for axis, (dim, full) in enumerate(zip(like.shape, array.shape, strict=True)) if dim == 1 != full
    )
    found: np.ndarray = array.sum(axes, keepdims=True).reshape(shape)
    return found


@pytest.mark.parametrize("op", BINARY)
@EXAMPLES
@given(broadcast_shapes(), seeds)
def test_broadcasting(op: str, shapes: tuple[tuple[int, ...], tuple[int, ...], int], seed: int) -> None:
    forward, derivative = BINARY[op]
    x_shape, y_shape, axis = shapes
    x, y = values(x_shape, seed), values(y_shape, seed + 7) + 1.5
    at = len(x_shape) - len(y_shape) if axis == -1 else axis
    aligned = y.reshape((1,) * at + y_shape + (1,) * (len(x_shape) - at - len(y_shape)))
    expected = forward(x, aligned)
    out, dx, dy = run(
        lambda x, y: append(f"elementwise_{op}", {"X": x, "Y": y}, axis=axis),
        {"x": x, "y": y},
        ["x", "y"],
        seed,
    )
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    slopes = [
        np.broadcast_to(slope, expected.shape) * upstream(expected.shape, seed)
        for slope in derivative(x, aligned)
    ]
    np.testing.assert_allclose(dx, reduced(slopes[0], x, x_shape), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dy, reduced(slopes[1], aligned, y_shape), rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------ slices
@st.composite
def indices(draw: st.DrawFn, shape: Sequence[int], steps: bool) -> tuple[Any, ...]:
    """An index or slice for some leading dimensions; none selects nothing."""
    found: list[Any] = []
    for dim in shape[: draw(st.integers(1, len(shape)))]:
        if draw(st.booleans()):
            found.append(draw(st.integers(-dim, dim - 1)))
            continue
        bounds = st.none() | st.integers(-dim - 1, dim + 1)
        item = slice(draw(bounds), draw(bounds), draw(st.none() | st.integers(1, 3)) if steps else None)
        assume(len(range(*item.indices(dim))))
        found.append(item)
    return tuple(found)


shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def check_part(build: Callable[[Any], Any], where: Any, x: np.ndarray, seed: int) -> None:
    """A layer that takes a part of `x`, and its gradient, which fills that part only."""
    out, dx = run(build, {"x": x}, ["x"], seed)
    expected, gradient = x[where], np.zeros_like(x)
    gradient[where] = upstream(out.shape, seed).reshape(expected.shape)
    assert out.size == expected.size and (out.shape == expected.shape or expected.shape == ())
    np.testing.assert_array_equal(out.reshape(expected.shape), expected)
    np.testing.assert_array_equal(dx, gradient)


@EXAMPLES
@given(st.data(), shapes, st.booleans(), seeds)
def test_indexing(data: st.DataObject, shape: tuple[int, ...], steps: bool, seed: int) -> None:
    where = data.draw(indices(shape, steps))
    assume(
        set(map(str, where)) != {str(slice(None))}
    )  # that is the variable itself, which has no gradient of its own
    check_part(lambda x: x[where if len(where) > 1 else where[0]], where, values(shape, seed), seed)


@EXAMPLES
@given(st.data(), shapes, seeds)
def test_slice(data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    bounds = [
        data.draw(
            st.tuples(st.integers(-shape[axis] - 1, shape[axis]), st.integers(-shape[axis], shape[axis] + 2))
        )
        for axis in axes
    ]
    where = [slice(None)] * len(shape)
    for axis, (start, end) in zip(axes, bounds, strict=True):
        where[axis] = slice(start, end)
        assume(len(range(*where[axis].indices(shape[axis]))))
    starts, ends = ([bound[side] for bound in bounds] for side in (0, 1))
    check_part(lambda x: layers.slice(x, axes, starts, ends), tuple(where), values(shape, seed), seed)


@EXAMPLES
@given(st.data(), shapes, seeds)
def test_strided_slice(data: st.DataObject, shape: tuple[int, ...], seed: int) -> None:
    axes = sorted(data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True)))
    where = [slice(None)] * len(shape)
    for axis in axes:
        dim, step = shape[axis], data.draw(st.sampled_from([1, 2, 3, -1]))
        start, end = data.draw(st.tuples(st.integers(-dim, dim - 1), st.integers(-dim, dim)))
        where[axis] = slice(
            start, None if end == -1 and step < 0 else end, step
        )  # backwards -1 is before the first
        assume(len(range(*where[axis].indices(dim))))
    starts, ends, strides = (
        [getattr(where[axis], side) for axis in axes] for side in ("start", "stop", "step")
    )
    ends = [-1 if end is None else end for end in ends]
    check_part(
        lambda x: layers.strided_slice(x, axes, starts, ends, strides),
        tuple(where),
        values(shape, seed),
        seed,
    )


# start, end, step -> the elements of 0 1 2 3 that PaddlePaddle 1.8.5 takes; NumPy counts steps from the start
BACKWARDS = {
    (3, -1, -1): [3, 2, 1, 0],
    (-3, -1, -1): [1, 0],
    (3, -1, -2): [2, 0],
    (2, -1, -3): [0],
    (3, -6, -2): [2, 0],
    (3, -4, -3): [1],
    (2, -4, -2): [1],
    (3, 0, -3): [1],
    (5, 1, -2): [2],
    (-1, -3, -2): [2],
    (3, -3, -1): [3, 2],
    (3, 0, -2): [3, 1],
}


@pytest.mark.parametrize("limits", BACKWARDS)
def test_backward_steps_count_from_the_end(limits: tuple[int, int, int]) -> None:
    found = BACKWARDS[limits]
    check_part(
        lambda x: layers.strided_slice(x, [0], *([limit] for limit in limits)), found, np.arange(4.0), 1
    )


# ------------------------------------------------------------------------------------------------ windows
@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes of images, and kernels, strides and paddings (both sides of both dimensions), as an op has
    them.
    """
    size, kernel = (
        draw(st.tuples(st.integers(1, 6), st.integers(1, 6))),
        draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
    )
    strides = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    form = draw(st.sampled_from(["EXPLICIT", "EXPLICIT", "EXPLICIT", "SAME", "VALID"]))
    sides = [draw(st.integers(0, k - 1)) for k in kernel for _ in range(2)]
    if draw(st.booleans()):
        sides = [sides[0], sides[0], sides[2], sides[2]]
        paddings = [sides[0], sides[2]]
    else:
        paddings = list(sides)
    return {
        "size": size,
        "kernel": kernel,
        "strides": strides,
        "form": form,
        "sides": sides,
        "paddings": paddings,
    }


def padding(window: dict[str, Any], dilation: Sequence[int] = (1, 1)) -> list[tuple[int, int]]:
    """Rows and columns put before and behind."""
    if window["form"] == "VALID":
        return [(0, 0), (0, 0)]
    if window["form"] == "EXPLICIT":
        return [(window["sides"][0], window["sides"][1]), (window["sides"][2], window["sides"][3])]
    found = []
    for dim, kernel, stride in zip(window["size"], window["kernel"], window["strides"], strict=True):
        total = max((-(-dim // stride) - 1) * stride + kernel - dim, 0)
        found.append((total // 2, total - total // 2))
    return found


def places(dim: int, kernel: int, stride: int, pads: tuple[int, int], ceil: bool = False) -> list[range]:
    """Begin and end of each window."""
    room = dim + sum(pads) - kernel
    # a window that is too long by less than a stride counts where it is the only one
    steps = -(-room // stride) if ceil else room // stride
    count = 1 if -stride < room < 0 else steps + 1
    return [range(step * stride - pads[0], step * stride - pads[0] + kernel) for step in range(max(count, 0))]


def grid(rows: list[range], columns: list[range]) -> Iterator[tuple[tuple[int, int], range, range]]:
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        yield (i, j), row, column


def inside(span: range, dim: int) -> slice:
    return slice(max(span.start, 0), min(span.stop, dim))


@EXAMPLES
@given(
    windows(),
    st.sampled_from(["max", "avg"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["NCHW", "NHWC"]),
    seeds,
)
def test_pooling(
    window: dict[str, Any], kind: str, ceil: bool, exclusive: bool, layout: str, seed: int
) -> None:
    ceil = ceil and window["form"] == "EXPLICIT"
    spans = [
        places(*each, ceil)
        for each in zip(window["size"], window["kernel"], window["strides"], padding(window), strict=True)
    ]
    assume(all(spans))
    assume(
        all(
            span.stop > 0 and span.start < dim
            for side, dim in zip(spans, window["size"], strict=True)
            for span in side
        )
    )
    x = values((2, 2, *window["size"]), seed)
    out, gradient = np.zeros((2, 2, len(spans[0]), len(spans[1]))), np.zeros_like(x)
    given = upstream(out.shape, seed)
    for (i, j), row, column in grid(*spans):
        part = np.s_[:, :, inside(row, x.shape[2]), inside(column, x.shape[3])]
        if kind == "max":
            out[:, :, i, j] = x[part].max((2, 3))
            gradient[part] += (x[part] == out[:, :, i : i + 1, j : j + 1]) * given[:, :, i : i + 1, j : j + 1]
        else:
            count = x[part][0, 0].size if exclusive else len(row) * len(column)
            out[:, :, i, j] = x[part].sum((2, 3)) / count
            gradient[part] += given[:, :, i : i + 1, j : j + 1] / count
    last = layout == "NHWC"
    turn = (lambda array: array.transpose(0, 2, 3, 1)) if last else lambda array: array
    back = (lambda array: array.transpose(0, 3, 1, 2)) if last else lambda array: array
    # the upstream gradient of a turned output is its own permutation, so gradients are compared for the usual
    # layout only
    found = run(
        lambda x: append(
            "pool2d",
            {"X": x},
            pooling_type=kind,
            ksize=list(window["kernel"]),
            strides=list(window["strides"]),
            paddings=window["paddings"],
            padding_algorithm=window["form"],
            ceil_mode=ceil,
            exclusive=exclusive,
            data_format=layout,
        ),
        {"x": turn(x)},
        [] if last else ["x"],
        seed,
    )
    np.testing.assert_allclose(back(found[0]), out, rtol=1e-10, atol=1e-12)
    if not last:
        np.testing.assert_allclose(found[1], gradient, rtol=1e-10, atol=1e-12)


@EXAMPLES
@given(
    windows(),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 2),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    seeds,
)
def test_convolution(
    window: dict[str, Any],
    groups: int,
    in_channels: int,
    out_channels: int,
    dilations: tuple[int, int],
    seed: int,
) -> None:
    if window["form"] == "SAME":
        dilations = (1, 1)
    reach = [
        (kernel - 1) * dilation + 1 for kernel, dilation in zip(window["kernel"], dilations, strict=True)
    ]
    pads = padding(window)
    spans = [places(*each) for each in zip(window["size"], reach, window["strides"], pads, strict=True)]
    assume(all(spans))
    pads = [
        (before, max(after, side[-1].stop - dim))
        for (before, after), side, dim in zip(pads, spans, window["size"], strict=True)
    ]
    x, w = (
        values((2, groups * in_channels, *window["size"]), seed),
        values((groups * out_channels, in_channels, *window["kernel"]), seed + 3),
    )
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    out, dpadded, dw = (
        np.zeros((2, groups * out_channels, len(spans[0]), len(spans[1]))),
        np.zeros_like(padded),
        np.zeros_like(w),
    )
    given = upstream(out.shape, seed)
    for (i, j), row, column in grid(*spans):
        rows, columns = (
            slice(span.start + pad[0], span.stop + pad[0], step)
            for span, pad, step in zip((row, column), pads, dilations, strict=True)
        )
        for group in range(groups):
            ins, outs = (slice(group * count, (group + 1) * count) for count in (in_channels, out_channels))
            part = padded[:, ins, rows, columns]
            out[:, outs, i, j] = np.einsum("ncij,ocij->no", part, w[outs])
            dpadded[:, ins, rows, columns] += np.einsum("no,ocij->ncij", given[:, outs, i, j], w[outs])
            dw[outs] += np.einsum("no,ncij->ocij", given[:, outs, i, j], part)
    found = run(
        lambda x, w: append(
            "conv2d",
            {"Input": x, "Filter": w},
            "Output",
            strides=list(window["strides"]),
            groups=groups,
            paddings=window["paddings"],
            padding_algorithm=window["form"],
            dilations=list(dilations),
        ),
        {"x": x, "w": w},
        ["x", "w"],
        seed,
    )
    dx = dpadded[:, :, pads[0][0] : pads[0][0] + x.shape[2], pads[1][0] : pads[1][0] + x.shape[3]]
    for mine, theirs in zip(found, (out, dx, dw), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)
