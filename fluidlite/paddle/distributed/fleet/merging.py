"""Gradient merging in the form that 2.x gives it: one condition, and sums that are plain additions."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.operator import ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.program import default_main_program
from fluidlite.layers.flow.conditional import cond
from fluidlite.layers.tensors.variables import create_global_var
from fluidlite.optimizer import gradient_merge
from fluidlite.optimizer.base import ParamsGrads

__all__ = ["GradientMergeOptimizer"]


class GradientMergeOptimizer(gradient_merge.GradientMergeOptimizer):
    """Adds up the gradients of `k_steps` batches and then lets `inner_optimizer` make one update from their
    sum, or their mean (`avg`).
    """

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Append the sums and the conditional update to the main program; gives the update ops."""
        program = default_main_program()
        block = program.global_block()
        pairs = [(param, grad) for param, grad in params_grads if grad is not None]
        # the sum is the gradient that counts from here on: only its op says whose it is
        for op in block.ops:
            if op.role & OpRole.Backward and op.role_vars:
                op._set_attr(ROLE_VAR_ATTR, [])
        due = self._due()
        sums = [(param, _add_to_sum(param, grad)) for param, grad in pairs]
        made: list[Operator] = []
        cond(due, lambda: made.extend(self._update(program, sums)), None)
        return made

    def _equal(self, step: Any, zero: Any) -> Any:
        block = step.block
        due = block.create_var(name="gradient_merge_cond", shape=[1], dtype=VarType.BOOL, stop_gradient=True)
        block.append_op(type="equal", inputs={"X": step, "Y": zero}, outputs={"Out": due}, attrs={"axis": -1})
        return due


def _add_to_sum(param: Any, grad: Any) -> Any:
    """Add the gradient to its running sum."""
    program = param.block.program
    total = create_global_var(
        name=grad.name + "@GradientMerge",
        shape=list(param.shape),
        value=0.0,
        dtype=param.dtype,
        persistable=True,
    )
    block = program.current_block()
    with program._with_role(OpRole.Backward, [param.name, total.name]):
        if grad.type == VarType.SELECTED_ROWS:  # 2.6.2 writes an addition here too, which then fails
            block.append_op(type="sum", inputs={"X": [grad, total]}, outputs={"Out": total})
        else:
            inputs = {"X": grad, "Y": total}
            block.append_op(type="elementwise_add", inputs=inputs, outputs={"Out": total}, attrs={"axis": -1})
    return total
