"""`layers.data`: declares what is fed."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.data_feeder import check_type
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.ir.where import user_location
from fluidlite.layer_helper import LayerHelper

__all__ = ["data", "data_dims", "declare_data"]


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: DTypeLike = "float32",
    lod_level: int = 0,
    type: VarType = VarType.LOD_TENSOR,
    stop_gradient: bool = True,
) -> Variable:
    """An input of the program, which a run feeds: `fluid.layers.data`, in which a batch dimension is added.

    `fluid.data` takes the complete shape instead and checks what is fed against it.

    Parameters
    ----------
    name: the key of the feed.
    shape: the sizes of one sample; -1 for one that only the run knows.
    append_batch_size: put the batch size in front of `shape`.
    dtype: the data type of the feed.
    lod_level: the number of levels of sequences: 0 for arrays.
    type: has no effect for feeds.
    stop_gradient: no gradient is computed for it.

    Returns
    -------
    A Variable.

    >>> fluid.layers.data("image", [1, 28, 28]).shape
    (-1, 1, 28, 28)
    >>> fluid.data("picture", [None, 1, 28, 28]).shape
    (-1, 1, 28, 28)
    """
    check_type(name, "name", (bytes, str), "data")
    check_type(shape, "shape", (list, tuple), "data")
    check_type(type, "type", int, "data")
    dims = data_dims(name, shape)
    if append_batch_size and all(dim >= 0 for dim in dims):
        dims = [-1, *dims]
    return declare_data(name, dims, dtype, lod_level, type, stop_gradient)


def data_dims(name: str, shape: Sequence[int | None]) -> list[int]:
    """The dimensions of a data layer, -1 for None; TypeError for what is not an integer."""
    dims: list[int] = []
    for at, dim in enumerate(shape):
        if dim is not None and not hasattr(dim, "__index__"):
            raise TypeError(
                f"data {name!r}: dimension {at} of the shape {list(shape)} is {dim!r}, which is "
                "not an integer"
            )
        dims.append(-1 if dim is None else operator.index(dim))
    if min(dims, default=0) < -1:
        warn_user(
            f"data {name!r} has the shape {list(shape)}: a negative dimension is treated as -1, "
            "which accepts any size"
        )
    return dims


def declare_data(
    name: str,
    shape: Sequence[int],
    dtype: DTypeLike,
    lod_level: int,
    type: VarType = VarType.LOD_TENSOR,
    stop_gradient: bool = True,
    need_check_feed: bool = False,
) -> Variable:
    """A data variable of the global block."""
    helper = LayerHelper("data", name=name)
    made = helper.create_global_variable(
        name=name,
        shape=shape,
        dtype=dtype,
        type=type,
        stop_gradient=stop_gradient,
        lod_level=lod_level,
        is_data=True,
        need_check_feed=need_check_feed,
    )
    made.declared_at = user_location()
    return made
