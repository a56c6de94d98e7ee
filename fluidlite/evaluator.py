"""Evaluators keep their state in variables of the program. Old: `fluid.metrics` does the same in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite import metrics, unique_name
from fluidlite.base.dtypes import Array
from fluidlite.base.imported_names import imported_names
from fluidlite.initializer import Constant
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.compare import equal
from fluidlite.layers.arithmetic.elementwise import elementwise_sub
from fluidlite.layers.arithmetic.reduce import reduce_sum
from fluidlite.layers.loss import edit_distance
from fluidlite.layers.neural.tagging import chunk_eval
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.layers.tensors.variables import cast, sums

__all__ = ["ChunkEvaluator", "DetectionMAP", "EditDistance"]


def _clone(program: Program, var: Variable) -> Variable:
    """The persistable variable `var`, declared in `program`."""
    return program.global_block().create_var(
        name=var.name,
        shape=var.shape,
        dtype=var.dtype,
        type=var.type,
        lod_level=var.lod_level,
        persistable=True,
    )


class Evaluator:
    """Base of the evaluators: `states`, which add up over batches, and `metrics`, to fetch for one batch."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        kind = type(self).__name__
        warn_user(
            f"The {kind} is deprecated, because maintain a modified program inside evaluator cause bug "
            f"easily, please use fluid.metrics.{kind} instead.",
            category=DeprecationWarning,
        )
        self.states: list[Variable] = []
        self.metrics: list[Variable] = []
        self.helper = LayerHelper(name, **kwargs)

    def reset(self, executor: Any, reset_program: Program | None = None) -> None:
        """Set the states to zeros; for the start of a pass."""
        program = Program() if reset_program is None else reset_program
        with program_guard(main_program=program):
            for state in self.states:
                var = _clone(program, state)
                fill_constant(shape=var.shape, value=0.0, dtype=var.dtype, out=var)
        executor.run(program)

    def eval(self, executor: Any, eval_program: Program | None = None) -> Any:
        """The metric since the last reset; TypeError unless a subclass defines it."""
        raise TypeError(
            f"{type(self).__name__} has no metric of all batches to evaluate; fetch its variables instead"
        )

    def _create_state(self, suffix: str, dtype: str, shape: Sequence[int] | None) -> Variable:
        state = self.helper.create_variable(
            name="_".join([unique_name.generate(self.helper.name), suffix]),
            persistable=True,
            dtype=dtype,
            shape=shape,
        )
        self.states.append(state)
        return state

    def _accumulate(self, **values: Variable) -> None:
        """Add each value to the state of that name."""
        for suffix, value in values.items():
            state = next(state for state in self.states if state.name.endswith(suffix))
            sums(input=[state, value], out=state)

    def _values(self, executor: Any, eval_program: Program | None) -> list[Array]:
        """Values of the states."""
        program = Program() if eval_program is None else eval_program
        names = [_clone(program, state).name for state in self.states]
        return [np.asarray(value) for value in executor.run(program, fetch_list=names)]


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of chunks; see `layers.chunk_eval` for the arguments."""

    def __init__(
        self,
        input: Variable,
        label: Variable,
        chunk_scheme: str,
        num_chunk_types: int,
        excluded_chunk_types: Sequence[int] | None = None,
    ) -> None:
        super().__init__("chunk_eval")
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError("You can only invoke Evaluator in root block")
        for suffix in ("num_infer_chunks", "num_label_chunks", "num_correct_chunks"):
            self._create_state(suffix, "int64", [1])
        precision, recall, f1, found, right, both = chunk_eval(
            input=input,
            label=label,
            chunk_scheme=chunk_scheme,
            num_chunk_types=num_chunk_types,
            excluded_chunk_types=excluded_chunk_types,
        )
        self._accumulate(num_infer_chunks=found, num_label_chunks=right, num_correct_chunks=both)
        self.metrics.extend([precision, recall, f1])

    def eval(self, executor: Any, eval_program: Program | None = None) -> tuple[Array, Array, Array]:
        """(precision, recall, F1) since the last reset, each float32 [1]."""
        found, right, both = (int(value.item()) for value in self._values(executor, eval_program))
        counted = metrics.ChunkEvaluator()
        counted.update(found, right, both)
        precision, recall, f1 = (np.array([value], "float32") for value in counted.eval())
        return precision, recall, f1


class EditDistance(Evaluator):
    """The average edit distance and the share of wrong sequences; see `layers.edit_distance` for the
    arguments.
    """

    def __init__(
        self, input: Variable, label: Variable, ignored_tokens: Sequence[int] | None = None, **kwargs: Any
    ) -> None:
        super().__init__("edit_distance", **kwargs)
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError("You can only invoke Evaluator in root block")
        self._create_state("total_distance", "float32", [1])
        self._create_state("seq_num", "int64", [1])
        self._create_state("instance_error", "int64", [1])
        distances, count = edit_distance(input=input, label=label, ignored_tokens=ignored_tokens)
        zero = fill_constant(shape=[1], value=0.0, dtype="float32")
        right = reduce_sum(cast(x=equal(distances, zero), dtype="int64"))
        errors = elementwise_sub(x=count, y=right)
        total = reduce_sum(distances)
        self._accumulate(total_distance=total, seq_num=count, instance_error=errors)
        self.metrics.extend([total, errors])

    def eval(self, executor: Any, eval_program: Program | None = None) -> tuple[Array, Array]:
        """(average distance, share of wrong sequences) since the last reset, each float32 [1]; NaN before
        any batch.
        """
        total, count, errors = (value.astype("float32") for value in self._values(executor, eval_program))
        with np.errstate(invalid="ignore"):
            return total / count, errors / count


class DetectionMAP(metrics.DetectionMAP, Evaluator):
    """Mean average precision of detected boxes; see `fluid.metrics.DetectionMAP`."""

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
        warn_user(
            "The DetectionMAP is deprecated, because maintain a modified program inside evaluator cause bug "
            "easily, please use fluid.metrics.DetectionMAP instead.",
            category=DeprecationWarning,
        )
        self.states, self.metrics = [], []
        metrics.DetectionMAP.__init__(
            self,
            input,
            gt_label,
            gt_box,
            gt_difficult,
            class_num,
            background_label,
            overlap_threshold,
            evaluate_difficult,
            ap_version,
        )
        self.metrics.append(self.cur_map)

    def _create_has_state(self) -> Variable:
        has_state = self.helper.create_variable(persistable=True, dtype="int32", shape=[1])
        self.helper.set_variable_initializer(has_state, initializer=Constant(value=0))
        has_state.stop_gradient = True
        return has_state


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
