"""`fluid.data`, `fluid.embedding` and `fluid.one_hot`: the strict variants that fluid 1.6 and later
recommend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.inputs import data_dims, declare_data

__all__ = ["data", "embedding", "lookup", "one_hot"]


def data(
    name: str, shape: Sequence[int | None], dtype: DTypeLike = "float32", lod_level: int = 0
) -> Variable:
    """A variable that is fed, of exactly this shape and dtype; None or -1 where any size may be fed."""
    check_type(name, "name", (bytes, str), "data")
    check_type(shape, "shape", (list, tuple), "data")
    return declare_data(name, data_dims(name, shape), dtype, lod_level, need_check_feed=True)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Rows of a table of `size` [rows, columns] for ids of any shape: the result has one dimension more than
    the ids.

    `padding_idx` (negative: counted from the end) reads as zeros. `is_sparse` makes the table's gradient a
    SelectedRows.
    """
    return lookup(
        "lookup_table_v2",
        "fluid.embedding",
        input,
        size,
        is_sparse,
        is_distributed,
        padding_idx,
        param_attr,
        dtype,
    )


def lookup(
    op_type: str,
    caller: str,
    input: Variable,
    size: Sequence[int],
    is_sparse: bool,
    is_distributed: bool,
    padding_idx: int | None,
    param_attr: Any,
    dtype: DTypeLike,
) -> Variable:
    """A table and an op `op_type` that reads rows of it; errors name `caller`."""
    helper = LayerHelper("embedding", param_attr=param_attr)
    check_variable_and_dtype(input, "input", ["int64"], caller)
    check_dtype(dtype, "dtype", ["float16", "float32", "float64"], caller)
    if is_sparse and not is_distributed:
        check_type(is_sparse, "is_sparse", bool, caller)
        check_type(is_distributed, "is_distributed", bool, caller)
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype, is_bias=False)
    out = helper.create_variable_for_type_inference(dtype)
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += size[0]
    helper.append_op(
        type=op_type,
        inputs={"Ids": input, "W": table},
        outputs={"Out": out},
        attrs={
            "is_sparse": is_sparse,
            "is_distributed": is_distributed,
            "remote_prefetch": is_sparse and not is_distributed,
            "padding_idx": padding_idx,
        },
    )
    return out


def one_hot(input: Variable, depth: int | Variable, allow_out_of_range: bool = False) -> Variable:
    """Ids of any shape as vectors of `depth` zeros and a one, in a new last dimension.

    Ids outside [0, depth) are an error unless `allow_out_of_range`, which turns them into zeros.
    """
    helper = LayerHelper("one_hot_v2", input=input, depth=depth)
    out = helper.create_variable_for_type_inference(dtype="float32")
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {"allow_out_of_range": allow_out_of_range}
    if isinstance(depth, Variable):
        depth.stop_gradient = True
        inputs["depth_tensor"] = depth
    else:
        attrs["depth"] = depth
    helper.append_op(type="one_hot_v2", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out
