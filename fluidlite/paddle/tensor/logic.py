"""`paddle.tensor.logic`: comparisons, booleans, and questions about elements."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.layers.signatures import Binary, Logic, Unary
from fluidlite.paddle.build import append, cast, need_variable
from fluidlite.paddle.promotion import beside_number
from fluidlite.paddle.tensor.shapes import constant

__all__ = [
    "allclose",
    "equal",
    "equal_all",
    "greater_equal",
    "greater_than",
    "is_empty",
    "is_tensor",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]


def _compared(op_type: str, x: Variable, y: Variable, name: str | None) -> Variable:
    need_variable(x, "x", op_type)
    need_variable(y, "y", op_type)
    return append(op_type, {"X": [x], "Y": [y]}, dtype=VarType.BOOL, name=name, stop_gradient=True)


def _comparison(op_type: str) -> Binary:
    def function(x: Variable, y: Variable, name: str | None = None) -> Variable:
        return _compared(op_type, x, y, name)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"`{op_type}` of the elements of x and y, as booleans."
    return function


greater_equal, greater_than = _comparison("greater_equal"), _comparison("greater_than")
less_equal, less_than = _comparison("less_equal"), _comparison("less_than")
not_equal = _comparison("not_equal")


def equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """True where elements are equal; y may be a number."""
    if not isinstance(y, (int, float, Variable)):
        raise TypeError(f"Type of input args must be float, bool, int or Tensor, but received type {type(y)}")
    if isinstance(y, Variable):
        return _compared("equal", x, y, name)
    dtype = beside_number(x.dtype, y)
    return _compared("equal", x if x.dtype == dtype else cast(x, dtype), constant([], dtype, y), name)


def equal_all(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """True if all elements are equal."""
    return append("equal_all", {"X": [x], "Y": [y]}, dtype=VarType.BOOL, name=name)


def allclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """True if |x - y| <= atol + rtol * |y| everywhere."""
    return _near("allclose", x, y, rtol, atol, equal_nan, name, scalar=True)


def isclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """True where |x - y| <= atol + rtol * |y|."""
    return _near("isclose", x, y, rtol, atol, equal_nan, name, scalar=False)


def _near(
    op_type: str,
    x: Variable,
    y: Variable,
    rtol: float,
    atol: float,
    equal_nan: bool,
    name: str | None,
    scalar: bool,
) -> Variable:
    if len(x.shape) != len(y.shape):
        raise ValueError(f"{op_type}: x{list(x.shape)} and y{list(y.shape)} differ in rank")
    inputs = {"Input": [x], "Other": [y]}
    attrs = {"rtol": str(rtol), "atol": str(atol), "equal_nan": equal_nan}
    return append(op_type, inputs, attrs, dtype=VarType.BOOL, name=name, scalar=scalar)


def _logic(op_type: str) -> Logic:
    def function(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
        need_variable(y, "y", op_type)
        inputs = {"X": [x], "Y": [y]}
        return append(op_type, inputs, dtype=VarType.BOOL, name=name, out=out)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"`{op_type}` of booleans."
    return function


logical_and, logical_or, logical_xor = _logic("logical_and"), _logic("logical_or"), _logic("logical_xor")


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The other booleans."""
    return append("logical_not", {"X": [x]}, dtype=VarType.BOOL, name=name, out=out)


def _question(op_type: str, name_of: str) -> Unary:
    def function(x: Variable, name: str | None = None) -> Variable:
        return append(op_type, {"X": [x]}, dtype=VarType.BOOL, name=name)

    function.__name__ = function.__qualname__ = name_of
    function.__doc__ = f"`{name_of}` of each element, as booleans."
    return function


isfinite, isinf, isnan = (
    _question("isfinite_v2", "isfinite"),
    _question("isinf_v2", "isinf"),
    _question("isnan_v2", "isnan"),
)


def is_empty(x: Variable, name: str | None = None) -> Variable:
    """True if x has no elements."""
    return append("is_empty", {"X": [x]}, dtype=VarType.BOOL, name=name, scalar=True, stop_gradient=True)


def is_tensor(x: Any) -> bool:
    """True for a Variable."""
    return isinstance(x, Variable)
