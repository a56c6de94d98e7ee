"""Second derivatives: the gradient ops of gradient ops that PaddlePaddle has, beside those declared with
convolutions and mul.

DDX is the gradient that comes in for X@GRAD, DOut is Out@GRAD, DDOut the gradient for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import GradContext, Op, Spec, get
from fluidlite.ops.math.elementwise import ATTRS, pair, sum_back

Maybe: TypeAlias = "Array | None"


def _emits(grad_type: str, wrt: str, inputs: dict[str, str], outputs: dict[str, str], type: str = "") -> None:
    """Give `grad_type` a gradient rule: slots of the new op from those of the gradient op, a leading d
    asks for gradients.
    """

    def rule(context: GradContext) -> None:
        def read(slot: str) -> list[str]:
            return (
                context.out_grad(slot[1:])
                if slot.startswith("d")
                else context.input(slot) or context.output(slot)
            )

        context.emit(
            type or grad_type + "_grad",
            {slot: names for slot, source in inputs.items() if (names := read(source))},
            {slot: context.in_grad(source) for slot, source in outputs.items()},
        )

    get(grad_type).grad_rule(wrt)(rule)


# ---------------------------------------------------------------------- functions of one element
def _like_incoming(DDX: Spec) -> Spec:
    return DDX


def _linear(type: str, attrs: dict[str, Any] | None = None) -> Op:
    """The second derivative of a function made of straight pieces, which Out tells apart: only DDOut."""
    _emits(type + "_grad", "Out@GRAD", {"Out": "Out", "DDX": "dX@GRAD"}, {"DDOut": "Out@GRAD"})
    op = Op(type + "_grad_grad", "Out DDX -> DDOut?", attrs=attrs or {})
    op.shape(_like_incoming)
    return op


@_linear("relu").kernel
def _(Out: Array, DDX: Array) -> Array:
    return DDX * (Out > 0)


@_linear("leaky_relu", {"alpha": 0.02}).kernel
def _(xp: Any, Out: Array, DDX: Array, alpha: float) -> Array:
    slope: Array = xp.where(Out > 0, DDX, DDX * alpha)
    return slope


def _both_incoming(DDX: Spec) -> tuple[Spec, Spec]:
    return DDX, DDX


def _of_input(type: str, attrs: dict[str, Any] | None = None) -> Op:
    """The second derivative of a function whose first one is written with X."""
    _emits(
        type + "_grad",
        "X Out@GRAD",
        {"X": "X", "DOut": "Out@GRAD", "DDX": "dX@GRAD"},
        {"DX": "X", "DDOut": "Out@GRAD"},
    )
    op = Op(type + "_grad_grad", "X DOut DDX -> DX? DDOut?", attrs=attrs or {})
    op.shape(_both_incoming)
    return op


@_of_input("square").kernel
def _(X: Array, DOut: Array, DDX: Array) -> tuple[Array, Array]:
    return 2 * DOut * DDX, 2 * X * DDX


@_of_input("elu", {"alpha": 1.0}).kernel
def _(xp: Any, X: Array, DOut: Array, DDX: Array, alpha: float) -> tuple[Array, Array]:
    curve = alpha * xp.exp(xp.minimum(X, 0))
    return xp.where(X > 0, 0, DOut * DDX * curve).astype(X.dtype), xp.where(X > 0, DDX, DDX * curve)


_emits(
    "sqrt_grad",
    "Out Out@GRAD",
    {"Out": "Out", "DX": "X@GRAD", "DDX": "dX@GRAD"},
    {"DOut": "Out", "DDOut": "Out@GRAD"},
)
sqrt_grad_grad = Op("sqrt_grad_grad", "Out DX DDX -> DOut? DDOut?")
sqrt_grad_grad.shape(_both_incoming)


@sqrt_grad_grad.kernel
def _(Out: Array, DX: Array, DDX: Array) -> tuple[Array, Array]:
    return -DX * DDX / Out, 0.5 * DDX / Out


# ---------------------------------------------------------------------- functions of two operands
def _spread(xp: Any, value: Maybe, like: Array, shape: tuple[int, ...], axis: int) -> Any:
    """An operand's incoming gradient, broadcast as the operand was; 0 where there is none."""
    return 0 if value is None else xp.broadcast_to(pair(like, value, axis)[1], shape)


for _type in ("elementwise_add_grad", "elementwise_sub_grad"):
    _emits(
        _type,
        "Out@GRAD",
        {"Y": "Y", "DOut": "Out@GRAD", "DDX": "dX@GRAD", "DDY": "dY@GRAD"},
        {"DDOut": "Out@GRAD"},
    )
