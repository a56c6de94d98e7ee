"""Questions about values: whether they are finite, infinite, numbers at all, or close to others."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import Attr, AttrType, Op, Spec, same_as
from fluidlite.ops.kernels.numbers import check_alike
from fluidlite.values.tensor import SelectedRows


def _declare(type: str, each_type: str, function: str, all_of_them: bool) -> None:
    """The op of 1.x, one answer for the whole tensor, and that of 2.x, an answer for each element."""
    whole = Op(type, "X -> Out", lod=None)
    each = Op(each_type, "X -> Out", lod=None)

    def answers(xp: Any, x: Array) -> Any:
        return getattr(xp, function)(x) if x.dtype.kind == "f" else xp.full(x.shape, all_of_them)

    @whole.shape
    def _(X: Spec) -> Spec:
        return Spec((1,), VarType.BOOL)

    @whole.kernel
    def _(xp: Any, X: Any) -> Array:
        found = answers(xp, X.array if isinstance(X, SelectedRows) else X)
        return (found.all() if all_of_them else found.any()).reshape(1)

    each.shape(same_as("X", VarType.BOOL))

    @each.kernel
    def _(xp: Any, X: Array) -> Array:
        result: Array = answers(xp, X)
        return result


_declare("isfinite", "isfinite_v2", "isfinite", True)
_declare("isinf", "isinf_v2", "isinf", False)
_declare("isnan", "isnan_v2", "isnan", False)

_TOLERANCES = {
    "rtol": Attr(AttrType.FLOAT, 1e-5, other=AttrType.STRING),
    "atol": Attr(AttrType.FLOAT, 1e-8, other=AttrType.STRING),
    "equal_nan": False,
}
allclose = Op(
    "allclose", "Input Other -> Out", attrs=_TOLERANCES, lod=None, alike=("Input", "Other"), version=2
)
isclose = Op("isclose", "Input Other -> Out", attrs=_TOLERANCES, lod=None, alike=("Input", "Other"))


@allclose.shape
def _(Input: Spec, Other: Spec) -> Spec:
    check_alike("allclose", Input=Input, Other=Other)
    return Spec((1,), VarType.BOOL)


@allclose.kernel
def _(xp: Any, Input: Array, Other: Array, rtol: float | str, atol: float | str, equal_nan: bool) -> Array:
    return xp.asarray(xp.allclose(Input, Other, float(rtol), float(atol), equal_nan)).reshape(1)


@isclose.shape
def _(Input: Spec, Other: Spec) -> Spec:
    check_alike("isclose", Input=Input, Other=Other)
    return Spec(Input.shape, VarType.BOOL)


@isclose.kernel
def _(xp: Any, Input: Array, Other: Array, rtol: float | str, atol: float | str, equal_nan: bool) -> Array:
    result: Array = xp.isclose(Input, Other, float(rtol), float(atol), equal_nan)
    return result
