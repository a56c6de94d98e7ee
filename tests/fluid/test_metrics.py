"""fluid.metrics, fluid.average and fluid.evaluator; numbers as PaddlePaddle 1.8.5 gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import metrics
from fluidlite.values.tensor import LoDTensor, offsets_of

PREDS, LABELS = np.array([[0.1], [0.7], [0.8], [0.5], [0.5001]]), np.array([[0], [1], [0], [1], [1]])


def test_precision_and_recall() -> None:
    precision, recall = metrics.Precision(), metrics.Recall("mine")
    assert precision.eval() == recall.eval() == 0.0
    precision.update(PREDS, LABELS)
    recall.update(PREDS[:, 0], LABELS[:, 0].astype("int32"))
    assert precision.eval() == pytest.approx(2 / 3) and recall.eval() == pytest.approx(2 / 3)
    assert precision.get_config() == {"name": "Precision", "states": {"tp": 2, "fp": 1}}
    assert str(recall) == "mine" and recall.get_config()["states"] == {"tp": 2, "fn": 1}
    precision.reset()
    assert precision.eval() == 0.0


def test_composite() -> None:
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    both.update(PREDS, LABELS)
    assert both.eval() == [pytest.approx(2 / 3)] * 2
    both.reset()
    assert both.eval() == [0.0, 0.0]
    assert both.get_config() == {"name": "CompositeMetric", "states": {}}


def test_accuracy() -> None:
    accuracy = metrics.Accuracy()
    accuracy.update(value=np.array([0.5]), weight=10)
    accuracy.update(value=0.25, weight=5)
    assert accuracy.eval() == pytest.approx(5 / 12)
    accuracy.update(0.1, np.array([3]))
    assert accuracy.eval() == pytest.approx(6.55 / 18)


def test_chunk_evaluator() -> None:
    chunks = metrics.ChunkEvaluator()
    assert chunks.eval() == (0, 0, 0)
    chunks.update(10, 9, 8)
    chunks.update(np.array([3]), np.array([3]), np.array([1]))
    assert [float(np.asarray(value).item()) for value in chunks.eval()] == pytest.approx([9 / 13, 0.75, 0.72])


def test_edit_distance() -> None:
    distance = metrics.EditDistance("distance")
    distance.update(np.array([[0.1], [0], [0.3]]), 3)
    distance.update(np.array([[0], [0]]), 2)
    assert distance.eval() == pytest.approx((0.08, 0.4))
    distance.reset()
    distance.update(np.array([[1.0]]), np.array([1]))
    assert [np.asarray(value).item() for value in distance.eval()] == [1.0, 1.0]


def test_auc() -> None:
    auc = metrics.Auc("auc", num_thresholds=10)
    assert auc.eval() == 0.0
    auc.update(np.array([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]]), np.array([[0], [1], [1]]))
    assert auc.eval() == 1.0
    auc.update(np.array([[0.1, 0.9], [1, 0], [0, 1]]), np.array([[0], [0], [3]]))
    assert auc.eval() == pytest.approx(7 / 9)
    auc.reset()
    assert auc.eval() == 0.0
    assert metrics.Auc.trapezoid_area(1, 3, 2, 4) == 6.0


REFUSED: list[tuple[type[Exception], Callable[[], Any]]] = [
    (ValueError, lambda: metrics.Precision().update([1], np.array([1]))),
    (ValueError, lambda: metrics.Recall().update(np.array([1]), [1])),
    (ValueError, lambda: metrics.Accuracy().eval()),
    (ValueError, lambda: metrics.Accuracy().update("x", 1)),
    (ValueError, lambda: metrics.Accuracy().update(0.5, -1)),
    (ValueError, lambda: metrics.Accuracy().update(0.5, "x")),
    (ValueError, lambda: metrics.ChunkEvaluator().update("x", 1, 1)),
    (ValueError, lambda: metrics.EditDistance("e").eval()),
    (ValueError, lambda: metrics.EditDistance("e").update([1], 1)),
    (ValueError, lambda: metrics.EditDistance("e").update(np.ones(1), "x")),
    (ValueError, lambda: metrics.Auc("a").update([1], [1])),
    (ValueError, lambda: metrics.Auc("a").update(np.array([[0, 2.0]]), np.ones(1))),
    (ValueError, lambda: metrics.CompositeMetric().add_metric(3)),  # type: ignore[arg-type]
    (NotImplementedError, lambda: metrics.MetricBase("m").eval()),
    (NotImplementedError, lambda: metrics.MetricBase("m").update(1, 2)),
]


@pytest.mark.parametrize(("error", "call"), REFUSED)
def test_refused(error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error):
        call()


class Mine(metrics.MetricBase):
    """A metric of a user's own."""

    def __init__(self) -> None:
        super().__init__(None)
        self.count, self.mean, self.bins, self._hidden, self.rest = 3, 2.5, np.ones(3), 4, [1]


