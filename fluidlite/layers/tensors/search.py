"""Layers that look for elements and answer with indices, shapes, or codes: topk, where, unique, one_hot,
hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.initializer import Constant
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.tensors.indexing import slice
from fluidlite.layers.tensors.variables import assign

__all__ = [
    "autoincreased_step_counter",
    "gather_tree",
    "get_tensor_from_selected_rows",
    "hash",
    "merge_selected_rows",
    "meshgrid",
    "nonzero",
    "one_hot",
    "rank",
    "shape",
    "shard_index",
    "similarity_focus",
    "size",
    "topk",
    "unique",
    "unique_with_counts",
    "where",
]

_INDEX_TYPES = (VarType.INT32, VarType.INT64)


# ---------------------------------------------------------------------- shapes
def shape(input: Variable) -> Variable:
    """The shape of `input` in the run, also where the program leaves sizes open.

    Parameters
    ----------
    input: a Variable.

    Returns
    -------
    An int32 Variable with a number for each dimension.

    >>> x = fluid.data("x", [None, 3])
    >>> exe.run(feed={"x": np.ones((5, 3), "float32")}, fetch_list=[fluid.layers.shape(x)])[0]
    array([5, 3], dtype=int32)
    """
    check_variable_and_dtype(input, "input", ["float32", "float64", "int32", "int64"], "shape")
    return one_op("shape", {"Input": input}, dtype="int32")


def size(input: Variable) -> Variable:
    """The number of elements of `input`, an int64 tensor of shape [1]."""
    check_type(input, "input", Variable, "size")
    return one_op("size", {"Input": input}, dtype="int64")


def rank(input: Variable | np.ndarray[Any, Any]) -> Variable:
    """The number of dimensions of `input`, an int32 tensor; also of an array or a number of NumPy."""
    check_type(input, "input", (Variable, np.ndarray, np.generic), "rank")
    return assign(np.array(len(input.shape), "int32"))


def meshgrid(input: Sequence[Variable], name: str | None = None) -> list[Variable]:
    """N vectors as N tensors of N dimensions: in the i-th one, vector i runs along dimension i."""
    check_type(input, "input", (list, tuple), "meshgrid")
    for var in input:
        check_variable_and_dtype(
            var, "create data type", ["float16", "float32", "float64", "int32", "int64"], "meshgrid"
        )
    helper = LayerHelper("meshgrid", input=input, name=name)
    outs = [helper.create_variable_for_type_inference(dtype=var.dtype) for var in input]
    helper.append_op(type="meshgrid", inputs={"X": list(input)}, outputs={"Out": outs})
    return outs


# ---------------------------------------------------------------------- searches
def topk(input: Variable, k: int | Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """The largest elements of the last dimension, and where they are.

    Parameters
    ----------
    input: a Variable [..., n].
    k: how many, a number or an int32 Variable of one element.
    name: the prefix of the results' names.

    Returns
    -------
    A Variable [..., k] of values, the largest first, and an int64 Variable [..., k] of their positions.

    >>> x = fluid.layers.assign(np.array([[1, 5, 3]], "float32"))
    >>> exe.run(fetch_list=fluid.layers.topk(x, k=2))
    [array([[5., 3.]], dtype=float32), array([[1, 2]])]
    """
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64", "int32", "int64"], "top_k")
    inputs: dict[str, Any] = {"X": [input]}
    attrs = {}
    if isinstance(k, Variable):
        inputs["K"] = [k]
    else:
        attrs["k"] = k
    helper = LayerHelper("top_k", input=input, k=k, name=name)
    values = helper.create_variable_for_type_inference(dtype=input.dtype)
    indices = helper.create_variable_for_type_inference(dtype="int64")
    helper.append_op(
        type="top_k", inputs=inputs, outputs={"Out": [values], "Indices": [indices]}, attrs=attrs
    )
    values.stop_gradient = True
    indices.stop_gradient = True
    return values, indices


def where(condition: Variable) -> Variable:
    """The places (int64, [n, dimensions]) of the true elements of `condition`."""
    return one_op("where_index", {"Condition": condition}, dtype="int64")


def nonzero(input: Variable, as_tuple: bool = False) -> Any:
    """The places (int64, [n, dimensions]) of the elements other than zero; a column a dimension with
    `as_tuple`.
    """
    found = where(input)
    if not as_tuple:
        return found
    count = len(input.shape)
    if count == 1:
        return (found,)
    return tuple(slice(found, axes=[1], starts=[index], ends=[index + 1]) for index in range(count))


def unique(x: Variable, dtype: DTypeLike = "int32") -> tuple[Variable, Variable]:
    """The distinct elements of a vector, as they first occur, and for each element the place of its value
    among them.
    """
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "unique")
    helper = LayerHelper("unique", x=x, dtype=dtype)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    index = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="unique",
        inputs={"X": x},
        attrs={"dtype": int(to_vartype(dtype))},
        outputs={"Out": [out], "Index": [index]},
    )
    return out, index


def unique_with_counts(x: Variable, dtype: DTypeLike = "int32") -> tuple[Variable, Variable, Variable]:
    """`unique`, and the number of times that each distinct element occurs."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"], "unique_with_counts")
    if to_vartype(dtype) not in _INDEX_TYPES:
        raise TypeError("Op unique_with_counts, index dtype must be int32 or int64")
    if len(x.shape) != 1:
        raise ValueError("Op unique_with_counts, x must be null or 1-D")
    helper = LayerHelper("unique_with_counts", x=x, dtype=dtype)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    index = helper.create_variable_for_type_inference(dtype)
    count = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="unique_with_counts",
        inputs={"X": x},
        attrs={"dtype": int(to_vartype(dtype))},
        outputs={"Out": [out], "Index": [index], "Count": [count]},
    )
    return out, index, count