elementwise_add_grad_grad = Op(
    "elementwise_add_grad_grad", "Y? DOut DDX? DDY? -> DDOut?", attrs=ATTRS, lod=None
)
elementwise_sub_grad_grad = Op(
    "elementwise_sub_grad_grad", "Y? DOut DDX? DDY? -> DDOut?", attrs=ATTRS, lod=None
)


@elementwise_add_grad_grad.shape
@elementwise_sub_grad_grad.shape
def _(DOut: Spec) -> Spec:
    return DOut


@elementwise_add_grad_grad.kernel
def _(xp: Any, DOut: Array, DDX: Maybe, DDY: Maybe, axis: int) -> Array:
    total: Array = _spread(xp, DDX, DOut, DOut.shape, axis) + _spread(xp, DDY, DOut, DOut.shape, axis)
    return total


@elementwise_sub_grad_grad.kernel
def _(xp: Any, DOut: Array, DDX: Maybe, DDY: Maybe, axis: int) -> Array:
    difference: Array = _spread(xp, DDX, DOut, DOut.shape, axis) - _spread(xp, DDY, DOut, DOut.shape, axis)
    return difference


_emits(
    "elementwise_mul_grad",
    "X Y Out@GRAD",
    {"X": "X", "Y": "Y", "DOut": "Out@GRAD", "DDX": "dX@GRAD", "DDY": "dY@GRAD"},
    {"X@GRAD": "X", "Y@GRAD": "Y", "DDOut": "Out@GRAD"},
)
elementwise_mul_grad_grad = Op(
    "elementwise_mul_grad_grad", "X Y DOut DDX? DDY? -> DDOut? X@GRAD? Y@GRAD?", attrs=ATTRS, lod=None
)


@elementwise_mul_grad_grad.shape
def _(X: Spec, Y: Spec, DOut: Spec) -> tuple[Spec, Spec, Spec]:
    return DOut, X, Y


@elementwise_mul_grad_grad.kernel
def _(
    xp: Any, X: Array, Y: Array, DOut: Array, DDX: Maybe, DDY: Maybe, axis: int
) -> tuple[Array, Array, Array]:
    x, y = pair(X, Y, axis)
    ddx, ddy = (_spread(xp, value, DOut, DOut.shape, axis) for value in (DDX, DDY))
    return (
        ddx * y + x * ddy,
        sum_back(xp, DOut * ddy, X.shape, DOut.ndim, axis),
        sum_back(xp, DOut * ddx, Y.shape, DOut.ndim, axis),
    )


_emits(
    "elementwise_div_grad",
    "Y Out Out@GRAD",
    {"Y": "Y", "Out": "Out", "DX": "X@GRAD", "DDX": "dX@GRAD", "DDY": "dY@GRAD"},
    {"Y@GRAD": "Y", "DOut": "Out", "DDOut": "Out@GRAD"},
)
elementwise_div_grad_grad = Op(
    "elementwise_div_grad_grad", "Y Out DX DDX? DDY? -> Y@GRAD? DOut? DDOut?", attrs=ATTRS, lod=None
)


@elementwise_div_grad_grad.shape
def _(Y: Spec, Out: Spec) -> tuple[Spec, Spec, Spec]:
    return Y, Out, Out


@elementwise_div_grad_grad.kernel
def _(
    xp: Any, Y: Array, Out: Array, DX: Array, DDX: Maybe, DDY: Maybe, axis: int
) -> tuple[Array, Array, Array]:
    y = pair(Out, Y, axis)[1]
    ddx, ddy = (_spread(xp, value, Out, Out.shape, axis) for value in (DDX, DDY))
    difference = ddx - Out * ddy
    return sum_back(xp, -DX * difference / y, Y.shape, Out.ndim, axis), -DX * ddy, difference / y


# ---------------------------------------------------------------------- shapes
def _forward_again(type: str, slots: Sequence[str] = (), first: str = "X") -> None:
    """The gradient of `<type>_grad` is `type` itself, of what comes in for the gradient of its first
    input.
    """
    inputs = {first: f"d{first}@GRAD", **{slot: slot for slot in slots}}
    _emits(type + "_grad", "Out@GRAD", inputs, {"Out": "Out@GRAD"}, type=type)


_forward_again("expand", ["ExpandTimes", "expand_times_tensor"])
_forward_again("slice", ["StartsTensor", "EndsTensor", "StartsTensorList", "EndsTensorList"], first="Input")

_emits("reshape2_grad", "Out@GRAD", {"DOut": "Out@GRAD", "DDX": "dX@GRAD"}, {"DDOut": "Out@GRAD"})
reshape2_grad_grad = Op("reshape2_grad_grad", "DOut DDX -> DDOut?", lod=None)


@reshape2_grad_grad.shape
def _(DOut: Spec) -> Spec:
    return DOut


@reshape2_grad_grad.kernel
def _(DOut: Array, DDX: Array) -> Array:
    return DDX.reshape(DOut.shape)
