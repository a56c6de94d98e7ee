"""Functions of one element without parameters, or with one: `fluid.layers.ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_type
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.activations import FLOATS, append_unary
from fluidlite.layers.signatures import Unary

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cumsum",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hard_shrink",
    "logsigmoid",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "softplus",
    "softshrink",
    "softsign",
    "sqrt",
    "square",
    "tanh",
    "tanh_shrink",
    "thresholded_relu",
]

_NUMBERS = ("int32", "int64", *FLOATS)


def _activation(type: str, formula: str, example: tuple[float, str], dtypes: Sequence[str] = FLOATS) -> Unary:
    """The layer `f(x, name=None)` for an op of that type; the example is a number and the result as text."""

    def layer(x: Variable, name: str | None = None) -> Variable:
        return append_unary(type, x, name, dtypes=dtypes)

    layer.__name__ = layer.__qualname__ = type
    given, printed = example
    layer.__doc__ = _ABOUT.format(
        type=type, formula=formula, dtypes=", ".join(dtypes), given=given, printed=printed
    )
    return layer


_ABOUT = """{formula}, element by element.

    Parameters
    ----------
    x: a Variable of any shape; TypeError unless its data type is one of {dtypes}.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable of the shape and data type of `x`.

    >>> x = fluid.layers.assign(np.array([{given}], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.{type}(x)])[0]
    array([{printed}], dtype=float32)
    """

abs = _activation("abs", "|x|", (-2, "2."), _NUMBERS)
acos = _activation("acos", "The angle in [0, pi] whose cosine is x", (1, "0."))
asin = _activation("asin", "The angle in [-pi/2, pi/2] whose sine is x", (0, "0."))
atan = _activation("atan", "The angle in [-pi/2, pi/2] whose tangent is x", (0, "0."))
ceil = _activation("ceil", "The smallest integer not below x", (0.5, "1."))
cos = _activation("cos", "The cosine of x", (0, "1."))
exp = _activation("exp", "exp(x)", (0, "1."), _NUMBERS)
floor = _activation("floor", "The largest integer not above x", (1.5, "1."))
logsigmoid = _activation("logsigmoid", "log(1 / (1 + exp(-x)))", (0, "-0.6931472"))
reciprocal = _activation("reciprocal", "1 / x", (4, "0.25"))
round = _activation("round", "The nearest integer, halves away from zero", (0.5, "1."))
rsqrt = _activation("rsqrt", "1 / sqrt(x)", (4, "0.5"))
sigmoid = _activation("sigmoid", "1 / (1 + exp(-x))", (0, "0.5"))
sin = _activation("sin", "The sine of x", (0, "0."))
softplus = _activation("softplus", "log(1 + exp(x))", (0, "0.6931472"))
softsign = _activation("softsign", "x / (1 + |x|)", (1, "0.5"))
sqrt = _activation("sqrt", "The square root of x", (4, "2."))
square = _activation("square", "x squared", (3, "9."), _NUMBERS)
tanh = _activation("tanh", "The hyperbolic tangent of x", (0, "0."))
tanh_shrink = _activation("tanh_shrink", "x - tanh(x)", (0, "0."))


def _with_attrs(type: str, x: Variable, attrs: dict[str, Any]) -> Variable:
    """Append the op with those attributes that are not None."""
    return append_unary(type, x, attrs={key: value for key, value in attrs.items() if value is not None})


def hard_shrink(x: Variable, threshold: float | None = None) -> Variable:
    """x where |x| > threshold (0.5 by default), else 0."""
    return _with_attrs("hard_shrink", x, {"threshold": threshold})


def softshrink(x: Variable, alpha: float | None = None) -> Variable:
    """x moved by alpha (0.5 by default) towards 0, and 0 within +-alpha."""
    return _with_attrs("softshrink", x, {"lambda": alpha})


def thresholded_relu(x: Variable, threshold: float | None = None) -> Variable:
    """x where x > threshold (1 by default), else 0."""
    return _with_attrs("thresholded_relu", x, {"threshold": threshold})


def _unchecked(type: str, x: Variable, attrs: dict[str, Any]) -> Variable:
    """Append the op whatever the dtype of x; an error where it is no Variable nor a list of one."""
    if isinstance(x, list) and len(x) == 1:
        x = x[0]
    if not isinstance(x, Variable):
        raise ArgumentError(f"input of {type} must be variable")
    helper = LayerHelper(type)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type=type, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
    return out


def erf(x: Variable) -> Variable:
    """The Gauss error function, element by element."""
    return _unchecked("erf", x, {})


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the normal distribution function at x; `approximate` takes its approximation by tanh."""
    return _unchecked("gelu", x, {"approximate": approximate})


def cumsum(
    x: Variable, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None
) -> Variable:
    """Running sums along `axis` (default: the last), without each element itself if `exclusive`, from the
    end if `reverse`.
    """
    check_type(x, "x", Variable, "cumsum")
    attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return _unchecked("cumsum", x, {key: value for key, value in attrs.items() if value is not None})


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
