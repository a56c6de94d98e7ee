"""Losses of 2.x. `reduction` says what becomes of the losses of the elements: their "mean", their "sum", or,
with "none", themselves.
"""

from __future__ import annotations

from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, append_several, need_float
from fluidlite.paddle.nn.functional.activation import relu, sigmoid
from fluidlite.paddle.nn.functional.common import label_smooth, one_hot
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.logic import equal, not_equal
from fluidlite.paddle.tensor.manipulation import gather_nd, reshape, squeeze, tile, transpose, unsqueeze
from fluidlite.paddle.tensor.math import abs, cast, pow, scale, square
from fluidlite.paddle.tensor.reduction import mean, sum
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import constant, size_of

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "check_reduction",
    "class_center_sample",
    "cross_entropy",
    "ctc_loss",
    "dice_loss",
    "hsigmoid_loss",
    "kl_div",
    "l1_loss",
    "log_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "npair_loss",
    "reduced_loss",
    "rnnt_loss",
    "sigmoid_focal_loss",
    "smooth_l1_loss",
    "softmax_with_cross_entropy",
    "square_error_cost",
]


def check_reduction(
    reduction: str, function: str, choices: tuple[str, ...] = ("sum", "mean", "none")
) -> None:
    """ValueError for a way to reduce losses that the function does not know."""
    if reduction not in choices:
        raise ValueError(
            f"The value of 'reduction' in {function} should be one of {', '.join(choices)}, but received "
            f"{reduction}, which is not allowed."
        )


def reduced_loss(loss: Variable, reduction: str, name: str | None = None) -> Variable:
    """The losses of the elements, their mean or their sum."""
    if reduction == "mean":
        return mean(loss, name=name)
    return sum(loss, name=name) if reduction == "sum" else loss


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)**2, element by element."""
    return square(input - label)


def mse_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """(input - label)**2."""
    check_reduction(reduction, "mse_loss")
    return reduced_loss(square(input - label), reduction, name)


def l1_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """|input - label|."""
    check_reduction(reduction, "L1Loss")
    return reduced_loss(abs(input - label), reduction, name)


def smooth_l1_loss(
    input: Variable, label: Variable, reduction: str = "mean", delta: float = 1.0, name: str | None = None
) -> Variable:
    """Half the square of the difference d up to `delta`, from there delta * |d| - delta**2 / 2."""
    check_reduction(reduction, "smooth_l1_loss")
    inputs = {"X": [input], "Y": [label]}
    attrs = {"delta": delta}
    extra = {"Residual": input.dtype}
    out = append("huber_loss", inputs, attrs, dtype=input.dtype, extra=extra)
    return reduced_loss(out, reduction)


def log_loss(input: Variable, label: Variable, epsilon: float = 0.0001, name: str | None = None) -> Variable:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon)."""
    inputs = {"Predicted": [input], "Labels": [label]}
    return append("log_loss", inputs, {"epsilon": epsilon}, dtype=input.dtype, slot="Loss", name=name)


