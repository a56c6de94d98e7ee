"""Losses as layers."""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.layer.base import Function, Layer

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "HSigmoidLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "NLLLoss",
    "RNNTLoss",
    "SmoothL1Loss",
    "CosineEmbeddingLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "PoissonNLLLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Reduced(Function):
    """A loss with `reduction`: "mean", "sum" or "none" (the loss of each row or element)."""

    choices: tuple[str, ...] = ("sum", "mean", "none")

    def __init__(self, function: Any, name: str | None, reduction: str, **settings: Any) -> None:
        if reduction not in self.choices:
            raise ValueError(
                f"The value of 'reduction' in {type(self).__name__} should be one of "
                f"{', '.join(self.choices)}, but received {reduction}, which is not allowed."
            )
        super().__init__(function, name, reduction=reduction, **settings)


class CrossEntropyLoss(_Reduced, takes="input label"):
    """The cross entropy of logits [..., classes] and labels, whole or `soft_label`s; see
    `F.cross_entropy`.
    """

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.cross_entropy,
            name,
            reduction,
            weight=weight,
            ignore_index=ignore_index,
            soft_label=soft_label,
            axis=axis,
            use_softmax=use_softmax,
            label_smoothing=label_smoothing,
        )


class NLLLoss(_Reduced, takes="input label"):
    """Minus the log-probability of the label, times its `weight`; see `F.nll_loss`."""

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(F.nll_loss, name, reduction, weight=weight, ignore_index=ignore_index)


class BCELoss(_Reduced, takes="input label"):
    """The cross entropy of probabilities and labels between 0 and 1."""

    def __init__(self, weight: Any = None, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.binary_cross_entropy, name, reduction, weight=weight)


class BCEWithLogitsLoss(_Reduced, takes="logit label"):
    """The cross entropy of sigmoid(logit) and labels; `pos_weight` multiplies the part of labels 1."""

    def __init__(
        self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None, name: str | None = None
    ) -> None:
        super().__init__(
            F.binary_cross_entropy_with_logits, name, reduction, weight=weight, pos_weight=pos_weight
        )


class MSELoss(_Reduced, takes="input label"):
    """(input - label) ** 2."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(F.mse_loss, None, reduction)


class L1Loss(_Reduced, takes="input label"):
    """|input - label|."""

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.l1_loss, name, reduction)


class SmoothL1Loss(_Reduced, takes="input label"):
    """d ** 2 / 2 of differences d up to `delta`, delta * (|d| - delta / 2) of larger ones."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0, name: str | None = None) -> None:
        super().__init__(F.smooth_l1_loss, name, reduction, delta=delta)


class KLDivLoss(_Reduced, takes="input label"):
    """label * (log(label) - input), of log-probabilities and probabilities; "batchmean" divides by rows."""

    choices = ("sum", "mean", "none", "batchmean")

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(F.kl_div, None, reduction)


