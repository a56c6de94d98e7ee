"""Losses that 2.x added: margins, distances, likelihoods. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fluidlite.base.errors import UnsupportedError
from fluidlite.base.open_sizes import fits
from fluidlite.data_feeder import check_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layers.flow.debug import Assert
from fluidlite.paddle.build import append, append_several, need_float
from fluidlite.paddle.nn.functional.activation import log_sigmoid
from fluidlite.paddle.nn.functional.loss import check_reduction, reduced_loss
from fluidlite.paddle.tensor.creation import full_like
from fluidlite.paddle.tensor.manipulation import gather, reshape, unsqueeze
from fluidlite.paddle.tensor.math import add, cast, clip, exp, log, minimum, pow, sqrt, square, subtract
from fluidlite.paddle.tensor.reduction import all, mean, sum
from fluidlite.paddle.tensor.search import index_sample, where
from fluidlite.paddle.tensor.shapes import constant, shape_of

__all__ = [
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_cross_entropy",
    "multi_label_soft_margin_loss",
    "multi_margin_loss",
    "pairwise_distance",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def _need_same_shape(function: str, x: Variable, y: Variable) -> None:
    if x.shape != y.shape:
        raise ValueError(
            f"{function}: the shapes of input {list(x.shape)} and label {list(y.shape)} must be equal"
        )


# ---------------------------------------------------------------------- cosines
def margin_cross_entropy(
    logits: Variable,
    label: Variable,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
    group: Any = None,
    return_softmax: bool = False,
    reduction: str | None = "mean",
) -> Any:
    """The cross entropy of `scale` times cosines [batch, classes], where that of the label's class is
    cos(margin1 * angle + margin2) - margin3 (Deng et al., 2019). `return_softmax` gives the softmax as well.
    """
    assert reduction in ("mean", "sum", "none", None), f"reduction {reduction!r} is not known"
    if group not in (None, False):
        raise UnsupportedError("margin_cross_entropy: classes that a group of ranks shares are refused")
    check_dtype(label.dtype, "label", ["int32", "int64"], "margin_cross_entropy")
    if len(label.shape) == len(logits.shape) - 1:
        label = unsqueeze(label, -1)
    attrs = {"margin1": margin1, "margin2": margin2, "margin3": margin3, "scale": scale}
    attrs |= {"return_softmax": return_softmax, "ring_id": 0, "rank": 0, "nranks": 1}
    kinds = {"Softmax": logits.dtype, "Loss": logits.dtype}
    softmax, loss = append_several(
        "margin_cross_entropy", {"Logits": [logits], "Label": [label]}, attrs, kinds
    )
    loss = reduced_loss(loss, reduction or "none")
    return (loss, softmax) if return_softmax else loss


# ---------------------------------------------------------------------- likelihoods
def gaussian_nll_loss(
    input: Variable,
    label: Variable,
    variance: Any,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """(log(variance) + (input - label)**2 / variance) / 2, with a variance of at least `epsilon`; `full` adds
    the constant log(2 pi) / 2.
    """
    check_reduction(reduction, "gaussian_nll_loss", ("none", "mean", "sum"))
    if variance.shape not in (input.shape, (*input.shape[:-1], 1)):
        if variance.shape != input.shape[:-1]:
            raise ValueError(f"variance is of incorrect shape: {variance.shape}, and input is {input.shape}")
        variance = unsqueeze(variance, -1)
    Assert(all(variance > 0), [variance], 6)
    held: Any = clip(variance.clone(), min=epsilon)
    loss: Any = 0.5 * (log(held) + square(input - label) / held)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced_loss(loss, reduction)


def poisson_nll_loss(
    input: Variable,
    label: Variable,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """exp(input) - label * input, or input - label * log(input + epsilon) where `log_input` is not set;
    `full` adds Stirling's approximation for labels above 1.
    """
    check_reduction(reduction, "poisson_nll_loss", ("none", "mean", "sum"))
    if epsilon <= 0:
        raise ValueError(
            f"The value of `epsilon` in poisson_nll_loss should be positive, but received {epsilon}"
        )
    _need_same_shape("poisson_nll_loss", input, label)
    label = cast(label, input.dtype)
    if log_input:
        loss: Any = exp(input) - label * input
    else:
        loss = input - label * log(input + epsilon)
    if full:
        stirling = label * log(label) - label + 0.5 * log(label * (2 * math.pi))
        loss = loss + where(label > 1, stirling, full_like(stirling, 0))
    return reduced_loss(loss, reduction)


# ---------------------------------------------------------------------- margins
def soft_margin_loss(
    input: Variable, label: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """log(1 + exp(-label * input)), with labels 1 and -1."""
    check_reduction(reduction, "soft_margin_loss")
    _need_same_shape("soft_margin_loss", input, label)
    signs = cast(label, input.dtype)
    return reduced_loss(log(1 + exp(-signs * input)), reduction, name)


def multi_label_soft_margin_loss(
    input: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The mean over classes of the binary cross entropies of logits, with labels 1 and 0, times `weight`."""
    check_reduction(reduction, "multi_label_soft_margin_loss")
    _need_same_shape("multi_label_soft_margin_loss", input, label)
    loss: Any = -(label * log_sigmoid(input) + (1 - label) * log_sigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduced_loss(mean(loss, axis=-1), reduction)


def multi_margin_loss(
    input: Variable,
    label: Variable,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The mean over the other classes j of max(0, margin - input[label] + input[j])**p, [samples, classes],
    times the `weight` of the label.
    """
    check_reduction(reduction, "multi_margin_loss")
    if len(input.shape) != 2 or input.shape[0] != label.shape[0]:
        raise ValueError(
            f"The label's shape[0] should be equal to input's shape[0], but received input "
            f"{list(input.shape)} and label {list(label.shape)}"
        )
    label = reshape(label, [-1, 1])
    score: Any = index_sample(input, label)
    kept: Any = None if weight is None else reshape(gather(weight, label, axis=0), [-1, 1])
    over = margin - score + input
    parts: Any = mean(pow(clip(over if kept is None else kept * over, min=0.0), float(p)), axis=1)
    own: Any = margin**p / _classes(input)  # that of the label itself
    if kept is not None:
        own = kept * own
    return reduced_loss(parts - own, reduction, name)


def _classes(input: Any) -> Any:
    """The number of classes, when the program runs."""
    shape: Any = shape_of(input)
    return shape[1]


def hinge_embedding_loss(
    input: Variable, label: Any, margin: float = 1.0, reduction: str = "mean", name: str | None = None
) -> Variable:
    """`input` where the label is 1, max(0, margin - input) where it is -1."""
    check_reduction(reduction, "hinge_embedding_loss")
    zero = constant([1], input.dtype, 0)
    near = where(label == 1.0, input, zero)
    far = where(label == -1.0, relu_of(margin - input), zero)
    return reduced_loss(near + far, reduction, name)


def relu_of(x: Any) -> Variable:
    """max(x, 0) by the op relu."""
    return append("relu", {"X": [x]}, dtype=x.dtype)


def cosine_embedding_loss(
    input1: Any, input2: Any, label: Any, margin: float = 0, reduction: str = "mean", name: str | None = None
) -> Variable:
    """1 - cos(input1, input2) where the label is 1, max(0, cos - margin) where it is -1."""
    check_reduction(reduction, "cosine_embedding_loss")
    if len(label.shape) != 1:
        raise ValueError("1D target tensor expected, multi-target not supported")
    if input1.shape != input2.shape:
        raise ValueError(f"the shapes of input tensors {input1.shape} and {input2.shape} should be equal")
    if len(input1.shape) > 2:
        raise ValueError(
            "1D target tensor expects 1D or 2D input tensors, but found inputs with more dimensions"
        )
    product: Any = sum(input1 * input2, axis=-1)
    first: Any = sum(square(input1), axis=-1) + 1e-11
    second: Any = sum(square(input2), axis=-1) + 1e-11
    cosine = product / sqrt(first * second)
    zeros = full_like(cosine, 0)
    near, far = 1 - cosine, clip(cosine - margin, min=0.0)
    loss = where(label == 1, near, zeros) + where(label == -1, far, zeros)
    return reduced_loss(loss, reduction, name)


# ---------------------------------------------------------------------- distances
def pairwise_distance(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    epsilon: float = 1e-6,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The p-norms of the rows of x - y + epsilon."""
    need_float(x, "pairwise_distance")
    apart = subtract(x, y)
    if epsilon != 0.0:
        apart = add(apart, constant([1], apart.dtype, epsilon))
    attrs = {"axis": -1, "porder": float(p), "keepdim": keepdim, "epsilon": 0.0, "asvector": False}
    return append("p_norm", {"X": [apart]}, attrs, dtype=x.dtype, layer="PairwiseDistance", name=name)


def triplet_margin_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """max(0, distance to `positive` - distance to `negative` + margin); `swap` takes the distance of the
    latter two where that is smaller.
    """
    check_reduction(reduction, "TripletMarginLoss")
    _check_margin(margin)

    def distance(x: Variable, y: Variable) -> Variable:
        return pairwise_distance(x, y, p, epsilon)

    return reduced_loss(_triplet(distance, input, positive, negative, margin, swap), reduction, name)


def _check_margin(margin: float) -> None:
    if margin < 0:
        raise ValueError(
            f"The margin between positive samples and negative samples should be greater than 0: {margin}"
        )


def _check_shapes(input: Variable, positive: Variable, negative: Variable) -> None:
    for what, each in (("positive", positive), ("negative", negative)):
        if not fits(each.shape, input.shape):
            raise ValueError(
                f"'{what}' of a triplet loss must have the shape of 'input', {list(input.shape)}, but "
                f"{each.name} has {list(each.shape)}"
            )


def _triplet(
    distance: Callable[[Variable, Variable], Any],
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float,
    swap: bool,
) -> Variable:
    _check_shapes(input, positive, negative)
    near = distance(input, positive)
    far = distance(input, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return clip(near - far + margin, min=0.0)


def triplet_margin_with_distance_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance_function: Callable[[Variable, Variable], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """`triplet_margin_loss` with the caller's distance."""
    check_reduction(reduction, "TripletMarginWithDistanceLoss")
    _check_margin(margin)
    distance = distance_function or pairwise_distance
    return reduced_loss(_triplet(distance, input, positive, negative, margin, swap), reduction, name)