def kl_div(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """label * (log(label) - input), where `input` is a logarithm; "batchmean" divides the sum by the number
    of rows.
    """
    need_float(input, "kl_div")
    check_reduction(reduction, "kl_div", ("sum", "batchmean", "mean", "none"))
    inputs = {"X": [input], "Target": [label]}
    loss = append("kldiv_loss", inputs, {"reduction": "none"}, dtype=input.dtype, layer="kl_div", slot="Loss")
    if reduction == "batchmean":
        rows = size_of(input, 0)
        return sum(loss) / (cast(rows, input.dtype) if isinstance(rows, Variable) else rows)
    return reduced_loss(loss, reduction)


def margin_ranking_loss(
    input: Variable,
    other: Variable,
    label: Variable,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """max(0, -label * (input - other) + margin), with labels 1 and -1."""
    check_reduction(reduction, "MarginRankingLoss")
    difference = input - other
    apart = scale(label, -1.0) * difference
    if margin != 0.0:
        apart = apart + constant([1], apart.dtype, margin)
    loss = relu(apart)
    if reduction == "mean":  # 2.6.2 takes the op of this name here, and the reduction elsewhere
        return append("mean", {"X": [loss]}, dtype=loss.dtype, name=name, scalar=True)
    return reduced_loss(loss, reduction, name)


# ---------------------------------------------------------------------- yes or no
def binary_cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """-label * log(input) - (1 - label) * log(1 - input), of probabilities, times `weight`."""
    check_reduction(reduction, "binary_cross_entropy")
    loss = append("bce_loss", {"X": [input], "Label": [label]}, dtype=input.dtype)
    return reduced_loss(loss if weight is None else loss * weight, reduction)


def _with_logits(logit: Variable, label: Variable, weight: Variable | None = None) -> Variable:
    attrs = {"ignore_index": -100, "normalize": False}
    inputs = {"X": [logit], "Label": [label]}
    if weight is not None:
        inputs["pos_weight"] = [weight]
    return append("sigmoid_cross_entropy_with_logits", inputs, attrs, dtype=logit.dtype)


def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """`binary_cross_entropy` of sigmoid(logit), times `weight`; `pos_weight` multiplies the part of the label
    1.
    """
    check_reduction(reduction, "binary_cross_entropy_with_logits")
    weighted = None if pos_weight is None else label * (pos_weight - 1.0) + 1.0
    loss = _with_logits(logit, label, weighted)
    return reduced_loss(loss if weight is None else loss * weight, reduction)


def sigmoid_focal_loss(
    logit: Variable,
    label: Variable,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Variable:
    """Cross-entropy of sigmoid(logit), weighted by alpha_t * (1 - p_t)**gamma and divided by `normalizer`
    (Lin et al., 2017).
    """
    check_reduction(reduction, "sigmoid_focal_loss")
    loss, p = _with_logits(logit, label), sigmoid(logit)
    p_t = p * label + (1 - p) * (1 - label)
    alpha_t = alpha * label + (1 - alpha) * (1 - label)
    loss = pow(1 - p_t, gamma) * (alpha_t * loss)
    return reduced_loss(loss if normalizer is None else loss / normalizer, reduction)


# ---------------------------------------------------------------------- one of many
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """-log(softmax(logits)) at the label, or its mean weighted by `soft_label`s: 1 long along `axis`."""
    return _crossed(logits, label, soft_label, ignore_index, numeric_stable_mode, return_softmax, axis, True)


def _crossed(
    logits: Variable,
    label: Variable,
    soft: bool,
    ignored: int,
    stable: bool,
    both: bool,
    axis: int,
    use_softmax: bool,
) -> Any:
    if len(logits.shape) - 1 == len(label.shape):
        label = unsqueeze(label, axis)
    attrs = {
        "soft_label": soft,
        "ignore_index": ignored,
        "numeric_stable_mode": stable,
        "axis": axis,
        "use_softmax": use_softmax,
    }
    inputs = {"Logits": [logits], "Label": [label]}
    op = "softmax_with_cross_entropy"
    loss = append(op, inputs, attrs, dtype=logits.dtype, slot="Loss", extra={"Softmax": logits.dtype})
    if not both:
        return loss
    made = loss.block.ops[-1].output("Softmax")[0]
    return loss, loss.block.var(made)


def cross_entropy(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Variable:
    """-log(softmax(input)) at the label, along `axis`.

    weight: one number a class; the mean is over the weights of the labels. ignore_index: a label that does
    not count. use_softmax: False where `input` holds probabilities. label_smoothing: the share of the label
    that all classes get.
    """
    check_reduction(reduction, "nn.functional.cross_entropy")
    if ignore_index > 0 and soft_label:
        raise ValueError(
            "When soft_label == True, the value of 'ignore_index' in softmax_cross_entropy should be '-100', "
            f"but received {ignore_index}, which is not allowed."
        )
    kept: Any = None
    if label_smoothing > 0 and ignore_index >= 0 and not soft_label:
        kept, label = _without_ignored(label, ignore_index)
    if label_smoothing > 0:
        label, soft_label = _smoothed(label, input, axis, soft_label, label_smoothing), True
    loss = _crossed(input, label, soft_label, ignore_index, True, False, axis, use_softmax)
    reads_labels = (weight is not None or ignore_index >= 0) and not soft_label
    flat = squeeze(label, axis) if reads_labels and len(label.shape) == len(loss.shape) else label
    weights = None if weight is None else _weights_of(weight, flat, soft_label, axis, ignore_index)
    if weights is not None:
        loss = loss * reshape(weights, list(loss.shape))
    if kept is not None:  # 2.6.2 takes the smoothed labels for some that count
        loss = loss * (kept := reshape(cast(kept, loss.dtype), list(loss.shape)))
        weights = kept if weights is None else reshape(weights, list(loss.shape)) * kept
    if reduction == "none":
        return squeeze(loss, axis) if len(label.shape) == len(input.shape) - 1 else loss
    if weights is not None and reduction == "mean":
        return sum(loss, name=name) / _at_least_one(sum(weights))
    if ignore_index >= 0 and not soft_label and reduction == "mean":
        counted = cast(not_equal(flat, constant([1], flat.dtype, ignore_index)), loss.dtype)
        return sum(loss, name=name) / _at_least_one(sum(counted))
    return sum(loss, name=name) if reduction == "sum" else mean(loss, name=name)


def _at_least_one(total: Variable) -> Any:
    """The total, and 1 where it is 0: no label counts, and the mean of none is 0 / 1, not 0 / 0."""
    return total + cast(equal(total, constant([], total.dtype, 0.0)), total.dtype)


def _without_ignored(label: Variable, ignored: int) -> tuple[Variable, Variable]:
    """(True where a label counts, the labels with class 0 in the place of those that do not)."""
    counts = not_equal(label, constant([1], label.dtype, ignored))
    return counts, where(counts, label, label * 0)


def _smoothed(label: Variable, input: Variable, axis: int, soft: bool, share: float) -> Variable:
    """Shares of the classes along `axis`, as `input` has them."""
    if soft:
        return label_smooth(label, epsilon=share)
    if len(label.shape) == len(input.shape) - 1:
        label = unsqueeze(label, axis)
    shares = cast(label_smooth(one_hot(squeeze(label, axis), input.shape[axis]), epsilon=share), input.dtype)
    last = len(input.shape) - 1
    if axis % len(input.shape) == last:
        return shares
    order = list(range(last))
    order.insert(axis % len(input.shape), last)
    return transpose(shares, order)


def _weights_of(weight: Variable, label: Variable, soft: bool, axis: int, ignored: int) -> Variable:
    """The weight of each label."""
    if soft:
        return squeeze(matmul(label, unsqueeze(weight, -1)), -1)
    counts, known = _without_ignored(label, ignored)  # an ignored label may be no class
    return gather_nd(weight, unsqueeze(known, -1)) * cast(counts, weight.dtype)


def class_center_sample(
    label: Variable, num_classes: int, num_samples: int, group: Any = None
) -> tuple[Variable, Variable]:
    """(labels as places in a list of classes, that list): the classes of `label` [batch], and as many others
    as make up `num_samples`, for a last layer that computes with these alone (An et al., 2021). `group` must
    be None, or False as there: classes are not split over processes here.
    """
    if not (group is None or group is False):
        raise ValueError(f"class_center_sample: group must be None or False, but it is {group!r}")
    if num_samples > num_classes:
        raise ValueError(
            f"Expected num_samples less than or equal to {num_classes}, got num_samples {num_samples}"
        )
    if len(label.shape) != 1:
        raise ValueError(f"Expected label_dims == 1, but {label.name!r} has the shape {list(label.shape)}")
    if num_samples <= 0:
        raise ValueError(f"class_center_sample: num_samples must be greater than 0, but it is {num_samples}")
    outs = {"RemappedLabel": label.dtype, "SampledLocalClassCenter": label.dtype}
    attrs = {"num_classes": num_classes, "num_samples": num_samples, "fix_seed": False, "seed": 0}
    places, classes = append_several("class_center_sample", {"Label": [label]}, attrs, outs)
    return places, classes


def nll_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """-input at the label, for logarithms of probabilities [samples, classes, ...], times the class's
    `weight`.
    """
    check_reduction(reduction, "nll_loss")
    dims = len(input.shape)
    if dims < 2 or dims - 1 != len(label.shape):
        raise ValueError(
            f"Expected input_dims >= 2 and one more than label_dims (got {dims} and {len(label.shape)})"
        )
    rows, classes = input.shape[:2]
    shape = list(label.shape)
    if dims not in (2, 4):  # the op takes rows, or pictures
        input, label = reshape(input, [rows, classes, 1, -1]), reshape(label, [rows, 1, -1])
    inputs = {"X": [input], "Label": [label]}
    if weight is not None:
        inputs["Weight"] = [weight]
    attrs = {"reduction": reduction, "ignore_index": ignore_index}
    scalar = reduction != "none"
    extra = {"Total_weight": input.dtype}
    out = append("nll_loss", inputs, attrs, dtype=input.dtype, scalar=scalar, extra=extra)
    return reshape(out, shape) if dims not in (2, 4) and not scalar else out


def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """The N-pair loss of rows with labels, plus l2_reg / 4 times the mean squared norm of both (Sohn,
    2016).
    """
    rows = labels.shape[0]
    columns = tile(reshape(labels, [rows, 1]), [1, rows])
    same = cast(equal(columns, transpose(columns, [1, 0])), "float32")
    targets = same / sum(same, axis=1, keepdim=True)
    norms = (mean(sum(square(anchor), 1)) + mean(sum(square(positive), 1))) * 0.25 * l2_reg
    likeness = matmul(anchor, positive, transpose_y=True)
    crossed = softmax_with_cross_entropy(likeness, targets, soft_label=True)
    return norms + mean(sum(targets * crossed, 0))


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """1 - 2 * |input and label| / (|input| + |label|), the mean over samples; the last dimension of `input`
    has the classes, that of `label` one of them.
    """

    if len(input.shape) != len(label.shape) or label.shape[-1] != 1:
        raise AssertionError(
            "label must have the dimensions of input, with 1 instead of the number of classes"
        )
    classes = one_hot(squeeze(label, [-1]), input.shape[-1])
    axes = list(range(1, len(input.shape)))
    inside = sum(input * classes, axes)
    both = sum(input, axes) + sum(classes, axes)
    return mean(1 - inside * 2 / (both + epsilon))


def ctc_loss(
    log_probs: Variable,
    labels: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Variable:
    """Connectionist temporal classification of scores [time, batch, classes] and labels [batch, length]; the
    "mean" is over losses divided by their label's length (Graves et al., 2006).
    """
    check_reduction(reduction, "ctc_loss")
    inputs = {
        "Logits": [log_probs],
        "Label": [labels],
        "LogitsLength": [input_lengths],
        "LabelLength": [label_lengths],
    }
    attrs = {"blank": blank, "norm_by_times": norm_by_times}
    extra = {"WarpCTCGrad": log_probs.dtype}
    loss = squeeze(append("warpctc", inputs, attrs, dtype=log_probs.dtype, slot="Loss", extra=extra), [-1])
    if reduction == "mean":
        return mean(loss / cast(label_lengths, loss.dtype))
    return reduced_loss(loss, reduction)


def rnnt_loss(
    input: Variable,
    label: Variable,
    input_lengths: Variable,
    label_lengths: Variable,
    blank: int = 0,
    fastemit_lambda: float = 0.001,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The loss of a transducer: -log P(label) by the logs of probabilities [batch, time, labels + 1, classes]
    (Graves, 2012). The "mean" is over the batch.

    fastemit_lambda: the share by which gradients of emitted labels are larger than they were; the loss stays
    as it is (Yu et al., 2021).
    """
    check_reduction(reduction, "rnnt_loss")
    inputs = {
        "input": [input],
        "label": [label],
        "input_lengths": [input_lengths],
        "label_lengths": [label_lengths],
    }
    attrs = {"blank": blank, "fastemit_lambda": fastemit_lambda}
    extra = {"warprnntgrad": input.dtype}
    loss = append("warprnnt", inputs, attrs, dtype=input.dtype, slot="loss", extra=extra)
    if reduction == "mean":
        rows = size_of(input, 0)
        return sum(loss, name=name) / (cast(rows, loss.dtype) if isinstance(rows, Variable) else rows)
    return sum(loss, name=name) if reduction == "sum" else loss


def hsigmoid_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    weight: Variable,
    bias: Variable | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Variable:
    """Cross-entropy along the label's path through a tree of classes, [samples, 1]: a complete binary tree,
    or one of the caller's (Morin and Bengio, 2005).
    """
    inputs = {"X": [input], "W": [weight], "Label": [label]}
    given = {"Bias": bias, "PathTable": path_table, "PathCode": path_code}
    inputs |= {slot: [var] for slot, var in given.items() if var is not None}
    attrs = {"num_classes": num_classes, "is_sparse": is_sparse}
    extra = {"PreOut": input.dtype, "W_Out": input.dtype}
    return append("hierarchical_sigmoid", inputs, attrs, dtype=input.dtype, name=name, extra=extra)
