"""Parts of tensors, by range or by index."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.shaping import as_tensors, has_tensor

__all__ = ["autoincreased_step_counter", "gather", "gather_nd", "get_tensor_from_selected_rows", "merge_selected_rows", "multiplex", "one_hot",
           "scatter", "scatter_nd", "scatter_nd_add", "shard_index", "slice", "strided_slice", "topk", "where"]

_SLICED = ["float16", "float32", "float64", "int32", "int64"]


def _limits(name: str, values: Any, inputs: dict[str, Any], attrs: dict[str, Any], flags: list[int]) -> list[int]:
    """Put one of starts, ends, strides where the op takes it: numbers into an attribute, Variables into slots."""
    slot = name.capitalize() + "Tensor"
    if isinstance(values, Variable):
        values.stop_gradient = True
        inputs[slot] = values
        return [-1] * len(flags)
    if has_tensor(values):
        inputs[slot + "List"] = as_tensors(values)
        attrs[name] = [-1 if isinstance(value, Variable) else value for value in values]
        return [-1 if isinstance(value, Variable) else flag for value, flag in zip(values, flags, strict=True)]
    attrs[name] = list(values)
    return flags


def _sliced(op_type: str, input: Variable, axes: Sequence[int], limits: dict[str, Any]) -> Variable:
    inputs: dict[str, Any] = {"Input": input}
    attrs: dict[str, Any] = {"axes": list(axes)}
    flags = [1] * len(axes)
    for name, values in limits.items():
        flags = _limits(name, values, inputs, attrs, flags)
    attrs["infer_flags"] = flags
    return one_op(op_type, inputs, attrs, dtype=input.dtype)


def slice(input: Variable, axes: Sequence[int], starts: Any, ends: Any) -> Variable:
    """input[starts[i]:ends[i]] along each of `axes`; limits may be (or hold) Variables."""
    check_variable_and_dtype(input, "input", [*_SLICED, "bool"], "slice")
    check_type(starts, "starts", (list, tuple, Variable), "slice")
    check_type(ends, "ends", (list, tuple, Variable), "slice")
    return _sliced("slice", input, axes, {"starts": starts, "ends": ends})


def strided_slice(input: Variable, axes: Sequence[int], starts: Any, ends: Any, strides: Any) -> Variable:
    """input[starts[i]:ends[i]:strides[i]] along each of `axes`; limits may be (or hold) Variables."""
    check_variable_and_dtype(input, "input", ["float32", "float64", "int32", "int64", "bool"], "strided_slice")
    for name, value in (("axes", axes), ("starts", starts), ("ends", ends), ("strides", strides)):
        check_type(value, name, (list, tuple) if name == "axes" else (list, tuple, Variable), "strided_slice")
    return _sliced("strided_slice", input, axes, {"starts": starts, "ends": ends, "strides": strides})


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """The rows of `input` that `index` (one dimension) names."""
    return one_op("gather", {"X": input, "Index": index}, {"overwrite": overwrite}, dtype=input.dtype)


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """input[index[..., 0], index[..., 1], ...]."""
    return one_op("gather_nd", {"X": input, "Index": index}, dtype=input.dtype, name=name)


def scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True) -> Variable:
    """`input` with the rows `index` replaced by `updates` (or by the sums of them, when not `overwrite`)."""
    return one_op("scatter", {"X": input, "Ids": index, "Updates": updates}, {"overwrite": overwrite}, dtype=input.dtype, name=name)


def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """`ref` with `updates` added at the places `index`."""
    if ref.dtype != updates.dtype:
        raise ValueError("ref and updates must have same data type.")
    return one_op("scatter_nd_add", {"X": ref, "Index": index, "Updates": updates}, dtype=ref.dtype, name=name)


def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Zeros of `shape` with `updates` added at the places `index`."""
    from fluidlite.layers.tensor import zeros
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


def one_hot(input: Variable, depth: Any, allow_out_of_range: bool = False) -> Variable:
    """[n, 1] numbers as [n, depth] rows with a one at the number's place."""
    check_variable_and_dtype(input, "input", ["int32", "int64"], "one_hot")
    check_type(depth, "depth", (int, Variable), "one_hot")
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {"allow_out_of_range": allow_out_of_range}
    if isinstance(depth, Variable):
        depth.stop_gradient = True
        inputs["depth_tensor"] = depth
    else:
        attrs["depth"] = depth
    return one_op("one_hot", inputs, attrs, dtype="float32", stop_gradient=True)


def topk(input: Variable, k: Any, name: str | None = None) -> tuple[Variable, Variable]:
    """The k largest elements of each row (last dimension), largest first, and their positions, int64."""
    inputs: dict[str, Any] = {"X": [input]}
    attrs: dict[str, Any] = {}
    if isinstance(k, Variable):
        inputs["K"] = [k]
    else:
        attrs["k"] = k
    helper = LayerHelper("top_k", name=name)
    values = helper.create_variable_for_type_inference(dtype=input.dtype)
    indices = helper.create_variable_for_type_inference(dtype="int64")
    helper.append_op(type="top_k", inputs=inputs, outputs={"Out": [values], "Indices": [indices]}, attrs=attrs)
    values.stop_gradient = True
    indices.stop_gradient = True
    return values, indices


def where(condition: Variable) -> Variable:
    """The places where `condition` is true, [n, rank] int64."""
    return one_op("where_index", {"Condition": condition}, dtype=VarType.INT64, layer="where", stop_gradient=True)


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Row i of the result is row i of inputs[index[i]]."""
    check_type(inputs, "inputs", (list, tuple), "multiplex")
    if len(inputs) < 2:
        raise ValueError("inputs should be a list object with at least 2 elements.")
    return one_op("multiplex", {"X": list(inputs), "Ids": index}, dtype=inputs[0].dtype)


def shard_index(input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Variable:
    """Indices relative to the shard that holds them; `ignore_value` for those of other shards."""
    check_variable_and_dtype(input, "input", ["int64"], "shard_index")
    if shard_id < 0 or shard_id >= nshards:
        raise ValueError(f"The shard_id({shard_id}) should be in [0, {nshards})")
    return one_op("shard_index", {"X": [input]}, {"index_num": index_num, "nshards": nshards, "shard_id": shard_id,
                                                  "ignore_value": ignore_value}, dtype=input.dtype, stop_gradient=True)


def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """SelectedRows with each row number once, the values of equal rows summed."""
    return one_op("merge_selected_rows", {"X": x}, dtype=x.dtype, name=name)


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The values of SelectedRows as a dense tensor."""
    check_type(x, "x", Variable, "get_tensor_from_selected_rows")
    if x.type != VarType.SELECTED_ROWS:
        raise TypeError("The type of 'x' in get_tensor_from_selected_rows must be SELECTED_ROWS.")
    return one_op("get_tensor_from_selected_rows", {"X": x}, dtype=x.dtype, name=name)


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A persistable int64 counter that starts at `begin` and grows by `step` each run, before anything else happens."""
    from fluidlite.initializer import Constant
    helper = LayerHelper("global_step_counter")
    name = "@STEP_COUNTER@" if counter_name is None else counter_name
    counter, is_new = helper.create_or_get_global_variable(name=name, dtype="int64", shape=[1], persistable=True, belong_to_optimizer=True)
    if is_new:
        helper.set_variable_initializer(counter, initializer=Constant(value=begin - 1, force_cpu=True))
        helper.main_program.global_block()._prepend_op(type="increment", inputs={"X": [counter]}, outputs={"Out": [counter]},
                                                       attrs={"step": float(step)})
        counter.stop_gradient = True
    return counter
