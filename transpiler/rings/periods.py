"""Local SGD in periods: ranks average every so many steps, as PaddlePaddle 2.x writes it.

Every step up to number `begin` ends with an average, and after that a step that is `steps` after the last
one. Adaptive periods (Wang and Joshi, 2018) follow the loss: after an average the next period has

    ceil(sqrt(rate_1 * loss / (rate * loss_1) * steps))

steps, between 1 and 16, where loss and rate (the learning rate) are those of now, with an index of step 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.rings.snapshots import snapshot_name, take_snapshots

__all__ = ["Periods", "Rhythm", "average_in_periods", "startup_of_periods"]

_STEP, _LENGTH, _BEGIN, _LAST = "@STEP_COUNTER@", "k_steps", "begin_step", "last_step"
_LOSS, _FIRST_LOSS, _FIRST_RATE = "avg_loss", "loss_0", "lr_0"
_LONGEST = 16


@dataclass(frozen=True)
class Periods:
    """The length of periods, the step that the first one begins at, and, where they adapt, the variables of
    loss and learning rate.
    """

    steps: int
    begin: int = 1
    loss: str = ""
    rate: str = ""

    @property
    def first_last(self) -> int:
        """The step that counts as the last with an average at first; 2.x begins its two forms differently."""
        return 0 if self.loss else self.begin

    @property
    def watched(self) -> tuple[str, ...]:
        """The variables that the length depends on."""
        return (self.loss, self.rate) if self.loss else ()


class Rhythm:
    """The steps of a job that end with an average, followed from the first on."""

    def __init__(self, periods: Periods) -> None:
        self.periods = periods
        self.step, self.last, self.length = 0, periods.first_last, periods.steps
        self._first: tuple[float, float] = (0.0, 0.0)

    def due(self, watched: Sequence[float]) -> bool:
        """True if the step that comes ends with an average; `watched` is its loss, over all ranks, and its
        rate.
        """
        self.step += 1
        if self.step == 1 and watched:
            self._first = (float(watched[0]), float(watched[1]))
        past = self.step > self.periods.begin
        if past and self.step - self.last != self.length:
            return False
        self.last = self.step
        if past and watched:
            loss, rate = float(watched[0]), float(watched[1])
            ratio = self._first[1] * loss / (rate * self._first[0]) * self.periods.steps
            self.length = min(_LONGEST, max(1, math.ceil(math.sqrt(ratio))))
        return True


# ---------------------------------------------------------------------- startup programs
def startup_of_periods(startup: Program, params: Sequence[str], periods: Periods) -> Program:
    """The startup program with snapshots of the parameters, and the counters of steps."""
    new = take_snapshots(startup, params)
    edits = Insertions(new.global_block())
    for name, value in _counters(periods).items():
        dtype = VarType.INT64 if isinstance(value, int) else VarType.FP32
        edits.block.create_var(name=name, shape=[1], dtype=dtype, persistable=True)
        edits.last(
            "fill_constant",
            {},
            {"Out": name},
            OpRole.Forward,
            shape=[1],
            dtype=int(dtype),
            value=float(value),
        )
    edits.apply()
    return new


def _counters(periods: Periods) -> Mapping[str, int | float]:
    steps = {_STEP: 0, _LENGTH: periods.steps, _BEGIN: periods.begin, _LAST: periods.first_last}
    return steps | ({_LOSS: 0.0, _FIRST_RATE: 0.0, _FIRST_LOSS: 0.0} if periods.loss else {})


# ---------------------------------------------------------------------- main programs
def average_in_periods(
    main: Program, params: Sequence[str], nranks: int, nrings: int, periods: Periods
) -> Program:
    """The main program whose steps end with an average of `params` over the ranks where a period does."""
    new = main.clone()
    block = new.global_block()
    for name, value in _counters(periods).items():
        dtype = VarType.INT64 if isinstance(value, int) else VarType.FP32
        block.create_var(name=name, shape=[1], dtype=dtype, persistable=True, stop_gradient=True)
    for param in map(block._var_recursive, params):
        block.create_var(
            name=snapshot_name(param.name),
            shape=param.shape,
            dtype=param.dtype,
            persistable=True,
            stop_gradient=True,
        )
    first = Insertions(block)
    first.before(block.ops[0], "increment", {"X": _STEP}, {"Out": _STEP}, OpRole.Forward, step=1.0)
    first.apply()
    _Writer(block, params, nranks, nrings, periods).write()
    return new


class _Writer:
    """Writes the end of a step: the conditions under which it averages, and the averages."""

    def __init__(
        self, block: Block, params: Sequence[str], nranks: int, nrings: int, periods: Periods
    ) -> None:
        self.block, self.params, self.nranks, self.nrings = block, params, nranks, nrings
        self.periods = periods
        self.made = 0

    def write(self) -> None:
        """Append all to the block."""
        block = self.block
        if self.periods.loss:
            one = self.constant(block, 1.0)
            at_first = self.compare(block, "equal", _STEP, one)
            self.average_loss()
            self.under(block, at_first, self.note_first)
            past = self.compare(block, "greater_than", _STEP, _BEGIN)
        else:
            past = self.compare(block, "greater_than", _STEP, _BEGIN)
        self.under(block, past, self.where_due)
        early = self.temporary(block, VarType.BOOL)
        _append(block, "logical_not", {"X": past}, {"Out": early})
        self.under(block, early, self.average)

    def where_due(self, block: Block) -> None:
        """Average where the period has its length."""
        gap = self.temporary(block, VarType.INT64)
        _append(block, "elementwise_sub", {"X": _STEP, "Y": _LAST}, {"Out": gap}, axis=-1)
        self.under(block, self.compare(block, "equal", gap, _LENGTH), self.average_and_adapt)

    def average_and_adapt(self, block: Block) -> None:
        """Average, and choose the length of the next period."""
        self.average(block)
        if self.periods.loss:
            self.adapt(block)

    def average(self, block: Block) -> None:
        """Move each parameter by the mean change of all ranks since its snapshot."""
        for number, name in enumerate(self.params):
            here = {"X": name}, {"Out": name}
            old = snapshot_name(name)
            _append(block, "elementwise_sub", {"X": old, "Y": name}, {"Out": name}, OpRole.Optimize)
            _append(block, "c_sync_calc_stream", *here, OpRole.Optimize)
            ring = number % self.nrings
            _append(block, "c_allreduce_sum", *here, OpRole.Optimize, ring_id=ring, use_calc_stream=False)
        for ring in range(self.nrings):
            name = self.params[-1]
            _append(block, "c_sync_comm_stream", {"X": name}, {"Out": name}, OpRole.Optimize, ring_id=ring)
        for name in self.params:
            old = snapshot_name(name)
            _append(block, "scale", {"X": name}, {"Out": name}, OpRole.Optimize, scale=1.0 / self.nranks)
            _append(block, "elementwise_sub", {"X": old, "Y": name}, {"Out": name}, OpRole.Optimize)
            _append(block, "assign", {"X": name}, {"Out": old}, OpRole.Optimize)
        _append(block, "assign", {"X": _STEP}, {"Out": _LAST})

    # ------------------------------------------------------------------ adaptive periods
    def average_loss(self) -> None:
        """The loss over all ranks."""
        role = OpRole.Optimize
        loss = {"X": self.periods.loss}
        _append(self.block, "c_allreduce_sum", loss, {"Out": _LOSS}, role, ring_id=0, use_calc_stream=True)
        _append(self.block, "scale", {"X": _LOSS}, {"Out": _LOSS}, role, scale=1.0 / self.nranks)

    def note_first(self, block: Block) -> None:
        """Keep loss and learning rate of the first step."""
        _append(block, "assign", {"X": _LOSS}, {"Out": _FIRST_LOSS})
        _append(block, "assign", {"X": self.periods.rate}, {"Out": _FIRST_RATE})

    def adapt(self, block: Block) -> None:
        """Set the length of the next period."""
        value = [self.temporary(block, VarType.FP32) for _ in range(6)]
        _append(block, "elementwise_mul", {"X": _FIRST_RATE, "Y": _LOSS}, {"Out": value[0]})
        _append(block, "elementwise_mul", {"X": self.periods.rate, "Y": _FIRST_LOSS}, {"Out": value[1]})
        _append(block, "elementwise_div", {"X": value[0], "Y": value[1]}, {"Out": value[2]})
        _append(block, "scale", {"X": value[2]}, {"Out": value[3]}, scale=float(self.periods.steps))
        _append(block, "sqrt", {"X": value[3]}, {"Out": value[4]})
        _append(block, "ceil", {"X": value[4]}, {"Out": value[5]})
        whole = self.temporary(block, VarType.INT64)
        types = {"in_dtype": int(VarType.FP32), "out_dtype": int(VarType.INT64)}
        _append(block, "cast", {"X": value[5]}, {"Out": whole}, **types)
        below, bounded = (self.temporary(block, VarType.INT64) for _ in range(2))
        longest, shortest = self.constant(block, float(_LONGEST)), self.constant(block, 1.0)
        _append(block, "elementwise_min", {"X": whole, "Y": longest}, {"Out": below})
        _append(block, "elementwise_max", {"X": below, "Y": shortest}, {"Out": bounded})
        _append(block, "assign", {"X": bounded}, {"Out": _LENGTH})

    # ------------------------------------------------------------------ parts
    def temporary(self, block: Block, dtype: VarType) -> str:
        """A new variable of one element."""
        self.made += 1
        name = f"local_sgd.tmp_{self.made}"
        block.create_var(name=name, shape=[1], dtype=dtype, stop_gradient=True)
        return name

    def constant(self, block: Block, value: float) -> str:
        """An integer."""
        name = self.temporary(block, VarType.INT64)
        _append(block, "fill_constant", {}, {"Out": name}, shape=[1], dtype=int(VarType.INT64), value=value)
        return name

    def compare(self, block: Block, op_type: str, x: str, y: str) -> str:
        """The result of a comparison."""
        name = self.temporary(block, VarType.BOOL)
        _append(block, op_type, {"X": x, "Y": y}, {"Out": name})
        return name

    def under(self, block: Block, condition: str, write: Callable[[Block], None]) -> None:
        """A block that runs where `condition` holds."""
        program = block.program
        inner = program._create_block(parent_idx=block.idx)
        write(inner)
        program.current_block_idx = 0
        outside = [*dict.fromkeys(name for op in inner.ops for name in op.output_arg_names)]
        read = [*dict.fromkeys(name for op in inner.ops for name in op.input_arg_names)]
        self.made += 1
        scope = f"local_sgd.scope_{self.made}"
        block.create_var(name=scope, type=VarType.STEP_SCOPES)
        block.append_op(
            type="conditional_block",
            inputs={"Cond": [condition], "Input": [name for name in read if name not in inner.vars]},
            outputs={"Out": [name for name in outside if name not in inner.vars], "Scope": [scope]},
            attrs={"sub_block": inner, "is_scalar_condition": True, ROLE_ATTR: int(OpRole.Forward)},
        )


def _append(
    block: Block,
    op_type: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    role: int = OpRole.Forward,
    **attrs: Any,
) -> None:
    block.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs={ROLE_ATTR: int(role), **attrs})
