"""Lookahead: every k steps the parameters go back part of the way."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program, default_startup_program, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.elementwise import (
    elementwise_add,
    elementwise_mod,
    elementwise_mul,
    elementwise_sub,
)
from fluidlite.layers.flow.array import increment
from fluidlite.layers.flow.conditional import Switch
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.layers.tensors.variables import assign, create_global_var

__all__ = ["LookaheadOptimizer"]


class LookaheadOptimizer:
    """Every `k` steps: slow = alpha * fast + (1 - alpha) * slow, then fast = slow (Zhang et al., 2019).

    `inner_optimizer` moves the fast parameters, which are the model's; the slow ones are called
    `<param>@SLOW`.
    """

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5) -> None:
        if inner_optimizer is None:
            raise ArgumentError("inner optimizer can not be None")
        if not 0.0 <= alpha <= 1.0:
            raise ArgumentError(
                f"alpha should be larger or equal to 0.0, and less or equal than 1.0, but it is {alpha}"
            )
        if not isinstance(k, int) or k <= 0:
            raise ArgumentError(f"k should be a positive integer, but it is {k!r}")
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k
        self.type = "lookahead"

    @short_tracebacks
    def minimize(self, loss: Variable, startup_program: Program | None = None) -> Any:
        """The inner optimizer's `minimize`, and the ops of the slow parameters."""
        result = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        main = loss.block
        startup = (startup_program or default_startup_program()).global_block()
        pairs = [(param, _slow(param, main, startup)) for param in main.all_parameters()]
        with program_guard(main.program, startup.program):
            k = create_global_var(
                name="lookahead_k", shape=[1], value=int(self.k), dtype="int32", persistable=True
            )
            alpha = create_global_var(
                name="lookahead_alpha", shape=[1], value=float(self.alpha), dtype="float32", persistable=True
            )
            step: Any = create_global_var(
                name="lookahead_step", shape=[1], value=0, dtype="int32", persistable=True
            )
            increment(x=step, value=1.0, in_place=True)
            zero = fill_constant(shape=[1], dtype="float32", value=0.0)
            one = fill_constant(shape=[1], dtype="float32", value=1.0)
            remainder: Any = elementwise_mod(step, k)
            with Switch() as switch:
                with switch.case(remainder == zero):
                    for fast, slow in pairs:
                        _blend(fast, slow, alpha, one)
                # fluid's program has this block, empty as it is
                with switch.default():
                    pass
        return result


def _slow(param: Any, main: Block, startup: Block) -> Variable:
    """The slow copy of a parameter, which starts as the parameter does."""
    name = param.name + "@SLOW"
    slow = main.create_var(name=name, shape=param.shape, dtype=param.dtype, persistable=True)
    copy = startup.create_var(name=name, shape=param.shape, dtype=param.dtype, persistable=True)
    # behind the op that fills the parameter, whose value it copies
    startup.append_op(type="assign", inputs={"X": startup.var(param.name)}, outputs={"Out": copy})
    return slow


def _blend(fast: Variable, slow: Variable, alpha: Variable, one: Variable) -> None:
    """Move slow towards fast by the share `alpha`, and fast to the same place."""
    blend = elementwise_add(elementwise_mul(fast, alpha), elementwise_mul(slow, elementwise_sub(one, alpha)))
    assign(input=blend, output=slow)
    assign(input=blend, output=fast)
