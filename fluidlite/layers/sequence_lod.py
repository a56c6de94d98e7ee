"""Layers on sequences: values whose rows fall into sequences by their level of detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import DTypeLike, to_vartype
from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op

__all__ = [
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_mask",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
]

_NUMBERS = ["float32", "float64", "int32", "int64"]
_INTEGERS = ["int32", "int64"]


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """act(filters over `filter_size` neighbouring rows + bias); neighbours outside a sequence count as zeros.

    The first neighbour is `padding_start` rows away, by default -(filter_size // 2). `padding` is there for
    old programs and does nothing.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "sequence_conv")
    helper = LayerHelper(
        "sequence_conv", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    dtype = helper.input_dtype()
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[filter_size * input.shape[1], num_filters], dtype=dtype
    )
    out = helper.create_variable_for_type_inference(dtype)
    start = -int(filter_size // 2) if padding_start is None else padding_start
    helper.append_op(
        type="sequence_conv",
        inputs={"X": [input], "Filter": [weight]},
        outputs={"Out": out},
        attrs={"contextStride": filter_stride, "contextStart": start, "contextLength": filter_size},
    )
    return helper.append_activation(helper.append_bias_op(out))


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Softmax over the rows of each sequence; `input` has one column."""
    check_variable_and_dtype(input, "input", ["float32", "float64"], "sequence_softmax")
    return one_op("sequence_softmax", {"X": input}, {"use_cudnn": use_cudnn}, dtype=input.dtype, name=name)


def sequence_pool(input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Variable:
    """One row for each sequence, computed from its rows.

    Parameters
    ----------
    input: a Variable with sequences (`lod_level` of 1 or more).
    pool_type: "average", "sum", "sqrt" (the sum divided by the square root of the length), "max", "first" or
        "last".
    is_test: do not keep what a gradient of "max" needs.
    pad_value: the row of an empty sequence.

    Returns
    -------
    A Variable [number of sequences, ...]; of nested sequences, those of the last level are pooled.

    >>> x = fluid.data("x", [None, 1], lod_level=1)
    >>> rows = np.array([[1], [2], [6]], "float32")
    >>> feed = {"x": fluid.create_lod_tensor(rows, [[2, 1]], fluid.CPUPlace())}
    >>> exe.run(feed=feed, fetch_list=[fluid.layers.sequence_pool(x, "average")])[0]
    array([[1.5],
           [6. ]], dtype=float32)
    """
    kinds = ["float32", "float64"] if default_main_program().is_of_2x else ["float32"]
    check_variable_and_dtype(input, "input", kinds, "sequence_pool")
    helper = LayerHelper("sequence_pool", input=input)
    out = helper.create_variable_for_type_inference(input.dtype)
    index = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(
        type="sequence_pool",
        inputs={"X": input},
        outputs={"Out": out, "MaxIndex": index},
        attrs={"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value},
    )
    if pool_type == "max":
        index.stop_gradient = True
    return out


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    return sequence_pool(input=input, pool_type="first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    return sequence_pool(input=input, pool_type="last")


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """The first sequences of all inputs one after another, then the second ones, and so on."""
    check_type(input, "input", list, "fluid.layers.sequence_concat")
    for i, part in enumerate(input):
        check_variable_and_dtype(
            part, f"input[{i}]", ["int64", "float32", "float64"], "fluid.layers.sequence_concat"
        )
    helper = LayerHelper("sequence_concat", input=input, name=name)
    out = helper.create_variable_for_type_inference(dtype=helper.input_dtype())
    helper.append_op(type="sequence_concat", inputs={"X": input}, outputs={"Out": [out]})
    return out


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """Of sequence i the `length[i]` rows from row `offset[i]` on; both have shape [sequences, 1]."""
    check_variable_and_dtype(input, "input", _NUMBERS, "sequence_slice")
    check_variable_and_dtype(offset, "offset", _INTEGERS, "sequence_slice")
    check_variable_and_dtype(length, "length", _INTEGERS, "sequence_slice")
    offset.stop_gradient = True
    length.stop_gradient = True
    return one_op(
        "sequence_slice", {"X": input, "Offset": offset, "Length": length}, dtype=input.dtype, name=name
    )


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Rows or sequences of `x`, repeated as the sequences of `y` say.

    Parameters
    ----------
    x: a Variable of rows, or with sequences of one level.
    y: a Variable with sequences; its values are not read.
    ref_level: the level of `y` that counts: sequence i of it repeats row or sequence i of `x` once for each
        of its parts; -1 for the last level.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the repeated rows.

    >>> x = fluid.data("x", [None, 1])
    >>> y = fluid.data("y", [None, 1], lod_level=1)
    >>> lengths = fluid.create_lod_tensor(np.zeros((3, 1), "float32"), [[2, 1]], fluid.CPUPlace())
    >>> feed = {"x": np.array([[1], [2]], "float32"), "y": lengths}
    >>> exe.run(feed=feed, fetch_list=[fluid.layers.sequence_expand(x, y)])[0].ravel()
    array([1., 1., 2.], dtype=float32)
    """
    check_variable_and_dtype(x, "x", _NUMBERS, "sequence_expand")
    return one_op("sequence_expand", {"X": x, "Y": y}, {"ref_level": ref_level}, dtype=x.dtype, name=name)


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of `x` as often as sequence i of `y` is long, with the level of detail of `y`."""
    check_variable_and_dtype(x, "x", _NUMBERS, "sequence_expand_as")
    check_type(y, "y", Variable, "sequence_expand_as")
    return one_op("sequence_expand_as", {"X": x, "Y": y}, dtype=x.dtype, name=name)


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """Sequences as one array, the shorter ones padded.

    Parameters
    ----------
    x: a Variable [total rows, ...] with sequences.
    pad_value: a Variable of one element, or of the shape of a row.
    maxlen: the length of all; None takes the longest one of the batch.
    name: the prefix of the results' names.

    Returns
    -------
    A Variable [number of sequences, length, ...], and an int64 Variable of the lengths.

    >>> x = fluid.data("x", [None, 1], lod_level=1)
    >>> rows = np.array([[1], [2], [6]], "float32")
    >>> feed = {"x": fluid.create_lod_tensor(rows, [[2, 1]], fluid.CPUPlace())}
    >>> zero = fluid.layers.fill_constant([1], "float32", 0.0)
    >>> padded, lengths = exe.run(feed=feed, fetch_list=fluid.layers.sequence_pad(x, zero))
    >>> padded.tolist(), lengths
    ([[[1.0], [2.0]], [[6.0], [0.0]]], array([2, 1]))
    """
    check_variable_and_dtype(x, "x", _NUMBERS, "fluid.layers.sequence_pad")
    check_variable_and_dtype(pad_value, "pad_value", _NUMBERS, "fluid.layers.sequence_pad")
    helper = LayerHelper("sequence_pad", input=x, name=name)
    out = helper.create_variable_for_type_inference(helper.input_dtype())
    length = helper.create_variable_for_type_inference("int64")
    pad_value.stop_gradient = True
    length.stop_gradient = True
    helper.append_op(
        type="sequence_pad",
        inputs={"X": x, "PadValue": pad_value},
        outputs={"Out": out, "Length": length},
        attrs={"padded_length": -1 if maxlen is None else maxlen},
    )
    return out, length


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """The reverse of `sequence_pad`: an array with lengths as sequences, without the padding.

    Parameters
    ----------
    x: a Variable [number of sequences, length, ...].
    length: an int64 Variable [number of sequences].
    name: the prefix of the result's name.

    Returns
    -------
    A Variable [total rows, ...] with sequences.

    >>> x = fluid.layers.assign(np.array([[[1], [2]], [[6], [0]]], "float32"))
    >>> lengths = fluid.layers.assign(np.array([2, 1], "int64"))
    >>> out = fluid.layers.sequence_unpad(x, lengths)
    >>> exe.run(fetch_list=[out], return_numpy=False)[0].recursive_sequence_lengths()
    [[2, 1]]
    """
    check_variable_and_dtype(x, "x", _NUMBERS, "fluid.layers.sequence_unpad")
    check_variable_and_dtype(length, "length", ["int64"], "fluid.layers.sequence_unpad")
    length.stop_gradient = True
    return one_op("sequence_unpad", {"X": x, "Length": length}, dtype=x.dtype, name=name)


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Rows of `new_dim` columns, the elements of each sequence staying together."""
    check_variable_and_dtype(input, "input", _NUMBERS, "fluid.layers.sequence_reshape")
    return one_op("sequence_reshape", {"X": [input]}, {"new_dim": new_dim}, dtype=input.dtype)


def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """`input` with `updates` added: sequence i of `index` says which elements of row i they go to."""
    check_variable_and_dtype(input, "input", _NUMBERS, "sequence_scatter")
    check_variable_and_dtype(index, "index", _INTEGERS, "sequence_scatter")
    check_variable_and_dtype(updates, "updates", _NUMBERS, "sequence_scatter")
    return one_op(
        "sequence_scatter", {"X": input, "Ids": index, "Updates": updates}, dtype=input.dtype, name=name
    )


def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None
) -> Variable:
    """For each id the `win_size` ids from there on, `pad_value` where the sequence has ended."""
    check_variable_and_dtype(input, "input", _INTEGERS, "sequence_enumerate")
    helper = LayerHelper("sequence_enumerate", input=input, name=name)
    out = helper.create_variable_for_type_inference(input.dtype, stop_gradient=True)
    helper.append_op(
        type="sequence_enumerate",
        inputs={"X": input},
        outputs={"Out": out},
        attrs={"win_size": win_size, "pad_value": pad_value},
    )
    return out


