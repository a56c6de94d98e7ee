"""`paddle.metric`; the numbers are those of 2.6.2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.paddle import metric

RNG = np.random.RandomState(0)
SCORES = RNG.rand(6, 5).astype("float32")
LABELS = RNG.randint(0, 5, (6, 1)).astype("int64")
YES = RNG.rand(8).astype("float32")
TRUE = RNG.randint(0, 2, 8)
HITS = [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    "label", [LABELS, LABELS[:, 0], np.eye(5, dtype="float32")[LABELS[:, 0]]], ids=["rows", "flat", "one-hot"]
)
def test_accuracy(label: Any) -> None:
    accuracy = metric.Accuracy(topk=(1, 3))
    with fluid.program_guard(fluid.Program()):
        pred = fluid.data("pred", [-1, 5])
        labels = fluid.data("label", [-1, *label.shape[1:]], str(label.dtype))
        correct = accuracy.compute(pred, labels)
        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed={"pred": SCORES, "label": label}, fetch_list=[correct])
    assert found.tolist() == accuracy.compute(SCORES, label).tolist() == HITS
    assert accuracy.update(found) == accuracy.accumulate() == [1 / 3, 2 / 3]
    accuracy.update(found[:3])
    assert (accuracy.total, accuracy.count, accuracy.name()) == ([3, 6], [9, 9], ["acc_top1", "acc_top3"])
    accuracy.reset()
    assert accuracy.accumulate() == [0, 0]
    assert metric.Accuracy(name="q").name() == ["q"] and metric.Accuracy().update(found[:, :1]) == 1 / 3


def test_precision_and_recall() -> None:
    precision, recall = metric.Precision(), metric.Recall()
    assert precision.accumulate() == recall.accumulate() == 0
    precision.update(YES, TRUE)
    recall.update(YES.reshape(-1, 1), TRUE.reshape(-1, 1))
    assert (precision.tp, precision.fp, precision.accumulate(), precision.name()) == (4, 1, 0.8, "precision")
    assert (recall.tp, recall.fn, recall.accumulate(), recall.name()) == (4, 3, 4 / 7, "recall")


def test_auc() -> None:
    both = np.stack([1 - YES, YES], 1)
    auc, coarse = metric.Auc(), metric.Auc(num_thresholds=3)
    assert auc.accumulate() == 0
    for one in (auc, coarse):
        one.update(both, TRUE.reshape(-1, 1))
    assert auc.accumulate() == pytest.approx(1 / 7) and auc.name() == "auc"
    assert coarse.accumulate() == pytest.approx(1 / 14)
    assert metric.Auc.trapezoid_area(1, 2, 3, 4) == 3.5


def test_own_metrics() -> None:
    class Largest(metric.Metric):
        def reset(self) -> None:
            self.found = -np.inf

        def update(self, value: Any) -> None:
            self.found = max(self.found, float(value.max()))

        def accumulate(self) -> float:
            return self.found

        def name(self) -> str:
            return "largest"

    largest = Largest()
    largest.reset()
    largest.update(*largest.compute(YES))
    assert largest.accumulate() == float(YES.max())


def test_wrong_use() -> None:
    with pytest.raises(TypeError, match="abstract"):
        metric.Metric()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="'preds' must be a numpy ndarray"):
        metric.Precision().update(1, 2)
    with pytest.raises(ValueError, match="'PR'"):
        metric.Auc(curve="PR")
    with pytest.raises(ValueError, match="positive integers"):
        metric.Accuracy(topk=(0,))
