"""Element-wise ops of two operands: Y is aligned inside X at `axis`, gradients are summed over what was
broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import EMPTY_VAR, OF_2X_ATTR, GradContext, KernelContext, Op, Spec, get, later
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.scalar import ROUNDED, function_of, is_one_number, parse
from fluidlite.values.tensor import SelectedRows

Maybe: TypeAlias = "Array | None"
_SHARED = 1 << 18  # numbers from which waking a second thread pays
_BLOCK = 1 << 14  # numbers of a piece of a thread's work, which stays in its cache
_SINGLE = {"x + y": np.add, "x - y": np.subtract, "x * y": np.multiply, "x / y": np.divide}
"""Expressions that are one call, which writes where the result belongs."""
ATTRS = {"axis": limited(-1, least(-1)), "use_mkldnn": False, "x_data_format": "", "y_data_format": ""}


def placed(shape: tuple[int, ...], rank: int, axis: int) -> tuple[int, ...]:
    """`shape` with ones before and after it, so that it stands at `axis` of `rank` dimensions."""
    if len(shape) >= rank:
        return shape
    axis = rank - len(shape) if axis == -1 else axis
    # Paddle drops trailing ones of Y that do not fit
    while len(shape) > rank - axis and shape and shape[-1] == 1:
        shape = shape[:-1]
    return (1,) * axis + shape + (1,) * (rank - axis - len(shape))


def common_size(a: int, b: int) -> int:
    """The size of a dimension that is `a` in one operand and `b` in the other, which fit; -1 is unknown."""
    if a == 1:
        return b
    return a if b == 1 else max(a, b)


def broadcast(type: str, x: Spec, y: Spec, axis: int) -> tuple[int, ...]:
    """The shape of the result; ShapeError where the operands do not fit."""
    rank = max(len(x.shape), len(y.shape))
    # Y of as many dimensions as X stands where X does; Paddle puts it at the axis, and it reaches beyond X
    # (lengths first: tuples would compare a batch with the numbers of a bias)
    is_beside = axis > 0 and len(x.shape) == len(y.shape) and -1 not in x.shape + y.shape
    if is_beside and x.shape != y.shape and {1} not in (set(x.shape), set(y.shape)):
        raise ShapeError(
            f"op {type!r}: Y{list(y.shape)} does not fit into X{list(x.shape)} from axis {axis} on"
        )
    if axis > 0 and axis >= rank:
        raise ShapeError(f"op {type!r}: axis is {axis}, which is not a dimension of X{list(x.shape)}")
    left = placed(x.shape, rank, axis)
    right = placed(y.shape, rank, axis)
    out = []
    for a, b in zip(left, right, strict=False):
        if a != b and 1 not in (a, b) and -1 not in (a, b):
            raise ShapeError(
                f"op {type!r}: X{list(x.shape)} and Y{list(y.shape)} do not match at axis {axis}: {a} "
                f"against {b}"
            )
        out.append(common_size(a, b))
    if len(left) != len(right):
        raise ShapeError(f"op {type!r}: Y{list(y.shape)} does not fit into X{list(x.shape)} at axis {axis}")
    return tuple(out)


def pair(X: Array, Y: Array, axis: int) -> tuple[Array, Array]:
    """Both operands in as many dimensions, Y standing at `axis`."""
    if X.ndim == Y.ndim:
        return X, Y
    rank = max(X.ndim, Y.ndim)
    return X.reshape(placed(X.shape, rank, axis)), Y.reshape(placed(Y.shape, rank, axis))


def sum_back(xp: Any, grad: Array, shape: tuple[int, ...], rank: int, axis: int) -> Array:
    """`grad`, summed over the dimensions along which an operand of `shape` was broadcast."""
    if grad.shape == shape:
        return grad
    stand = placed(shape, rank, axis)
    axes = tuple(i for i, (have, want) in enumerate(zip(grad.shape, stand, strict=True)) if have != want)
    if not axes:
        return grad.reshape(shape)
    # the rows of a bias's gradient: NumPy's sum takes 1.2 to 7 times as long
    if xp is np and grad.dtype.char in "fd" and axes[-1] == len(axes) - 1:
        rows = math.prod(grad.shape[: len(axes)])
        return np.dot(np.ones(rows, grad.dtype), grad.reshape(rows, math.prod(shape))).reshape(shape)
    found: Array = xp.sum(grad, axis=axes, dtype=grad.dtype).reshape(shape)
    return found


def _back(xp: Any, full: Any, like: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A gradient in the shape of `like`, or one that can be broadcast to it, summed back to an operand of
    `shape`.
    """
    return sum_back(
        xp, full if full.shape == like.shape else xp.broadcast_to(full, like.shape), shape, like.ndim, axis
    )


