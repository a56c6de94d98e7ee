"""Losses that compare numbers: by element, by pair of scores, by pair of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, Lod, Op, Spec, handed_on, required
from fluidlite.ops.kernels.numbers import as_matrix, check_alike, check_rows

REQUIRED_FLOAT = required(AttrType.FLOAT)


def check_column(type: str, slot: str, spec: Spec) -> None:
    """ShapeError unless the slot holds a number a row: [N, 1] (or [N])."""
    if len(spec.shape) not in (1, 2) or (len(spec.shape) == 2 and spec.shape[1] not in (1, -1)):
        raise ShapeError(f"op {type!r}: {slot} has the shape {list(spec.shape)}, wanted [N, 1]")


def softplus(xp: Any, x: Array) -> Any:
    """log(1 + exp(x)), without overflow."""
    # exp of what is never positive does not overflow
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-abs(x)))


def sigmoid(xp: Any, x: Array) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + xp.exp(-x))


# ---------------------------------------------------------------------- by element
sigmoid_loss = Op(
    "sigmoid_cross_entropy_with_logits",
    "X. Label. pos_weight? -> Out",
    attrs={"ignore_index": -100, "normalize": False},
    later=("pos_weight",),
    fractions=("Label",),
    amp="black",
    alike=("X", "Label"),
)


@sigmoid_loss.shape
def _(X: Spec, Label: Spec) -> Spec:
    check_alike("sigmoid_cross_entropy_with_logits", X=X, Label=Label)
    return Spec(X.shape, X.dtype)


def _of_counted(xp: Any, values: Any, Label: Array, ignore_index: int, normalize: bool) -> Any:
    """`values` (over the number of labels that count, with `normalize`), and 0 where the label, cut to an
    integer, is ignored.
    """
    counts = Label.astype("int32") != ignore_index
    # chosen, not multiplied: what is ignored may be nan
    kept = xp.where(counts, values, values.dtype.type(0))
    # a batch whose labels are all ignored gives 0, not 0 / 0
    return kept / xp.maximum(counts.sum(), 1).astype(kept.dtype) if normalize else kept


@sigmoid_loss.kernel
def _(xp: Any, X: Array, Label: Array, pos_weight: Array | None, ignore_index: int, normalize: bool) -> Any:
    """With weights the part -log(sigmoid(X)) counts as often, in which the two parts of the loss meet."""
    if pos_weight is None:
        loss = softplus(xp, X) - X * Label
    else:
        loss = (1 - Label) * X + pos_weight * softplus(xp, -X)
    return _of_counted(xp, loss, Label, ignore_index, normalize)


@sigmoid_loss.grad("X")
def _(
    xp: Any, X: Array, Label: Array, pos_weight: Array | None, dOut: Array, ignore_index: int, normalize: bool
) -> Any:
    slope = sigmoid(xp, X) - Label if pos_weight is None else 1 - Label - pos_weight * sigmoid(xp, -X)
    return _of_counted(xp, dOut * slope, Label, ignore_index, normalize)


log_loss = Op(
    "log_loss",
    "Predicted. Labels. -> Loss",
    attrs={"epsilon": REQUIRED_FLOAT},
    fractions=("Labels",),
    amp_fp16="black",
    alike=("Predicted", "Labels"),
)


@log_loss.shape
def _(Predicted: Spec, Labels: Spec) -> Spec:
    check_alike("log_loss", Predicted=Predicted, Labels=Labels)
    check_column("log_loss", "Predicted", Predicted)
    return Spec(Predicted.shape[:1] + (1,) * len(Predicted.shape[1:]), Predicted.dtype)


@log_loss.kernel
def _(xp: Any, Predicted: Array, Labels: Array, epsilon: float) -> Any:
    return -Labels * xp.log(Predicted + epsilon) - (1 - Labels) * xp.log(1 - Predicted + epsilon)


@log_loss.grad("Predicted")
def _(Predicted: Array, Labels: Array, dLoss: Array, epsilon: float) -> Any:
    return dLoss * ((1 - Labels) / (1 - Predicted + epsilon) - Labels / (Predicted + epsilon))


bce_loss = Op("bce_loss", "X. Label. -> Out", fractions=("Label",), alike=("X", "Label"))


@bce_loss.shape
def _(X: Spec, Label: Spec) -> Spec:
    check_alike("bce_loss", X=X, Label=Label)
    return Spec(X.shape, X.dtype)


@bce_loss.kernel
def _(xp: Any, X: Array, Label: Array) -> Any:
    # a probability of exactly 0 or 1 on the wrong side costs 100, not infinity
    lowest = X.dtype.type(-100)
    return -Label * xp.maximum(xp.log(X), lowest) - (1 - Label) * xp.maximum(xp.log(1 - X), lowest)


@bce_loss.grad("X")
def _(xp: Any, X: Array, Label: Array, dOut: Array) -> Any:
    # the bound keeps the slope finite at probabilities of exactly 0 and 1
    return dOut * (X - Label) / xp.maximum((1 - X) * X, X.dtype.type(1e-12))


huber_loss = Op(
    "huber_loss",
    "X. Y. -> Residual Out",
    attrs={"delta": REQUIRED_FLOAT},
    lod=None,
    amp_fp16="black",
    alike=("X", "Y"),
)


@huber_loss.shape
def _(X: Spec, Y: Spec) -> tuple[Spec, Spec]:
    check_alike("huber_loss", X=X, Y=Y)
    shape = tuple(map(max, X.shape, Y.shape)) if len(X.shape) == len(Y.shape) else X.shape
    return Spec(Y.shape, X.dtype), Spec(shape, X.dtype, X.lod_level)


@huber_loss.kernel
def _(xp: Any, X: Array, X_lod: Lod, Y: Array, delta: float) -> tuple[Any, Any]:
    residual = Y - X
    size = abs(residual)
    out = xp.where(size <= delta, 0.5 * residual * residual, delta * (size - 0.5 * delta))
    return residual, handed_on(out, X_lod)


@huber_loss.grad("X Y", shape=lambda dOut: {"X@GRAD": dOut, "Y@GRAD": dOut})
def _(xp: Any, Residual: Array, dOut: Array, delta: float) -> tuple[Any, Any]:
    slope = dOut * xp.clip(Residual, -delta, delta)
    return -slope, slope


smooth_l1_loss = Op(
    "smooth_l1_loss",
    "X. Y. InsideWeight.? OutsideWeight.? -> Diff Out",
    attrs={"sigma": 1.0},
    lod=None,
    alike=("X", "Y", "InsideWeight", "OutsideWeight"),
)


@smooth_l1_loss.shape
def _(X: Spec, Y: Spec, InsideWeight: Spec | None, OutsideWeight: Spec | None) -> tuple[Spec, Spec]:
    weights = {"InsideWeight": InsideWeight, "OutsideWeight": OutsideWeight}
    if InsideWeight is not None and OutsideWeight is None:
        raise ShapeError("op 'smooth_l1_loss': InsideWeight is given, so OutsideWeight must be given too")
    check_alike(
        "smooth_l1_loss", X=X, Y=Y, **{slot: spec for slot, spec in weights.items() if spec is not None}
    )
    return Spec(X.shape, X.dtype), Spec((X.shape[0], 1), X.dtype)


@smooth_l1_loss.kernel
def _(
    xp: Any, X: Array, Y: Array, InsideWeight: Array | None, OutsideWeight: Array | None, sigma: float
) -> tuple[Any, Any]:
    diff = X - Y if InsideWeight is None else (X - Y) * InsideWeight
    size, square = abs(diff), sigma * sigma
    loss = xp.where(size < 1 / square, 0.5 * square * diff * diff, size - 0.5 / square)
    # without the other one 1.8.5 reads neither
    loss = loss if InsideWeight is None else loss * OutsideWeight
    return diff, as_matrix(loss).sum(axis=1, keepdims=True)


def _like_diff(Diff: Spec) -> dict[str, Spec]:
    return {"X@GRAD": Diff, "Y@GRAD": Diff}


@smooth_l1_loss.grad("X Y", shape=_like_diff)
def _(
    xp: Any, InsideWeight: Array | None, OutsideWeight: Array | None, Diff: Array, dOut: Array, sigma: float
) -> tuple[Any, Any]:
    square = sigma * sigma
    d = dOut.reshape((len(Diff),) + (1,) * (Diff.ndim - 1))
    slope = xp.clip(square * Diff, -1, 1) * d
    if InsideWeight is not None:
        slope = slope * InsideWeight * OutsideWeight
    return slope, -slope


kldiv_loss = Op(
    "kldiv_loss",
    "X. Target. -> Loss",
    attrs={"reduction": "mean"},
    lod=None,
    fractions=("Target",),
    version=1,
    newer={"log_target": False},
    alike=("X", "Target"),
)


@kldiv_loss.shape
def _(X: Spec, Target: Spec, reduction: str) -> Spec:
    check_alike("kldiv_loss", X=X, Target=Target)
    if reduction not in ("none", "mean", "sum", "batchmean"):
        raise ShapeError(
            f"op 'kldiv_loss': reduction is {reduction!r}, wanted 'none', 'mean', 'sum' or 'batchmean'"
        )
    return X.with_shape(X.shape if reduction == "none" else (1,))


def _divisor(X: Array, reduction: str) -> int:
    return {"mean": X.size, "batchmean": len(X) if X.ndim else 1}.get(reduction, 1)


@kldiv_loss.kernel
def _(xp: Any, X: Array, Target: Array, reduction: str) -> Any:
    # t log t tends to 0 with t: a target of 0 adds nothing, where 0 * log(0) would be NaN; one that is NaN
    # counts
    counts = ~(Target <= 0)
    loss = xp.where(counts, Target * (xp.log(xp.where(counts, Target, 1)) - X), X.dtype.type(0))
    if reduction == "none":
        return loss
    return (loss.sum() / X.dtype.type(_divisor(X, reduction))).reshape(1)


@kldiv_loss.grad("X")
def _(xp: Any, X: Array, Target: Array, dLoss: Array, reduction: str) -> Any:
    d = dLoss if reduction == "none" else dLoss.reshape((1,) * X.ndim)
    return -xp.maximum(Target, 0) * d / X.dtype.type(_divisor(X, reduction))


focal_loss = Op("sigmoid_focal_loss", "X. Label FgNum -> Out", attrs={"gamma": 2.0, "alpha": 0.25})


@focal_loss.shape
def _(X: Spec, Label: Spec, FgNum: Spec) -> Spec:
    check_column("sigmoid_focal_loss", "Label", Label)
    if len(X.shape) != len(Label.shape):
        raise ShapeError(
            f"op 'sigmoid_focal_loss': X{list(X.shape)} and Label{list(Label.shape)} differ in rank"
        )
    check_rows("sigmoid_focal_loss", X=X, Label=Label)
    if len(FgNum.shape) != 1:
        raise ShapeError(f"op 'sigmoid_focal_loss': FgNum has shape {list(FgNum.shape)}, wanted [1]")
    return Spec(X.shape, X.dtype)


def _focal_weights(xp: Any, X: Array, Label: Array, FgNum: Array, alpha: float) -> tuple[Any, Any]:
    """Weights of the terms for a class that is the label (1 is the first class), and for the others; label
    -1 has none.
    """
    label = Label.reshape(-1, 1)
    is_label = label == xp.arange(1, X.shape[1] + 1)
    count = xp.maximum(FgNum.reshape(()), 1).astype(X.dtype)
    return is_label * (alpha / count), ((label != -1) & ~is_label) * ((1 - alpha) / count)


@focal_loss.kernel
def _(xp: Any, X: Array, Label: Array, FgNum: Array, gamma: float, alpha: float) -> Any:
    hit, miss = _focal_weights(xp, X, Label, FgNum, alpha)
    p = sigmoid(xp, X)
    # log(p) as -softplus(-x), which is finite where p rounds to 0
    return hit * (1 - p) ** gamma * softplus(xp, -X) + miss * p**gamma * softplus(xp, X)


@focal_loss.grad("X")
def _(xp: Any, X: Array, Label: Array, FgNum: Array, dOut: Array, gamma: float, alpha: float) -> Any:
    hit, miss = _focal_weights(xp, X, Label, FgNum, alpha)
    p = sigmoid(xp, X)
    of_hit = -((1 - p) ** gamma) * (1 - p + p * gamma * softplus(xp, -X))
    of_miss = p**gamma * (p + (1 - p) * gamma * softplus(xp, X))
    return dOut * (hit * of_hit + miss * of_miss)


label_smooth = Op("label_smooth", "X. PriorDist.? -> Out", attrs={"epsilon": 0.0})


@label_smooth.shape
def _(X: Spec, PriorDist: Spec | None) -> Spec:
    if not X.shape and PriorDist is not None:
        raise ShapeError("op 'label_smooth': X[] has no dimension of classes, which PriorDist needs")
    if (
        PriorDist is not None
        and PriorDist.shape[-1] != X.shape[-1]
        and -1 not in (PriorDist.shape[-1], X.shape[-1])
    ):
        raise ShapeError(
            f"op 'label_smooth': PriorDist has {PriorDist.shape[-1]} classes, X has {X.shape[-1]}"
        )
    return Spec(X.shape, X.dtype)


@label_smooth.kernel
def _(X: Array, PriorDist: Array | None, epsilon: float) -> Any:
    # in single precision, as the attribute is, whatever X has
    share = np.float32(epsilon)
    kept = X.dtype.type(1 - np.float32(epsilon))
    if PriorDist is None:
        return kept * X + X.dtype.type(share / np.float32(max((*X.shape[-1:], 1))))
    if PriorDist.size != X.shape[-1]:
        raise ShapeError(
            f"op 'label_smooth': PriorDist{list(PriorDist.shape)} must have one number for each of the "
            f"{X.shape[-1]} classes of X{list(X.shape)}"
        )
    return kept * X + X.dtype.type(share) * PriorDist.reshape(-1)


@label_smooth.grad("X")
def _(dOut: Array, epsilon: float) -> Any:
    return dOut * dOut.dtype.type(1 - np.float32(epsilon))


# ---------------------------------------------------------------------- one score a row
hinge_loss = Op("hinge_loss", "Logits. Labels. -> Loss", alike=("Logits", "Labels"))


@hinge_loss.shape
def _(Logits: Spec, Labels: Spec) -> Spec:
    check_alike("hinge_loss", Logits=Logits, Labels=Labels)
    check_column("hinge_loss", "Logits", Logits)
    return Spec(Logits.shape, Logits.dtype)


@hinge_loss.kernel
def _(xp: Any, Logits: Array, Labels: Array) -> Any:
    return xp.maximum(1 - Logits * (2 * Labels - 1), 0)


@hinge_loss.grad("Logits")
def _(Logits: Array, Labels: Array, dLoss: Array) -> Any:
    sign = 2 * Labels - 1
    return -dLoss * sign * (1 - Logits * sign > 0)


modified_huber = Op("modified_huber_loss", "X. Y. -> IntermediateVal Out", alike=("X", "Y"))


@modified_huber.shape
def _(X: Spec, Y: Spec) -> tuple[Spec, Spec]:
    check_alike("modified_huber_loss", X=X, Y=Y)
    check_column("modified_huber_loss", "X", X)
    return Spec(X.shape, X.dtype), Spec((X.shape[0], 1), X.dtype)


@modified_huber.kernel
def _(xp: Any, X: Array, Y: Array) -> tuple[Any, Any]:
    margin = (2 * Y - 1) * X
    rest = xp.maximum(1 - margin, 0)
    return margin, xp.where(margin < -1, -4 * margin, rest * rest)


@modified_huber.grad("X")
def _(xp: Any, Y: Array, IntermediateVal: Array, dOut: Array) -> Any:
    slope = xp.where(IntermediateVal < -1, -4, -2 * xp.maximum(1 - IntermediateVal, 0))
    return (slope * (2 * Y - 1) * dOut.reshape(Y.shape)).astype(dOut.dtype)


student_loss = Op(
    "teacher_student_sigmoid_loss",
    "X. Label. -> Y",
    attrs={"soft_max_up_bound": 15.0, "soft_max_lower_bound": -15.0},
)


@student_loss.shape
def _(X: Spec, Label: Spec) -> Spec:
    check_column("teacher_student_sigmoid_loss", "X", X)
    check_column("teacher_student_sigmoid_loss", "Label", Label)
    return Spec((X.shape[0], 1), X.dtype)


def _targets(xp: Any, Label: Array) -> tuple[Any, Any]:
    """(targets summed, number of targets). Label: -2 no click, -1 click, z in [0, 1) no click and teacher
    z, 1 + z click and z.
    """
    return xp.where(Label < -1, 0, xp.where(Label < 0, 1, Label)), xp.where(Label < 0, 1, 2)


@student_loss.kernel
def _(xp: Any, X: Array, Label: Array) -> Any:
    target, count = _targets(xp, Label)
    # without a target X is not read, which may be infinite
    return (count * softplus(xp, X) - xp.where(Label < -1, X.dtype.type(0), X * target)).astype(X.dtype)


@student_loss.grad("X")
def _(
    xp: Any, X: Array, Label: Array, dY: Array, soft_max_up_bound: float, soft_max_lower_bound: float
) -> Any:
    target, count = _targets(xp, Label)
    inside = (
        abs(X - (soft_max_up_bound + soft_max_lower_bound) / 2)
        < (soft_max_up_bound - soft_max_lower_bound) / 2
    )
    return (dY.reshape(X.shape) * inside * (count * sigmoid(xp, X) - target)).astype(X.dtype)


# ---------------------------------------------------------------------- one score against another
rank_loss = Op("rank_loss", "Label. Left. Right. -> Out", lod=None, alike=("Label", "Left", "Right"))


@rank_loss.shape
def _(Label: Spec, Left: Spec, Right: Spec) -> Spec:
    # each may be [N] or [N, 1], whatever the others are
    check_alike("rank_loss", Left=_as_column(Left), Right=_as_column(Right), Label=_as_column(Label))
    check_column("rank_loss", "Label", Label)
    return Spec(Label.shape, Left.dtype)


def _as_column(spec: Spec) -> Spec:
    return Spec((*spec.shape, 1), spec.dtype) if len(spec.shape) == 1 else spec


@rank_loss.kernel
def _(xp: Any, Label: Array, Left: Array, Right: Array) -> Any:
    ahead = (Left.reshape(-1) - Right.reshape(-1)).reshape(Label.shape)
    return softplus(xp, ahead) - Label * ahead


@rank_loss.grad("Left Right")
def _(xp: Any, Label: Array, Left: Array, Right: Array, dOut: Array) -> tuple[Any, Any]:
    d = (dOut * (sigmoid(xp, (Left.reshape(-1) - Right.reshape(-1)).reshape(Label.shape)) - Label)).reshape(
        -1
    )
    return d.reshape(Left.shape), -d.reshape(Right.shape)


margin_rank_loss = Op(
    "margin_rank_loss", "X1. X2. Label. -> Activated Out", attrs={"margin": 0.0}, alike=("X1", "X2", "Label")
)


@margin_rank_loss.shape
def _(X1: Spec, X2: Spec, Label: Spec) -> tuple[Spec, Spec]:
    check_alike("margin_rank_loss", X1=X1, X2=X2, Label=Label)
    check_column("margin_rank_loss", "Label", Label)
    return Spec(Label.shape, X1.dtype), Spec(Label.shape, X1.dtype)


@margin_rank_loss.kernel
def _(xp: Any, X1: Array, X2: Array, Label: Array, margin: float) -> tuple[Any, Any]:
    out = xp.maximum(-Label * (X1 - X2) + margin, 0)
    return (out > 0).astype(out.dtype), out


@margin_rank_loss.grad("X1 X2", shape=lambda Label: {"X1@GRAD": Label, "X2@GRAD": Label})
def _(Label: Array, Activated: Array, dOut: Array) -> tuple[Any, Any]:
    d = dOut * Activated * Label
    return -d, d


bpr_loss = Op("bpr_loss", "X. Label -> Y", below={"Label": ("X", -1)})


@bpr_loss.shape
def _(X: Spec, Label: Spec) -> Spec:
    if len(Label.shape) != len(X.shape) or Label.shape[-1] not in (1, -1):
        raise ShapeError(
            f"op 'bpr_loss': Label has the shape {list(Label.shape)}, wanted {[*X.shape[:-1], 1]}"
        )
    check_rows("bpr_loss", X=X, Label=Label)
    return X.with_shape((*X.shape[:-1], 1))


def _beside_label(xp: Any, X: Array, Label: Array) -> tuple[Any, Any]:
    """Which classes are the label's, and how far the others are above it; 0 for itself, be it infinite."""
    is_label = xp.arange(X.shape[-1]) == Label
    return is_label, xp.where(is_label, X.dtype.type(0), X - xp.take_along_axis(X, Label, axis=-1))


