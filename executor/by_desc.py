"""Runs of programs that are given by their descriptions, as Paddle's compiled executor takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fluidlite.base.place import Place
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.holders import get_fetch_variable, put_in_list
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, rebinds

__all__ = ["DescRunner", "PreparedBlock"]


class PreparedBlock(NamedTuple):
    """A block of a program that is about to run."""

    program: Program
    number: int

    @property
    def block(self) -> Block:
        """The block itself."""
        return self.program.blocks[self.number]


class DescribesProgram(Protocol):
    @property
    def target(self) -> Program:
        """The program that is described."""


class RunsPlans(Protocol):
    place: Place

    @property
    def random(self) -> Any: ...

    def _run(
        self, program: Program, feed: Any, names: Sequence[str], scope: Scope, return_numpy: bool
    ) -> list[Any]: ...

    def close(self) -> None: ...


class DescRunner:
    """An executor's other side: it runs blocks of descriptions, whose feed and fetch ops read and write lists
    in the scope.
    """

    def __init__(self, executor: RunsPlans) -> None:
        self._executor = executor

    def run(
        self,
        program_desc: DescribesProgram,
        scope: Scope,
        block_id: int = 0,
        create_local_scope: bool = True,
        create_vars: bool = True,
        skip_ref_cnt_vars: Sequence[str] = (),
        force_disable_gc: bool = False,
        keep_kid_scopes: bool = False,
    ) -> None:
        """Run a block once. Temporaries end with the run, or stay in `scope` if there is no local scope."""
        prepared = self.prepare(program_desc, block_id, skip_ref_cnt_vars, force_disable_gc)
        self.run_prepared_ctx(prepared, scope, create_local_scope, create_vars, keep_kid_scopes)

    def prepare(
        self,
        program_desc: DescribesProgram,
        block_id: int = 0,
        skip_ref_cnt_vars: Sequence[str] = (),
        force_disable_gc: bool = False,
    ) -> PreparedBlock:
        """A block, for `run_prepared_ctx`."""
        return PreparedBlock(program_desc.target, block_id)

    def create_variables(self, program_desc: DescribesProgram, scope: Scope, block_id: int = 0) -> None:
        """Declare the variables of a block: persistable ones in the outermost scope, others in this one."""
        _declare(program_desc.target.blocks[block_id], scope, temporaries=True)

    def run_prepared_ctx(
        self,
        ctx: PreparedBlock,
        scope: Scope,
        create_local_scope: bool = True,
        create_vars: bool = True,
        keep_kids: bool = False,
    ) -> None:
        """Run a block that was prepared."""
        if create_vars:
            _declare(ctx.block, scope, temporaries=not create_local_scope)
        if not create_local_scope or ctx.number != 0:
            self._interpret(ctx.block, scope, keep=not create_local_scope)
            return
        feed = {
            op.output("Out")[0]: get_fetch_variable(scope, op.input("X")[0], op.attr("col"))
            for op in _of_type(ctx.block, "feed")
        }
        fetches = list(_of_type(ctx.block, "fetch"))
        names = [op.input("X")[0] for op in fetches]
        for op, value in zip(
            fetches, self._executor._run(ctx.program, feed, names, scope, False), strict=True
        ):
            name = op.output("Out")[0]
            kept = LoDTensorArray(value) if isinstance(value, list) else value
            put_in_list(scope.find_var(name) or scope.var(name), kept, op.attr("col"))

    def close(self) -> None:
        """End the job, as `Executor.close` does."""
        self._executor.close()

    def _interpret(self, block: Block, scope: Scope, keep: bool) -> None:
        frame = Frame(block, scope)
        rebinds.writes += 1
        with np.errstate(all="ignore"):
            Interpreter(self._executor.place, scope, self._executor.random).run_block(block, frame)
        for name, value in frame.values.items() if keep else ():
            held = scope.var(name)
            held.set(value)
            if isinstance(held.value, LoDTensor):
                held.value._lod = frame.lod(name)


def _of_type(block: Block, kind: str) -> Iterator[Operator]:
    return (op for op in block.ops if op.type == kind)


def _declare(block: Block, scope: Scope, temporaries: bool) -> None:
    outermost = scope
    while outermost.parent is not None:
        outermost = outermost.parent
    for name, var in block.vars.items():
        if var.persistable and scope.find_var(name) is None:
            outermost.var(name)
        elif temporaries and not var.persistable:
            scope.var(name)
