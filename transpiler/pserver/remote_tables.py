"""Tables whose rows a trainer fetches from the servers as it needs them, and never holds as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.edits import drop_ops
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import REMOTE_LOOKUP
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.placement import Placement, remote_tables

__all__ = ["fake_tables", "fetch_rows_remotely"]


def fetch_rows_remotely(main: Program, placement: Placement, trainer: int) -> None:
    """Turn the lookups of a trainer's tables into requests to the servers that hold the rows."""
    tables = remote_tables(main)
    for param, pieces in placement.by_param.items():
        if not pieces[0].sparse:
            continue
        # the two versions shape their ids and rows differently, so one request cannot serve both
        for kind in sorted({op.type for op in tables[param]}):
            _look_up_together(main, [op for op in tables[param] if op.type == kind], pieces, trainer)


def _look_up_together(
    main: Program, lookups: list[Operator], pieces: tuple[Slice, ...], trainer: int
) -> None:
    """One request for all lookups that can be made at one time, and one for each run of others."""
    block = main.global_block()
    positions = {id(op): index for index, op in enumerate(block.ops)}
    edits = Insertions(block)
    for group in _groups(block.ops, lookups, positions):
        made_at = {name: index for index, op in enumerate(block.ops) for name in op.output_arg_names}
        ids = [name for op in group for name in op.input("Ids")]
        last = max((made_at.get(name, -1) for name in ids), default=-1)
        attrs = dict(
            table_names=[piece.param_name for piece in pieces],
            height_sections=[piece.shape[0] for piece in pieces],
            endpoints=[piece.endpoint for piece in pieces],
            padding_idx=group[0].attrs["padding_idx"],
            trainer_id=trainer,
            lookup_table_version=group[0].type,
        )
        slots = (
            {"Ids": [op.input("Ids")[0] for op in group], "W": group[0].input("W")},
            {"Outputs": [op.output("Out")[0] for op in group]},
        )
        # right behind the op that makes the last of the ids: every reader of the rows comes later
        put = edits.before if last < 0 else edits.after
        anchor = block.ops[max(last, 0)]
        new = put(anchor, REMOTE_LOOKUP, *slots, group[0].attrs["op_role"], **attrs)
        new.where = group[0].where
    edits.apply()
    drop_ops(block, lookups)


def _groups(
    ops: list[Operator], lookups: Iterable[Operator], positions: dict[int, int]
) -> list[list[Operator]]:
    """Lookups in runs whose ids are all there before the first reader of any of their rows, with one
    padding_idx each.
    """
    groups: list[list[Operator]] = []
    for op in lookups:
        if groups and _fits(ops, [*groups[-1], op], positions):
            groups[-1].append(op)
        else:
            groups.append([op])
    return groups


def _fits(ops: list[Operator], group: list[Operator], positions: dict[int, int]) -> bool:
    ids = {name for op in group for name in op.input("Ids")}
    rows = {name for op in group for name in op.output("Out")}
    makers = [index for index, op in enumerate(ops) if ids & set(op.output_arg_names)]
    made = max(makers, default=-1)
    members = {positions[id(op)] for op in group}
    read = min(
        (index for index, op in enumerate(ops) if index not in members and rows & set(op.input_arg_names)),
        default=len(ops),
    )
    # a request has one padding_idx for all of its ids
    return made < read and len({op.attrs["padding_idx"] for op in group}) == 1


def fake_tables(startup: Program, tables: Iterable[str]) -> None:
    """A trainer's startup program does not fill the tables that live on the servers."""
    block = startup.global_block()
    names = [name for name in tables if name in block.vars]
    drop_ops(block, [op for op in block.ops if any(name in names for name in op.output_arg_names)])
    for name in names:
        table = block.vars[name]
        block.append_op("fake_init", {}, {"Out": table}, {"shape": list(table.shape)})