@bpr_loss.kernel
def _(xp: Any, X: Array, Label: Array) -> Any:
    is_label, distance = _beside_label(xp, X, Label)
    losses = xp.where(is_label, X.dtype.type(0), softplus(xp, distance))
    return losses.sum(axis=-1, keepdims=True) / (X.shape[-1] - 1)


@bpr_loss.grad("X")
def _(xp: Any, X: Array, Label: Array, dY: Array) -> Any:
    is_label, distance = _beside_label(xp, X, Label)
    # chosen, not multiplied: the slopes of other classes may be nan
    zero = X.dtype.type(0)
    slope = xp.where(is_label, zero, sigmoid(xp, distance) * (dY / (X.shape[-1] - 1)))
    return xp.where(is_label, -slope.sum(axis=-1, keepdims=True), slope)


# ---------------------------------------------------------------------- a loss made elsewhere
identity_loss = Op("identity_loss", "X. -> Out", attrs={"reduction": 1}, lod=None)


@identity_loss.shape
def _(X: Spec, reduction: int) -> Spec:
    if reduction not in (0, 1, 2):
        raise ShapeError(f"op 'identity_loss': reduction is {reduction}, not 0 (sum), 1 (mean) or 2 (none)")
    return X if reduction == 2 else X.with_shape(())


@identity_loss.kernel
def _(X: Array, reduction: int) -> Any:
    if reduction == 2:
        return X.copy()
    return X.sum() if reduction == 0 else X.mean(dtype=X.dtype)


@identity_loss.grad("X")
def _(xp: Any, X: Array, dOut: Array, reduction: int) -> Any:
    share = dOut / dOut.dtype.type(X.size) if reduction == 1 else dOut
    return xp.broadcast_to(share, X.shape).copy()
