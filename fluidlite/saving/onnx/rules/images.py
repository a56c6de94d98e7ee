"""ONNX for ops on images: other sizes, pixels as channels, windows as rows, samples at points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.neural import back, front, front_shape

# ----------------------------------------------------------------------- other sizes
_MODES = {"nearest": "nearest", "bilinear": "linear", "trilinear": "linear", "linear": "linear"}
_MODES["bicubic"] = "cubic"
_METHODS = ("nearest", "bilinear", "bicubic")  # that the attribute chooses in fluid's ops on images


@exports(*(f"{kind}_interp{end}" for kind in _MODES for end in ("", "_v2")))
def _interpolate(op: OpView) -> None:
    shape = front_shape(op)
    x = front(op)
    named = op.type.partition("_")[0]
    is_v2 = op.type.endswith("_v2")
    method = op.attr("interp_method")
    if is_v2 or len(shape) != 4 or method not in _METHODS:
        method = named
    mode = _MODES[method]
    if op.dtype().kind != "f" and mode != "nearest":
        raise op.error(f"X must hold fractions, but it holds {op.dtype()}")
    attrs = _way(op, mode)
    rank = len(shape)
    if rank == 3:
        # ONNX Runtime interpolates images
        x = op.add("Unsqueeze", x, op.ints(2))
    made = _resized(op, x, shape, mode, is_v2, attrs)
    if rank == 3:
        made = op.add("Squeeze", made, op.ints(2))
    found = back(op, made, rank)
    op.put(found)


def _way(op: OpView, mode: str) -> dict[str, Any]:
    """The attributes that say how ONNX goes from a new pixel to an old one."""
    aligned = op.attr("align_corners")
    align_mode = op.attr("align_mode")
    attrs: dict[str, Any] = {"mode": mode}
    if mode == "nearest":
        attrs["nearest_mode"] = "round_prefer_ceil" if aligned else "floor"
    if mode == "cubic":
        attrs["cubic_coeff_a"] = -0.75
    if aligned:
        attrs["coordinate_transformation_mode"] = "align_corners"
    elif mode == "cubic" or (mode == "linear" and align_mode == 0):
        attrs["coordinate_transformation_mode"] = "pytorch_half_pixel"
    else:
        attrs["coordinate_transformation_mode"] = "asymmetric"
    return attrs


def _resized(op: OpView, x: str, shape: Sequence[int], mode: str, is_v2: bool, attrs: dict[str, Any]) -> str:
    names = ("out_d", "out_h", "out_w")[-(len(shape) - 2) :]
    one_more = [1] if len(shape) == 3 else []
    front_dims = op.dims(x, 0, 2)
    op.idle("out_d", "out_h", "out_w")
    if op.has("SizeTensor") or op.has("OutSize"):
        op.idle("scale", "Scale")
        sizes = op.sizes("OutSize", "SizeTensor", "")
    elif scales := _scales(op, len(names)):
        if is_v2 and attrs["coordinate_transformation_mode"] != "align_corners":
            scales = _without_idle(op, shape, scales)
            factors = op.graph.constant([1.0, 1.0, *one_more, *scales], np.float32)
            made = op.add("Resize", x, "", factors, **attrs)
            return str(made)
        sizes = _scaled(op, x, scales)
    else:
        wanted = [int(op.attr(name)) for name in names]
        if mode == "cubic" and 1 in wanted:
            raise op.error("a bicubic image of one pixel lies elsewhere")
        sizes = op.ints(*wanted)
    parts = [front_dims, *([op.ints(1)] if one_more else []), sizes]
    together = op.add("Concat", *parts, axis=0)
    resize = op.add("Resize", x, "", "", together, **attrs)
    return str(resize)


def _scales(op: OpView, count: int) -> list[float]:
    """The scale of each dimension; nothing where sizes say it."""
    if op.has("Scale"):
        op.idle("scale")
        given = [float(each) for each in op.parameter("Scale").reshape(-1)]
    else:
        scale = op.attr("scale")
        given = [float(each) for each in scale] if isinstance(scale, (list, tuple)) else [float(scale)]
    given = given * count if len(given) == 1 else given
    return given if given and all(each > 0 for each in given) else []


def _scaled(op: OpView, x: str, scales: Sequence[float]) -> str:
    """The sizes that come out: from them alone fluid's ops know how far pixels are apart, and those of 2.x
    between corners.
    """
    rank = 2 + len(scales)
    sizes = op.dims(x, 2, rank)
    spatial = op.cast(sizes, np.float32)
    scaled = op.add("Mul", spatial, op.graph.constant(scales, np.float32))
    floor = op.add("Floor", scaled)
    cast = op.cast(floor, np.int64)
    return cast


def _without_idle(op: OpView, shape: Sequence[int], scales: Sequence[float]) -> list[float]:
    """Scales, 1 for a dimension that keeps its size, which stays as it is here."""
    found = []
    for size, scale in zip(shape[2:], scales, strict=True):
        if size < 0 and 1 < scale < 1.5:
            raise op.error(f"a scale of {scale} leaves some sizes as they are, and the size is not known")
        found.append(1.0 if size >= 0 and int(size * np.float32(scale)) == size else scale)
    return found


# ----------------------------------------------------------------------- pixels as channels
@exports("pixel_shuffle")
def _pixel_shuffle(op: OpView) -> None:
    made = op.add("DepthToSpace", front(op), blocksize=int(op.attr("upscale_factor")), mode="CRD")
    found = back(op, made, 4)
    op.put(found)


def _rearranged(op: OpView, x: str, split: Sequence[int | str], order: Sequence[int], join: Any) -> str:
    """A value reshaped, transposed and reshaped; sizes are numbers or values."""
    parts = [each if isinstance(each, str) else op.ints(each) for each in split]
    concat = op.add("Concat", *parts, axis=0)
    apart = op.add("Reshape", x, concat)
    turned = op.add("Transpose", apart, perm=list(order))
    joined = [each if isinstance(each, str) else op.ints(each) for each in join]
    together = op.add("Concat", *joined, axis=0)
    reshaped = op.add("Reshape", turned, together)
    return str(reshaped)


@exports("shuffle_channel", "channel_shuffle")
def _shuffle_channel(op: OpView) -> None:
    groups = int(op.attr("group" if op.type == "shuffle_channel" else "groups"))
    x = front(op)
    channels = front_shape(op)[1]
    rest = op.dims(x, 2, 4)
    split: list[int | str] = [0, groups, channels // groups, rest]
    made = _rearranged(op, x, split, [0, 2, 1, 3, 4], [op.add("Shape", x)])
    found = back(op, made, 4)
    op.put(found)


@exports("space_to_depth")
def _space_to_depth(op: OpView) -> None:
    """Channels become places within blocks, and these numbers get another shape: as Paddle's op."""
    block = int(op.attr("blocksize"))
    channels = op.shape()[1]
    x = op.x()
    rows = op.dims(x, 2, 3)
    columns = op.dims(x, 3, 4)
    sides = [op.add("Div", side, op.ints(block)) for side in (rows, columns)]
    split: list[int | str] = [0, block, block, channels // block**2, rows, columns]
    deep = [op.dims(x, 0, 1), channels * block**2, *sides]
    op.put(_rearranged(op, x, split, [0, 3, 4, 1, 5, 2], deep))


@exports("pixel_unshuffle")
def _pixel_unshuffle(op: OpView) -> None:
    factor = int(op.attr("downscale_factor"))
    x = front(op)
    channels = front_shape(op)[1]
    sides = [op.add("Div", op.dims(x, axis, axis + 1), op.ints(factor)) for axis in (2, 3)]
    split: list[int | str] = [0, channels, sides[0], factor, sides[1], factor]
    join = [op.dims(x, 0, 1), channels * factor**2, *sides]
    made = back(op, _rearranged(op, x, split, [0, 1, 3, 5, 2, 4], join), 4)
    op.put(made)


@exports("temporal_shift")
def _temporal_shift(op: OpView) -> None:
    """Some channels come from the frame before, as many from that behind, zeros from outside."""
    steps = int(op.attr("seg_num"))
    x = front(op)
    channels = front_shape(op)[1]
    first = int(channels * op.attr("shift_ratio"))
    second = int(channels * 2 * op.attr("shift_ratio"))
    numbers = op.ints(-1, steps)
    sizes = op.dims(x, 1, 4)
    together = op.add("Concat", numbers, sizes, axis=0)
    frames = op.add("Reshape", x, together)
    parts = []
    for low, high, shift in ((0, first, 1), (first, second, -1), (second, channels, 0)):
        if low == high:
            continue
        part = op.add("Slice", frames, op.ints(low), op.ints(high), op.ints(2))
        if shift:
            pads = [0, int(shift > 0), 0, 0, 0, 0, int(shift < 0), 0, 0, 0]
            part = op.add("Pad", part, op.ints(*pads), op.number(0.0))
            start = 0 if shift > 0 else 1
            part = op.add("Slice", part, op.ints(start), op.ints(start + steps), op.ints(1))
        parts.append(part)
    shape = op.add("Shape", x)
    concat = op.add("Concat", *parts, axis=2)
    made = op.add("Reshape", concat, shape)
    found = back(op, made, 4)
    op.put(found)


# ----------------------------------------------------------------------- windows as rows
def _each_place(channels: int, window: Sequence[int]) -> Array:
    """The filters of a convolution that copies each element of a window into a channel of its own."""
    size = int(np.prod(window))
    reshaped = np.eye(size).reshape(size, 1, *window)
    return np.tile(reshaped, (channels, 1, 1, 1))


@exports("unfold")
def _unfold(op: OpView) -> None:
    window = list(op.attr("kernel_sizes"))
    channels = op.shape()[1]
    constant = op.graph.constant(_each_place(channels, window), op.dtype())
    strides = op.attr("strides")
    paddings = op.attr("paddings")
    dilations = op.attr("dilations")
    made = op.add(
        "Conv",
        op.x(),
        constant,
        kernel_shape=window,
        strides=list(strides),
        pads=list(paddings),
        dilations=list(dilations),
        group=channels,
    )
    found = op.add("Reshape", made, op.ints(0, 0, -1))
    op.put(found, "Y")


@exports("im2sequence")
def _im2sequence(op: OpView) -> None:
    """The rows of one image are one sequence."""
    if op.has("Y"):
        raise op.error("the images have sizes of their own")
    op.idle("out_stride")
    window = list(op.attr("kernels"))
    channels = op.shape()[1]
    constant = op.graph.constant(_each_place(channels, window), op.dtype())
    strides = op.attr("strides")
    paddings = op.attr("paddings")
    made = op.add(
        "Conv",
        _single(op, op.x()),
        constant,
        kernel_shape=window,
        strides=list(strides),
        pads=list(paddings),
        group=channels,
    )
    columns = channels * int(np.prod(window))
    transpose = op.add("Transpose", made, perm=[0, 2, 3, 1])
    reshaped = op.add("Reshape", transpose, op.ints(-1, columns))
    op.put(reshaped)


def _single(op: OpView, x: str) -> str:
    """A batch that holds one image; it fails as it runs with more, whose rows would be more sequences."""
    sizes = op.dims(x, 1, 4)
    shape = op.add("Concat", op.ints(1), sizes, axis=0)
    reshaped = op.add("Reshape", x, shape)
    return str(reshaped)


# ----------------------------------------------------------------------- grids
@exports("grid_sampler")
def _grid_sampler(op: OpView) -> None:
    op.idle("of_2x")
    is_volume = op.rank() == 5
    op.needs_opset(20 if is_volume else 16)
    mode = op.attr("mode")
    if mode != "bilinear":
        raise op.error(f"mode {mode!r}: at a half ONNX Runtime takes the even pixel, and fluid the next one")
    padding_mode = op.attr("padding_mode")
    align_corners = op.attr("align_corners")
    made = op.add(
        "GridSample",
        op.x(),
        op.x("Grid"),
        mode="linear" if op.graph.opset >= 20 else "bilinear",
        padding_mode=padding_mode,
        align_corners=int(bool(align_corners)),
    )
    op.put(made, "Output")


@exports("affine_grid")
def _affine_grid(op: OpView) -> None:
    if op.has("OutputShape"):
        op.idle("output_shape")
        sizes = [int(size) for size in op.parameter("OutputShape").reshape(-1)[2:]]
    else:
        sizes = [int(size) for size in op.attr("output_shape")[2:]]
    aligned = op.attr("align_corners")
    points = np.ones((*sizes, len(sizes) + 1))
    for axis, size in enumerate(sizes):
        line = np.linspace(-1, 1, size) * (1 if aligned else (size - 1) / size)
        points[..., len(sizes) - 1 - axis] = line.reshape(-1, *(1,) * (len(sizes) - 1 - axis))
    flat = op.graph.constant(points.reshape(-1, len(sizes) + 1), op.dtype("Theta"))
    turned = op.add("Transpose", op.x("Theta"), perm=[0, 2, 1])
    made = op.add("MatMul", flat, turned)
    reshaped = op.add("Reshape", made, op.ints(0, *sizes, len(sizes)))
    op.put(reshaped, "Output")
