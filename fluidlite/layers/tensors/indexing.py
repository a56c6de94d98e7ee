"""Layers that take parts of a tensor, or put parts into one: slices, gathers, scatters, crops, turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.tensors.constants import has_variable, shape_tensors, static_dims, zeros
from fluidlite.layers.tensors.shaping import reshape
from fluidlite.layers.tensors.variables import assign

__all__ = [
    "crop",
    "crop_tensor",
    "diag_embed",
    "flip",
    "gather",
    "gather_nd",
    "index_sample",
    "index_select",
    "multiplex",
    "roll",
    "scatter",
    "scatter_nd",
    "scatter_nd_add",
    "slice",
    "strided_slice",
]

_NUMBERS = ["float32", "float64", "int32", "int64"]


# ---------------------------------------------------------------------- slices
class _Bounds:
    """Starts, ends or strides of a slice, as inputs and attributes; `known` says of each whether it is a
    number.
    """

    def __init__(self, slot: str, given: Any, count: int) -> None:
        self.slot, self.given = slot, given
        self.known = [True] * count
        if not isinstance(given, (list, tuple, Variable)):
            raise ValueError(f"Input {slot.lower()} must be an Variable, python list or tuple.")
        if isinstance(given, Variable):
            self.known = [False] * count
        else:
            self.known = [not isinstance(item, Variable) for item in given]

    def arguments(self, helper: LayerHelper) -> tuple[dict[str, Any], dict[str, Any]]:
        """Inputs and attributes; numbers beside Variables become one-element tensors."""
        attr = self.slot.lower()
        if isinstance(self.given, Variable):
            self.given.stop_gradient = True
            return {self.slot + "Tensor": self.given}, {attr: []}
        if has_variable(self.given):
            tensors = shape_tensors(self.given, lambda: helper.create_variable_for_type_inference("int32"))
            return {self.slot + "TensorList": tensors}, {attr: static_dims(self.given)}
        return {}, {attr: list(self.given)}


def _append_slice(
    type: str, input: Variable, axes: Sequence[int], bounds: Sequence[_Bounds], infer: bool
) -> Variable:
    """`infer`: which dimensions of the result are known follows from bounds given as one tensor, too."""
    helper = LayerHelper(type, input=input, axes=axes)
    inputs: dict[str, Any] = {"Input": input}
    attrs: dict[str, Any] = {"axes": axes}
    flags = [1] * len(axes)
    for bound in bounds:
        if isinstance(bound.given, (list, tuple)) and len(bound.given) != len(axes):
            raise ArgumentError(f"{type}: {bound.given} must have as many entries as axes {axes}")
        more_inputs, more_attrs = bound.arguments(helper)
        inputs.update(more_inputs)
        attrs.update(more_attrs)
        if infer or not isinstance(bound.given, Variable):
            flags = [flag if known else -1 for flag, known in zip(flags, bound.known, strict=False)]
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type=type, inputs=inputs, attrs={**attrs, "infer_flags": flags}, outputs={"Out": out})
    return out


def slice(input: Variable, axes: Sequence[int], starts: Any, ends: Any) -> Variable:
    """A part of `input`: positions `starts` to `ends` of the dimensions `axes`.

    Parameters
    ----------
    input: a Variable.
    axes: the dimensions that are cut.
    starts: the first position in each of them; negative numbers count from the end. A list, which may hold
        Variables of one element, or a one-dimensional int32 Variable.
    ends: the position behind the last one, in the same ways; one beyond the end means the end.

    Returns
    -------
    A Variable of as many dimensions.

    >>> x = fluid.layers.assign(np.arange(6, dtype="float32").reshape(2, 3))
    >>> exe.run(fetch_list=[fluid.layers.slice(x, axes=[1], starts=[-2], ends=[3])])[0]
    array([[1., 2.],
           [4., 5.]], dtype=float32)
    """
    check_type(input, "input", Variable, "slice")
    bounds = (
        [_Bounds("Starts", starts, len(axes)), _Bounds("Ends", ends, len(axes))]
        if isinstance(axes, (list, tuple))
        else [_Bounds("Starts", starts, 0), _Bounds("Ends", ends, 0)]
    )
    return _append_slice("slice", input, axes, bounds, True)


def strided_slice(input: Variable, axes: Sequence[int], starts: Any, ends: Any, strides: Any) -> Variable:
    """`input[starts[i]:ends[i]:strides[i]]` along each of `axes`; bounds are lists, which may hold
    Variables, or 1-D Variables.
    """
    check_variable_and_dtype(input, "input", _NUMBERS, "strided_slice")
    check_type(axes, "axes", (list, tuple), "strided_slice")
    bounds = []
    for slot, given in (("Starts", starts), ("Ends", ends), ("Strides", strides)):
        check_type(given, slot.lower(), (list, tuple, Variable), "strided_slice")
        for item in [given] if isinstance(given, Variable) else given:
            if isinstance(item, Variable):
                check_dtype(item.dtype, slot.lower(), ["int32"], "strided_slice")
        bounds.append(_Bounds(slot, given, len(axes)))
    return _append_slice("strided_slice", input, axes, bounds, False)


def _as_ints(helper: LayerHelper, given: Any) -> list[Variable]:
    return shape_tensors(given, lambda: helper.create_variable_for_type_inference("int32"))


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """The part of `x` of `shape` (a list, or that of a Variable) from `offsets` (a list, or a 1-D
    Variable; zeros) on.
    """
    check_variable_and_dtype(x, "x", ["float32"], "crop")
    check_type(shape, "shape", (list, tuple, Variable), "crop")
    helper = LayerHelper("crop", x=x, name=name)
    offsets = [0] * len(x.shape) if offsets is None else offsets
    out = helper.create_variable_for_type_inference(x.dtype)
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        inputs["Y"] = shape
    else:
        attrs["shape"] = shape
    if isinstance(offsets, Variable):
        inputs["Offsets"] = offsets
    else:
        attrs["offsets"] = offsets
    helper.append_op(type="crop", inputs=inputs, outputs={"Out": out}, attrs=attrs or None)
    return out


def crop_tensor(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """The part of `x` of `shape` from `offsets` (zeros) on; both are lists, which may hold Variables, or 1-D
    Variables.

    A dimension of -1 in `shape` takes all that is left after the offset.
    """
    helper = LayerHelper("crop_tensor", x=x, name=name)
    check_variable_and_dtype(x, "x", _NUMBERS, "crop_tensor")
    check_type(shape, "shape", (list, tuple, Variable), "crop_tensor")
    check_type(offsets, "offsets", (list, tuple, Variable, type(None)), "crop_tensor")
    offsets = [0] * len(x.shape) if offsets is None else offsets
    out = helper.create_variable_for_type_inference(x.dtype)
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if isinstance(offsets, Variable):
        offsets.stop_gradient = True
        inputs["Offsets"], attrs["offsets"] = offsets, [-1] * len(x.shape)
    else:
        for item in offsets:
            _check_crop("offsets", item, lambda value: value >= 0, "not be negative")
        attrs["offsets"] = static_dims(offsets)
        if has_variable(offsets):
            inputs["OffsetsTensor"] = _as_ints(helper, offsets)
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        inputs["Shape"] = shape
    else:
        for item in shape:
            _check_crop("shape", item, lambda value: value != 0, "not be zero")
            _check_crop("shape", item, lambda value: value >= -1, "be -1 or positive")
        attrs["shape"] = [0 if isinstance(item, Variable) else item for item in shape]
        if has_variable(shape):
            inputs["ShapeTensor"] = _as_ints(helper, shape)
    helper.append_op(type="crop_tensor", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _check_crop(attr: str, item: Any, fits: Any, wanted: str) -> None:
    """TypeError or ValueError for an item of a list that a crop cannot use."""
    if isinstance(item, Variable):
        return
    if not isinstance(item, int):
        raise TypeError(
            f"Attr({attr})'s dtype of Op(crop_tensor) should be int32, but received: {type(item)}."
        )
    if not fits(item):
        raise ValueError(f"Attr({attr}) of Op(crop_tensor) should {wanted}, but received: {item}.")


# ---------------------------------------------------------------------- gather and scatter
def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of `input`, chosen by numbers.

    Parameters
    ----------
    input: a Variable of any number of dimensions.
    index: numbers of rows, an int32 or int64 Variable [K] or [K, 1].
    overwrite: what happens to the gradient of a row that is chosen several times: True (default) keeps one of
        the gradients, False adds them.

    Returns
    -------
    A Variable with K rows.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4], [5, 6]], "float32"))
    >>> rows = fluid.layers.assign(np.array([2, 0], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.gather(x, rows)])[0]
    array([[5., 6.],
           [1., 2.]], dtype=float32)
    """
    check_type(input, "input", Variable, "gather")
    return one_op("gather", {"X": input, "Index": index}, {"overwrite": overwrite}, dtype=input.dtype)


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """Elements or slices of `input`, chosen by positions in its first dimensions.

    Parameters
    ----------
    input: a Variable.
    index: positions, an int32 or int64 Variable [..., Q]; each row of Q numbers is one position.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable [..., the dimensions of `input` behind the first Q].

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> where = fluid.layers.assign(np.array([[0, 1], [1, 0]], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.gather_nd(x, where)])[0]
    array([2., 3.], dtype=float32)
    """
    check_type(input, "input", Variable, "gather_nd")
    return one_op("gather_nd", {"X": input, "Index": index}, dtype=input.dtype, name=name)


def scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True
) -> Variable:
    """`input` with the rows numbered by `index` replaced by `updates`; without `overwrite`, by the sum of
    their updates.
    """
    check_type(input, "input", Variable, "scatter")
    return one_op(
        "scatter",
        {"X": input, "Ids": index, "Updates": updates},
        {"overwrite": overwrite},
        dtype=input.dtype,
        name=name,
    )


def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """`ref` with `updates` added at (i, j, ...) for each (i, j, ...) in the last dimension of `index`."""
    if ref.dtype != updates.dtype:
        raise ValueError("ref and updates must have same data type.")
    return one_op(
        "scatter_nd_add", {"X": ref, "Index": index, "Updates": updates}, dtype=ref.dtype, name=name
    )


def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Zeros of `shape` with `updates` added at (i, j, ...) for each (i, j, ...) in the last dimension of
    `index`.
    """
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Row i is row i of `inputs[index[i]]`; index [n, 1] holds int32 or int64."""
    check_type(inputs, "inputs", list, "multiplex")
    if len(inputs) < 2:
        raise ValueError("inputs should be a list object with at least 2 elements.")
    for number, var in enumerate(inputs):
        check_variable_and_dtype(
            var, f"input[{number}]", ["float32", "float64", "int32", "int64"], "multiplex"
        )
    check_variable_and_dtype(index, "index", ["int32", "int64"], "multiplex")
    return one_op("multiplex", {"X": inputs, "Ids": index}, dtype=inputs[0].dtype)