# ---------------------------------------------------------------------- codes
def one_hot(input: Variable, depth: Any, allow_out_of_range: bool = False) -> Variable:
    """A row for each id: 1 at the id's position, 0 elsewhere.

    `fluid.layers.one_hot` takes ids of the shape [..., 1] and drops that dimension; `fluid.one_hot` takes any
    shape and adds one.

    Parameters
    ----------
    input: ids from 0 to `depth` - 1, an int32 or int64 Variable [..., 1].
    depth: the length of a row, a number or an int32 Variable of one element.
    allow_out_of_range: other ids make rows of zeros instead of an error.

    Returns
    -------
    A float32 Variable [..., depth].

    >>> ids = fluid.layers.assign(np.array([[1], [0]], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.one_hot(ids, depth=3)])[0]
    array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    """
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


def shard_index(
    input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Variable:
    """Indices as they count inside shard `shard_id` of `nshards`; `ignore_value` for those of other
    shards.
    """
    check_variable_and_dtype(input, "input", ["int64"], "shard_index")
    if shard_id < 0 or shard_id >= nshards:
        raise ValueError(f"The shard_id({shard_id}) should be in [0, {nshards})")
    return one_op(
        "shard_index",
        {"X": [input]},
        dtype=input.dtype,
        attrs={
            "index_num": index_num,
            "nshards": nshards,
            "shard_id": shard_id,
            "ignore_value": ignore_value,
        },
    )


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """`num_hash` hashes (XXH64) below `hash_size` of each row of integers, of shape [rows, num_hash, 1]."""
    check_variable_and_dtype(input, "input", ["int32", "int64"], "hash")
    check_type(hash_size, "hash_size", int, "hash")
    check_type(num_hash, "num_hash", int, "hash")
    return one_op(
        "hash",
        {"X": input},
        {"num_hash": num_hash, "mod_by": hash_size},
        dtype=input.dtype,
        name=name,
        stop_gradient=True,
    )


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """Whole beams from the tokens and parent beams of each step; all of shape [steps, batch, beams]."""
    for key, var in (("ids", ids), ("parents", parents)):
        check_variable_and_dtype(var, key, ["int32", "int64"], "gather_tree")
    return one_op("gather_tree", {"Ids": ids, "Parents": parents}, dtype=ids.dtype)


def similarity_focus(input: Variable, axis: int, indexes: Sequence[int], name: str | None = None) -> Variable:
    """Ones where a slice `indexes[i]` along `axis` of [N, A, B, C] has a largest element, zeros elsewhere.

    Largest elements are picked one after the other, each in a row and a column of its own; the mask is the
    same all along `axis`.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "similarity_focus")
    check_type(axis, "axis", int, "similarity_focus")
    check_type(indexes, "indexes", list, "similarity_focus")
    if axis not in (1, 2, 3):
        raise ValueError("axis must be 1, 2 or 3.")
    if len(indexes) == 0:
        raise ValueError("indexes can not be empty.")
    return one_op(
        "similarity_focus", {"X": input}, {"axis": axis, "indexes": indexes}, dtype=input.dtype, name=name
    )


# ---------------------------------------------------------------------- selected rows, counters
def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """SelectedRows in which each row occurs once, with the sum of its values."""
    return one_op("merge_selected_rows", {"X": x}, dtype=x.dtype, name=name)


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The values of SelectedRows as a tensor, a row for each of its row numbers."""
    check_type(x, "x", Variable, "get_tensor_from_selected_rows")
    if x.type != VarType.SELECTED_ROWS:
        raise TypeError("The type of 'x' in get_tensor_from_selected_rows must be SELECTED_ROWS.")
    return one_op("get_tensor_from_selected_rows", {"X": x}, dtype=x.dtype, name=name)


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A persistable int64 counter that is `begin` in the first run and grows by `step` a run; one a name
    and program.
    """
    helper = LayerHelper("global_step_counter")
    name = "@STEP_COUNTER@" if counter_name is None else counter_name
    counter, is_new = helper.create_or_get_global_variable(
        name=name, dtype="int64", shape=[1], persistable=True, belong_to_optimizer=True
    )
    if is_new:
        helper.set_variable_initializer(counter, initializer=Constant(value=begin - 1, force_cpu=True))
        helper.main_program.global_block()._prepend_op(
            type="increment", inputs={"X": [counter]}, outputs={"Out": [counter]}, attrs={"step": float(step)}
        )
        counter.stop_gradient = True
    return counter
