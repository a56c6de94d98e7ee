"""Layers over sequences: rows that fall into sequences by their level of detail."""
from __future__ import annotations

from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op

__all__ = ["sequence_concat", "sequence_conv", "sequence_enumerate", "sequence_expand", "sequence_expand_as", "sequence_first_step",
           "sequence_last_step", "sequence_mask", "sequence_pad", "sequence_pool", "sequence_reshape", "sequence_reverse",
           "sequence_scatter", "sequence_slice", "sequence_softmax", "sequence_unpad"]

_REAL = ["float32", "float64"]
_NUMBERS = ["float32", "float64", "int32", "int64"]


def sequence_conv(input: Variable, num_filters: int, filter_size: int = 3, filter_stride: int = 1, padding: bool = True,
                  padding_start: int | None = None, bias_attr: Any = None, param_attr: Any = None, act: str | None = None,
                  name: str | None = None) -> Variable:
    """Each row from the `filter_size` rows around it in its sequence; missing ones count as zero.

    The window starts `padding_start` rows from the row itself (default: half a window before).
    """
    helper = LayerHelper("sequence_conv", input=input, bias_attr=bias_attr, param_attr=param_attr, act=act, name=name)
    check_variable_and_dtype(input, "input", _REAL, "sequence_conv")
    weight = helper.create_parameter(attr=helper.param_attr, shape=[filter_size * input.shape[1], num_filters], dtype=input.dtype)
    out = helper.create_variable_for_type_inference(input.dtype)
    start = -(filter_size // 2) if padding_start is None else padding_start
    helper.append_op(type="sequence_conv", inputs={"X": [input], "Filter": [weight]}, outputs={"Out": out},
                     attrs={"contextStride": filter_stride, "contextStart": start, "contextLength": filter_size})
    return helper.append_activation(helper.append_bias_op(out))


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """The softmax over the rows of each sequence; input [rows, 1]."""
    check_variable_and_dtype(input, "input", _REAL, "sequence_softmax")
    return one_op("sequence_softmax", {"X": input}, {"use_cudnn": use_cudnn}, dtype=input.dtype, name=name)


def sequence_pool(input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Variable:
    """One row for each sequence: its average, sum, sqrt, max, last or first row; `pad_value` for an empty one."""
    check_variable_and_dtype(input, "input", _REAL, "sequence_pool")
    helper = LayerHelper("sequence_pool")
    out = helper.create_variable_for_type_inference(input.dtype)
    index = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(type="sequence_pool", inputs={"X": input}, outputs={"Out": out, "MaxIndex": index},
                     attrs={"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value})
    if pool_type == "max":
        index.stop_gradient = True
    return out


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    check_variable_and_dtype(input, "input", _REAL, "sequence_first_step")
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    check_variable_and_dtype(input, "input", _REAL, "sequence_last_step")
    return sequence_pool(input, "last")


def sequence_concat(input: Any, name: str | None = None) -> Variable:
    """Sequence i of the result is sequence i of each input, one after the other."""
    check_type(input, "input", list, "sequence_concat")
    for item in input:
        check_variable_and_dtype(item, "input", ["int64", *_REAL], "sequence_concat")
    return one_op("sequence_concat", {"X": list(input)}, dtype=input[0].dtype, name=name)


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """`length[i]` rows of sequence i, from its row `offset[i]` on."""
    check_variable_and_dtype(input, "input", _NUMBERS, "sequence_slice")
    check_variable_and_dtype(offset, "offset", ["int32", "int64"], "sequence_slice")
    check_variable_and_dtype(length, "length", ["int32", "int64"], "sequence_slice")
    offset.stop_gradient = True
    length.stop_gradient = True
    return one_op("sequence_slice", {"X": input, "Offset": offset, "Length": length}, dtype=input.dtype, name=name)


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Each sequence (or row) of x as often as the sequence of y at `ref_level` is long."""
    check_variable_and_dtype(x, "x", _NUMBERS, "sequence_expand")
    return one_op("sequence_expand", {"X": x, "Y": y}, {"ref_level": ref_level}, dtype=x.dtype, name=name)


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of x as often as sequence i of y is long."""
    check_variable_and_dtype(x, "x", _NUMBERS, "sequence_expand_as")
    check_type(y, "y", Variable, "sequence_expand_as")
    return one_op("sequence_expand_as", {"X": x, "Y": y}, dtype=x.dtype, name=name)


def sequence_pad(x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None) -> tuple[Variable, Variable]:
    """[sequences, longest, ...] with `pad_value` behind the ends, and the lengths, int64."""
    check_variable_and_dtype(x, "x", _NUMBERS, "sequence_pad")
    check_variable_and_dtype(pad_value, "pad_value", _NUMBERS, "sequence_pad")
    helper = LayerHelper("sequence_pad", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    length = helper.create_variable_for_type_inference(VarType.INT64)
    pad_value.stop_gradient = True
    length.stop_gradient = True
    helper.append_op(type="sequence_pad", inputs={"X": x, "PadValue": pad_value}, outputs={"Out": out, "Length": length},
                     attrs={"padded_length": -1 if maxlen is None else maxlen})
    return out, length


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """The first `length[i]` steps of row i, as sequences."""
    check_variable_and_dtype(x, "x", _NUMBERS, "sequence_unpad")
    check_variable_and_dtype(length, "length", ["int64"], "sequence_unpad")
    length.stop_gradient = True
    return one_op("sequence_unpad", {"X": x, "Length": length}, dtype=x.dtype, name=name)


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """The same elements in rows of `new_dim`; sequences keep their elements."""
    check_variable_and_dtype(input, "input", _NUMBERS, "sequence_reshape")
    return one_op("sequence_reshape", {"X": [input]}, {"new_dim": new_dim}, dtype=input.dtype)


def sequence_scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """Row i of `input` with sequence i of `updates` added at the places of sequence i of `index`."""
    check_variable_and_dtype(input, "input", _NUMBERS, "sequence_scatter")
    check_variable_and_dtype(index, "index", ["int64"], "sequence_scatter")
    check_variable_and_dtype(updates, "updates", _NUMBERS, "sequence_scatter")
    return one_op("sequence_scatter", {"X": input, "Ids": index, "Updates": updates}, dtype=input.dtype, name=name)


def sequence_enumerate(input: Variable, win_size: int, pad_value: int = 0, name: str | None = None) -> Variable:
    """Each id with the `win_size` - 1 that follow it in its sequence."""
    check_variable_and_dtype(input, "input", ["int32", "int64"], "sequence_enumerate")
    return one_op("sequence_enumerate", {"X": input}, {"win_size": win_size, "pad_value": pad_value}, dtype=input.dtype, name=name,
                  stop_gradient=True)


def sequence_mask(x: Variable, maxlen: Any = None, dtype: DTypeLike = "int64", name: str | None = None) -> Variable:
    """[..., maxlen] with ones in front of x's numbers and zeros behind; by default `maxlen` is the largest number."""
    kind = to_vartype(dtype)
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {"out_dtype": kind}
    if isinstance(maxlen, Variable):
        inputs["MaxLenTensor"] = maxlen
    elif maxlen is not None:
        attrs["maxlen"] = maxlen
    return one_op("sequence_mask", inputs, attrs, dtype=kind, name=name, slot="Y", stop_gradient=True)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """Each sequence from its last row to its first."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int8", "int32", "int64"], "sequence_reverse")
    return one_op("sequence_reverse", {"X": x}, dtype=x.dtype, name=name, slot="Y")


