"""Metrics over a pass, computed in Python from fetched values of each batch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite import unique_name
from fluidlite.average import is_number, is_number_or_matrix
from fluidlite.base.abstract import abstract
from fluidlite.base.dtypes import Array
from fluidlite.base.imported_names import imported_names
from fluidlite.initializer import Constant
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.neural.detection_map import detection_map
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.layers.tensors.variables import cast, concat

__all__ = [
    "Accuracy",
    "Auc",
    "ChunkEvaluator",
    "CompositeMetric",
    "DetectionMAP",
    "EditDistance",
    "MetricBase",
    "Precision",
    "Recall",
]


class MetricBase:
    """Base of the metrics. Public attributes are a metric's state; those that begin with "_" are not.

    A metric of your own sets its attributes in `__init__` and defines `update` and `eval`.
    """

    def __init__(self, name: str | None) -> None:
        self._name = str(name) if name is not None else self.__class__.__name__

    def __str__(self) -> str:
        return self._name

    def _states(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def reset(self) -> None:
        """Set the state to zeros: integers to 0, others to 0.0, arrays to zeros, anything else to
        None.
        """
        for key, value in self._states().items():
            if isinstance(value, (int, np.integer)):
                zero: Any = 0
            elif isinstance(value, (float, np.floating)):
                zero = 0.0
            else:
                zero = np.zeros_like(value) if isinstance(value, np.ndarray) else None
            setattr(self, key, zero)

    def get_config(self) -> dict[str, Any]:
        """The metric's name, and a copy of its state."""
        return {"name": self._name, "states": copy.deepcopy(self._states())}

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch; AbstractMethodError unless a subclass defines it."""
        abstract(
            f"Should not use it directly, please extend it: {type(self).__name__} does not define update."
        )

    def eval(self) -> Any:
        """The metric of what was counted; AbstractMethodError unless a subclass defines it."""
        abstract(f"Should not use it directly, please extend it: {type(self).__name__} has no eval.")


def _check_arrays(preds: Any, labels: Any) -> None:
    for value, what in ((labels, "labels"), (preds, "preds")):
        if not isinstance(value, np.ndarray):
            raise ValueError(f"The '{what}' must be a numpy ndarray, not {type(value).__name__}.")


class CompositeMetric(MetricBase):
    """Several metrics that are updated together and evaluated to a list."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Include `metric`; ValueError unless it is a MetricBase."""
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def reset(self) -> None:
        """Reset all metrics."""
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: Array, labels: Array) -> None:
        """Update all metrics."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """The result of each metric, in the order in which they were added."""
        return [metric.eval() for metric in self._metrics]


class Precision(MetricBase):
    """The share of samples found positive (a prediction above 0.5) that are; 0.0 where none was found."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fp = 0

    def update(self, preds: Array, labels: Array) -> None:
        """Count probabilities and labels (0 or 1), one each a sample."""
        _check_arrays(preds, labels)
        found, wanted = np.rint(preds).astype("int32").reshape(-1) == 1, labels.reshape(-1) == 1
        self.tp += int((found & wanted).sum())
        self.fp += int((found & ~wanted).sum())

    def eval(self) -> float:
        """tp / (tp + fp)."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(MetricBase):
    """The share of positive samples that are found (a prediction above 0.5); 0.0 where there was none."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fn = 0

    def update(self, preds: Array, labels: Array) -> None:
        """Count probabilities and labels (0 or 1), one each a sample."""
        _check_arrays(preds, labels)
        found, wanted = np.rint(preds).astype("int32").reshape(-1) == 1, labels.reshape(-1) == 1
        self.tp += int((found & wanted).sum())
        self.fn += int((~found & wanted).sum())

    def eval(self) -> float:
        """tp / (tp + fn)."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Accuracy(MetricBase):
    """The average of batch accuracies, weighted with the batch sizes."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.value = 0.0
        self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Count a batch's accuracy with its weight; ValueError unless they are numbers, the weight not
        negative.
        """
        if not is_number_or_matrix(value):
            raise ValueError(f"The 'value' must be a number(int, float) or a numpy ndarray, not {value!r}.")
        if not is_number(weight):
            raise ValueError(f"The 'weight' must be a number(int, float), not {weight!r}.")
        if weight < 0:
            raise ValueError(f"The 'weight' can not be negative, but is {weight}.")
        self.value += value * weight
        self.weight += weight

    def eval(self) -> Any:
        """The average; ValueError before anything was counted."""
        if self.weight == 0:
            raise ValueError(
                "There is no data in Accuracy Metrics. Please check layers.accuracy output has added to "
                "Accuracy."
            )
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, from the counts of `layers.chunk_eval`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(  # type: ignore[override]  # as in fluid
        self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any
    ) -> None:
        """Add a batch's counts; ValueError unless they are numbers or arrays."""
        counts = {
            "num_infer_chunks": num_infer_chunks,
            "num_label_chunks": num_label_chunks,
            "num_correct_chunks": num_correct_chunks,
        }
        for name, count in counts.items():
            if not is_number_or_matrix(count):
                raise ValueError(f"The '{name}' must be a number(int) or a numpy ndarray, not {count!r}.")
            setattr(self, name, getattr(self, name) + count)

    def eval(self) -> tuple[Any, Any, Any]:
        """(precision, recall, F1); each 0 where it would divide by 0."""
        precision = self.num_correct_chunks / self.num_infer_chunks if self.num_infer_chunks else 0
        recall = self.num_correct_chunks / self.num_label_chunks if self.num_label_chunks else 0
        f1 = 2 * precision * recall / (precision + recall) if self.num_correct_chunks else 0
        return precision, recall, f1


