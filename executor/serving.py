"""The blocks of a server: each runs as a plan that is made once, in the arrays of the scope; the
interpreter is the reference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.dtypes import VarType
from fluidlite.executor.compile.builder import FeedSpec
from fluidlite.executor.compile.plan import BoundPlan, compile_plan
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program
from fluidlite.ir.prune import reads, writes
from fluidlite.values.tensor import SelectedRows

__all__ = ["Updates"]

FORMS = 8  # forms of the gradients of one block that get a plan of their own


@dataclass
class _Facts:
    """What a block reads from, and leaves in, the frame of the server."""

    block: Block
    reads: list[str]
    leaves: list[str]


class Updates:
    """Runs blocks of a server's program in `frame`, which holds what arrives: values of the variables in
    `fed`.
    """

    def __init__(
        self, block: Block, blocks: list[Block], fed: Collection[str], frame: Frame, interpreter: Interpreter
    ) -> None:
        self.frame, self.interpreter = frame, interpreter
        self.private = _private(block, blocks) | set(fed)
        self.twin: Program | None = None
        self.facts: dict[int, _Facts] = {}
        self.plans: dict[int, dict[Any, BoundPlan]] = {}

    def put(self, name: str, value: Any) -> None:
        """Keep what has arrived, without a copy."""
        self.frame.values[name] = value
        self.frame.lods[name] = ()

    def run(self, block: Block) -> None:
        """Run one of the blocks."""
        with np.errstate(all="ignore"):
            if flags.check_nan_inf() or not self._by_plan(block):
                self.interpreter.run_block(block, self.frame.child(block))

    def _by_plan(self, block: Block) -> bool:
        """Run a block by its plan; False where it has to be interpreted."""
        if self.interpreter.xp is not np or any(op.sub_blocks() for op in block.ops):
            return False
        facts = self._facts_of(block)
        values = {name: self.frame.find(name) for name in facts.reads}
        if any(value is None or self.frame.lod(name) for name, value in values.items()):
            return False
        known = self.plans.setdefault(block.idx, {})
        form = tuple(_form(value) for value in values.values())
        bound = known.get(form)
        if bound is None or not bound.current():
            if len(known) >= FORMS and form not in known:
                return False
            bound = known[form] = self._compile(facts, values)
            bound.current()
        for name, (value, lod) in zip(facts.leaves, bound.run(list(values.values())), strict=True):
            self.frame.set(name, value.copy() if isinstance(value, np.ndarray) else value, lod)
        return True

    def _facts_of(self, block: Block) -> _Facts:
        found = self.facts.get(block.idx)
        if found is None:
            twin = self._twin_of(block)
            read = dict.fromkeys(name for op in twin.ops for name in reads(op))
            written = dict.fromkeys(name for op in twin.ops for name in writes(op))
            outside = {
                name
                for other in block.program.blocks
                if other is not block
                for op in other.ops
                for name in op.input_arg_names
            }
            found = self.facts[block.idx] = _Facts(
                twin,
                [
                    name
                    for name in read
                    if not self.interpreter_holds(twin, name) and not _made_first(twin, name)
                ],
                [
                    name
                    for name in written
                    if not self.interpreter_holds(twin, name) and name not in self.private and name in outside
                ],
            )
        return found

    def _twin_of(self, block: Block) -> Block:
        """The block in a copy of the program, where neither what arrives nor what one block alone uses has
        a place in the scope.
        """
        if self.twin is None:
            self.twin = block.program.clone()
            for other in self.twin.blocks:
                for name in self.private & set(other.vars):
                    other.vars[name].persistable = False
        return self.twin.blocks[block.idx]

    @staticmethod
    def interpreter_holds(block: Block, name: str) -> bool:
        """Whether a variable lives in the scope."""
        var = block._find_var_recursive(name)
        return var is not None and var.persistable

    def _compile(self, facts: _Facts, values: Mapping[str, Any]) -> BoundPlan:
        scope = self.frame.scope
        feeds = {
            name: FeedSpec(None, None)
            if isinstance(value, SelectedRows)
            else FeedSpec(value.shape, value.dtype)
            for name, value in values.items()
        }
        plan = compile_plan(facts.block, facts.block.ops, feeds, facts.leaves, scope, 1)
        return BoundPlan(plan, scope, self.interpreter.place, self.interpreter.random)


def _form(value: Any) -> Any:
    return "rows" if isinstance(value, SelectedRows) else (value.shape, value.dtype)


def _made_first(block: Block, name: str) -> bool:
    """Whether a block writes a variable before it reads it."""
    for op in block.ops:
        if name in op.input_arg_names:
            return False
        if name in op.output_arg_names:
            return True
    return False


def _private(block: Block, blocks: list[Block]) -> set[str]:
    """Dense variables of the outer block that one block of updates writes before it reads them, and nobody
    else names.
    """
    users: dict[str, set[int]] = {}
    for other in block.program.blocks:
        for op in other.ops:
            for name in (*op.input_arg_names, *op.output_arg_names):
                users.setdefault(name, set()).add(other.idx)
    return {
        name
        for inner in blocks
        for op in inner.ops
        for name in op.output_arg_names
        if users[name] == {inner.idx}
        and _made_first(inner, name)
        and name in block.vars
        and block.vars[name].type == VarType.LOD_TENSOR
    }
