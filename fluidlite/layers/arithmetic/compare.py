"""Layers that compare and combine booleans, element by element."""

from __future__ import annotations

from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = [
    "equal",
    "greater_equal",
    "greater_than",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]

_NUMBERS = ["float32", "float64", "int32", "int64"]


def _compare(type: str, x: Variable, y: Variable, cond: Variable | None, attrs: dict[str, Any]) -> Variable:
    """Append a comparison that writes `cond`, or a new variable of booleans."""
    check_variable_and_dtype(x, "x", _NUMBERS, type)
    check_variable_and_dtype(y, "y", _NUMBERS, type)
    if cond is not None:
        check_type(cond, "cond", Variable, type)
    helper = LayerHelper(type)
    out = (
        cond
        if cond is not None
        else helper.create_variable_for_type_inference(dtype="bool", stop_gradient=True)
    )
    helper.append_op(type=type, inputs={"X": [x], "Y": [y]}, outputs={"Out": [out]}, attrs=attrs)
    return out


def less_than(
    x: Variable, y: Variable, force_cpu: bool | None = None, cond: Variable | None = None
) -> Variable:
    """x < y, element by element.

    Parameters
    ----------
    x: a Variable.
    y: a Variable of the same data type; it is broadcast as in `elementwise_add`.
    force_cpu: keep the result on the host in programs for a device.
    cond: the bool Variable to write to; None makes a new one.

    Returns
    -------
    A bool Variable.

    >>> x = fluid.layers.assign(np.array([1, 2], "float32"))
    >>> y = fluid.layers.assign(np.array([2, 2], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.less_than(x, y)])[0]
    array([ True, False])
    """
    if force_cpu is not None:
        check_type(force_cpu, "force_cpu", bool, "less_than")
    return _compare("less_than", x, y, cond, {} if force_cpu is None else {"force_cpu": force_cpu})


def less_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """`x <= y`, element by element, written to `cond` where one is given."""
    return _compare("less_equal", x, y, cond, {})


def greater_than(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """`x > y`, element by element, written to `cond` where one is given."""
    return _compare("greater_than", x, y, cond, {})


def greater_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """`x >= y`, element by element, written to `cond` where one is given."""
    return _compare("greater_equal", x, y, cond, {})


def equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """x == y, element by element.

    Parameters
    ----------
    x: a Variable.
    y: a Variable of the same data type; it is broadcast as in `elementwise_add`.
    cond: the bool Variable to write to; None makes a new one.

    Returns
    -------
    A bool Variable.

    >>> x = fluid.layers.assign(np.array([1, 2], "int64"))
    >>> y = fluid.layers.assign(np.array([1, 3], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.equal(x, y)])[0]
    array([ True, False])
    """
    return _compare("equal", x, y, cond, {})


def not_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """`x != y`, element by element, written to `cond` where one is given."""
    return _compare("not_equal", x, y, cond, {})


def _logic(type: str, x: Variable, y: Variable | None, out: Variable | None, name: str | None) -> Variable:
    check_variable_and_dtype(x, "x", ["bool"], type)
    if y is not None:
        check_variable_and_dtype(y, "y", ["bool"], type)
    if out is not None:
        check_type(out, "out", Variable, type)
    helper = LayerHelper(type, name=name)
    out = out if out is not None else helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type=type, inputs={"X": x} if y is None else {"X": x, "Y": y}, outputs={"Out": out})
    return out


def logical_and(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """x and y, element by element.

    Parameters
    ----------
    x: a bool Variable.
    y: a bool Variable of the same shape.
    out: the bool Variable to write to; None makes a new one.
    name: the prefix of the result's name.

    Returns
    -------
    A bool Variable.

    >>> x = fluid.layers.assign(np.array([1, 2, 3], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.logical_and(x > 1.5, x < 2.5)])[0]
    array([False,  True, False])
    """
    return _logic("logical_and", x, y, out, name)


def logical_or(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """`x or y`, element by element."""
    return _logic("logical_or", x, y, out, name)


def logical_xor(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """`x != y` of booleans, element by element."""
    return _logic("logical_xor", x, y, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """`not x`, element by element."""
    return _logic("logical_not", x, None, out, name)