class MarginRankingLoss(_Reduced, takes="input other label"):
    """max(0, -label * (input - other) + margin)."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.margin_ranking_loss, name, reduction, margin=margin)


class CTCLoss(Layer):
    """Minus the log-probability of all alignments of labels with a sequence (Graves et al., 2006)."""

    def __init__(self, blank: int = 0, reduction: str = "mean") -> None:
        super().__init__()
        self.blank, self.reduction = blank, reduction

    def forward(
        self, log_probs: Any, labels: Any, input_lengths: Any, label_lengths: Any, norm_by_times: bool = False
    ) -> Any:
        """The loss of logits [time, batch, classes + 1] and labels [batch, length]."""
        return F.ctc_loss(
            log_probs, labels, input_lengths, label_lengths, self.blank, self.reduction, norm_by_times
        )


class RNNTLoss(Layer):
    """Minus the log-probability of all alignments of a transducer (Graves, 2012); see
    `paddle.nn.functional.rnnt_loss`.
    """

    def __init__(
        self, blank: int = 0, fastemit_lambda: float = 0.001, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__()
        self.blank, self.fastemit_lambda = blank, fastemit_lambda
        self.reduction, self.name = reduction, name

    def forward(self, input: Any, label: Any, input_lengths: Any, label_lengths: Any) -> Any:
        """The loss of logs of probabilities [batch, time, labels + 1, classes] and labels [batch, labels]."""
        return F.rnnt_loss(
            input,
            label,
            input_lengths,
            label_lengths,
            self.blank,
            self.fastemit_lambda,
            self.reduction,
            self.name,
        )


class HSigmoidLoss(Layer):
    """The hierarchical sigmoid: a loss over a binary tree of classes, the complete one or, `is_custom`, the
    caller's.
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise ValueError("num_classes must not be less than 2 with default tree")
        rows = num_classes if is_custom else num_classes - 1
        self._num_classes, self._is_sparse, self._is_custom = num_classes, is_sparse, is_custom
        self.weight = self.create_parameter([rows, feature_size], weight_attr)
        self.bias = self.create_parameter([rows, 1], bias_attr, is_bias=True)

    def forward(self, input: Any, label: Any, path_table: Any = None, path_code: Any = None) -> Any:
        """The loss [batch, 1] of features [batch, feature_size]."""
        return F.hsigmoid_loss(
            input,
            label,
            self._num_classes,
            self.weight,
            self.bias,
            path_table=path_table,
            path_code=path_code,
            is_sparse=self._is_sparse,
        )


class CosineEmbeddingLoss(_Reduced, takes="input1 input2 label"):
    """1 - cos of rows with the label 1, max(0, cos - margin) of those with -1."""

    def __init__(self, margin: float = 0, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.cosine_embedding_loss, name, reduction, margin=margin)


class GaussianNLLLoss(_Reduced, takes="input label variance"):
    """The likelihood of numbers with a mean and a variance; see `F.gaussian_nll_loss`."""

    def __init__(
        self, full: bool = False, epsilon: float = 1e-6, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(F.gaussian_nll_loss, name, reduction, full=full, epsilon=epsilon)


class HingeEmbeddingLoss(_Reduced, takes="input label"):
    """`input` where the label is 1, max(0, margin - input) where it is -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.hinge_embedding_loss, name, reduction, margin=margin)


class MultiLabelSoftMarginLoss(_Reduced, takes="input label"):
    """The mean binary cross entropy over classes; see `F.multi_label_soft_margin_loss`."""

    def __init__(self, weight: Any = None, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.multi_label_soft_margin_loss, name, reduction, weight=weight)


class MultiMarginLoss(_Reduced, takes="input label"):
    """The margins of the other classes; see `F.multi_margin_loss`."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(F.multi_margin_loss, name, reduction, p=p, margin=margin, weight=weight)


class PoissonNLLLoss(_Reduced, takes="input label"):
    """The likelihood of counts; see `F.poisson_nll_loss`."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        epsilon: float = 1e-8,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(F.poisson_nll_loss, name, reduction, log_input=log_input, full=full, epsilon=epsilon)


class SoftMarginLoss(_Reduced, takes="input label"):
    """log(1 + exp(-label * input)), with labels 1 and -1."""

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(F.soft_margin_loss, name, reduction)


class TripletMarginLoss(_Reduced, takes="input positive negative"):
    """The margin between two distances; see `F.triplet_margin_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        epsilon: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.triplet_margin_loss, name, reduction, margin=margin, p=p, epsilon=epsilon, swap=swap
        )


class TripletMarginWithDistanceLoss(_Reduced, takes="input positive negative"):
    """`TripletMarginLoss` with the caller's distance."""

    def __init__(
        self,
        distance_function: Any = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.triplet_margin_with_distance_loss,
            name,
            reduction,
            distance_function=distance_function,
            margin=margin,
            swap=swap,
        )
