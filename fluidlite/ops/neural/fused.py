"""Pairs of ops in one: PaddlePaddle's fusions that programs build by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fluidlite.base.attr_limits import Limit, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ArgumentError, ShapeError
from fluidlite.base.registry import LONG, AttrType, GradContext, Lod, Op, Spec, grad_name, required
from fluidlite.ops.kernels.sequence_rows import lengths_of, offsets_of_level, owners, sum_runs, take_rows
from fluidlite.ops.math.elementwise import broadcast, pair, sum_back
from fluidlite.ops.neural.embedding import NO_PADDING, look_up, table_gradient
from fluidlite.values.tensor import SelectedRows

# ---------------------------------------------------------------------- two functions of elements
_BINARY = ("elementwise_add", "elementwise_mul")
_UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    # name -> (xp, x, factor) -> y, and (xp, x, y, factor) -> dy/dx
    "scale": (lambda xp, x, factor: x * x.dtype.type(factor), lambda xp, x, y, factor: x.dtype.type(factor)),
    "relu": (lambda xp, x, factor: xp.maximum(x, 0), lambda xp, x, y, factor: (y > 0).astype(y.dtype)),
    "tanh": (lambda xp, x, factor: xp.tanh(x), lambda xp, x, y, factor: 1 - y * y),
    "sigmoid": (lambda xp, x, factor: 1 / (1 + xp.exp(-x)), lambda xp, x, y, factor: y * (1 - y)),
}
_ATTRS = {
    "axis": -1,
    "scale": 0.0,
    "save_intermediate_out": False,
    "functor_list": limited(required(AttrType.STRINGS), Limit("two", lambda names: len(names) == 2)),
}

fused_elemwise_activation = Op(
    "fused_elemwise_activation", "X. Y. -> Out IntermediateOut", attrs=_ATTRS, alike=("X", "Y")
)
fused_elemwise_activation_grad = Op(
    "fused_elemwise_activation_grad",
    "X Y IntermediateOut? Out Out@GRAD -> X@GRAD? Y@GRAD? IntermediateOut@GRAD?",
    attrs=_ATTRS,
    lod=None,
    opaque="it represents two ops; build these instead",
)


def _functions(functor_list: list[str]) -> tuple[str, str, bool]:
    """(binary, unary, whether the binary one is the outer); ArgumentError for what cannot be fused."""
    names = [name.removesuffix("_grad") for name in functor_list]
    if len(names) == 2:
        outer, inner = names
        if outer in _BINARY and inner in _UNARY:
            return outer, inner, True
        if outer in _UNARY and inner in _BINARY:
            return inner, outer, False
    raise ArgumentError(
        f"op 'fused_elemwise_activation': {' and '.join(names)} are not included in fused_list: one has to "
        f"be of {', '.join(_BINARY)}, the other of {', '.join(_UNARY)}"
    )


@fused_elemwise_activation.shape
def _(X: Spec, Y: Spec, axis: int, functor_list: list[str], save_intermediate_out: bool) -> dict[str, Any]:
    _, _, is_outer = _functions(functor_list)
    out = X.with_shape(broadcast("fused_elemwise_activation", X, Y, axis))
    if not save_intermediate_out:
        return {"Out": out}
    return {"Out": out, "IntermediateOut": Y if is_outer else out}


def _combined(binary: str, x: Array, y: Array) -> Any:
    return x + y if binary == "elementwise_add" else x * y


@fused_elemwise_activation.kernel
def _(
    xp: Any, X: Array, Y: Array, axis: int, scale: float, functor_list: list[str], save_intermediate_out: bool
) -> tuple[Any, Any]:
    binary, unary, is_outer = _functions(functor_list)
    function = _UNARY[unary][0]
    x, y = pair(X, Y, axis)
    if is_outer:
        intermediate = function(xp, Y, scale)
        out = _combined(binary, x, intermediate.reshape(y.shape))
    else:
        intermediate = _combined(binary, x, y)
        out = function(xp, intermediate, scale)
    return out, intermediate if save_intermediate_out else None


@fused_elemwise_activation.grad_rule("X Y")
def _(context: GradContext) -> None:
    attrs = {
        **context.op.attrs,
        "functor_list": [name + "_grad" for name in context.op.attrs["functor_list"]],
    }
    inputs = {"X": context.input("X"), "Y": context.input("Y"), "Out": context.output("Out")}
    inputs["Out@GRAD"] = context.out_grad("Out")
    outputs = {f"{slot}@GRAD": context.in_grad(slot) for slot in ("X", "Y")}
    if attrs["save_intermediate_out"]:
        inputs["IntermediateOut"] = context.output("IntermediateOut")
        outputs["IntermediateOut@GRAD"] = [grad_name(name) for name in context.output("IntermediateOut")]
    context.emit("fused_elemwise_activation_grad", inputs, outputs, attrs)


@fused_elemwise_activation_grad.kernel
def _(
    xp: Any, X: Array, Y: Array, Out: Array, dOut: Array, axis: int, scale: float, functor_list: list[str]
) -> tuple[Array, Array, Array]:
    binary, unary, is_outer = _functions(functor_list)
    function, derivative = _UNARY[unary]
    x, y = pair(X, Y, axis)
    d = dOut
    right = y
    if is_outer:
        right = function(xp, y, scale)
    else:
        d = dOut * derivative(xp, _combined(binary, x, y), Out, scale)
    dx, dy = (d, d) if binary == "elementwise_add" else (d * right, d * x)
    middle = d
    if is_outer:
        middle = sum_back(xp, dy, Y.shape, d.ndim, axis)
        dy = dy * derivative(xp, y, right, scale)
    return sum_back(xp, dx, X.shape, d.ndim, axis), sum_back(xp, dy, Y.shape, d.ndim, axis), middle


# ---------------------------------------------------------------------- look-up and sum
fused_embedding_seq_pool = Op(
    "fused_embedding_seq_pool",
    "W Ids -> Out",
    attrs={
        "combiner": "sum",
        "is_sparse": False,
        "padding_idx": LONG(NO_PADDING),
        "grad_inplace": False,
        "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True,
    },
    lod=None,
)


@fused_embedding_seq_pool.shape
def _(W: Spec, Ids: Spec, combiner: str) -> Spec:
    if combiner != "sum":
        raise ArgumentError(f"op 'fused_embedding_seq_pool': the combiner is 'sum', not {combiner!r}")
    if len(W.shape) != 2 or not Ids.shape or Ids.shape[-1] not in (1, -1):
        raise ShapeError(
            f"op 'fused_embedding_seq_pool': W has shape {list(W.shape)} and Ids {list(Ids.shape)}, wanted a "
            "matrix, and a last dimension of 1"
        )
    width = math.prod(Ids.shape[1:]) * W.shape[1]
    return Spec((-1, width if min(Ids.shape[1:], default=1) > 0 else -1), W.dtype, 0)


@fused_embedding_seq_pool.kernel
def _(xp: Any, W: Array, Ids: Array, Ids_lod: Lod, padding_idx: int) -> Array:
    offsets = offsets_of_level("fused_embedding_seq_pool", "Ids", Ids_lod, rows=len(Ids))
    found = look_up(xp, W, Ids.ravel(), padding_idx)
    # the rows of several numbers beside each other
    return sum_runs(xp, found.reshape(len(Ids), math.prod(Ids.shape[1:]) * W.shape[1]), offsets)


@fused_embedding_seq_pool.grad("W", sparse="W@GRAD")
def _(
    xp: Any, W: Array, Ids: Array, Ids_lod: Lod, dOut: Array, padding_idx: int, is_sparse: bool
) -> Array | SelectedRows:
    offsets = offsets_of_level("fused_embedding_seq_pool", "Ids", Ids_lod)
    d = take_rows(xp, dOut, owners(lengths_of(offsets))).reshape(Ids.size, W.shape[1])
    return table_gradient(xp, W, Ids.ravel(), d, padding_idx, is_sparse)
