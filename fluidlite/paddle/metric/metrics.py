"""Metrics of 2.x: `compute` is part of the program, `update` takes what was fetched, `accumulate` gives the
figure so far.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.compare import equal
from fluidlite.layers.tensor import argmax
from fluidlite.layers.tensors.search import topk as largest
from fluidlite.layers.tensors.shaping import expand, unsqueeze
from fluidlite.layers.tensors.variables import cast
from fluidlite.paddle.static.variables import accuracy as static_accuracy
from fluidlite.values.tensor import LoDTensor

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


class Metric(abc.ABC):
    """A figure over many batches: `update` with the results of each, `accumulate`, then `reset`.

    `compute` is applied to the program's outputs and labels, and what it returns is fetched and given to
    `update`.
    """

    @abc.abstractmethod
    def reset(self) -> None:
        """Begin anew."""

    @abc.abstractmethod
    def update(self, *args: Any) -> Any:
        """Take in a batch."""

    @abc.abstractmethod
    def accumulate(self) -> Any:
        """The figure over all batches since `reset`."""

    @abc.abstractmethod
    def name(self) -> Any:
        """The name, or a list of them where there are several figures."""

    def compute(self, *args: Any) -> Any:
        """The arguments of `update`: by default the outputs and labels as they are."""
        return args


def _array(what: str, value: Any) -> Array:
    """A fetched value as an array."""
    if not isinstance(value, (np.ndarray, LoDTensor)):
        raise ValueError(f"The '{what}' must be a numpy ndarray or Tensor, not {type(value).__name__}.")
    return np.asarray(value)


class Accuracy(Metric):
    """The share of samples whose label is among the k largest scores, for each k of `topk`."""

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None) -> None:
        if not topk or not all(isinstance(k, int) and k > 0 for k in topk):
            raise ValueError(f"topk must hold positive integers, but got {topk}")
        self.topk, self.maxk = topk, max(topk)
        stem = name or "acc"
        self._names = [stem] if self.maxk == 1 else [f"{stem}_top{k}" for k in topk]
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Any:
        """1.0 where one of the largest scores is that of the label, [samples, max(topk)], best score first.

        pred: scores, [samples, classes]. label: [samples], [samples, 1], or one-hot [samples, classes];
        variables of a program, or arrays.
        """
        if not isinstance(pred, Variable):
            return self._of_arrays(np.asarray(pred), np.asarray(label))
        places = largest(pred, self.maxk)[1]
        if len(label.shape) == 1:
            label = unsqueeze(label, [1])
        elif label.shape[-1] != 1:
            label = unsqueeze(argmax(label, axis=-1), [1])
        label = cast(label, "int64")
        # `equal` takes operands of one shape: the label once for each of the places
        label = expand(label, [1, self.maxk]) if self.maxk > 1 else label
        return cast(equal(places, label), "float32")

    def _of_arrays(self, pred: Array, label: Array) -> Array:
        places = np.argsort(-pred, axis=-1, kind="stable")[:, : self.maxk]
        if label.ndim > 1 and label.shape[-1] != 1:
            label = label.argmax(-1)
        return (places == label.reshape(-1, 1)).astype("float32")

    def update(self, correct: Any, *args: Any) -> Any:
        """Take in what `compute` gave; the accuracy of the batch, a list of them for several k."""
        found = _array("correct", correct)
        rows = found.reshape(-1, found.shape[-1])
        hits = [float(rows[:, :k].sum()) for k in self.topk]
        for place, hit in enumerate(hits):
            self.total[place] += hit
            self.count[place] += len(rows)
        shares = [hit / max(len(rows), 1) for hit in hits]
        return shares[0] if len(shares) == 1 else shares

    def reset(self) -> None:
        """Begin anew."""
        self.total = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> Any:
        """The accuracy so far, a list for several k."""
        shares = [
            total / count if count else 0.0 for total, count in zip(self.total, self.count, strict=True)
        ]
        return shares[0] if len(shares) == 1 else shares

    def name(self) -> list[str]:
        """The names, one for each k."""
        return self._names


class _Decisions(Metric):
    """Base of what counts right and wrong decisions: a probability above a half says yes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reset()

    def _taken(self, preds: Any, labels: Any) -> tuple[Array, Array]:
        """Decisions and truths as booleans."""
        said = np.floor(_array("preds", preds) + 0.5).astype("int32").reshape(-1) == 1
        true = _array("labels", labels).astype("int32").reshape(-1) == 1
        return said, true

    def name(self) -> str:
        """The name."""
        return self._name


class Precision(_Decisions):
    """The share of true decisions among those that say yes: tp / (tp + fp)."""

    def __init__(self, name: str = "precision") -> None:
        super().__init__(name)

    def update(self, preds: Any, labels: Any) -> None:
        """Take in probabilities and labels 0 or 1, of one size."""
        said, true = self._taken(preds, labels)
        self.tp += int((said & true).sum())
        self.fp += int((said & ~true).sum())

    def reset(self) -> None:
        """Begin anew."""
        self.tp = self.fp = 0  # true and false positives

    def accumulate(self) -> float:
        """The precision so far; 0 where nothing said yes."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(_Decisions):
    """The share of what was found among what is true: tp / (tp + fn)."""

    def __init__(self, name: str = "recall") -> None:
        super().__init__(name)

    def update(self, preds: Any, labels: Any) -> None:
        """Take in probabilities and labels 0 or 1, of one size."""
        said, true = self._taken(preds, labels)
        self.tp += int((said & true).sum())
        self.fn += int((~said & true).sum())

    def reset(self) -> None:
        """Begin anew."""
        self.tp = self.fn = 0  # true positives and false negatives

    def accumulate(self) -> float:
        """The recall so far; 0 where nothing is true."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Auc(Metric):
    """The area under the curve of true over false positive rates, from counts in `num_thresholds` + 1 bins of
    equal width.
    """

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc") -> None:
        if curve != "ROC":
            raise ValueError(f"curve must be 'ROC', not {curve!r}")
        self._curve, self._num_thresholds, self._name = curve, num_thresholds, name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Take in probabilities of both classes, [samples, 2], and labels 0 or 1."""
        scores = _array("preds", preds)[:, 1]
        true = _array("labels", labels).reshape(-1) != 0
        bins = (scores * self._num_thresholds).astype("int64")
        size = self._num_thresholds + 1
        self._stat_pos += np.bincount(bins[true], minlength=size)
        self._stat_neg += np.bincount(bins[~true], minlength=size)

    def reset(self) -> None:
        """Begin anew."""
        self._stat_pos = np.zeros(self._num_thresholds + 1)
        self._stat_neg = np.zeros(self._num_thresholds + 1)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area between x1 and x2 below the line from height y1 to y2."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def accumulate(self) -> float:
        """The area so far; 0 where one of the classes is missing."""
        # from the highest threshold down, as the curve runs
        positives = np.cumsum(self._stat_pos[::-1])
        negatives = np.cumsum(self._stat_neg[::-1])
        if not positives[-1] or not negatives[-1]:
            return 0.0
        area = np.trapezoid(np.append(0, positives), np.append(0, negatives))
        return float(area / positives[-1] / negatives[-1])

    def name(self) -> str:
        """The name."""
        return self._name


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """`static.accuracy`, of the last batch alone; 2.6.2 reads no `name` either."""
    return static_accuracy(input, label, k, correct, total)
