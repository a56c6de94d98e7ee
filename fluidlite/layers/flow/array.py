"""Layers over tensor arrays, rank tables and rows picked by a mask: what loops over sequences are made of."""

from __future__ import annotations

from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = [
    "array_length",
    "array_read",
    "array_to_lod_tensor",
    "array_write",
    "create_array",
    "increment",
    "is_empty",
    "lod_rank_table",
    "lod_tensor_to_array",
    "max_sequence_len",
    "merge_lod_tensor",
    "reorder_lod_tensor_by_rank",
    "shrink_memory",
    "split_lod_tensor",
]


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """`x + value`, in `x` itself unless `in_place` is False; `x` has one element."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "increment")
    helper = LayerHelper("increment")
    out = x if in_place else helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="increment", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"step": float(value)}
    )
    return out


# ---------------------------------------------------------------------- arrays
def create_array(dtype: Any) -> Variable:
    """An empty tensor array."""
    helper = LayerHelper("array")
    return helper.create_variable(name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=dtype)


def _check_array(array: Any, message: str) -> None:
    if not isinstance(array, Variable) or array.type != VarType.LOD_TENSOR_ARRAY:
        raise TypeError(message)


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """Write `x` to position `i` (int64, one element) of `array`, or of a new array; gives the array."""
    check_variable_and_dtype(i, "i", ["int64"], "array_write")
    check_type(x, "x", Variable, "array_write")
    helper = LayerHelper("array_write")
    if array is None:
        array = helper.create_variable(
            name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype
        )
    _check_array(array, "array should be tensor array vairable in array_write Op")
    helper.append_op(type="write_to_array", inputs={"X": [x], "I": [i]}, outputs={"Out": [array]})
    return array


def array_read(array: Variable, i: Variable) -> Variable:
    """The tensor that was written to position `i` (int64, one element) of `array`."""
    check_variable_and_dtype(i, "i", ["int64"], "array_read")
    helper = LayerHelper("array_read")
    _check_array(array, "array should be tensor array vairable")
    out = helper.create_variable_for_type_inference(dtype=array.dtype)
    helper.append_op(type="read_from_array", inputs={"X": [array], "I": [i]}, outputs={"Out": [out]})
    return out


def array_length(array: Variable) -> Variable:
    """The length of `array`, int64 of shape [1]."""
    _check_array(array, "array should be tensor array vairable in array_length Op")
    helper = LayerHelper("array_length")
    out = helper.create_variable_for_type_inference(dtype="int64", stop_gradient=True)
    helper.append_op(type="lod_array_length", inputs={"X": [array]}, outputs={"Out": [out]})
    return out


def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """True if `x` has no elements, bool of shape [1], written to `cond` where one is given."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "is_empty")
    check_type(cond, "cond", (Variable, type(None)), "is_empty")
    helper = LayerHelper("is_empty")
    if cond is None:
        cond = helper.create_variable_for_type_inference(dtype="bool", stop_gradient=True)
    else:
        check_dtype(cond.dtype, "cond", ["bool"], "is_empty")
    helper.append_op(type="is_empty", inputs={"X": [x]}, outputs={"Out": [cond]})
    return cond


# ---------------------------------------------------------------------- rank tables
def _check_all(value: Any, name: str, op_name: str, item_name: str) -> None:
    """TypeError unless `value` is a Variable or a list of them."""
    check_type(value, name, (Variable, list), op_name)
    if isinstance(value, list):
        for index, item in enumerate(value):
            check_type(item, f"{item_name}[{index}]", Variable, op_name)


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """The sequences of `x` at `level`, sorted by length, the longest first."""
    _check_all(x, "x", "lod_rank_table", "input")
    helper = LayerHelper("lod_rank_table")
    table = helper.create_variable(type=VarType.LOD_RANK_TABLE, name=unique_name.generate("lod_rank_table"))
    helper.append_op(type="lod_rank_table", inputs={"X": x}, outputs={"Out": table}, attrs={"level": level})
    return table


