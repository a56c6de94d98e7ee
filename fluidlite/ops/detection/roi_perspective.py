"""roi_perspective_transform: quadrilaterals of an image, each pulled straight into a rectangle."""

from __future__ import annotations

from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import Lod, Op, Spec
from fluidlite.ops.kernels.regions import check_positive, check_regions, images_by_offsets, round_half_away
from fluidlite.ops.kernels.sampled_rows import RowSampler, bilinear_corners, image_of_pixels, pixels_of
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"
Attrs: TypeAlias = "dict[str, Any]"

_TOLERANCE = 1e-4  # what 1.8.5 takes for equal
_ATTRS = {"spatial_scale": 1.0, "transformed_height": 1, "transformed_width": 1}
roi_perspective_transform = Op(
    "roi_perspective_transform",
    "X. ROIs. -> Out Mask TransformMatrix Out2InIdx Out2InWeights",
    attrs=_ATTRS,
    lod="ROIs",
    constants=("ROIs", "TransformMatrix", "Out2InWeights"),
)


@roi_perspective_transform.shape
@with_attrs(_ATTRS)
def _(X: Spec, ROIs: Spec, attrs: Attrs) -> dict[str, Spec]:
    check_regions("roi_perspective_transform", X, ROIs, columns=8)
    check_positive("roi_perspective_transform", **attrs)
    regions = ROIs.shape[0]
    size = (attrs["transformed_height"], attrs["transformed_width"])
    full = (regions, X.shape[1], *size)
    return {
        "Out": Spec(full, X.dtype),
        "Mask": Spec((regions, 1, *size), VarType.INT32),
        "TransformMatrix": X.with_shape((regions, 9)),
        "Out2InIdx": Spec(full, VarType.INT32),
        "Out2InWeights": X.with_shape(full),
    }


def _matrices(xp: Any, x: Array, y: Array, height: int, width: int) -> Array:
    """(R, 9): the perspective maps from the rectangle to quadrilaterals with corners (R, 4), clockwise.

    The rectangle keeps the proportions of the quadrilateral, as far as `width` goes.
    """
    across = x - xp.roll(x, -1, 1)
    down = y - xp.roll(y, -1, 1)
    edges = xp.sqrt(across**2 + down**2)
    wide = (edges[:, 0] + edges[:, 2]) / 2
    high = (edges[:, 1] + edges[:, 3]) / 2
    rows = max(2, height)
    columns = xp.clip(round_half_away(xp, wide * (rows - 1) / high) + 1, 2, max(width, 2))
    dx1 = x[:, 1] - x[:, 2]
    dx2 = x[:, 3] - x[:, 2]
    dx3 = x[:, 0] - x[:, 1] + x[:, 2] - x[:, 3]
    dy1 = y[:, 1] - y[:, 2]
    dy2 = y[:, 3] - y[:, 2]
    dy3 = y[:, 0] - y[:, 1] + y[:, 2] - y[:, 3]
    spread = dx1 * dy2 - dx2 * dy1 + 1e-5
    m6 = (dx3 * dy2 - dx2 * dy3) / spread / (columns - 1)
    m7 = (dx1 * dy3 - dx3 * dy1) / spread / (rows - 1)
    out = []
    for place in (x, y):
        first, second, _, last = place.T
        out += [
            (second - first + m6 * (columns - 1) * second) / (columns - 1),
            (last - first + m7 * (rows - 1) * last) / (rows - 1),
            first,
        ]
    return xp.stack([*out, m6, m7, xp.ones_like(m6)], axis=1)


def _sources(xp: Any, matrices: Array, height: int, width: int) -> tuple[Array, Array]:
    """(R, height * width) each: the y and x in the image of every pixel of the rectangles."""
    row, column = (part.reshape(-1) for part in xp.indices((height, width)))
    points = xp.stack([column, row, xp.ones_like(row)]).astype(matrices.dtype)
    u, v, w = xp.matmul(matrices.reshape(-1, 3, 3), points).swapaxes(0, 1)
    return v / w, u / w


