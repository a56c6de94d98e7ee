"""`listen_and_serv`: a parameter server whose blocks run as plans that are made once for each form of the
gradients; the interpreter runs what has no plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.ops import SlotValues, action
from fluidlite.executor.comm.server.loop import ParameterServer
from fluidlite.executor.comm.server.program import ServerProgram
from fluidlite.executor.comm.session import Session
from fluidlite.executor.compile.pipeline import compile_plan
from fluidlite.executor.plan.plan import FeedSpec, Target
from fluidlite.executor.run.bound import BoundPlan
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program
from fluidlite.ir.prune import reads, writes
from fluidlite.profiler import recorder
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import SelectedRows

__all__ = ["PlannedBlocks"]

FORMS = 8  # forms of the gradients of one block that get a plan of their own


@action("listen_and_serv")
def serve(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Be a parameter server until all trainers have left."""
    program = ServerProgram.read(context.op)
    # whatever blocks that were written by hand leave can be asked for, so those are interpreted
    planned = () if program.is_by_hand else program.updates
    blocks = PlannedBlocks(program.block, planned, program.arriving, context.frame, context.interpreter)
    ParameterServer(program, blocks, session).run()
    return {}


@dataclass
class _BlockUse:
    """The variables that a block reads from the server's frame, and those that it leaves there."""

    block: Block
    reads: list[str]
    leaves: list[str]


class PlannedBlocks:
    """Runs blocks of a server's program in `frame` (`fluidlite.executor.comm.server.blocks.BlockRunner`).

    A block of `updates`, those that update parameters, runs as a plan for the shapes and types of its values
    where these are dense or sparse arrays of the host; persistable variables are updated in place. `arriving`
    are the names of what trainers send.
    """

    def __init__(
        self,
        block: Block,
        updates: Collection[Block],
        arriving: Collection[str],
        frame: Frame,
        interpreter: Interpreter,
    ) -> None:
        self.frame = frame
        self.interpreter = interpreter
        self.scope: Scope = frame.scope
        self.random: Any = interpreter.random
        self._planned = {inner.idx for inner in updates}
        self._private = _private(block, updates) | set(arriving)
        self._twin: Program | None = None
        self._uses: dict[int, _BlockUse] = {}
        self._plans: dict[int, dict[Any, BoundPlan]] = {}

    def find(self, name: str) -> Any:
        """The value of a variable; None where nothing has written it."""
        return self.frame.find(name)

    def write(self, name: str, value: Any) -> None:
        """Give a variable a value without levels of detail."""
        self.frame.set(name, value, ())

    def hold(self, name: str, value: Any) -> None:
        """Keep what has arrived, without a copy."""
        self.frame.values[name] = value
        self.frame.lods[name] = ()

    def run(self, block: Block) -> None:
        """Run one of the blocks."""
        with np.errstate(all="ignore"):
            # the check looks at the output of every single op, which a plan may never write to memory
            if flags.check_nan_inf() or not self._run_plan(block):
                self.interpreter.run_block(block, self.frame.child(block))

    def evaluate(self, block: Block, name: str, value: Any) -> Any:
        """The output of a block's last op where `name` holds `value`."""
        frame = self.frame.child(block)
        frame.set(name, value, ())
        self.interpreter.run_block(block, frame)
        return frame.find(block.ops[-1].output_arg_names[0])

    # ------------------------------------------------------------------ plans
    def _run_plan(self, block: Block) -> bool:
        """Run a block by its plan; False where it has to be interpreted."""
        # gradients arrive in memory of the host
        on_host = self.interpreter.xp is np and block.idx in self._planned
        if not on_host or any(op.sub_blocks() for op in block.ops):
            return False
        use = self._use_of(block)
        values = {name: self.frame.find(name) for name in use.reads}
        if any(value is None or self.frame.lod(name) for name, value in values.items()):
            return False
        known = self._plans.setdefault(block.idx, {})
        form = tuple(_form(value) for value in values.values())
        bound = known.get(form)
        if bound is None or not bound.current():
            # sparse gradients share one form, so more than a few shapes of a dense one are a program's
            # mistake, and not worth memory
            if len(known) >= FORMS and form not in known:
                return False
            bound = known[form] = self._compile(use, values)
            bound.current()
        left = bound.run(list(values.values()))
        for name, (value, lod) in zip(use.leaves, left, strict=True):
            # the next run of the plan writes over its buffers
            self.frame.set(name, value.copy() if isinstance(value, np.ndarray) else value, lod)
        return True

    def _use_of(self, block: Block) -> _BlockUse:
        found = self._uses.get(block.idx)
        if found is None:
            found = self._uses[block.idx] = self._read_use(block)
        return found

    def _read_use(self, block: Block) -> _BlockUse:
        twin = self._twin_of(block)
        read = dict.fromkeys(name for op in twin.ops for name in reads(op))
        written = dict.fromkeys(name for op in twin.ops for name in writes(op))
        others = [other for other in block.program.blocks if other is not block]
        outside = {name for other in others for op in other.ops for name in op.input_arg_names}
        shared = outside - self._private
        return _BlockUse(
            twin,
            [name for name in read if not _in_scope(twin, name) and not _made_first(twin, name)],
            [name for name in written if not _in_scope(twin, name) and name in shared],
        )

    def _twin_of(self, block: Block) -> Block:
        """The block in a copy of the program, where neither what arrives nor what one block alone uses has
        a place in the scope: so plans take and give those as feeds and fetches, or keep them in buffers.
        """
        if self._twin is None:
            self._twin = block.program.clone()
            for other in self._twin.blocks:
                for name in self._private & set(other.vars):
                    other.vars[name].persistable = False
        return self._twin.blocks[block.idx]

    def _compile(self, use: _BlockUse, values: Mapping[str, Any]) -> BoundPlan:
        feeds = {name: _feed_spec(value) for name, value in values.items()}
        target = Target(timed=recorder.active, checked=flags.check_buffers())
        plan = compile_plan(use.block, use.block.ops, feeds, use.leaves, self.scope, target)
        return BoundPlan(plan, self.scope, self.interpreter.place, self.random)


def _feed_spec(value: Any) -> FeedSpec:
    if isinstance(value, SelectedRows):
        # as many rows as the batch had ids: another number at each step
        return FeedSpec(None, None)
    return FeedSpec(value.shape, value.dtype)


def _form(value: Any) -> Any:
    return "rows" if isinstance(value, SelectedRows) else (value.shape, value.dtype)


def _in_scope(block: Block, name: str) -> bool:
    """True if a variable lives in the scope."""
    var = block._find_var_recursive(name)
    return var is not None and var.persistable


def _made_first(block: Block, name: str) -> bool:
    """True if a block writes a variable before it reads it."""
    for op in block.ops:
        if name in op.input_arg_names:
            return False
        if name in op.output_arg_names:
            return True
    return False


def _private(block: Block, updates: Collection[Block]) -> set[str]:
    """Dense variables of the outer block that one block of updates writes before it reads them, and no
    other block names.
    """
    users: dict[str, set[int]] = {}
    for other in block.program.blocks:
        for op in other.ops:
            for name in (*op.input_arg_names, *op.output_arg_names):
                users.setdefault(name, set()).add(other.idx)
    return {
        name
        for inner in updates
        for op in inner.ops
        for name in op.output_arg_names
        if users[name] == {inner.idx}
        and _made_first(inner, name)
        and name in block.vars
        and block.vars[name].type == VarType.LOD_TENSOR
    }