def max_sequence_len(rank_table: Variable) -> Variable:
    """The length of the longest sequence, int64 of shape [1]."""
    helper = LayerHelper("max_seqence_len")
    out = helper.create_variable_for_type_inference(dtype="int64")
    helper.append_op(type="max_sequence_len", inputs={"RankTable": rank_table}, outputs={"Out": out})
    return out


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """An array with one entry a step: what the sequences that are still running have there, in the order
    of `table`.
    """
    _check_all(x, "x", "lod_tensor_to_array", "input")
    _check_all(table, "table", "lod_tensor_to_array", "table")
    helper = LayerHelper("lod_tensor_to_array")
    array = helper.create_variable(
        name=unique_name.generate("lod_tensor_to_array"), type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype
    )
    helper.append_op(type="lod_tensor_to_array", inputs={"X": x, "RankTable": table}, outputs={"Out": array})
    return array


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """The sequences whose steps the array `x` holds: what undoes `lod_tensor_to_array`."""
    _check_all(x, "x", "array_to_lod_tensor", "input")
    _check_all(table, "table", "array_to_lod_tensor", "table")
    helper = LayerHelper("array_to_lod_tensor")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="array_to_lod_tensor", inputs={"X": x, "RankTable": table}, outputs={"Out": out})
    return out


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """The first rows of `x`, as many as there are sequences in `table` longer than `i`."""
    helper = LayerHelper("shrink_memory")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="shrink_rnn_memory", inputs={"X": [x], "I": [i], "RankTable": [table]}, outputs={"Out": [out]}
    )
    return out


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """The sequences (or, without a level of detail, the rows) of `x` in the order of `rank_table`."""
    check_type(x, "x", Variable, "reorder_lod_tensor_by_rank")
    check_type(rank_table, "rank_table", Variable, "reorder_lod_tensor_by_rank")
    if rank_table.type != VarType.LOD_RANK_TABLE:
        raise TypeError("The type of rank_table should be LOD_RANK_TABLE.")
    helper = LayerHelper("reorder_lod_tensor_by_rank")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="reorder_lod_tensor_by_rank",
        inputs={"X": [x], "RankTable": [rank_table]},
        outputs={"Out": [out]},
    )
    return out


# ---------------------------------------------------------------------- rows picked by a mask
def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """The rows (or sequences at `level`) of `input` where `mask` is true, and those where it is false."""
    check_type(input, "input", (Variable, list, tuple, type(None)), "fluid.layers.split_lod_tensor")
    check_type(mask, "mask", (Variable, list), "fluid.layers.split_lod_tensor")
    check_type(level, "level", int, "fluid.layers.split_lod_tensor")
    helper = LayerHelper("split_lod_tensor")
    out_true = helper.create_variable_for_type_inference(dtype=input.dtype)
    out_false = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="split_lod_tensor",
        inputs={"X": input, "Mask": mask},
        outputs={"OutTrue": out_true, "OutFalse": out_false},
        attrs={"level": level},
    )
    return out_true, out_false


def merge_lod_tensor(
    in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0
) -> Variable:
    """The inverse of `split_lod_tensor`: each row of `mask` takes the next one of `in_true` or `in_false`."""
    for name, value in (("x", x), ("mask", mask), ("in_true", in_true), ("in_false", in_false)):
        kinds = (Variable, list) if name == "mask" else (Variable, list, tuple, type(None))
        check_type(value, name, kinds, "fluid.layers.merge_lod_tensor")
    helper = LayerHelper("merge_lod_tensor")
    out = helper.create_variable_for_type_inference(dtype=in_true.dtype)
    helper.append_op(
        type="merge_lod_tensor",
        inputs={"X": x, "Mask": mask, "InTrue": in_true, "InFalse": in_false},
        outputs={"Out": out},
        attrs={"level": level},
    )
    return out