class EditDistance(MetricBase):
    """The average edit distance, and the share of sequences that are not exactly right, from
    `layers.edit_distance`.
    """

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self.total_distance = 0.0
        self.seq_num = 0
        self.instance_error = 0

    def update(self, distances: Array, seq_num: Any) -> None:
        """Add a batch's distances [N, 1] and its number of sequences."""
        if not isinstance(distances, np.ndarray):
            raise ValueError(f"The 'distances' must be a numpy ndarray, not {type(distances).__name__}.")
        if not is_number(seq_num):
            raise ValueError(f"The 'seq_num' must be a number(int, float), not {seq_num!r}.")
        right = int((distances == 0).sum())
        self.seq_num = self.seq_num + seq_num
        self.instance_error = self.instance_error + seq_num - right
        self.total_distance = self.total_distance + float(distances.sum())

    def eval(self) -> tuple[Any, Any]:
        """(average distance, share of wrong sequences); ValueError before anything was counted."""
        if self.seq_num == 0:
            raise ValueError(
                "There is no data in EditDistance Metric. "
                "Please check layers.edit_distance output has been added to EditDistance."
            )
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class Auc(MetricBase):
    """The area under the ROC curve, from probabilities counted in `num_thresholds` + 1 bins; `curve` has
    no effect, as in Paddle.
    """

    def __init__(self, name: str | None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._clear()

    def _clear(self) -> None:
        self._stat_pos = np.zeros(self._num_thresholds + 1, np.int64)
        self._stat_neg = np.zeros(self._num_thresholds + 1, np.int64)

    def reset(self) -> None:
        """Empty the bins. (1.8.5 leaves them as they are.)"""
        self._clear()

    def update(self, preds: Array, labels: Array) -> None:
        """Count probabilities [N, 2], of label 0 and of label 1, and labels [N, 1]; any label but 0 is
        positive.
        """
        _check_arrays(preds, labels)
        bins = (preds[:, 1].astype(np.float64) * self._num_thresholds).astype(np.int64)
        positive = labels.reshape(-1)[: len(bins)] != 0
        if bins.size and not 0 <= bins.min() <= bins.max() <= self._num_thresholds:
            raise ValueError(
                f"The 'preds' must be probabilities, but range from {preds[:, 1].min()} to "
                f"{preds[:, 1].max()}."
            )
        self._stat_pos += np.bincount(bins[positive], minlength=self._num_thresholds + 1)
        self._stat_neg += np.bincount(bins[~positive], minlength=self._num_thresholds + 1)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area under the line from (x1, y1) to (x2, y2)."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def eval(self) -> float:
        """The area, by trapezoids between thresholds; 0.0 where one of the labels has not occurred."""
        positive, negative = self._stat_pos[::-1].astype(np.float64), self._stat_neg[::-1]
        total = positive.sum() * negative.sum()
        area = (negative * (np.cumsum(positive) - positive / 2)).sum()
        return float(area / total) if total else 0.0


class DetectionMAP:
    """Mean average precision of detected boxes: builds the ops that compute it, for a batch and since the
    last reset.

    `gt_label` [M, 1], `gt_box` [M, 4] and (optional) `gt_difficult` [M, 1] describe the objects; `input` [N,
    6] holds label, score and box of what `layers.detection_output` found.
    """

    def __init__(
        self,
        input: Variable,
        gt_label: Variable,
        gt_box: Variable,
        gt_difficult: Variable | None = None,
        class_num: int | None = None,
        background_label: int = 0,
        overlap_threshold: float = 0.5,
        evaluate_difficult: bool = True,
        ap_version: str = "integral",
    ) -> None:
        self.helper = LayerHelper("map_eval")
        label = object_table(gt_label, gt_box, gt_difficult)
        options: dict[str, Any] = {
            "overlap_threshold": overlap_threshold,
            "evaluate_difficult": evaluate_difficult,
            "ap_version": ap_version,
        }
        self.cur_map = detection_map(input, label, class_num, background_label, **options)
        states = [
            self._state("int32", "accum_pos_count"),
            self._state("float32", "accum_true_pos"),
            self._state("float32", "accum_false_pos"),
        ]
        self.has_state = self._create_has_state()
        self.accum_map = detection_map(
            input,
            label,
            class_num,
            background_label,
            has_state=self.has_state,
            input_states=states,
            out_states=states,
            **options,
        )
        fill_constant(shape=self.has_state.shape, value=1, dtype=self.has_state.dtype, out=self.has_state)

    def _create_has_state(self) -> Variable:
        has_state = self._state("int32", "has_state", [1])
        self.helper.set_variable_initializer(has_state, initializer=Constant(value=0))
        has_state.stop_gradient = True
        return has_state

    def _state(self, dtype: str, suffix: str, shape: list[int] | None = None) -> Variable:
        return self.helper.create_global_variable(
            name="_".join([unique_name.generate(self.helper.name), suffix]),
            persistable=True,
            dtype=dtype,
            shape=shape,
        )

    def get_map_var(self) -> tuple[Variable, Variable]:
        """(mean average precision of the batch, mean average precision since the last reset)."""
        return self.cur_map, self.accum_map

    def reset(self, executor: Any, reset_program: Program | None = None) -> None:
        """Forget all batches; for the start of a pass."""
        program = Program() if reset_program is None else reset_program
        with program_guard(main_program=program):
            var = program.current_block().create_var(
                name=self.has_state.name,
                shape=self.has_state.shape,
                dtype=self.has_state.dtype,
                type=self.has_state.type,
                persistable=True,
            )
            fill_constant(shape=var.shape, value=0, dtype=var.dtype, out=var)
        executor.run(program)


def object_table(gt_label: Variable, gt_box: Variable, gt_difficult: Variable | None) -> Variable:
    """Label, difficulty (if given) and box of each object in one tensor of the boxes' dtype."""
    columns = [gt_label] if gt_difficult is None else [gt_label, gt_difficult]
    return concat([*(cast(x=column, dtype=gt_box.dtype) for column in columns), gt_box], axis=1)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
