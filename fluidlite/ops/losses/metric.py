"""Metrics of a batch, with their running states: accuracy, AUC, precision and recall, mean IoU, ordered
pairs.
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import AttrType, Op, Spec, required
from fluidlite.ops.kernels.numbers import check_rows

accuracy = Op("accuracy", "Out. Indices Label -> Accuracy Correct Total", classes="Label")


@accuracy.shape
def _(Indices: Spec, Label: Spec) -> tuple[Spec, Spec, Spec]:
    if len(Label.shape) != 2:
        raise ShapeError(f"op 'accuracy': Label has the shape {list(Label.shape)}, wanted [N, 1]")
    if Label.shape[0] >= 0 and Indices.shape[0] >= 0 and Label.shape[0] != Indices.shape[0]:
        raise ShapeError(f"op 'accuracy': Label has {Label.shape[0]} rows but Indices has {Indices.shape[0]}")
    return Spec((1,), VarType.FP32), Spec((1,), VarType.INT32), Spec((1,), VarType.INT32)


@accuracy.kernel
def _(xp: Any, Indices: Array, Label: Array) -> tuple[Any, Any, Any]:
    found = Indices == Label.reshape(-1, 1)
    hits = (found if found.shape[1] == 1 else found.any(axis=1)).reshape(-1).sum(keepdims=True)
    total = len(Indices)
    share = (hits / max(total, 1)).astype("float32")
    return share, hits.astype("int32"), xp.full(1, total, "int32")


# ---------------------------------------------------------------------- AUC
auc = Op(
    "auc",
    "Predict. Label StatPos StatNeg -> AUC StatPosOut StatNegOut",
    attrs={"curve": "ROC", "num_thresholds": 2**13 - 1, "slide_steps": 1},
    lod=None,
    idle=("curve",),
    classes="Label",
    version=1,
)


@auc.shape
def _(Predict: Spec, Label: Spec, num_thresholds: int, slide_steps: int) -> tuple[Spec, Spec, Spec]:
    if len(Predict.shape) != 2:
        raise ShapeError(f"op 'auc': Predict has the shape {list(Predict.shape)}, wanted [N, 1] or [N, 2]")
    if num_thresholds < 0 or slide_steps < 0:
        raise ShapeError(
            f"op 'auc': num_thresholds is {num_thresholds} and slide_steps {slide_steps}, wanted 0 or more"
        )
    if Predict.shape[0] >= 0 and Label.shape[0] >= 0 and Predict.shape[0] != Label.shape[0]:
        raise ShapeError(f"op 'auc': Predict has {Predict.shape[0]} rows but Label has {Label.shape[0]}")
    bins = num_thresholds + 1
    states = Spec(((1 + slide_steps) * bins + 1,) if slide_steps else (1, bins), VarType.INT64)
    return Spec((1,), VarType.FP64), states, states


def _slide(states: Array, batch: Array, slide_steps: int) -> tuple[Any, Any]:
    """(new states, histogram over the window). States hold `slide_steps` histograms, their sum, and a
    counter.
    """
    if not slide_steps:
        # 1.8.5's layer hands over one element more than there are bins
        total = states.reshape(-1)[: len(batch)] + batch
        return total.reshape(1, -1), total
    bins, new = len(batch), states.copy()
    flat = new.reshape(-1)
    slot = int(flat[-1]) % slide_steps * bins
    oldest = flat[slot : slot + bins]
    total = flat[slide_steps * bins : -1]
    total -= oldest
    total += batch
    oldest[...] = batch
    flat[-1] += 1
    return new, total


def area_under_roc(xp: Any, positive: Array, negative: Array) -> Any:
    """The area under the ROC curve of two histograms over rising scores, by trapezoids; 0 where one is
    empty.
    """
    # added up as they are: NumPy takes five times as long to add floating-point numbers up
    hits, positive, negative = (
        counts.astype("float64") for counts in (positive.cumsum(), positive, negative)
    )
    total = hits[-1] * negative.sum()
    # a negative score lies below the positives in the bins above its own, and below half of those in it
    area = total - (xp.dot(negative, hits) - xp.dot(negative, positive) / 2)
    return area / xp.maximum(total, 1)


@auc.kernel
def _(
    xp: Any,
    Predict: Array,
    Label: Array,
    StatPos: Array,
    StatNeg: Array,
    num_thresholds: int,
    slide_steps: int,
) -> tuple[Any, Any, Any]:
    count = num_thresholds + 1
    places = Predict[:, -1] * Predict.dtype.type(num_thresholds)
    if xp.__name__ == "numpy" and places.size and not 0 <= places.min() <= places.max() <= num_thresholds:
        raise KernelError(
            f"op 'auc': Predict holds {Predict[:, -1].min()} to {Predict[:, -1].max()}, wanted probabilities "
            "between 0 and 1"
        )
    # both histograms at once, behind that of labels below 0, which are not counted
    bins = xp.sign(Label.reshape(-1)).astype("int64")
    bins += 1
    bins *= count
    bins += places.astype("int64")
    found = xp.bincount(bins, minlength=3 * count)
    states_positive, positive = _slide(StatPos, found[2 * count :], slide_steps)
    states_negative, negative = _slide(StatNeg, found[count : 2 * count], slide_steps)
    return area_under_roc(xp, positive, negative).reshape(1), states_positive, states_negative


# ---------------------------------------------------------------------- precision and recall
precision_recall = Op(
    "precision_recall",
    "MaxProbs Indices Labels Weights? StatesInfo? -> BatchMetrics AccumMetrics AccumStatesInfo",
    attrs={"class_number": required(AttrType.INT)},
    lod=None,
)


@precision_recall.shape
def _(MaxProbs: Spec, class_number: int) -> tuple[Spec, Spec, Spec]:
    return Spec((6,), VarType.FP64), Spec((6,), VarType.FP64), Spec((class_number, 4), MaxProbs.dtype)


def _ratio(xp: Any, part: Array, rest: Array) -> Any:
    """part / (part + rest), and 1 where both are 0."""
    total = part + rest
    return xp.where(total > 0, part / xp.where(total > 0, total, 1), 1)


def _metrics(xp: Any, states: Array) -> Any:
    """Precision, recall and F1, averaged over classes and then over samples; columns are TP, FP, TN, FN."""
    found = []
    for tp, fp, _, fn in (states.T, states.sum(axis=0, keepdims=True).T):
        precision = _ratio(xp, tp, fp).mean()
        recall = _ratio(xp, tp, fn).mean()
        both = precision + recall
        found += [
            precision,
            recall,
            xp.where(both > 0, 2 * precision * recall / xp.where(both > 0, both, 1), 0),
        ]
    return xp.stack(found).astype("float64")


@precision_recall.kernel
def _(
    xp: Any,
    MaxProbs: Array,
    Indices: Array,
    Labels: Array,
    Weights: Array | None,
    StatesInfo: Array | None,
    class_number: int,
) -> tuple[Any, Any, Any]:
    found, label = Indices.reshape(-1), Labels.reshape(-1)
    weight = xp.ones(len(found), MaxProbs.dtype) if Weights is None else Weights.reshape(-1)
    classes = xp.arange(class_number)[:, None]
    is_found, is_label = classes == found, classes == label
    kinds = (is_found & is_label, is_found & ~is_label, ~is_found & ~is_label, ~is_found & is_label)
    states = xp.stack([(kind * weight).sum(axis=1) for kind in kinds], axis=1).astype(MaxProbs.dtype)
    total = states if StatesInfo is None else states + StatesInfo
    return _metrics(xp, states), _metrics(xp, total), total


# ---------------------------------------------------------------------- segmentation
mean_iou = Op(
    "mean_iou",
    "Predictions Labels InWrongs*? InCorrects*? InMeanIou*? -> OutMeanIou OutWrong OutCorrect",
    attrs={"num_classes": required(AttrType.INT)},
    lod=None,
)


@mean_iou.shape
def _(Predictions: Spec, Labels: Spec, num_classes: int) -> tuple[Spec, Spec, Spec]:
    if Predictions.shape and len(Labels.shape) == len(Predictions.shape):
        check_rows("mean_iou", Predictions=Predictions, Labels=Labels)
    return Spec((1,), VarType.FP32), Spec((num_classes,), VarType.INT32), Spec((num_classes,), VarType.INT32)


@mean_iou.kernel
def _(
    xp: Any,
    Predictions: Array,
    Labels: Array,
    InWrongs: list[Array],
    InCorrects: list[Array],
    InMeanIou: list[Array],
    num_classes: int,
) -> tuple[Any, Any, Any]:
    found = Predictions.reshape(-1)
    label = Labels.reshape(-1)
    hits = xp.flatnonzero(found == label)
    correct, *counts = (
        xp.bincount(classes, minlength=num_classes) for classes in (found.take(hits), found, label)
    )
    wrong = counts[0] + counts[1] - 2 * correct
    correct, wrong = sum(InCorrects, correct).astype("int32"), sum(InWrongs, wrong).astype("int32")
    union = correct + wrong
    mean = (correct / xp.maximum(union, 1)).sum() / (union > 0).sum()
    return sum(InMeanIou, mean.astype("float32").reshape(1)), wrong, correct


# ---------------------------------------------------------------------- ranking
positive_negative_pair = Op(
    "positive_negative_pair",
    "Score Label QueryID AccumulatePositivePair? AccumulateNegativePair? AccumulateNeutralPair? Weight? "
    "-> PositivePair NegativePair NeutralPair?",
    attrs={"column": 0},
    lod=None,
)


@positive_negative_pair.shape
def _(Score: Spec) -> tuple[Spec, Spec, Spec]:
    one = Spec((1,), Score.dtype)
    return one, one, one


@positive_negative_pair.kernel
def _(
    xp: Any,
    Score: Array,
    Label: Array,
    QueryID: Array,
    AccumulatePositivePair: Array | None,
    AccumulateNegativePair: Array | None,
    AccumulateNeutralPair: Array | None,
    Weight: Array | None,
    column: int,
) -> tuple[Any, Any, Any]:
    score, label, query = Score[:, column], Label.reshape(-1), QueryID.reshape(-1)
    weight = xp.ones(len(score), Score.dtype) if Weight is None else Weight.reshape(-1)
    order = xp.arange(len(score))
    counted = (query[:, None] == query) & (label[:, None] != label) & (order[:, None] < order)
    weights = counted * (weight[:, None] + weight) / 2
    ordered = (label[:, None] - label) * (score[:, None] - score) > 0
    # a tie counts as neutral and, as in Paddle, as negative too
    counts = (
        (weights * ordered).sum(),
        (weights * ~ordered).sum(),
        (weights * (score[:, None] == score)).sum(),
    )
    before = (AccumulatePositivePair, AccumulateNegativePair, AccumulateNeutralPair)
    positive, negative, neutral = (
        count.astype(Score.dtype).reshape(1) + (0 if old is None else old)
        for count, old in zip(counts, before, strict=True)
    )
    return positive, negative, neutral