def sequence_mask(
    x: Variable, maxlen: int | Variable | None = None, dtype: DTypeLike = "int64", name: str | None = None
) -> Variable:
    """Rows that are 1 up to a length, and 0 from there on.

    Parameters
    ----------
    x: lengths, a Variable of integers of any shape.
    maxlen: the length of a row, a number or a Variable of one element; None takes the largest of `x`.
    dtype: the data type of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable with one more dimension.

    >>> lengths = fluid.layers.assign(np.array([1, 3], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.sequence_mask(lengths, maxlen=4, dtype="float32")])[0]
    array([[1., 0., 0., 0.],
           [1., 1., 1., 0.]], dtype=float32)
    """
    helper = LayerHelper("sequence_mask", name=name)
    out = helper.create_variable_for_type_inference(dtype=dtype)
    inputs, attrs = {"X": [x]}, {"out_dtype": int(to_vartype(dtype))}
    if isinstance(maxlen, Variable):
        inputs["MaxLenTensor"] = [maxlen]
    elif maxlen is not None:
        attrs["maxlen"] = maxlen
    helper.append_op(type="sequence_mask", inputs=inputs, outputs={"Y": out}, attrs=attrs)
    out.stop_gradient = True
    return out


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence from the last to the first."""
    check_variable_and_dtype(
        x, "x", ["float32", "float64", "int8", "int32", "int64"], "fluid.layers.sequence_reverse"
    )
    return one_op("sequence_reverse", {"X": x}, dtype=x.dtype, name=name, slot="Y")


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
