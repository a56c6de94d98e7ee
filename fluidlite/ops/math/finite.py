"""Questions about values: whether they are finite, infinite, numbers at all, or close to others."""

from __future__ import annotations

import sys
from typing import Any

from fluidlite.base.dtypes import Array, VarType, is_float
from fluidlite.base.errors import NanInfError, ShapeError
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


# ---------------------------------------------------------------------- a look at a tensor
check_numerics = Op(
    "check_numerics",
    "tensor -> stats values",
    attrs={
        "op_type": "",
        "var_name": "",
        "check_nan_inf_level": 0,
        "stack_height_limit": -1,
        "output_dir": "",
    },
    lod=None,
    effect=True,
    idle=("stack_height_limit",),
)
_LARGEST_HALF = 65504.0


@check_numerics.shape
def _(tensor: Spec, output_dir: str) -> tuple[Spec, Spec]:
    if output_dir:
        raise ShapeError(
            f"op 'check_numerics': files are not written, so output_dir={output_dir!r} is refused"
        )
    if not is_float(tensor.dtype):
        raise ShapeError(
            f"op 'check_numerics': tensor must be of a floating-point type, not {tensor.dtype.name}"
        )
    return Spec((3,), VarType.INT64), Spec((3,), VarType.FP32)


@check_numerics.kernel
def _(xp: Any, tensor: Array, op_type: str, var_name: str, check_nan_inf_level: int) -> tuple[Array, Array]:
    nans, infs, zeros = (int(found.sum()) for found in (xp.isnan(tensor), xp.isinf(tensor), tensor == 0))
    most, least, mean = 0.0, 0.0, 0.0
    if tensor.size:
        most, least = float(xp.fmax.reduce(tensor, axis=None)), float(xp.fmin.reduce(tensor, axis=None))
        mean = float(tensor.mean(dtype=xp.float64))
    # lines as Paddle writes them: scripts that compare two runs read them
    kind = f"{tensor.dtype.kind.replace('f', 'fp')}{8 * tensor.itemsize}"
    wrong = f" num_nan={nans}, num_inf={infs}," if nans or infs else ""
    text = (
        f"in [op={op_type}, tensor={var_name}, dtype={kind}], numel={tensor.size},{wrong} "
        f"num_zero={zeros}, max={most:e}, min={least:e}, mean={mean:e}"
    )
    if wrong:
        if check_nan_inf_level == 0:
            raise NanInfError(f"op 'check_numerics': there are NaN or infinite numbers {text}")
        sys.stdout.write(f"[PRECISION] [ERROR] {text}\n")
    elif check_nan_inf_level > 2 or (check_nan_inf_level == 2 and max(abs(most), abs(least)) > _LARGEST_HALF):
        sys.stdout.write(f"[PRECISION] {text}\n")
    return xp.asarray([nans, infs, zeros]), xp.asarray([most, least, mean], dtype=xp.float32)
