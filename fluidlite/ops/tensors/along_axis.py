"""Elements by their places along one dimension: take_along_axis, put_along_axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec, later
from fluidlite.ops.kernels.numbers import summed_to
from fluidlite.ops.kernels.overwriting import stays
from fluidlite.values.tensor import host

_REDUCTIONS = ("assign", "add", "mul", "multiply", "mean", "amax", "amin")


def _along(xp: Any, index: Array, axis: int) -> tuple[Any, ...]:
    """The full index that picks `index` along `axis`, each other dimension at its own place."""
    axis %= index.ndim
    grids = xp.ogrid[tuple(slice(0, dim) for dim in index.shape)]
    return tuple(index if i == axis else grid for i, grid in enumerate(grids))


def _check_index(type: str, Input: Spec, Index: Spec, axis: int) -> None:
    """ShapeError unless Index has the rank of Input, and fits into it in all dimensions but `axis`."""
    rank = len(Input.shape)
    if len(Index.shape) != rank:
        raise ShapeError(
            f"op {type!r}: Index{list(Index.shape)} must have as many dimensions as Input{list(Input.shape)}"
        )
    for i, (size, count) in enumerate(zip(Input.shape, Index.shape, strict=True)):
        if i != axis % rank and 0 <= size < count:
            raise ShapeError(
                f"op {type!r}: Index{list(Index.shape)} is larger than Input{list(Input.shape)} in "
                f"dimension {i}, which is allowed only along axis {axis}"
            )


# ---------------------------------------------------------------------- take
take_along_axis = Op("take_along_axis", "Input Index -> Result", attrs={"Axis": 0}, lod=None)


@take_along_axis.shape
def _(Input: Spec, Index: Spec, Axis: int) -> Spec:
    _check_index("take_along_axis", Input, Index, Axis)
    return Input.with_shape(Index.shape)


@take_along_axis.kernel
def _(xp: Any, Input: Array, Index: Array, Axis: int) -> Array:
    taken: Array = Input[_along(xp, Index, Axis)]
    return taken


@take_along_axis.grad("Input")
def _(xp: Any, Input: Array, Index: Array, dResult: Array, Axis: int) -> Array:
    out = xp.zeros(Input.shape, dResult.dtype)
    xp.add.at(out, _along(xp, Index, Axis), dResult)
    return out


# ---------------------------------------------------------------------- put
put_along_axis = Op(
    "put_along_axis",
    "Input Index Value -> Result",
    attrs={"Axis": 0, "Reduce": "assign", "Include_self": later(True)},
    alike=("Input", "Value"),
)


@put_along_axis.shape
def _(Input: Spec, Index: Spec, Axis: int, Reduce: str) -> Spec:
    if Reduce not in _REDUCTIONS:
        raise ShapeError(
            f"op 'put_along_axis': Reduce must be one of {', '.join(_REDUCTIONS)}, not {Reduce!r}"
        )
    _check_index("put_along_axis", Input, Index, Axis)
    return Input


def _extremes(dtype: Any) -> tuple[Any, Any]:
    """The smallest and the largest number of a dtype."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def _counts(xp: Any, like: Array, where: Any, include_self: bool) -> Array:
    """The number of values that meet in each place: of the old one, where it counts, and of the new ones."""
    counts = xp.full(like.shape, int(include_self), "int32")  # CuPy adds at places in int32
    xp.add.at(counts, where, 1)
    return counts


def _multiply_at(xp: Any, out: Array, where: Any, value: Array) -> None:
    """Multiply the places `where` of `out` by `value`, once for each time that a place is named."""
    # CuPy has no multiply.at
    found = host(out)
    np.multiply.at(found, tuple(map(host, where)), host(value))
    out[...] = xp.asarray(found)


@put_along_axis.kernel
def _(xp: Any, Input: Array, Index: Array, Value: Array, Axis: int, Reduce: str, Include_self: bool) -> Array:
    out = Input.copy()
    where = _along(xp, Index, Axis)
    value = xp.broadcast_to(Value, Index.shape)
    if Reduce == "assign":
        out[where] = value
        return out
    if not Include_self:
        smallest, largest = _extremes(out.dtype) if Reduce in ("amax", "amin") else (0, 0)
        neutral = {"amax": smallest, "amin": largest, "mul": 1, "multiply": 1}
        out[where] = neutral.get(Reduce, 0)
    if Reduce in ("mul", "multiply"):
        _multiply_at(xp, out, where, value)
        return out
    {"amax": xp.maximum, "amin": xp.minimum}.get(Reduce, xp.add).at(out, where, value)
    if Reduce == "mean":
        # whole numbers are cut, as in Paddle; a place without a new value is the mean of its old one
        counts = xp.maximum(_counts(xp, out, where, Include_self), 1)
        return (out / counts).astype(out.dtype)
    return out


