"""Rows for fluidlite.ops.vision, pad, interpolate and grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(17)


def values(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype("float32")


def distinct(*shape: int) -> Any:
    return (RNG.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1).astype("float32")


# ------------------------------------------------------------------ padding
def pad2d(mode: str, paddings: list[int], last: bool = False, tensor: bool = False) -> Case:
    image = [tuple(paddings[:2]), tuple(paddings[2:])]
    pairs = [(0, 0), *image, (0, 0)] if last else [(0, 0), (0, 0), *image]
    options = {"constant_values": 0.5} if mode == "constant" else {}
    inputs = {"X": values(1, 3, 4, 2) if last else values(1, 2, 3, 4)}
    if tensor:
        inputs["Paddings"] = np.array(paddings, "int32")
    return Case(
        "pad2d",
        inputs,
        lambda X, Paddings=None: np.pad(X, pairs, mode=mode, **options),
        grad=["X"],
        attrs={
            "paddings": [] if tensor else paddings,
            "mode": mode,
            "pad_value": 0.5,
            "data_format": "NHWC" if last else "NCHW",
        },
        name=mode + " last" * last + " tensor" * tensor,
    )


# ------------------------------------------------------------------ rearrangements, element by element
def shuffled_pixels(X: Any) -> Any:
    n, c, h, w = X.shape
    out = np.zeros((n, c // 4, h * 2, w * 2), X.dtype)
    for k in range(c):
        out[:, k // 4, k % 4 // 2 :: 2, k % 2 :: 2] = X[:, k]
    return out


def blocks_as_channels(X: Any) -> Any:
    """Paddle's result: it fills (N, C / 4, 2 H, 2 W), and gives that a shape with more channels."""
    n, c, h, w = X.shape
    out = np.zeros((n, c // 4, 2 * h, 2 * w), X.dtype)
    for k in range(c):
        offset, channel = divmod(k, c // 4)
        out[:, channel, offset // 2 :: 2, offset % 2 :: 2] = X[:, k]
    return out.reshape(n, c * 4, h // 2, w // 2)


def shifted_frames(X: Any) -> Any:
    frames = X.reshape(2, 3, *X.shape[1:])
    out = frames.copy()
    out[:, :, :2] = 0
    out[:, 1:, :1] = frames[:, :-1, :1]
    out[:, :-1, 1:2] = frames[:, 1:, 1:2]
    return out.reshape(X.shape)


def windows(x: Any, kernel: Any, strides: Any, paddings: Any, dilations: Any, counts: Any) -> Any:
    """(N, down, across, C, *kernel), element by element."""
    out = np.zeros((len(x), *counts, x.shape[1], *kernel), x.dtype)
    for r, c, i, j in np.ndindex(*counts, *kernel):
        row, column = (
            r * strides[0] + i * dilations[0] - paddings[0],
            c * strides[1] + j * dilations[1] - paddings[1],
        )
        if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
            out[:, r, c, :, i, j] = x[:, :, row, column]
    return out


def unfolded(
    name: str, kernel: list[int], strides: list[int], paddings: list[int], dilations: list[int], counts: Any
) -> Case:
    def reference(X: Any) -> Any:
        found = windows(X, kernel, strides, paddings, dilations, counts)
        return found.transpose(0, 3, 4, 5, 1, 2).reshape(len(X), -1, counts[0] * counts[1])

    return Case(
        "unfold",
        {"X": values(2, 2, 4, 5)},
        reference,
        grad=["X"],
        name=name,
        attrs={"kernel_sizes": kernel, "strides": strides, "paddings": paddings, "dilations": dilations},
    )


def sequences(name: str, kernels: list[int], strides: list[int], paddings: list[int], counts: Any) -> Case:
    def reference(X: Any) -> Any:
        return windows(X, kernels, strides, paddings, (1, 1), counts).reshape(
            -1, X.shape[1] * kernels[0] * kernels[1]
        )

    return Case(
        "im2sequence",
        {"X": values(2, 2, 4, 5)},
        reference,
        grad=["X"],
        name=name,
        attrs={"kernels": kernels, "strides": strides, "paddings": paddings},
        lods={"Out": [[counts[0] * counts[1]] * 2]},
    )


def real_sizes(X: Any, Y: Any) -> Any:
    """Images of 8 x 6 and 5 x 10 pixels, of which a network with stride 2 left 4 x 3 and 3 x 5."""
    parts = [
        windows(X[i : i + 1], (2, 2), (1, 1), (0, 0), (1, 1), counts).reshape(-1, 8)
        for i, counts in enumerate(((3, 2), (2, 4)))
    ]
    return np.concatenate(parts)


# ------------------------------------------------------------------ resizing
def resized(
    method: str, out: list[int], corners: bool, mode: int = 1, last: bool = False, **how: Any
) -> Case:
    def along(x: Any, axis: int, count: int) -> Any:
        size, parts = x.shape[axis], []
        ratio = (size - corners) / (count - corners) if count > 1 else 0
        for i in range(count):
            if method == "nearest":
                parts.append(x.take(int(ratio * i + 0.5 * corners), axis))
                continue
            place = max(ratio * (i + 0.5) - 0.5, 0) if mode == 0 and not corners else ratio * i
            low = int(place)
            parts.append(
                x.take(low, axis) * (1 - place + low) + x.take(min(low + 1, size - 1), axis) * (place - low)
            )
        return np.stack(parts, axis)

    def reference(X: Any, **unused: Any) -> Any:
        for i, count in enumerate(out):
            X = along(X, i + (1 if last else 2), count)
        return X.astype("float32")

    dims = len(out)
    linear = "bilinear" if dims == 2 else "trilinear"
    kind = linear if method == "linear" else "nearest"
    shape = (2, 4, 5, 3)[: dims + 2] if last else (1, 2, 3, 4, 5)[: dims + 2]
    attrs = {
        "align_corners": corners,
        "align_mode": mode,
        "data_layout": "NHWC" if last else "NCHW",
        "interp_method": kind,
    }
    tensors = {slot: how[slot] for slot in ("OutSize", "SizeTensor", "Scale") if slot in how}
    if not tensors:
        attrs |= (
            {"scale": how["scale"]} if "scale" in how else dict(zip(["out_d", "out_h", "out_w"][-dims:], out))
        )
    return Case(
        f"{kind}_interp",
        {"X": values(*shape), **tensors},
        reference,
        grad=["X"],
        attrs=attrs,
        rtol=1e-4,
        atol=1e-5,
        name=f"{out} corners={corners} mode={mode} {' '.join(how)}{' last' * last}",
    )


def cubic(X: Any) -> Any:
    """[4, 6] to [8, 3] without corners, by Keys' kernel with a = -0.75."""

    def weight(x: float) -> float:
        x = abs(x)
        return 1.25 * x**3 - 2.25 * x**2 + 1 if x <= 1 else -0.75 * x**3 + 3.75 * x**2 - 6 * x + 3

    for axis, count in ((2, 8), (3, 3)):
        size, parts = X.shape[axis], []
        for i in range(count):
            place = size / count * (i + 0.5) - 0.5
            low = int(np.floor(place))
            parts.append(
                sum(
                    X.take(min(max(k, 0), size - 1), axis) * weight(place - k)
                    for k in range(low - 1, low + 3)
                )
            )
        X = np.stack(parts, axis)
    return X.astype("float32")


# ------------------------------------------------------------------ grids
THETA = np.array([[[1, 0.2, 0], [0.1, 1, 0.3]], [[0.5, -0.2, 0.1], [0, 2, -0.1]]], "float32")


def grid_of(Theta: Any, **unused: Any) -> Any:
    x, y = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3))
    points = np.stack([x, y, np.ones_like(x)], -1)
    return np.einsum("hwk,nik->nhwi", points, Theta).astype("float32")


def sampled(X: Any, Grid: Any) -> Any:
    n, c, h, w = X.shape
    out = np.zeros((n, c, *Grid.shape[1:3]))
    for i, r, q in np.ndindex(n, *Grid.shape[1:3]):
        x, y = (Grid[i, r, q] + 1) / 2 * (w - 1, h - 1)
        for row in (int(np.floor(y)), int(np.floor(y)) + 1):
            for column in (int(np.floor(x)), int(np.floor(x)) + 1):
                if 0 <= row < h and 0 <= column < w:
                    out[i, :, r, q] += X[i, :, row, column] * (1 - abs(x - column)) * (1 - abs(y - row))
    return out.astype("float32")


CASES: list[Case] = [
    Case(
        "pad",
        {"X": values(2, 3)},
        lambda X: np.pad(X, [(1, 0), (2, 3)], constant_values=1.5),
        grad=["X"],
        attrs={"paddings": [1, 0, 2, 3], "pad_value": 1.5},
    ),
    Case(
        "pad_constant_like",
        {"X": values(4, 3), "Y": values(2, 3)},
        grad=["Y"],
        attrs={"pad_value": 2.0},
        expect=lambda X, Y: np.pad(Y, [(0, 2), (0, 0)], constant_values=2),
    ),
    pad2d("constant", [1, 2, 0, 3]),
    pad2d("reflect", [1, 2, 2, 3]),
    pad2d("edge", [2, 1, 3, 0]),
    pad2d("constant", [1, 2, 0, 3], last=True),
    pad2d("reflect", [2, 0, 1, 1], last=True),
    pad2d("edge", [1, 1, 0, 2], tensor=True),
    Case(
        "pixel_shuffle", {"X": values(2, 8, 2, 3)}, shuffled_pixels, grad=["X"], attrs={"upscale_factor": 2}
    ),
    Case("space_to_depth", {"X": values(2, 4, 4, 6)}, blocks_as_channels, grad=["X"], attrs={"blocksize": 2}),
    Case(
        "space_to_depth",
        {"X": values(1, 8, 2, 4)},
        blocks_as_channels,
        grad=["X"],
        attrs={"blocksize": 2},
        name="more channels",
    ),
    Case(
        "shuffle_channel", {"X": values(2, 6, 2, 2)}, lambda X: X[:, [0, 3, 1, 4, 2, 5]], attrs={"group": 2}
    ),
    Case(
        "shuffle_channel_grad",
        {"Out@GRAD": values(2, 6, 2, 2)},
        attrs={"group": 2},
        name="shuffled back",
        expect=lambda **inputs: {"X@GRAD": inputs["Out@GRAD"][:, [0, 2, 4, 1, 3, 5]]},
        outputs={"X@GRAD": 1},
    ),
    Case(
        "temporal_shift",
        {"X": values(6, 5, 2, 2)},
        shifted_frames,
        grad=["X"],
        attrs={"seg_num": 3, "shift_ratio": 0.2},
    ),
    Case(
        "maxout",
        {"X": distinct(2, 6, 2, 3)},
        lambda X: X.reshape(2, 3, 2, 2, 3).max(2),
        grad=["X"],
        attrs={"groups": 2},
    ),
    Case(
        "maxout",
        {"X": distinct(2, 2, 3, 6)},
        lambda X: X.reshape(2, 2, 3, 2, 3).max(4),
        grad=["X"],
        name="last",
        attrs={"groups": 3, "axis": -1},
    ),
    Case(
        "maxout_grad",
        {
            "X": np.ones((1, 2, 1, 2), "float32"),
            "Out": np.ones((1, 1, 1, 2), "float32"),
            "Out@GRAD": np.array([[[[2, 3]]]], "float32"),
        },
        {"X@GRAD": np.array([[[[2, 3]], [[0, 0]]]], "float32")},
        attrs={"groups": 2},
        name="the first of equals",
    ),
    unfolded("plain", [2, 2], [1, 1], [0, 0, 0, 0], [1, 1], (3, 4)),
    unfolded("uneven", [2, 3], [2, 1], [1, 0, 2, 1], [2, 1], (3, 4)),
    sequences("plain", [2, 2], [1, 1], [0, 0, 0, 0], (3, 4)),
    sequences("rounded down", [2, 3], [2, 2], [1, 0, 0, 2], (2, 3)),
    Case(
        "im2sequence",
        {"X": values(2, 2, 4, 5), "Y": np.array([[8, 6], [5, 10]], "float32")},
        real_sizes,
        grad=["X"],
        name="real sizes",
        attrs={"kernels": [2, 2], "out_stride": [2, 2]},
        lods={"Out": [[6, 8]]},
    ),
    resized("linear", [6, 7], True),
    resized("linear", [6, 7], False),
    resized("linear", [5, 3], False, 0),
    resized("linear", [1, 8], True),
    resized("linear", [6, 8], False, 0, scale=2.0),
    resized("linear", [3, 7], True, last=True),
    resized("linear", [6, 2], True, OutSize=np.array([6, 2], "int32")),
    resized("linear", [2, 7], True, SizeTensor=[np.array([2], "int32"), np.array([7], "int32")]),
    resized("linear", [6, 8], True, Scale=np.array([2], "float32")),
    resized("nearest", [6, 7], True),
    resized("nearest", [6, 7], False),
    resized("nearest", [2, 2], False, last=True),
    resized("nearest", [1, 2], False, scale=0.5),
    resized("linear", [2, 6, 7], True),
    resized("linear", [5, 4, 3], False, 0),
    Case(
        "bicubic_interp",
        {"X": values(1, 2, 4, 6)},
        cubic,
        grad=["X"],
        rtol=1e-4,
        atol=1e-5,
        attrs={"out_h": 8, "out_w": 3, "align_corners": False, "interp_method": "bicubic"},
    ),
    Case("affine_grid", {"Theta": THETA}, grid_of, grad=["Theta"], attrs={"output_shape": [2, 5, 3, 4]}),
    Case(
        "affine_grid",
        {"Theta": THETA, "OutputShape": np.array([2, 5, 3, 4], "int32")},
        grid_of,
        grad=["Theta"],
        name="tensor",
    ),
    Case(
        "grid_sampler",
        {"X": values(2, 2, 3, 4), "Grid": grid_of(THETA)},
        sampled,
        rtol=1e-4,
        atol=1e-5,
        name="affine",
    ),
    Case(
        "grid_sampler",
        {"X": values(1, 2, 3, 4), "Grid": values(1, 3, 4, 2) * np.float32(1.3)},
        sampled,
        grad=["X", "Grid"],
        rtol=1e-4,
        atol=1e-5,
    ),
]
