"""Averages of the parameters over the steps, to be put in their place for evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program, default_main_program, name_scope, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.elementwise import elementwise_pow
from fluidlite.layers.flow.conditional import Switch
from fluidlite.layers.tensors.search import autoincreased_step_counter
from fluidlite.layers.tensors.variables import assign, cast, create_global_var, sums
from fluidlite.optimizer.base import Optimizer
from fluidlite.saving.distributed import kept_elsewhere
from fluidlite.values.scope import global_scope

__all__ = ["ExponentialMovingAverage", "ModelAverage"]


class _Swap:
    """A program that puts averages in the place of the parameters, and one that puts the parameters back.

    While the averages are in place, the parameters are kept in persistable variables beside them.
    """

    apply_program: Program
    restore_program: Program

    @contextlib.contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """Inside the `with` the parameters are their averages; `need_restore=False` leaves them so.

        In a job with servers, which keep the averages, a trainer fetches them.
        """
        block = self.apply_program.global_block()
        for name, value in kept_elsewhere(block.vars).items():
            global_scope().var(name).set(value)
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Put the parameters back after `apply(need_restore=False)`."""
        executor.run(self.restore_program)


def _averaged_parameters() -> list[Any]:
    return [
        param
        for param in default_main_program().global_block().all_parameters()
        # None means that nobody has said anything, and then a parameter is averaged
        if param.do_model_average is not False
    ]


def _kept(param: Any, name: str) -> Variable:
    """The variable that keeps a parameter while its average is in its place; only the swapping programs
    write it.
    """
    kept: Variable = param.block.create_var(
        name=unique_name.generate(name), dtype=param.dtype, persistable=False, stop_gradient=True
    )
    return kept


def _restore_program(pairs: list[tuple[Any, Variable]]) -> Program:
    program = Program()
    block = program.global_block()
    with program_guard(main_program=program):
        for param, kept in pairs:
            source = block._clone_variable(kept)
            target = block._clone_variable(param)
            assign(input=source, output=target)
            # what Paddle finds for an output whose input says no shape
            target.shape = (0,)
    return program


class ModelAverage(_Swap, Optimizer):  # type: ignore[misc]
    """The mean of each parameter over a window of steps; made after `minimize`, it adds one op a parameter.

    The window grows with the training: `average_window_rate` times the number of updates, but at least
    `min_average_window` and at most `max_average_window`.
    """

    type = "average_accumulates"

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(0.0, regularization=regularization, name=name)
        self.average_window = average_window_rate
        self.min_average_window = min_average_window
        self.max_average_window = max_average_window
        self.params_grads = [(param, _kept(param, f"{param.name}.tmp")) for param in self._averaged()]
        for param, kept in self.params_grads:
            with param.block.program._optimized_guard([param, kept]), name_scope("move_average"):
                self._append_average_accumulate_op(param)
        self.apply_program = Program()
        with program_guard(main_program=self.apply_program):
            for pair in self.params_grads:
                self._add_average_apply_op(self.apply_program.global_block(), pair)
        self.restore_program = _restore_program(self.params_grads)

    def _averaged(self) -> list[Any]:
        """The parameters to average."""
        return _averaged_parameters()

    def _append_average_accumulate_op(self, param: Any) -> None:
        self.helper = LayerHelper("average_accumulate")
        held = {name: self._add_accumulator(name, param) for name in ("sum_1", "sum_2", "sum_3")}
        for name in ("num_accumulates", "old_num_accumulates", "num_updates"):
            held[name] = self._add_accumulator(name, param, dtype="int64", shape=[1])
        self.helper.append_op(
            type=self.type,
            inputs={"param": param, **{f"in_{name}": var for name, var in held.items()}},
            outputs={f"out_{name}": var for name, var in held.items()},
            attrs={
                "average_window": self.average_window,
                "min_average_window": self.min_average_window,
                "max_average_window": self.max_average_window,
            },
        )

    def _add_average_apply_op(self, block: Block, pair: tuple[Any, Variable]) -> None:
        param = block._clone_variable(pair[0])
        kept = block._clone_variable(pair[1])
        held = {
            name: block._clone_variable(self._get_accumulator(name, pair[0]))
            for name in ("sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates")
        }
        assign(input=param, output=kept)
        count = sums([held["num_accumulates"], held["old_num_accumulates"]])
        # the op keeps three sums, since one over many steps would lose digits
        total = sums([held["sum_1"], held["sum_2"], held["sum_3"]])
        dtype = "float32" if self._dtype is None else self._dtype
        count = cast(x=count, dtype=dtype)
        total = cast(x=total, dtype=dtype)
        block.append_op(type="elementwise_div", inputs={"X": total, "Y": count}, outputs={"Out": param})