def _inside(xp: Any, y: Array, x: Array, ys: Array, xs: Array) -> Array:
    """True for the points (R, P) in quadrilaterals (R, 4), or on their edges within the tolerance."""
    crossings = xp.zeros(y.shape, "int64")
    on_edge = xp.zeros(y.shape, bool)
    for corner in range(4):
        x0, y0, x1, y1 = (part[:, (corner + more) % 4, None] for more in (0, 1) for part in (xs, ys))
        level = xp.abs(y0 - y1) < _TOLERANCE
        beside = (x >= xp.minimum(x0, x1) - _TOLERANCE) & (x <= xp.maximum(x0, x1) + _TOLERANCE)
        cut = (y - y0) * (x1 - x0) / xp.where(level, 1, y1 - y0) + x0
        between = (y >= xp.minimum(y0, y1) - _TOLERANCE) & (y <= xp.maximum(y0, y1) + _TOLERANCE)
        on_edge |= xp.where(
            level,
            (xp.abs(y - y0) < _TOLERANCE) & (xp.abs(y - y1) < _TOLERANCE) & beside,
            (xp.abs(cut - x) < _TOLERANCE) & between,
        )
        below = y > xp.minimum(y0, y1) + _TOLERANCE  # an edge's upper end does not count, its lower one does
        crossed = ~level & below & (y <= xp.maximum(y0, y1) + _TOLERANCE)
        crossings += crossed & (cut > x + _TOLERANCE)
    return on_edge | (crossings % 2 == 1)


def _straightened(xp: Any, X: Array, ROIs: Array, lod: Lod, attrs: Attrs) -> tuple[RowSampler, Array, Array]:
    """The sampler of the rectangles' pixels, True for those (R, P) with a source, and the maps."""
    n, _, height, width = X.shape
    images = images_by_offsets(xp, "roi_perspective_transform", len(ROIs), n, lod)
    corners = ROIs * ROIs.dtype.type(attrs["spatial_scale"])
    xs = corners[:, 0::2]
    ys = corners[:, 1::2]
    size = attrs["transformed_height"], attrs["transformed_width"]
    matrices = _matrices(xp, xs, ys, *size)
    y, x = _sources(xp, matrices, *size)
    near = _inside(xp, y, x, ys, xs)
    low = -0.5 + _TOLERANCE
    right = width - 0.5 - _TOLERANCE
    bottom = height - 0.5 - _TOLERANCE
    near &= (x > low) & (x < right) & (y > low) & (y < bottom)
    y = xp.clip(y, 0, height - 1)
    x = xp.clip(x, 0, width - 1)
    places, weights, _, _ = bilinear_corners(xp, y, x, height, width)
    rows = images[:, None, None] * (height * width) + places
    owners = xp.broadcast_to(xp.arange(near.size).reshape(*near.shape, 1), rows.shape)
    weights = (weights * near[:, :, None]).astype(X.dtype)
    flat = owners.reshape(-1), rows.reshape(-1), weights.reshape(-1)
    return RowSampler.of_owners(xp, *flat, near.size, n * height * width), near, matrices


@roi_perspective_transform.kernel
@with_attrs(_ATTRS)
def _(xp: Any, X: Array, ROIs: Array, ROIs_lod: Lod, attrs: Attrs) -> dict[str, Array]:
    sampler, near, matrices = _straightened(xp, X, ROIs, ROIs_lod, attrs)
    shape = (len(ROIs), X.shape[1], attrs["transformed_height"], attrs["transformed_width"])
    return {
        "Out": image_of_pixels(xp, sampler.read(pixels_of(xp, X)), shape),
        "Mask": near.astype("int32").reshape(len(ROIs), 1, *shape[2:]),
        "TransformMatrix": matrices,
        # 1.8.5 fills these two on a GPU only, for its own gradient
        "Out2InIdx": xp.zeros(shape, "int32"),
        "Out2InWeights": xp.zeros(shape, X.dtype),
    }


@roi_perspective_transform.grad("X")
@with_attrs(_ATTRS)
def _(
    xp: Any,
    X: Array,
    ROIs: Array,
    ROIs_lod: Lod,
    Out2InIdx: Maybe,
    Out2InWeights: Maybe,
    dOut: Array,
    attrs: Attrs,
) -> Array:
    sampler, _, _ = _straightened(xp, X, ROIs, ROIs_lod, attrs)
    return image_of_pixels(xp, sampler.spread(pixels_of(xp, dOut)), X.shape)
