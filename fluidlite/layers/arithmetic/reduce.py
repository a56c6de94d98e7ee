"""Reductions over dimensions, and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = [
    "mean",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "softmax",
]

Dims = int | list[int] | None
_FLOATS = ["float16", "float32", "float64"]
_NUMBERS = ["float32", "float64", "int32", "int64"]


def _reduce(type: str, input: Variable, dim: Dims, keep_dim: bool, name: str | None) -> Variable:
    """Append the op `type`; no dimensions, or an empty list of them, stand for all."""
    helper = LayerHelper(type, name=name)
    dims: list[Any] = []
    if dim is not None:
        # 1.8.5 takes a tuple for one dimension, and fails
        check_type(dim, "dim", (int, np.integer, list), type)
        dims = dim if isinstance(dim, list) else [dim]
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(
        type=type,
        inputs={"X": input},
        outputs={"Out": out},
        attrs={"dim": dims or [0], "keep_dim": keep_dim, "reduce_all": not dims},
    )
    return out


def reduce_sum(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The sum over some dimensions, or over all.

    Parameters
    ----------
    input: a Variable.
    dim: a dimension or a list of them, negative ones counted from the end; None for all.
    keep_dim: leave these dimensions with size 1.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable without the dimensions; [1] where none is left.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.reduce_sum(x, dim=1), fluid.layers.reduce_sum(x)])
    [array([3., 7.], dtype=float32), array([10.], dtype=float32)]
    """
    check_variable_and_dtype(input, "input", _NUMBERS, "reduce_sum")
    return _reduce("reduce_sum", input, dim, keep_dim, name)


def reduce_mean(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The mean over some dimensions, or over all.

    Parameters
    ----------
    input: a Variable of floating-point numbers.
    dim: a dimension or a list of them, negative ones counted from the end; None for all.
    keep_dim: leave these dimensions with size 1.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable without the dimensions; [1] where none is left.

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.reduce_mean(x, dim=0, keep_dim=True)])[0]
    array([[2., 3.]], dtype=float32)
    """
    check_variable_and_dtype(input, "input", _NUMBERS, "reduce_mean")
    return _reduce("reduce_mean", input, dim, keep_dim, name)


def reduce_max(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The largest element over some dimensions, or over all.

    Parameters
    ----------
    input: a Variable.
    dim: a dimension or a list of them, negative ones counted from the end; None for all.
    keep_dim: leave these dimensions with size 1.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable without the dimensions; [1] where none is left.

    >>> x = fluid.layers.assign(np.array([[1, 5], [3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.reduce_max(x, dim=1)])[0]
    array([5., 4.], dtype=float32)
    """
    check_type(input, "input", Variable, "reduce_max")
    return _reduce("reduce_max", input, dim, keep_dim, name)


def reduce_min(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The smallest element over dimensions `dim` (all when None); each of several smallest ones gets the
    whole gradient.
    """
    check_type(input, "input", Variable, "reduce_min")
    return _reduce("reduce_min", input, dim, keep_dim, name)


def reduce_prod(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """The product over dimensions `dim` (all when None); where an element is 0 the gradient is NaN, as in
    Paddle.
    """
    check_type(input, "input", Variable, "reduce_prod")
    return _reduce("reduce_prod", input, dim, keep_dim, name)


def reduce_all(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """True if all elements of a bool tensor are true over dimensions `dim` (all when None)."""
    check_variable_and_dtype(input, "input", ("bool",), "reduce_all")
    return _reduce("reduce_all", input, dim, keep_dim, name)


def reduce_any(
    input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """True if any element of a bool tensor is true over dimensions `dim` (all when None)."""
    check_variable_and_dtype(input, "input", ("bool",), "reduce_any")
    return _reduce("reduce_any", input, dim, keep_dim, name)


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements.

    Parameters
    ----------
    x: a Variable of floating-point numbers of any shape.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable [1].

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.mean(x)])[0]
    array([2.5], dtype=float32)
    """
    helper = LayerHelper("mean", name=name)
    check_variable_and_dtype(x, "x", _FLOATS, "mean")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type="mean", inputs={"X": x}, outputs={"Out": out})
    return out


def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Variable:
    """exp(x) / sum(exp(x)), the sum along one dimension.

    Parameters
    ----------
    input: a Variable of floating-point numbers.
    use_cudnn: chooses among kernels of a device; the result is the same.
    name: the prefix of the result's name.
    axis: the dimension; negative numbers count from the end.

    Returns
    -------
    A Variable of the shape of `input`, whose sums along `axis` are 1. None of its elements is below exp(-64),
    as in PaddlePaddle.

    >>> x = fluid.layers.assign(np.array([[0, 0], [0, 100]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.softmax(x)])[0].round(2)
    array([[0.5, 0.5],
           [0. , 1. ]], dtype=float32)
    """
    helper = LayerHelper("softmax", name=name)
    check_variable_and_dtype(input, "input", _FLOATS, "softmax")
    out = helper.create_variable_for_type_inference(input.dtype)
    attrs: dict[str, Any] = {"axis": axis, "use_cudnn": use_cudnn}
    helper.append_op(type="softmax", inputs={"X": input}, outputs={"Out": out}, attrs=attrs)
    return out
