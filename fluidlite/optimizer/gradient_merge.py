"""Gradient merging: one update from the gradients of several batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.base.errors import ArgumentError, ProgramEditError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program, default_startup_program, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.layers.flow.array import increment
from fluidlite.layers.flow.conditional import Switch
from fluidlite.layers.tensors.variables import create_global_var
from fluidlite.optimizer.base import ParamsGrads

__all__ = ["GradientMergeOptimizer"]


class GradientMergeOptimizer:
    """Adds up the gradients of `k_steps` batches and then lets `inner_optimizer` make one update from their
    sum, or their mean (`avg`).

    The sums are persistable variables `<grad>@GradientMerge`.
    """

    def __init__(self, inner_optimizer: Any, k_steps: int = 1, avg: bool = True) -> None:
        if inner_optimizer is None:
            raise ArgumentError("inner optimizer can not be None")
        if not isinstance(k_steps, int) or k_steps <= 0:
            raise ArgumentError(f"k_steps should be a positive integer, but it is {k_steps!r}")
        self.inner_optimizer = inner_optimizer
        self.k_steps = k_steps
        self.avg = avg
        self.type = "gradient_merge"

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> tuple[Any, ParamsGrads]:
        """Append backward pass, sums and the conditional update; gives (update ops, pairs of parameter and
        gradient).
        """
        params_grads = self.inner_optimizer.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: ParamsGrads
    ) -> list[Operator]:
        """Append the sums and the conditional update; gives the update ops."""
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(params_grads)

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Append the sums and the conditional update to the main program; gives the update ops."""
        pairs = [(param, grad) for param, grad in params_grads if grad is not None]
        if self.k_steps == 1 or not pairs:
            plain: list[Operator] = self.inner_optimizer.apply_gradients(pairs)
            return plain
        program = pairs[0][0].block.program
        if program.current_block_idx != 0:
            raise ProgramEditError("gradients are merged in the global block only")
        due = self._due()
        sums = [(param, _add_to_sum(param, grad)) for param, grad in pairs]
        with Switch() as switch, switch.case(due):
            ops = self._update(program, sums)
        return ops

    def _due(self) -> Any:
        """True if this step is the last of `k_steps`."""

        def counter(name: str, value: int) -> Any:
            return create_global_var(
                name=name, shape=[1], value=value, dtype="int32", persistable=True, force_cpu=True
            )

        k = counter("gradient_merge_k", self.k_steps)
        zero = counter("gradient_merge_zero", 0)
        step = counter("gradient_merge_step", 0)
        increment(x=step, value=1.0, in_place=True)
        step.block.append_op(type="elementwise_mod", inputs={"X": step, "Y": k}, outputs={"Out": step})
        return self._equal(step, zero)

    def _equal(self, step: Any, zero: Any) -> Any:
        return step == zero

    def _update(self, program: Program, sums: ParamsGrads) -> list[Operator]:
        """The update in the block of the condition; then the sums start anew."""
        block = program.current_block()
        if self.avg:
            for _, total in sums:
                with program._with_role(OpRole.Backward):
                    block.append_op(
                        type="scale",
                        inputs={"X": total},
                        outputs={"Out": total},
                        attrs={"scale": 1.0 / self.k_steps, "bias": 0.0, "bias_after_scale": False},
                    )
        # inside a branch, updates go into the backward block: this one
        block._set_forward_block_idx(block.idx)
        ops: list[Operator] = self.inner_optimizer.apply_gradients(sums)
        block._set_forward_block_idx(-1)
        for _, total in sums:
            with program._with_role(OpRole.Optimize):
                block.append_op(
                    type="fill_constant",
                    outputs={"Out": total},
                    attrs={"shape": list(total.shape), "dtype": int(total.dtype), "value": 0.0},
                )
        return ops


def _add_to_sum(param: Any, grad: Any) -> Any:
    """Add the gradient to its running sum, which is dense."""
    program = param.block.program
    total = create_global_var(
        name=grad.name + "@GradientMerge",
        shape=list(param.shape),
        value=0.0,
        dtype=param.dtype,
        persistable=True,
    )
    # by its role the sum counts as the gradient of the parameter, which transpilers reduce or send
    with program._with_role(OpRole.Backward, [param.name, total.name]):
        program.current_block().append_op(type="sum", inputs={"X": [grad, total]}, outputs={"Out": total})
    return total