def index_select(input: Variable, index: Variable, dim: int = 0) -> Variable:
    """The slices of `input` along `dim` numbered by `index` [n]."""
    check_variable_and_dtype(input, "x", _NUMBERS, "index_select")
    check_variable_and_dtype(index, "index", ["int32", "int64"], "index_select")
    return one_op("index_select", {"X": input, "Index": index}, {"dim": dim}, dtype=input.dtype)


def index_sample(x: Variable, index: Variable) -> Variable:
    """`x[i, index[i, j]]` at [i, j]."""
    check_variable_and_dtype(x, "x", _NUMBERS, "index_sample")
    check_variable_and_dtype(index, "index", ["int32", "int64"], "index_sample")
    return one_op("index_sample", {"X": x, "Index": index}, dtype=x.dtype)


# ---------------------------------------------------------------------- turns and diagonals
def flip(input: Variable, dims: Sequence[int], name: str | None = None) -> Variable:
    """`input` in reverse order along each of `dims`."""
    check_type(input, "X", Variable, "flip")
    check_dtype(input.dtype, "X", ["bool", "float16", *_NUMBERS], "flip")
    check_type(dims, "dims", (list, tuple), "flip")
    assert len(dims) > 0, "len(dims) must be greater than 0"
    helper = LayerHelper("flip", input=input, dims=dims, name=name)
    out = (
        helper.create_variable_for_type_inference(input.dtype)
        if name is None
        else helper.create_variable(name=name, dtype=input.dtype, persistable=False)
    )
    helper.append_op(type="flip", inputs={"X": input}, outputs={"Out": out}, attrs={"dims": dims})
    return out


def roll(input: Variable, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Variable:
    """`input` moved on by `shifts` along `dims`, what falls off coming in again; the flattened tensor
    without `dims`.
    """
    shape = input.shape
    moves = [shifts] if type(shifts) is int else shifts
    axes = [dims] if type(dims) is int else dims
    if axes is not None:
        check_type(axes, "dims", (list, tuple), "roll")
    check_type(moves, "shifts", (list, tuple), "roll")
    if axes is None:
        input, axes = reshape(input, shape=[-1, 1]), [0]
    out = one_op("roll", {"X": input}, {"dims": axes, "shifts": moves}, dtype=input.dtype)
    return reshape(out, shape=list(shape), inplace=True)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Matrices, in dimensions `dim1` and `dim2` of the result, with the last dimension of `input` on
    diagonal `offset`.
    """
    if not isinstance(input, Variable):
        input = assign(input)
    check_dtype(input.dtype, "Input", ["int32", "int64", "float16", "float32", "float64"], "diag_embed")
    rank = len(input.shape) + 1
    assert rank >= 2, f"Input must be at least 1-dimensional, But received Input's dimensional: {rank - 1}."
    for name, dim in (("dim1", dim1), ("dim2", dim2)):
        assert -rank <= dim < rank, (
            f"{name} is out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})."
        )
    assert dim1 % rank != dim2 % rank, (
        f"dim1 and dim2 cannot be the same dimension. But received dim1 = {dim1}, dim2 = {dim2}"
    )
    return one_op(
        "diag_embed",
        {"Input": [input]},
        {"offset": offset, "dim1": dim1, "dim2": dim2},
        dtype=input.dtype,
        stop_gradient=True,
    )
