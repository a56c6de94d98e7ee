"""ONNX ops on images: other sizes, blocks as channels, samples at points, overlapping boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads
from fluidlite.saving.onnx.loading.rules.shapes import row_of

# ----------------------------------------------------------------------- other sizes
_WAYS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("nearest", "align_corners", "round_prefer_ceil"): {"align_corners": True},
    ("nearest", "asymmetric", "floor"): {"align_corners": False},
    ("linear", "align_corners", ""): {"align_corners": True},
    ("linear", "half_pixel", ""): {"align_corners": False, "align_mode": 0},
    ("linear", "pytorch_half_pixel", ""): {"align_corners": False, "align_mode": 0},
    ("linear", "asymmetric", ""): {"align_corners": False, "align_mode": 1},
    ("cubic", "align_corners", ""): {"align_corners": True},
    ("cubic", "half_pixel", ""): {"align_corners": False},
    ("cubic", "pytorch_half_pixel", ""): {"align_corners": False},
}
"""Mode, way from a new pixel to an old one, way to round -> attributes of the op."""
_KINDS = {
    "linear": ("linear", "bilinear", "trilinear"),
    "cubic": ("", "bicubic", ""),
    "nearest": ("nearest",) * 3,
}


@reads("Resize")
def _resize(op: NodeView) -> None:
    mode = op.attr("mode")
    way = op.attr("coordinate_transformation_mode")
    rounding = op.attr("nearest_mode") if mode == "nearest" else ""
    if way == "half_pixel" and rounding.startswith("round_prefer") and _is_whole_factor(op):
        # each pixel several times: no new one lies half-way between two
        way = "asymmetric"
        rounding = "floor"
    attrs: dict[str, Any] | None = _WAYS.get((mode, way, rounding))
    if attrs is None:
        raise op.error(f"the ways {mode!r}, {way!r}, {rounding!r} are together nothing that fluid has")
    if mode == "cubic" and op.attr("cubic_coeff_a") != -0.75:
        raise op.error(
            f"its attribute 'cubic_coeff_a' is {op.attr('cubic_coeff_a')}, and the rule knows -0.75"
        )
    op.idle("nearest_mode", "cubic_coeff_a", "extrapolation_value")
    if op.has(1) and op.value(1).shape != (0,):
        raise op.error("it has a region of interest")
    axes = [op.axis(axis) for axis in op.attr("axes") or range(op.rank())]
    x = op.x()
    count = op.rank() - 2
    wide = [2] if count == 1 and mode == "nearest" else []
    more = len(wide)
    x = op.unsqueezed(x, wide)
    kind = _KINDS[mode][count + more - 1] if 1 <= count + more <= 3 else ""
    if not kind:
        raise op.error(f"mode {mode!r} of {count} dimensions")
    attrs = {**attrs, "interp_method": kind}
    inputs: dict[str, Any] = {"X": x}
    if op.has(2) and op.value(2).shape != (0,):
        attrs["scale"] = [1.0] * more + _scales(op, axes)
    else:
        _with_sizes(op, axes, more, inputs, attrs)
    made = op.emit(f"{kind}_interp_v2", inputs, attrs)
    narrow = op.squeezed(made, wide)
    op.put(narrow)


def _is_whole_factor(op: NodeView) -> bool:
    """True if every size becomes a known multiple of itself."""
    axes = [op.axis(axis) for axis in op.attr("axes") or range(op.rank())]
    if op.has(2) and op.value(2).shape != (0,):
        factors = op.value(2).array
        return factors is not None and bool((factors == np.floor(factors)).all() and (factors >= 1).all())
    sizes = op.value(3).array
    before = [op.shape()[axis] for axis in axes]
    return sizes is not None and all(
        old > 0 and new % old == 0 for old, new in zip(before, sizes.reshape(-1), strict=True)
    )


def _scales(op: NodeView, axes: Sequence[int]) -> list[float]:
    """Factors of the spatial dimensions; those that mean something else to fluid are refused."""
    given = dict(zip(axes, op.array(2).reshape(-1).tolist(), strict=True))
    if given.get(0, 1) != 1 or given.get(1, 1) != 1:
        raise op.error(f"it scales batch or channels by {list(given.values())[:2]}")
    found = [given.get(axis, 1.0) for axis in range(2, op.rank())]
    way = op.attr("coordinate_transformation_mode")
    is_aligned = way == "align_corners"
    # of one pixel it is another one
    counts = op.attr("mode") == "cubic" or way == "half_pixel"
    for size, scale in zip(op.shape()[2:], found, strict=True):
        # an image that keeps its size stays as it is in fluid
        keeps = 1 < scale < 1.5 if size < 0 else scale != 1 and int(size * np.float32(scale)) == size
        # between corners ONNX's reference counts pixels that are cut off, and ONNX Runtime does not
        whole = scale if size < 0 else size * np.float32(scale)
        keeps = keeps or (is_aligned and whole != int(whole))
        if keeps or (counts and scale < 1 and (size < 0 or size * scale < 2)):
            raise op.error(f"a scale of {scale} of {size} pixels")
    return found


def _with_sizes(
    op: NodeView, axes: Sequence[int], more: int, inputs: dict[str, Any], attrs: dict[str, Any]
) -> None:
    """The sizes that come out, as attributes or as variables."""
    if axes != list(range(op.rank())) and axes != list(range(2, op.rank())):
        raise op.error(f"sizes of the axes {list(axes)}")
    first = 2 if axes[0] == 0 else 0
    names = ("out_d", "out_h", "out_w")[-(op.rank() - 2 + more) :]
    value = op.value(3)
    parts = list(value.parts.reshape(-1)) if value.parts is not None else [None] * len(axes)
    spatial = [1] * more + parts[first:]
    way = op.attr("coordinate_transformation_mode")
    if (op.attr("mode") == "cubic" and 1 in spatial) or (way == "half_pixel" and not _are_many(spatial)):
        raise op.error(f"{way!r} of images of one pixel, or of an unknown number")
    if all(isinstance(part, int) for part in spatial):
        attrs |= dict(zip(names, spatial, strict=True))
        return
    fourth = op.x(3)
    cast = op.cast(fourth, np.int32)
    count = len(axes)
    row = row_of(op, cast, count)
    inputs["SizeTensor"] = [op.fixed([1], np.int32)] * more + row[first:]


def _are_many(sizes: Sequence[Any]) -> bool:
    """True if all sizes are known, and more than 1."""
    return all(isinstance(size, int) and size > 1 for size in sizes)


# ----------------------------------------------------------------------- blocks as channels
def _rearranged(
    op: NodeView, x: Variable, split: Sequence[int], order: Sequence[int], join: Sequence[int]
) -> Variable:
    apart = op.reshaped(x, split)
    turned = op.transposed(apart, order)
    return op.reshaped(turned, join)


@reads("DepthToSpace")
def _depth_to_space(op: NodeView) -> None:
    block = op.attr("blocksize")
    _, channels, rows, columns = op.shape()
    if op.attr("mode") == "CRD":
        x = op.x()
        shuffled = op.one("pixel_shuffle", x, upscale_factor=block)
        op.put(shuffled)
        return
    if min(channels, rows, columns) < 0:
        raise op.error(f"mode 'DCR' of {list(op.shape())}, whose sizes are not known")
    depth = channels // block**2
    split = [-1, block, block, depth, rows, columns]
    flat = [-1, depth, rows * block, columns * block]
    made = _rearranged(op, op.x(), split, [0, 3, 4, 1, 5, 2], flat)
    op.put(made)


@reads("SpaceToDepth")
def _space_to_depth(op: NodeView) -> None:
    block = op.attr("blocksize")
    _, channels, rows, columns = op.shape()
    if min(channels, rows, columns) < 0:
        raise op.error(f"an image of {list(op.shape())}, whose sizes are not known")
    split = [-1, channels, rows // block, block, columns // block, block]
    join = [-1, channels * block**2, rows // block, columns // block]
    x = op.x()
    made = _rearranged(op, x, split, [0, 3, 5, 1, 2, 4], join)
    op.put(made)


# ----------------------------------------------------------------------- samples and boxes
_SAMPLES = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest"}


@reads("GridSample")
def _grid_sample(op: NodeView) -> None:
    mode = _SAMPLES.get(op.attr("mode"))
    if mode != "bilinear":
        raise op.error(f"its attribute 'mode' is {op.attr('mode')!r}, and the rule knows 'linear' alone")
    padding_mode = op.attr("padding_mode")
    align_corners = bool(op.attr("align_corners"))
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    x = op.x()
    second = op.x(1)
    made = op.emit("grid_sampler", {"X": x, "Grid": second}, attrs, slot="Output")
    op.put(made)


@reads("RoiAlign")
def _roi_align(op: NodeView) -> None:
    """Regions of the images, each with the number of its image; ops of fluid want those of one together."""
    if op.attr("mode") != "avg":
        raise op.error(f"its attribute 'mode' is {op.attr('mode')!r}, and the rule knows 'avg' alone")
    output_height = op.attr("output_height")
    output_width = op.attr("output_width")
    spatial_scale = op.attr("spatial_scale")
    attrs = {
        "pooled_height": output_height,
        "pooled_width": output_width,
        "sampling_ratio": op.attr("sampling_ratio") or -1,
        "spatial_scale": spatial_scale,
        "aligned": op.attr("coordinate_transformation_mode") == "half_pixel",
    }
    images = op.shape()[0]
    if images < 0:
        raise op.error("the number of images is not known")
    third = op.x(2)
    number = op.cast(third, np.int64)
    _, order = op.emit_all("argsort", {"X": number}, {"axis": 0}, {"Out": 1, "Indices": 1})
    _, back = op.emit_all("argsort", {"X": order}, {"axis": 0}, {"Out": 1, "Indices": 1})
    wide = op.unsqueezed(number, [1])
    constant = op.fixed(np.arange(images)[None], np.int64)
    is_of = op.two("equal", wide, constant)
    cast = op.cast(is_of, np.int32)
    counts = op.one("reduce_sum", cast, dim=[0])
    second = op.x(1)
    rois = op.emit("gather", {"X": second, "Index": order}, {"axis": 0})
    x = op.x()
    converted = op.cast(counts, np.int32)
    inputs = {"X": x, "ROIs": rois, "RoisNum": converted}
    made = op.emit("roi_align", inputs, attrs)
    taken = op.emit("gather", {"X": made, "Index": back}, {"axis": 0})
    op.put(taken)


@reads("NonMaxSuppression")
def _non_max_suppression(op: NodeView) -> None:
    """Rows of batch, class and box, by the index that `multiclass_nms3` gives: of all boxes of the batch."""
    most = int(op.array(2).reshape(-1)[0]) if op.has(2) else 0
    boxes = op.shape()[1]
    if op.attr("center_point_box") or not 0 <= boxes <= most:
        raise op.error(f"at most {most} of {boxes} boxes, given by their {_corners(op)}")
    limits = [float(op.array(place).reshape(-1)[0]) if op.has(place) else 0.0 for place in (3, 4)]
    attrs = {
        "background_label": -1,
        "score_threshold": limits[1],
        "nms_top_k": -1,
        "keep_top_k": -1,
        "nms_threshold": limits[0],
        "normalized": True,
    }
    slots = {"Out": 1, "Index": 1, "NmsRoisNum": 1}
    x = op.x(0)
    second = op.x(1)
    inputs = {"BBoxes": x, "Scores": second}
    rows, index, _ = op.emit_all("multiclass_nms3", inputs, attrs, slots)
    # how many there are the run alone knows
    rows.desc.set_shape([-1, 6])
    index.desc.set_shape([-1, 1])
    index = op.cast(index, np.int64)
    part = op.part(rows, 1, 0, 1)
    label = op.cast(part, np.int64)
    size = op.fixed(boxes, np.int64)
    batch = op.two("elementwise_floordiv", index, size)
    box = op.two("elementwise_mod", index, size)
    joined = op.emit("concat", {"X": [batch, label, box]}, {"axis": 1})
    op.put(joined)


def _corners(op: NodeView) -> str:
    return "centres" if op.attr("center_point_box") else "corners"
