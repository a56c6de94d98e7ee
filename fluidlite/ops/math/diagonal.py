"""Diagonals and triangles of matrices: tril_triu, trace, diag_embed."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required, same_as


def _axes(type: str, rank: int, dim1: int, dim2: int) -> tuple[int, int]:
    """Both dimensions counted from 0, the lower first as in Paddle; ShapeError where they are the same or
    not there.
    """
    if rank < 2 or not (-rank <= dim1 < rank and -rank <= dim2 < rank) or dim1 % rank == dim2 % rank:
        raise ShapeError(f"op {type!r}: dim1 {dim1} and dim2 {dim2} do not name two of {rank} dimensions")
    first, second = sorted((dim1 % rank, dim2 % rank))
    return first, second


tril_triu = Op("tril_triu", "X -> Out", attrs={"diagonal": 0, "lower": required(AttrType.BOOLEAN)})
tril_triu.shape(same_as("X"))


def _triangle(xp: Any, x: Array, diagonal: int, lower: bool) -> Array:
    result: Array = xp.tril(x, diagonal) if lower else xp.triu(x, diagonal)
    return result


@tril_triu.kernel
def _(xp: Any, X: Array, diagonal: int, lower: bool) -> Array:
    return _triangle(xp, X, diagonal, lower)


@tril_triu.grad("X")
def _(xp: Any, dOut: Array, diagonal: int, lower: bool) -> Array:
    return _triangle(xp, dOut, diagonal, lower)


trace = Op("trace", "Input -> Out", attrs={"offset": 0, "dim1": -2, "dim2": -1}, lod=None)


@trace.shape
def _(Input: Spec, dim1: int, dim2: int) -> Spec:
    axes = _axes("trace", len(Input.shape), dim1, dim2)
    return Input.with_shape([dim for i, dim in enumerate(Input.shape) if i not in axes] or (1,))


@trace.kernel
def _(xp: Any, Input: Array, offset: int, dim1: int, dim2: int) -> Array:
    out = xp.asarray(xp.trace(Input, offset, *_axes("trace", Input.ndim, dim1, dim2), dtype=Input.dtype))
    return out.reshape(1) if out.ndim == 0 else out


@trace.grad("Input")
def _(xp: Any, Input: Array, dOut: Array, offset: int, dim1: int, dim2: int) -> Array:
    axes = _axes("trace", Input.ndim, dim1, dim2)
    rows, columns = Input.shape[axes[0]], Input.shape[axes[1]]
    ones = xp.arange(rows)[:, None] + offset == xp.arange(columns)
    lead = dOut.reshape([dim for i, dim in enumerate(Input.shape) if i not in axes])
    return xp.moveaxis(lead[..., None, None] * ones.astype(dOut.dtype), (-2, -1), axes)


diag_embed = Op("diag_embed", "Input -> Out", attrs={"offset": 0, "dim1": -2, "dim2": -1}, lod=None)


@diag_embed.shape
def _(Input: Spec, offset: int, dim1: int, dim2: int) -> Spec:
    axes = _axes("diag_embed", len(Input.shape) + 1, dim1, dim2)
    size = Input.shape[-1] + abs(offset) if Input.shape[-1] >= 0 else -1
    dims = list(Input.shape[:-1])
    for axis in axes:
        dims.insert(axis, size)
    return Input.with_shape(dims)


@diag_embed.kernel
def _(xp: Any, Input: Array, offset: int, dim1: int, dim2: int) -> Array:
    count = Input.shape[-1]
    size = count + abs(offset)
    out = xp.zeros((*Input.shape[:-1], size, size), Input.dtype)
    steps = xp.arange(count)
    out[..., steps + max(-offset, 0), steps + max(offset, 0)] = Input
    return xp.ascontiguousarray(xp.moveaxis(out, (-2, -1), _axes("diag_embed", out.ndim, dim1, dim2)))