def test_states_are_the_public_attributes() -> None:
    mine = Mine()
    assert set(mine.get_config()["states"]) == {"count", "mean", "bins", "rest"} and str(mine) == "Mine"
    mine.reset()
    assert (mine.count, mine.mean, mine.bins.tolist(), mine._hidden, mine.rest) == (
        0,
        0.0,
        [0, 0, 0],
        4,
        None,
    )


def test_weighted_average() -> None:
    with pytest.warns(DeprecationWarning, match="fluid.metrics.Accuracy"):
        average = fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="no data"):
        average.eval()
    average.add(2.0, 1)
    average.add(4.0, 3)
    assert average.eval() == 3.5
    average.add(np.array([1.0, 2]), 2)
    np.testing.assert_allclose(average.eval(), [16 / 6, 3.0])
    for value, weight in (("x", 1), (1.0, "x")):
        with pytest.raises(ValueError, match="must be a number"):
            average.add(value, weight)
    average.reset()
    with pytest.raises(ValueError, match="no data"):
        average.eval()


def sequences(array: Any, *lengths: int) -> LoDTensor:
    """Rows with a level of detail."""
    return LoDTensor(np.asarray(array), offsets_of([lengths]))


def test_evaluators_keep_their_state_in_the_program() -> None:
    x, y = (fluid.data(name, [-1, 1], "int64", lod_level=1) for name in "xy")
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        chunks, distance = fluid.evaluator.ChunkEvaluator(x, y, "IOB", 3), fluid.evaluator.EditDistance(x, y)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {
        name: sequences(np.array(tags)[:, None], 2, 3)
        for name, tags in (("x", [0, 1, 2, 3, 4]), ("y", [0, 1, 2, 5, 4]))
    }
    for _ in range(2):
        chunks.reset(exe)
        distance.reset(exe)
        for _ in range(2):
            batch = exe.run(feed=feed, fetch_list=chunks.metrics + distance.metrics)
        assert [value.item() for value in batch] == pytest.approx([2 / 3, 1 / 2, 4 / 7, 1 / 3, 1])
        assert [value.item() for value in chunks.eval(exe)] == pytest.approx([2 / 3, 1 / 2, 4 / 7])
        assert [value.item() for value in distance.eval(exe)] == pytest.approx([1 / 6, 1 / 2])


def detected(fetch: int) -> list[float]:
    """Mean average precisions of three batches, the states reset before the last: of the batch (0) or
    since the reset (1).
    """
    found, label = (
        fluid.data(name, [-1, width], "float32", lod_level=1) for name, width in (("found", 6), ("label", 1))
    )
    box = fluid.data("box", [-1, 4], "float32", lod_level=1)
    precision = metrics.DetectionMAP(found, label, box, class_num=3)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    objects = np.array([[0.1, 0.1, 0.3, 0.3], [0.6, 0.6, 0.8, 0.8]], "float32")
    results = []
    for score, hit in ((0.9, 0), (0.5, 1), (0.7, 1)):
        if score == 0.7:
            precision.reset(exe)
        boxes = np.array([[1, score, *objects[hit]]], "float32")
        feed = {
            "found": sequences(boxes, 1),
            "label": sequences(np.ones((1, 1), "float32"), 1),
            "box": sequences(objects[:1], 1),
        }
        results.append(exe.run(feed=feed, fetch_list=[precision.get_map_var()[fetch]])[0].item())
    return results


def test_detection_map_of_a_batch() -> None:
    assert detected(0) == [1.0, 0.0, 0.0]


def test_detection_map_since_the_reset() -> None:
    assert detected(1) == [1.0, 0.5, 0.0]
