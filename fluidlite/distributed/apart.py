"""Trainers that each compute on their own share: what that makes of a program which does not take its rows
one by one, and the ops that are the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.place import CPUPlace
from fluidlite.base.registry import get as op_of
from fluidlite.distributed.references import Initial, parameters, part_of
from fluidlite.distributed.shares import Values, get, max_relative_difference, put
from fluidlite.distributed.simulated import draws_of, keep
from fluidlite.executor.executor import Executor
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.pserver.training import is_clipping_alone
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = ["MeanOfShares", "draws", "reasons"]

_UPDATING = OpRole.Optimize | OpRole.LRSched
_CLOSE = 1e-4  # for one forward pass: sums of shares round otherwise than those of the whole batch


class MeanOfShares:
    """The parameters after all steps in which every trainer computes gradients of its share, and one update
    takes their mean.

    Attributes
    ----------
    trainers: of each trainer its parameters, with those that it changes by itself (statistics of batches).
    updated: the parameters that the update has written.
    """

    def __init__(self, job: Job, initial: Initial, shares: Sequence[Sequence[Values]]) -> None:
        ops = job.main.global_block().ops
        update = [op for op in ops if op.role & _UPDATING and not (job.has_servers and is_clipping_alone(op))]
        compute = [op for op in ops if op not in update]
        self.exchanged = sorted(_exchanged(compute, update, job.main))
        self.compute, self.update = part_of(job.main, compute), part_of(job.main, update)
        for program in (self.compute, self.update):
            keep(program, self.exchanged)
        scopes = [initial.scope() for _ in shares]
        executors = [_executor(index) for index in range(len(shares))]
        whole, server = initial.scope(), _executor(len(shares))
        written = {name for op in update for name in op.output_arg_names}
        names = [name for name in parameters(job) if name in written]
        for step in range(len(shares[0])):
            for scope, exe, share in zip(scopes, executors, shares, strict=True):
                exe.run(self.compute, feed=share[step], scope=scope)
            for name in self.exchanged:
                whole.var(name).set(_mean([_value(scope, name) for scope in scopes]))
            server.run(self.update, scope=whole)
            for scope in scopes:
                put(scope, {name: get(whole, name) for name in names})
        self.trainers = [{name: get(scope, name) for name in parameters(job)} for scope in scopes]
        self.updated = {name: get(whole, name) for name in names}


def _executor(index: int) -> Executor:
    exe = Executor(CPUPlace())
    exe.random = draws_of(index)
    return exe


def _exchanged(compute: Iterable[Operator], update: Iterable[Operator], program: Program) -> set[str]:
    """Names that the update reads and the rest makes: gradients."""
    block = program.global_block()
    made = {name for op in compute for name in op.output_arg_names}
    read = {name for op in update for name in op.input_arg_names}
    return {name for name in made & read if not block._var_recursive(name).persistable}


def _value(scope: Any, name: str) -> Any:
    held = scope.find_var(name)
    assert held is not None
    return held.value


def _mean(values: Sequence[Any]) -> Any:
    count = len(values)
    if not isinstance(values[0], SelectedRows):
        return LoDTensor(sum(np.array(value) for value in values[1:]) / count + np.array(values[0]) / count)
    ids = np.concatenate([value.ids for value in values])
    rows = np.concatenate([value.array for value in values]) / np.float32(count)
    return SelectedRows(ids, values[0].height(), rows.astype(values[0].array.dtype))


# ---------------------------------------------------------------------- why that is not the whole batch
def reasons(job: Job, initial: Initial, feed: Mapping[str, Any], shares: Sequence[Values]) -> list[str]:
    """The ops that make something else of shares than of the whole batch: random ones, clips that each
    trainer does alone, and the first whose results neither join nor average to those of the batch.
    """
    ops = job.main.global_block().ops
    forward = [op for op in ops if not op.role & (OpRole.Backward | _UPDATING)]
    found = [f"{_named(op)} draws different random numbers" for op in forward if op_of(op.type).random]
    clips = [op for op in ops if job.has_servers and is_clipping_alone(op)]
    if clips:
        found.append(f"{_named(clips[-1])} clips the gradients of one trainer")
    mixing = _first_mixing(job, initial, forward, feed, shares)
    if mixing is not None:
        found.append(f"{_named(mixing)} does not treat the rows independently, or is not a mean over them")
    return found


def draws(job: Job) -> bool:
    """True if ops of the job draw random numbers: another order of its rows then is another computation."""
    return any(op_of(op.type).random for op in job.main.global_block().ops)


def _named(op: Operator) -> str:
    return f"op {op.type!r} (built at {op.where})"


def _first_mixing(
    job: Job, initial: Initial, forward: Sequence[Operator], feed: Mapping[str, Any], shares: Sequence[Values]
) -> Operator | None:
    program = part_of(job.main, forward)
    names = _comparable(program)
    batch = _run(program, initial, feed, names)
    parts = [_run(program, initial, part, names) for part in shares]
    for op in forward:
        if op_of(op.type).random:  # all behind it differ, too
            return None
        for name in op.output_arg_names:
            if name in batch and not _fits(batch[name], [part[name] for part in parts]):
                return op
    return None


def _comparable(program: Program) -> list[str]:
    """Names of what the forward pass hands on, and the loss: results that are kept for the backward pass
    alone have forms of their own.
    """
    block = program.global_block()
    read = {name for op in block.ops for name in op.input_arg_names}
    return [
        name
        for op in block.ops
        for name in op.output_arg_names
        if (name in read or op.role & OpRole.Loss) and not block._var_recursive(name).persistable
    ]


def _run(program: Program, initial: Initial, feed: Mapping[str, Any], names: list[str]) -> Values:
    exe = _executor(0)
    exe.naive = True
    found = exe.run(program, feed=feed, fetch_list=names, scope=initial.scope(), return_numpy=False)
    return {
        name: np.array(value)
        for name, value in zip(names, found, strict=True)
        if isinstance(value, LoDTensor)
    }


def _fits(batch: Any, parts: Sequence[Any]) -> bool:
    """True if the parts make up the batch's value, or have it as their mean."""
    if batch.dtype.kind != "f":
        return True
    if batch.ndim and len(batch) == sum(len(part) for part in parts if part.ndim):
        return max_relative_difference(np.concatenate(parts), batch) < _CLOSE
    mean = sum(parts[1:], parts[0]) / len(parts) if len({part.shape for part in parts}) == 1 else None
    return mean is None or max_relative_difference(mean.astype(batch.dtype), batch) < _CLOSE
