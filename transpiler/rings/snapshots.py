"""Programs of ranks that train alone and average what each has changed since a snapshot (local SGD)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import is_distributed, last_updates

__all__ = ["SNAPSHOT", "average_parameters", "snapshot_name", "take_snapshots"]

SNAPSHOT = "@SNAPSHOT"


def snapshot_name(param: str) -> str:
    """The variable that keeps a parameter as it was when the ranks last agreed."""
    return param + SNAPSHOT


def _declare_snapshots(block: Block, params: Iterable[str]) -> None:
    for param in map(block._var_recursive, params):
        block.create_var(
            name=snapshot_name(param.name),
            shape=param.shape,
            dtype=param.dtype,
            persistable=True,
            stop_gradient=True,
        )


def take_snapshots(startup: Program, params: Sequence[str]) -> Program:
    """The startup program with a snapshot of each parameter at its end."""
    new = startup.clone()
    block = new.global_block()
    shared = [name for name in params if not is_distributed(block, name)]
    _declare_snapshots(block, shared)
    edits = Insertions(block)
    for name in shared:
        edits.last("assign", {"X": name}, {"Out": snapshot_name(name)}, OpRole.Forward)
    edits.apply()
    return new


def average_parameters(main: Program, nranks: int, nrings: int) -> Program:
    """The main program with each parameter moved by the mean change over `nranks` ranks since the snapshot.

    Between its last update and the end a parameter holds its change. Where other ops use parameters after an
    update (a moving average, a second loss), the changes are taken after the last update and applied before
    the next such use. (Paddle lets them read the changes in the place of the parameters.)
    """
    new = main.clone()
    block = new.global_block()
    updates = last_updates(block)
    _declare_snapshots(block, updates)
    edits = Insertions(block)
    anchors, user = _places(block, updates)
    for number, name in enumerate(updates):
        _take_change(edits, anchors[name], name, ring=(len(updates) - 1 - number) % nrings)
    put = edits.last if user is None else lambda *op, **attrs: edits.before(user, *op, **attrs)
    first = next(iter(updates))
    for ring in range(nrings):
        put("c_sync_comm_stream", {"X": first}, {"Out": first}, OpRole.Optimize, ring_id=ring)
    for name in updates:
        _apply_change(put, name, nranks)
    edits.apply()
    return new


def _places(block: Block, updates: dict[str, Operator]) -> tuple[dict[str, Operator], Operator | None]:
    """The op after which each parameter's change is taken, and the first later op that uses a parameter
    (None: none does).
    """
    position = {op: index for index, op in enumerate(block.ops)}
    last = max(updates.values(), key=position.__getitem__)
    users = [
        op
        for op in block.ops
        for name in {*op.input_arg_names, *op.output_arg_names}
        if name in updates and position[op] > position[updates[name]]
    ]
    # an op between two updates reads parameters: none may hold its change yet when it runs
    early = any(position[op] < position[last] for op in users)
    anchors = {name: last if early else op for name, op in updates.items()}
    return anchors, next((op for op in users if position[op] > position[last]), None)


def _take_change(edits: Insertions, anchor: Operator, name: str, ring: int) -> None:
    edits.after(
        anchor, "elementwise_sub", {"X": [snapshot_name(name)], "Y": [name]}, {"Out": [name]}, OpRole.Optimize
    )
    edits.after(anchor, "c_sync_calc_stream", {"X": name}, {"Out": name}, OpRole.Optimize)
    edits.after(anchor, "c_allreduce_sum", {"X": [name]}, {"Out": [name]}, OpRole.Optimize, ring_id=ring)


def _apply_change(put: Callable[..., Any], name: str, nranks: int) -> None:
    snapshot = snapshot_name(name)
    put("scale", {"X": [name]}, {"Out": [name]}, OpRole.Optimize, scale=1.0 / nranks)
    put("elementwise_sub", {"X": [snapshot], "Y": [name]}, {"Out": [name]}, OpRole.Optimize)
    put("assign", {"X": [name]}, {"Out": [snapshot]}, OpRole.Optimize)
