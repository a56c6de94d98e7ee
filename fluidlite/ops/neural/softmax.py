"""Softmax, and cross entropy with and without it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import LONG, Lod, Op, Spec, handed_on, later, same_as
from fluidlite.ops.kernels.numbers import at_last, named_dims
from fluidlite.ops.kernels.row_calls import along_axis, checked_labels
from fluidlite.ops.kernels.row_kernels import RowKernel, by_rows, last_axis

# Paddle's softmax never lets a shifted score fall below this, so a probability is at least 1.6e-28 of the
# largest
LOWEST_SCORE = -64.0
# Paddle's logarithm for losses: an infinite one becomes +-1e20
_LARGEST_LOG = 1e20


# the largest score becomes 0, so exp cannot overflow
_SOFTMAX = RowKernel(
    "softmax",
    "x[rc] lowest -> out[rc]",
    """
    top = max(x)
    out = exp(maximum(x - top, lowest))
    out = out * (1 / sum(out))
    """,
)
_SOFTMAX_GRAD = RowKernel("softmax_grad", "out[rc] dout[rc] -> dx[rc]", "dx = (dout - sum(dout * out)) * out")


def softmax_of(xp: Any, x: Array, axis: int) -> Any:
    """The softmax of `x` over `axis`, as Paddle computes it."""
    return along_axis(xp, _SOFTMAX, axis, x=x, lowest=LOWEST_SCORE)[0]


def tolerable_log(xp: Any, x: Array) -> Any:
    """log(x) with infinities replaced by +-1e20."""
    # two calls take a quarter of the time of `clip` over a few numbers
    largest = x.dtype.type(_LARGEST_LOG)
    return xp.maximum(xp.minimum(xp.log(x), largest), -largest)


softmax = Op(
    "softmax",
    "X. -> Out",
    attrs={"axis": -1, "data_format": "AnyLayout", "use_cudnn": False, "use_mkldnn": False, "is_test": False},
    idle=("data_format", "is_test"),
    captured=True,
    amp="black",
    follows=True,
)


@softmax.shape
def _(X: Spec, axis: int) -> Spec:
    rank = named_dims(X.shape)
    if not -rank <= axis < rank:
        raise ShapeError(f"op 'softmax': axis is {axis}, but X has {len(X.shape)} dimensions {list(X.shape)}")
    return Spec(X.shape, X.dtype)


@softmax.kernel
def _(xp: Any, X: Array, axis: int) -> Any:
    return softmax_of(xp, X, axis)


@softmax.grad("X")
def softmax_grad(xp: Any, Out: Array, dOut: Array, axis: int) -> Any:
    return along_axis(xp, _SOFTMAX_GRAD, axis, out=Out, dout=dOut)[0]


by_rows(softmax, _SOFTMAX, last_axis, lowest=LOWEST_SCORE)
by_rows(softmax_grad, _SOFTMAX_GRAD, last_axis)


log_softmax = Op("log_softmax", "X -> Out", attrs={"axis": -1}, amp_fp16="black")
log_softmax.shape(same_as("X"))


@log_softmax.kernel
def _(xp: Any, X: Array, axis: int) -> Any:
    if not X.size:
        return X.copy()
    shifted = X - X.max(axis=axis, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(axis=axis, keepdims=True))


@log_softmax.grad("X")
def _(xp: Any, Out: Array, dOut: Array, axis: int) -> Any:
    return dOut - xp.exp(Out) * dOut.sum(axis=axis, keepdims=True)


# ---------------------------------------------------------------------- cross entropy
def _loss_shape(type: str, X: Spec, Label: Spec, soft_label: bool) -> Spec:
    """[..., 1] for labels of the same rank as X, [...] for hard labels without the last dimension."""
    rank = len(X.shape)
    if len(Label.shape) != rank and (soft_label or len(Label.shape) != rank - 1):
        raise ShapeError(
            f"op {type!r}: Label{list(Label.shape)} has {len(Label.shape)} dimensions, X{list(X.shape)} has "
            f"{rank}"
        )
    pairs = list(zip(X.shape[: rank - 1], Label.shape, strict=False)) + (
        [(X.shape[-1], Label.shape[-1])] if soft_label else []
    )
    if any(a != b and a >= 0 and b >= 0 for a, b in pairs):
        raise ShapeError(f"op {type!r}: Label{list(Label.shape)} does not fit X{list(X.shape)}")
    if not soft_label and len(Label.shape) == rank and Label.shape[-1] not in (1, -1):
        raise ShapeError(
            f"op {type!r}: the last dimension of Label{list(Label.shape)} is {Label.shape[-1]}, wanted 1"
        )
    return X.with_shape(X.shape[:-1] + ((1,) if len(Label.shape) == rank else ()))


def _sizes_of_labels(loss: Spec, Label: Spec) -> Spec:
    """The loss with the sizes that Label declares, which 1.8.5 takes where X declares others."""
    return loss.with_shape(Label.shape[:-1] + loss.shape[-1:])


def _where(xp: Any, counts: Any, values: Array) -> Array:
    """`values` that count, and zeros."""
    found: Array = values if counts is True else xp.where(counts, values, values.dtype.type(0))
    return found


def _picked(xp: Any, type: str, X: Array, Label: Array, ignore_index: int) -> tuple[Any, Any, Any]:
    """X at the labels, the labels as [..., 1], and which of them count."""
    labels, counts = checked_labels(xp, type, Label.reshape((*X.shape[:-1], 1)), X.shape[-1], ignore_index)
    return at_last(xp, X, labels), labels, counts


cross_entropy = Op(
    "cross_entropy",
    "X. Label -> Y",
    attrs={"soft_label": False, "ignore_index": -100},
    classes="Label",
    below={"Label": ("X", -1)},
    amp="black",
)


@cross_entropy.shape
def _(X: Spec, Label: Spec, soft_label: bool) -> Spec:
    return _sizes_of_labels(_loss_shape("cross_entropy", X, Label, soft_label), Label)


@cross_entropy.kernel
def _(xp: Any, X: Array, Label: Array, soft_label: bool, ignore_index: int) -> Any:
    if soft_label:
        return -(Label * tolerable_log(xp, X)).sum(axis=-1, keepdims=True)
    picked, _, counts = _picked(xp, "cross_entropy", X, Label, ignore_index)
    loss = _where(xp, counts, -tolerable_log(xp, picked))
    return loss.reshape(X.shape[:-1] + (1,) * (Label.ndim == X.ndim))


@cross_entropy.grad("X")
def _(xp: Any, X: Array, Label: Array, dY: Array, soft_label: bool, ignore_index: int) -> Any:
    d = dY.reshape((*X.shape[:-1], 1))
    if soft_label:
        return -d * Label / X
    picked, labels, counts = _picked(xp, "cross_entropy", X, Label, ignore_index)
    return _scattered(xp, X.shape, labels, _where(xp, counts, -d / picked))


def _scattered(xp: Any, shape: tuple[int, ...], labels: Array, values: Array) -> Any:
    """Zeros but for `values` at the labels of the last dimension."""
    if xp is np:
        out = np.zeros((labels.size, shape[-1]), values.dtype)
        out[np.arange(labels.size), labels.reshape(-1)] = values.reshape(-1)
        return out.reshape(shape)
    classes = xp.arange(shape[-1])
    return xp.where(labels == classes, values, values.dtype.type(0))


cross_entropy2 = Op(
    "cross_entropy2",
    "X. Label -> Y XShape MatchX",
    attrs={"ignore_index": -100},
    classes="Label",
    below={"Label": ("X", -1)},
    amp="black",
)


@cross_entropy2.shape
def _(X: Spec, Label: Spec) -> tuple[Spec, Spec, Spec]:
    x_shape = Spec((*X.shape, 0), X.dtype, X.lod_level)
    loss = _sizes_of_labels(_loss_shape("cross_entropy2", X, Label, False), Label)
    return loss, x_shape, X.with_shape((*X.shape[:-1], 1))


@cross_entropy2.kernel
def _(xp: Any, X: Array, Label: Array, ignore_index: int) -> tuple[Any, Any, Any]:
    picked, _, counts = _picked(xp, "cross_entropy2", X, Label, ignore_index)
    loss = _where(xp, counts, -tolerable_log(xp, picked))
    # XShape holds no number; its shape alone tells the gradient the number of classes
    return (
        loss.reshape(X.shape[:-1] + (1,) * (Label.ndim == X.ndim)),
        xp.empty((*X.shape, 0), X.dtype),
        _where(xp, counts, picked),
    )


def _shape_from_xshape(XShape: Spec, MatchX: Spec) -> Spec:
    return MatchX.with_shape(XShape.shape[:-1])


@cross_entropy2.grad("X", type="cross_entropy_grad2", shape=_shape_from_xshape)
def _(xp: Any, Label: Array, XShape: Array, MatchX: Array, dY: Array, ignore_index: int) -> Any:
    labels, counts = checked_labels(
        xp, "cross_entropy2", Label.reshape(MatchX.shape), XShape.shape[-2], ignore_index
    )
    divisor = MatchX if counts is True else xp.where(counts, MatchX, MatchX.dtype.type(1))
    values = _where(xp, counts, -dY.reshape(MatchX.shape) / divisor)
    return _scattered(xp, XShape.shape[:-1], labels, values)


# ---------------------------------------------------------------------- softmax with cross entropy
softmax_with_cross_entropy = Op(
    "softmax_with_cross_entropy",
    "Logits. Label -> Softmax Loss",
    attrs={
        "soft_label": False,
        "numeric_stable_mode": True,
        "ignore_index": -100,
        "axis": -1,
        "use_softmax": later(True),
    },
    classes="Label",
    captured=True,
    below={"Label": ("Logits", -1)},
    version=1,
    amp="black",
)
"""In 2.x Logits may be probabilities: `use_softmax` is False then, and Softmax the same as Logits."""


@softmax_with_cross_entropy.shape
def _(Logits: Spec, Label: Spec, soft_label: bool, axis: int) -> tuple[Spec, Spec]:
    rank = len(Logits.shape)
    name = "op 'softmax_with_cross_entropy'"
    if not -rank <= axis < rank:
        raise ShapeError(f"{name}: axis is {axis}, but Logits has {rank} dimensions")
    axis %= rank
    wanted = Logits.shape if soft_label else (*Logits.shape[:axis], 1, *Logits.shape[axis + 1 :])
    if len(Label.shape) != rank or any(
        a != b and a >= 0 and b >= 0 for a, b in zip(wanted, Label.shape, strict=True)
    ):
        raise ShapeError(f"{name}: Label has the shape {list(Label.shape)}, wanted {list(wanted)}")
    loss = (*Logits.shape[:axis], 1, *Logits.shape[axis + 1 :])
    return Logits.with_shape(Logits.shape), Spec(loss, Logits.dtype, Logits.lod_level)


_LOSS = RowKernel(
    "softmax_with_cross_entropy",
    "logits[rc] label[r]:ignore_index bias[c]=0 lowest -> softmax[rc] loss[r]",
    """
    softmax = logits + bias
    top = max(softmax)
    softmax = exp(maximum(softmax - top, lowest))
    softmax = softmax * (1 / sum(softmax))
    loss = -log(softmax[label])
    """,
    cleared=["loss"],
)
_LOSS_GRAD = RowKernel(
    "softmax_with_cross_entropy_grad",
    "label[r]:ignore_index softmax[rc] dloss[r] -> dlogits[rc]",
    """
    dlogits = softmax * dloss
    dlogits[label] = dlogits[label] - dloss
    """,
    cleared=["dlogits"],
)


@softmax_with_cross_entropy.kernel
def _(
    xp: Any,
    Logits: Array,
    Logits_lod: Lod,
    Label: Array,
    soft_label: bool,
    ignore_index: int,
    axis: int,
    use_softmax: bool,
) -> tuple[Any, Any]:
    if use_softmax and not soft_label:
        given = {"logits": Logits, "label": Label, "ignore_index": ignore_index, "lowest": LOWEST_SCORE}
        probability, loss = along_axis(xp, _LOSS, axis, **given)
        return probability, handed_on(loss, Logits_lod)
    probability = softmax_of(xp, Logits, axis) if use_softmax else Logits.copy()
    if soft_label:
        loss = -(Label * tolerable_log(xp, probability)).sum(axis=axis, keepdims=True)
    else:
        labels, counts = checked_labels(
            xp, "softmax_with_cross_entropy", Label, Logits.shape[axis], ignore_index
        )
        picked = xp.take_along_axis(probability, labels, axis=axis)
        loss = _where(xp, counts, -tolerable_log(xp, picked))
    return probability, handed_on(loss, Logits_lod)


def _like_softmax(Softmax: Spec) -> Spec:
    return Softmax.with_shape(Softmax.shape)


@softmax_with_cross_entropy.grad("Logits", shape=_like_softmax)
def loss_grad(
    xp: Any,
    Label: Array,
    Softmax: Array,
    dLoss: Array,
    soft_label: bool,
    ignore_index: int,
    axis: int,
    use_softmax: bool,
) -> Any:
    if soft_label:
        return dLoss * (Softmax - Label if use_softmax else -Label / Softmax)
    if use_softmax:
        given = {"label": Label, "softmax": Softmax, "dloss": dLoss, "ignore_index": ignore_index}
        return along_axis(xp, _LOSS_GRAD, axis, **given)[0]
    shape = [1] * Softmax.ndim
    shape[axis] = Softmax.shape[axis]
    classes = xp.arange(Softmax.shape[axis]).reshape(shape)
    return xp.where((Label == classes) & (Label != ignore_index), -dLoss / Softmax, dLoss.dtype.type(0))


_HARD = {"soft_label": False, "use_softmax": True}
by_rows(softmax_with_cross_entropy, _LOSS, last_axis, _HARD, lowest=LOWEST_SCORE)
by_rows(loss_grad, _LOSS_GRAD, last_axis, _HARD)


# ---------------------------------------------------------------------- negative log likelihood
nll_loss = Op(
    "nll_loss",
    "X. Label Weight.? -> Out Total_weight",
    attrs={"ignore_index": LONG(-100), "reduction": "mean"},
    lod=None,
    amp_fp16="black",
)


@nll_loss.shape
def _(X: Spec, Label: Spec, reduction: str) -> tuple[Spec, Spec]:
    if len(X.shape) not in (2, 4) or len(Label.shape) != len(X.shape) - 1:
        raise ShapeError(
            f"op 'nll_loss': X{list(X.shape)} and Label{list(Label.shape)} fit neither [N, C] and [N] "
            "nor [N, C, H, W] and [N, H, W]"
        )
    return X.with_shape(Label.shape if reduction == "none" else (1,)), X.with_shape((1,))


def _class_weights(
    xp: Any, X: Array, Label: Array, Weight: Array | None, ignore_index: int
) -> tuple[Any, Any]:
    """Labels as [N, 1, ...], and the weight of each: 0 where it is ignored."""
    labels, counts = checked_labels(xp, "nll_loss", xp.expand_dims(Label, 1), X.shape[1], ignore_index)
    weights = xp.ones(labels.shape, X.dtype) if Weight is None else Weight[labels]
    return labels, weights if counts is True else counts * weights


@nll_loss.kernel
def _(
    xp: Any, X: Array, Label: Array, Weight: Array | None, ignore_index: int, reduction: str
) -> tuple[Any, Any]:
    labels, weights = _class_weights(xp, X, Label, Weight, ignore_index)
    loss = -xp.take_along_axis(X, labels, axis=1) * weights
    if reduction == "none":
        return loss.reshape(Label.shape), xp.zeros(1, X.dtype)
    total = weights.sum(dtype=X.dtype)
    # where all labels are ignored, the loss is 0
    out = loss.sum() / xp.where(total, total, 1) if reduction == "mean" else loss.sum()
    return out.reshape(1), total.reshape(1)


@nll_loss.grad("X")
def _(
    xp: Any,
    X: Array,
    Label: Array,
    Weight: Array | None,
    Total_weight: Array,
    dOut: Array,
    ignore_index: int,
    reduction: str,
) -> Any:
    labels, weights = _class_weights(xp, X, Label, Weight, ignore_index)
    d = dOut.reshape(labels.shape) if reduction == "none" else dOut.reshape((1,) * X.ndim)
    if reduction == "mean":
        d = d / xp.where(Total_weight, Total_weight, 1).reshape((1,) * X.ndim)
    classes = xp.arange(X.shape[1]).reshape(1, -1, *(1,) * (X.ndim - 2))
    return (labels == classes) * (-d * weights)


# ---------------------------------------------------------------------- behind a mask
fused_softmax_mask = Op("fused_softmax_mask", "X. Mask. -> Out", alike=("X", "Mask"))


@fused_softmax_mask.shape
def _(X: Spec, Mask: Spec) -> Spec:
    rows = (*X.shape[:1], 1, *X.shape[2:])
    if (
        len(X.shape) != 4
        or len(Mask.shape) != 4
        or any(one >= 0 <= other != one for one, other in zip(rows, Mask.shape, strict=True))
    ):
        raise ShapeError(
            f"op 'fused_softmax_mask': Mask{list(Mask.shape)} must be [batch, 1, rows, columns] of "
            f"X{list(X.shape)}, which has the number of heads instead of the 1"
        )
    return X


@fused_softmax_mask.kernel
def _(xp: Any, X: Array, Mask: Array) -> Any:
    return softmax_of(xp, X + Mask, -1)


def _of_softmax(Out: Array, dOut: Array) -> Any:
    return (dOut - (dOut * Out).sum(axis=-1, keepdims=True)) * Out


fused_softmax_mask.grad("X")(_of_softmax)
causal_softmax = Op("fused_softmax_mask_upper_triangle", "X. -> Out")


@causal_softmax.shape
def _(X: Spec) -> Spec:
    if len(X.shape) != 4:
        raise ShapeError(
            f"op 'fused_softmax_mask_upper_triangle': X{list(X.shape)} must be [batch, heads, rows, columns]"
        )
    return X


@causal_softmax.kernel
def _(xp: Any, X: Array) -> Any:
    """The softmax of each row over the columns up to its own number."""
    behind = xp.triu(xp.ones(X.shape[-2:], dtype=bool), 1)
    return softmax_of(xp, xp.where(behind, X.dtype.type(-10000), X), -1)


causal_softmax.grad("X")(_of_softmax)