class ExponentialMovingAverage(_Swap):
    """average = decay * average + (1 - decay) * param, corrected for its start from zero; `update()` adds the
    ops.

    thres_steps: a Variable with the number of the step; the decay is then min(decay, (thres_steps + 1) /
    (thres_steps + 10)).
    """

    def __init__(
        self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None
    ) -> None:
        self._decay = decay
        self._thres_steps = thres_steps
        self._name = name if name is not None else ""
        self._decay_var = self._get_ema_decay()
        self._step_counter_name = "@EMA_STEP_COUNTER@"
        self._params_tmps = [
            (param, _kept(param, f"{self._name}{param.name}.ema_tmp")) for param in _averaged_parameters()
        ]
        self._ema_vars: dict[str, Any] = {}
        for param, kept in self._params_tmps:
            with param.block.program._optimized_guard([param, kept]), name_scope("moving_average"):
                self._ema_vars[param.name] = create_global_var(
                    name=unique_name.generate(f"{self._name}{param.name}_ema"),
                    shape=param.shape,
                    value=0.0,
                    dtype=param.dtype,
                    persistable=True,
                )
        self.apply_program = self._make_apply_program()
        self.restore_program = _restore_program(self._params_tmps)

    def _get_ema_decay(self) -> Any:
        with default_main_program()._lr_schedule_guard():
            decay = create_global_var(
                shape=[1],
                value=self._decay,
                dtype="float32",
                persistable=True,
                name="scheduled_ema_decay_rate",
            )
            if self._thres_steps is not None:
                steps: Any = self._thres_steps
                rising = (steps + 1.0) / (steps + 10.0)
                with Switch() as switch:
                    with switch.case(rising < self._decay):
                        assign(rising, decay)
                    with switch.default():
                        assign(np.array([self._decay], dtype=np.float32), decay)
                # in Paddle, assign declares a dtype and assign_value does not
                decay.dtype = rising.dtype
        return decay

    def _make_apply_program(self) -> Program:
        program = Program()
        block = program.global_block()
        with program_guard(main_program=program):
            step: Any = create_global_var(
                name=self._step_counter_name, shape=[1], value=0, dtype="int64", persistable=True
            )
            step = cast(step, "float32")
            # the weight that the start value still has
            missing = elementwise_pow(block._clone_variable(self._decay_var), step)
            for pair in self._params_tmps:
                self._write_apply(block, pair, step, missing)
        return program

    def _write_apply(self, block: Block, pair: tuple[Any, Variable], step: Any, missing: Any) -> None:
        param = block._clone_variable(pair[0])
        kept = block._clone_variable(pair[1])
        average: Any = block._clone_variable(self._ema_vars[pair[0].name])
        assign(input=param, output=kept)
        with Switch() as switch, switch.case(step > 0):
            assign(output=average, input=average / (1.0 - missing))
        assign(input=average, output=param)

    def update(self) -> None:
        """Add the ops that update the averages to the main program, after the updates of the parameters."""
        autoincreased_step_counter(counter_name=self._step_counter_name)
        for param, kept in self._params_tmps:
            with param.block.program._optimized_guard([param, kept]), name_scope("moving_average"):
                average = self._ema_vars[param.name]
                assign(input=average * self._decay_var + param * (1 - self._decay_var), output=average)