def _by_rows(xp: Any, ctx: KernelContext, expr: str, function: Callable[..., Any], x: Array, y: Array) -> Any:
    """`function`, which is `expr`, of x and y, its rows shared among the threads of the run where there are
    many; in place of an x that is spare, which takes half of the time.
    """
    is_spare = "X" in ctx.spare
    is_plain = xp is np and (ctx.threads > 1 or is_spare) and x.size >= _SHARED and x.dtype == y.dtype
    if not is_plain or x.ndim < 2 or np.broadcast_shapes(x.shape, y.shape) != x.shape:
        return function(xp, x, y)
    out = x if is_spare else np.empty_like(x, order="C")
    rows = max(_BLOCK * len(x) // x.size, 1)
    single = _SINGLE.get(expr)

    def part(of: slice) -> None:
        if single is not None:
            single(x[of], y[of] if len(y) > 1 else y, out=out[of])
            return
        for start in range(of.start, of.stop, rows):
            here = slice(start, min(start + rows, of.stop))
            out[here] = function(xp, x[here], y[here] if len(y) > 1 else y)

    ctx.share(len(x), part)
    return out


# 1.8.5 refuses a 0 among integers, or ends with SIGFPE; NumPy's answer would be 0. A GPU gives no error
_DIVIDING = ("elementwise_div", "elementwise_mod", "elementwise_floordiv")


def binary(
    type: str,
    expr: str,
    dx: str | None = None,
    dy: str | None = None,
    integers: str | None = None,
    integers_of_2x: str | None = None,
    **facts: Any,
) -> Op:
    """An op `X Y -> Out` that applies `expr` of x and y; dx and dy are gradients as expressions of x, y, out
    and dout.

    `integers` goes instead of `expr` where X holds integers, which C++ divides towards zero; `integers_of_2x`
    in programs of 2.x, where that differs.
    """
    attrs = {**ATTRS, OF_2X_ATTR: later(False)} if integers_of_2x else ATTRS
    op = Op(type, "X Y -> Out", attrs=attrs, alike=("X", "Y"), **facts)
    op.expr = expr
    of_2x = function_of(integers_of_2x or expr, ["x", "y"], {})
    forward, of_integers = (function_of(text, ["x", "y"], {}) for text in (expr, integers or expr))

    @op.shape
    def _(X: Spec, Y: Spec, axis: int) -> Spec:
        return Spec(broadcast(type, X, Y, axis), X.dtype, kind=X.kind)

    @op.kernel
    def _(xp: Any, ctx: KernelContext, X: Any, Y: Array, axis: int) -> Any:
        if isinstance(X, SelectedRows):
            return SelectedRows(X.ids, X.height(), forward(xp, X.array, _single(type, Y)))
        x, y = pair(X, Y, axis)
        if type in ROUNDED and is_one_number(x) and is_one_number(y):
            return forward(xp, x.astype("float64"), y.astype("float64")).astype(X.dtype)
        if X.dtype.kind in "iu":
            _check_divisors(type, xp, y)
            rule = of_2x if integers_of_2x and ctx.op.attrs.get(OF_2X_ATTR) else of_integers
            # a power of integers goes through float64 and is rounded, as in Paddle
            return rule(xp, x, y).astype(X.dtype)
        found = _by_rows(xp, ctx, expr, forward, x, y)
        return _of_truth_values(type, found) if X.dtype.kind == "b" else found

    if dx is not None and dy is not None:
        named = parse(dx).names + parse(dy).names
        only_shape = tuple(slot for slot, name in (("X", "x"), ("Y", "y")) if name not in named)
        op.grad("X Y", only_shape=only_shape)(_gradient(dx, dy))
        op.grad_exprs = {"X": dx, "Y": dy}
    return op


def _check_divisors(type: str, xp: Any, y: Array) -> None:
    """ValueError where one of the integers that divide is 0; a device's kernels do not look."""
    if type in _DIVIDING and xp is np and not y.all():
        raise ValueError("integer division by zero: Y holds a 0")


def _of_truth_values(type: str, out: Array) -> Array:
    """`out`; TypeError where NumPy makes numbers of booleans, which no variable of them declares."""
    if out.dtype.kind != "b":
        raise TypeError(f"op {type!r} has no kernel for booleans: cast X and Y to integers")
    return out


def _single(type: str, y: Array) -> Array:
    """The one number that can go with selected rows."""
    if y.size != 1:
        raise ShapeError(
            f"op {type!r}: where X holds selected rows, Y must hold one number, but has shape {list(y.shape)}"
        )
    return y.reshape(1)


def _gradient(dx: str, dy: str) -> Callable[..., Any]:
    """The kernel of the gradient op; it reads Out only where an expression does."""
    names = ["x", "y", "out", "dout"]
    functions = {"X": function_of(dx, names, {}), "Y": function_of(dy, names, {})}

    def compute(
        xp: Any, X: Array, Y: Array, Out: Array | None, dOut: Array, axis: int, wants: frozenset[str]
    ) -> tuple[Array | None, ...]:
        x, y = pair(X, Y, axis)
        full = {
            slot: function(xp, x, y, Out, dOut) if slot + "@GRAD" in wants else None
            for slot, function in functions.items()
        }
        return tuple(
            None if full[slot] is None else _back(xp, full[slot], dOut, value.shape, axis)
            for slot, value in (("X", X), ("Y", Y))
        )

    if "out" in parse(dx).names + parse(dy).names:

        def with_out(
            xp: Any, X: Array, Y: Array, Out: Array, dOut: Array, axis: int, wants: frozenset[str]
        ) -> tuple[Array | None, ...]:
            return compute(xp, X, Y, Out, dOut, axis, wants)

        return with_out

    def without_out(
        xp: Any, X: Array, Y: Array, dOut: Array, axis: int, wants: frozenset[str]
    ) -> tuple[Array | None, ...]:
        return compute(xp, X, Y, None, dOut, axis, wants)

    return without_out


binary("elementwise_add", "x + y", dx="dout", dy="dout", captured=True, version=1, amp="gray", follows=True)
binary("elementwise_sub", "x - y", dx="dout", dy="-dout", captured=True, version=1, amp="gray")
binary("elementwise_mul", "x * y", dx="dout * y", dy="dout * x", captured=True, version=1, amp="gray")
binary(
    "elementwise_div",
    "x / y",
    dx="dout / y",
    dy="-(dout * out / y)",
    integers="(x - fmod(x, y)) // y",
    version=1,
    amp="gray",
)
binary("elementwise_max", "maximum(x, y)", dx="dout * (x > y)", dy="dout * (x <= y)", version=1, amp="gray")
binary("elementwise_min", "minimum(x, y)", dx="dout * (x < y)", dy="dout * (x >= y)", version=1, amp="gray")
binary(
    "elementwise_pow",
    "pow(x, y)",
    # 0 to the power of 0 is 1 whatever moves x, and 0 to another one is 0 whatever moves y; no infinite
    # logarithm is computed there, which the derivative of this one would multiply by 0
    dx="dout * where((x == 0) & (y == 0), 0.0, y * pow(x, y - 1))",
    dy="dout * (log(where((x == 0) & (y > 0), 1.0, x)) * pow(x, y))",
    integers="rint(pow(x * 1.0, y))",
    version=1,
    amp="gray",
)
binary(
    "elementwise_mod", "mod(x, y)", integers="fmod(x, y)", integers_of_2x="mod(x, y)", version=1, amp="gray"
)
binary(
    "elementwise_floordiv",
    "floordiv(x, y)",
    integers="(x - fmod(x, y)) // y",
    integers_of_2x="(x - mod(x, y)) // y",
    version=1,
    amp="gray",
)

minus = Op("minus", "X. Y. -> Out", alike=("X", "Y"))


@minus.shape
def _(X: Spec, Y: Spec) -> Spec:
    if len(X.shape) != len(Y.shape) or any(
        a != b and -1 not in (a, b) for a, b in zip(X.shape, Y.shape, strict=True)
    ):
        raise ShapeError(f"op 'minus': X{list(X.shape)} and Y{list(Y.shape)} must have the same shape")
    return Spec(X.shape, X.dtype)


@minus.kernel
def _(X: Array, Y: Array) -> Array:
    return X - Y


@minus.grad_rule("X Y")
def _(context: GradContext) -> None:
    for slot, factor in (("X", 1.0), ("Y", -1.0)):
        names = context.in_grad(slot)
        if names != [EMPTY_VAR]:
            context.emit("scale", {"X": context.out_grad("Out")}, {"Out": names}, {"scale": factor})


# ---------------------------------------------------------------------- second derivatives
_INCOMING = {"DDX": "X@GRAD", "DDY": "Y@GRAD"}


def _spread(xp: Any, value: Maybe, like: Array, axis: int) -> Any:
    """An operand's incoming gradient, broadcast as the operand was; 0 where there is none."""
    return 0 if value is None else xp.broadcast_to(pair(like, value, axis)[1], like.shape)


for _type in ("elementwise_add_grad", "elementwise_sub_grad"):
    emits_once_more(
        get(_type), reads={"Y": "Y", "DOut": "Out@GRAD"}, incoming=_INCOMING, writes={"DDOut": "Out@GRAD"}
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
    total: Array = _spread(xp, DDX, DOut, axis) + _spread(xp, DDY, DOut, axis)
    return total


@elementwise_sub_grad_grad.kernel
def _(xp: Any, DOut: Array, DDX: Maybe, DDY: Maybe, axis: int) -> Array:
    difference: Array = _spread(xp, DDX, DOut, axis) - _spread(xp, DDY, DOut, axis)
    return difference


def _third_of_sum(op: Op, first: str) -> None:
    """Gradients of the second derivative of a sum or difference, by the op of the first one."""

    @op.grad_rule("DDX DDY")
    def _(context: GradContext) -> None:
        ddx = context.input("DDX")
        ddy = context.input("DDY")
        slots = {"X": ddx or context.input("DOut"), "Y": ddy or context.input("Y")}
        if slots["Y"]:
            outputs = {"X@GRAD": context.in_grad("DDX"), "Y@GRAD": context.in_grad("DDY")}
            context.emit(first, slots | {"Out@GRAD": context.out_grad("DDOut")}, outputs)


_third_of_sum(elementwise_add_grad_grad, "elementwise_add_grad")
_third_of_sum(elementwise_sub_grad_grad, "elementwise_sub_grad")

emits_once_more(
    get("elementwise_mul_grad"),
    reads={"X": "X", "Y": "Y", "DOut": "Out@GRAD"},
    incoming=_INCOMING,
    writes={"X@GRAD": "X", "Y@GRAD": "Y", "DDOut": "Out@GRAD"},
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
    ddx, ddy = (_spread(xp, value, DOut, axis) for value in (DDX, DDY))
    return (
        ddx * y + x * ddy,
        sum_back(xp, DOut * ddy, X.shape, DOut.ndim, axis),
        sum_back(xp, DOut * ddx, Y.shape, DOut.ndim, axis),
    )


@elementwise_mul_grad_grad.grad_rule("X Y DOut DDX DDY")
def _(context: GradContext) -> None:
    """Each of the outputs is a sum of products of two inputs: their gradients are those of products."""
    x, y, d = context.input("X"), context.input("Y"), context.input("DOut")
    ddx, ddy = context.input("DDX"), context.input("DDY")
    out, of_x, of_y = (context.out_grad(slot) for slot in ("DDOut", "X@GRAD", "Y@GRAD"))
    for left, right, slots in ((ddx, y, ("DDX", "Y")), (x, ddy, ("X", "DDY"))):
        if out and left and right:
            grads = {"X@GRAD": context.in_grad(slots[0]), "Y@GRAD": context.in_grad(slots[1])}
            context.emit("elementwise_mul_grad", {"X": left, "Y": right, "Out@GRAD": out}, grads)
    for left, right, slot, name in ((of_x, ddy, "DDY", "Y@GRAD"), (ddx, of_y, "DDX", "X@GRAD")):
        if left and right:
            context.emit("elementwise_mul", {"X": left, "Y": right}, {"Out": context.in_grad("DOut")})
            inputs = {"X": left, "Y": right, "Out@GRAD": d}
            context.emit("elementwise_mul_grad", inputs, {name: context.in_grad(slot)})


elementwise_div_grad_grad = Op(
    "elementwise_div_grad_grad", "Y Out DX Out@GRAD? DDX? DDY? -> Y@GRAD? DOut? DDOut?", attrs=ATTRS, lod=None
).derive()


@get("elementwise_div_grad").grad_rule("Y Out Out@GRAD")
def _(context: GradContext) -> None:
    """DX, the gradient of X, is Out@GRAD / Y unless X was broadcast: Out@GRAD is read in its place then."""
    op = context.forward
    x, out = (op.block._find_var_recursive(name) for name in (*op.input("X"), *op.input("Out")))
    is_broadcast = x is None or out is None or x.shape != out.shape
    context.emit(
        "elementwise_div_grad_grad",
        {
            "Y": context.input("Y"),
            "Out": context.input("Out"),
            "DX": context.output("X@GRAD"),
            "Out@GRAD": context.input("Out@GRAD") if is_broadcast else [],
            "DDX": context.out_grad("X@GRAD"),
            "DDY": context.out_grad("Y@GRAD"),
        },
        {slot: context.in_grad(of) for slot, of in (("Y@GRAD", "Y"), ("DOut", "Out"), ("DDOut", "Out@GRAD"))},
    )


@elementwise_div_grad_grad.shape
def _(Y: Spec, Out: Spec) -> tuple[Spec, Spec, Spec]:
    return Y, Out, Out


@elementwise_div_grad_grad.kernel
def _(
    xp: Any, Y: Array, Out: Array, DX: Maybe, dOut: Maybe, DDX: Maybe, DDY: Maybe, axis: int
) -> tuple[Array, Array, Array]:
    y = pair(Out, Y, axis)[1]
    if dOut is not None:
        DX = dOut / y
    if DX is None or DX.shape != Out.shape:
        raise ShapeError(
            f"op 'elementwise_div_grad_grad': X (as DX{[] if DX is None else list(DX.shape)}) was broadcast "
            f"to Out{list(Out.shape)}; declare the shape of X with its ones"
        )
    ddx, ddy = (_spread(xp, value, Out, axis) for value in (DDX, DDY))
    difference = ddx - Out * ddy
    return sum_back(xp, -DX * difference / y, Y.shape, Out.ndim, axis), -DX * ddy, difference / y