@put_along_axis.grad("Input Value")
def _(
    xp: Any,
    Input: Array,
    Index: Array,
    Value: Array,
    Result: Array,
    dResult: Array,
    Axis: int,
    Reduce: str,
    Include_self: bool,
) -> tuple[Array, Array]:
    where = _along(xp, Index, Axis)
    value = xp.broadcast_to(Value, Index.shape)
    touched = xp.zeros(Input.shape, bool)
    touched[where] = True
    old = ~touched | (Include_self and Reduce != "assign")
    if Reduce == "assign":
        of_input = xp.ones(Input.shape, bool)
        of_value = stays(xp, Input.shape, where)
    elif Reduce in ("mul", "multiply"):
        of_input, of_value = _other_factors(xp, Input, where, value, old)
    elif Reduce in ("amax", "amin"):
        of_input, of_value = _shares(xp, Input, Result, where, value, old)
    else:
        counts = _counts(xp, Input, where, Include_self) if Reduce == "mean" else xp.ones(Input.shape, int)
        of_input = 1 / xp.maximum(counts, 1)
        of_value = of_input[where]
    d_input = _share_of(xp, dResult, xp.where(old, of_input, 0)).astype(Input.dtype)
    d_value = _share_of(xp, dResult[where], of_value).astype(Value.dtype)
    return d_input, summed_to(d_value, Value.shape)


def _share_of(xp: Any, d: Array, factor: Array) -> Any:
    """d * factor, and nothing where the factor is 0, be d infinite."""
    return xp.where((factor == 0) & ~xp.isfinite(d), 0, d * factor)


def _other_factors(xp: Any, old_value: Array, where: Any, value: Array, old: Array) -> tuple[Array, Array]:
    """For the old and the new values the product of the other factors of their places, without a division:
    zeros and infinities may be among them, and it is differentiated again.
    """
    size = old_value.size
    numbers = xp.arange(size).reshape(old_value.shape)[where]
    place = xp.concatenate([xp.arange(size), numbers.reshape(-1)])
    factor = xp.concatenate([xp.where(old, old_value, 1).reshape(-1), value.reshape(-1)])
    order = xp.argsort(place, kind="stable")
    back = xp.argsort(order, kind="stable")
    most = int(xp.bincount(place, minlength=1).max())
    place = place[order]
    factor = factor[order]
    ahead = _before(xp, place, factor, most)
    behind = _before(xp, place[::-1], factor[::-1], most)
    others = (ahead * behind[::-1])[back]
    return others[:size].reshape(old_value.shape), others[size:].reshape(value.shape)


def _before(xp: Any, place: Array, factor: Array, most: int) -> Array:
    """The products of the factors in front of each one in its place, of at most `most` factors a place.

    Invariant: before the step of `reach`, `product` has the `reach` factors that end at each one.
    """
    product = _shifted(xp, place, factor, 1)
    reach = 1
    while reach < most:
        product = product * _shifted(xp, place, product, reach)
        reach *= 2
    return product


def _shifted(xp: Any, place: Array, factor: Array, by: int) -> Array:
    """The factor that stands `by` in front of each one, 1 where that is of another place."""
    ones = xp.ones_like(factor[:by])
    is_same = xp.concatenate([xp.zeros(min(by, place.size), bool), place[by:] == place[:-by]])
    return xp.where(is_same, xp.concatenate([ones, factor[:-by]]), 1)


def _shares(
    xp: Any, old_value: Array, best: Array, where: Any, value: Array, old: Array
) -> tuple[Array, Array]:
    """The shares of the old and the new values in the gradient of the largest or smallest one: those that are
    it have the same.
    """
    is_old = old & (old_value == best)
    is_new = value == best[where]
    winners = is_old.astype("int32")
    xp.add.at(winners, where, is_new.astype("int32"))
    share = 1 / xp.maximum(winners, 1)
    return is_old * share, is_new * share[where]
