"""Overlaps of polygons in arrays [..., 2 * corners] of x and y in turn, computed on the host."""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["neighbour_polygon_overlaps", "paired_polygon_overlaps", "polygon_overlaps"]


def _fan(polygons: Array) -> tuple[Array, Array]:
    """The triangles [N, corners - 2, 3, 2] that all have the polygon's first corner, each counter-clockwise,
    and their signs.

    A polygon is the sum of these triangles with the signs of their areas, also where it is not convex.
    """
    corners = polygons.reshape(len(polygons), polygons.shape[1] // 2, 2).astype(np.float64)
    first = np.broadcast_to(corners[:, :1], corners[:, 2:].shape)
    triangles = np.stack((first, corners[:, 1:-1], corners[:, 2:]), axis=2)
    doubled = _cross(triangles[:, :, 1] - triangles[:, :, 0], triangles[:, :, 2] - triangles[:, :, 0])
    turned = np.where((doubled < 0)[..., None, None], triangles[:, :, ::-1], triangles)
    return turned, np.sign(doubled)


def _cross(left: Array, right: Array) -> Array:
    product: Array = left[..., 0] * right[..., 1] - left[..., 1] * right[..., 0]
    return product


def _polygon_areas(polygons: Array) -> Array:
    corners = polygons.reshape(len(polygons), polygons.shape[1] // 2, 2).astype(np.float64)
    area: Array = np.abs(_cross(corners, np.roll(corners, -1, axis=1)).sum(axis=1)) / 2
    return area


def _edges_inside(inner: Array, outer: Array, own_border: bool) -> Array:
    """Twice the area, [N], that the edges of triangles `inner` enclose as far as they lie in the triangles
    `outer` (Green's theorem: half the sum of cross products of the ends of each piece).

    Where two edges lie on each other, one in each triangle, the piece counts once: for the triangles that are
    asked with `own_border`, and if both run the same way.
    """
    start = inner[:, :, None]
    along = np.roll(inner, -1, axis=1)[:, :, None] - start
    border = np.roll(outer, -1, axis=1) - outer
    border = border[:, None]
    # an edge of the one against a line of the other, [N, 3, 3]: how far inside it starts, and where it goes
    depth = _cross(border, start - outer[:, None])
    slope = _cross(border, along)
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = -depth / slope
    enters = np.where(slope > 0, meets, -np.inf).max(axis=2).clip(0, 1)
    leaves = np.where(slope < 0, meets, np.inf).min(axis=2).clip(0, 1)
    if own_border:
        on_line = (along * border).sum(axis=-1) > 0
    else:
        on_line = False
    beside = (slope != 0) | (depth > 0) | ((depth == 0) & on_line)
    inside = beside.all(axis=2) & (leaves > enters)
    ends = [start[:, :, 0] + at[..., None] * along[:, :, 0] for at in (enters, leaves)]
    total: Array = np.where(inside, _cross(*ends), 0).sum(axis=1)
    return total


def _triangle_intersections(left: Array, right: Array) -> Array:
    """Areas, [N], that pairs of triangles [N, 3, 2] share."""
    # near the origin cross products lose fewer digits
    origin = left[:, :1]
    left = left - origin
    right = right - origin
    shared: Array = (_edges_inside(left, right, True) + _edges_inside(right, left, False)) / 2
    return shared


def paired_polygon_overlaps(left: Array, right: Array) -> Array:
    """Intersection over union of N pairs of polygons, [N]."""
    triangles, signs = _fan(left)
    others, other_signs = _fan(right)
    shared = np.zeros(len(left))
    for i in range(triangles.shape[1]):
        for j in range(others.shape[1]):
            product = signs[:, i] * other_signs[:, j]
            shared += product * _triangle_intersections(triangles[:, i], others[:, j])
    shared = np.abs(shared)
    union = _polygon_areas(left) + _polygon_areas(right) - shared
    result: Array = (shared / np.where(union == 0, 1, union)).astype(left.dtype)
    return result


def _bounds(polygons: Array) -> tuple[Array, Array]:
    corners = polygons.reshape(len(polygons), polygons.shape[1] // 2, 2)
    return corners.min(axis=1), corners.max(axis=1)


def polygon_overlaps(left: Array, right: Array) -> Array:
    """Intersection over union, [N, M], of N polygons with M others.

    Only pairs whose bounding boxes meet are looked at: of boxes of text few do.
    """
    low, high = _bounds(left)
    other_low, other_high = _bounds(right)
    meet = (low[:, None] < other_high) & (other_low < high[:, None])
    rows, columns = np.nonzero(meet.all(axis=2))
    out = np.zeros((len(left), len(right)), left.dtype)
    out[rows, columns] = paired_polygon_overlaps(left[rows], right[columns])
    return out


def neighbour_polygon_overlaps(polygons: Array) -> Array:
    """Intersection over union, [N - 1], of each polygon but the first with the one before it."""
    low, high = _bounds(polygons)
    begins_before = low[1:] < high[:-1]
    ends_behind = low[:-1] < high[1:]
    rows = np.flatnonzero((begins_before & ends_behind).all(axis=1))
    out = np.zeros(len(low[1:]), polygons.dtype)
    out[rows] = paired_polygon_overlaps(polygons[rows + 1], polygons[rows])
    return out
