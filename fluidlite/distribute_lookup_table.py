"""`fluid.distribute_lookup_table`: where a program looks things up in the table that servers hold."""

from __future__ import annotations

from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable

__all__ = [
    "find_distributed_lookup_table",
    "find_distributed_lookup_table_inputs",
    "find_distributed_lookup_table_outputs",
]

LOOKUP_TABLE_TYPE = "lookup_table"


def find_distributed_lookup_table(program: Program) -> str | None:
    """The name of the only table that is distributed; None where none is. RuntimeError where there are
    several.
    """
    lookups = [op for op in program.global_block().ops if op.type == LOOKUP_TABLE_TYPE]
    tables = {op.input("W")[0] for op in lookups if op.attr("is_distributed") is True}
    if len(tables) > 1:
        raise RuntimeError("all distributed lookup_table_ops should have only one table")
    if any(op.input("W")[0] in tables and op.attr("is_distributed") is not True for op in lookups):
        raise AssertionError(
            f"the table {next(iter(tables))!r} is distributed in some lookups and not in others"
        )
    return next(iter(tables), None)


def find_distributed_lookup_table_inputs(program: Program, table_name: str) -> list[Variable]:
    """The ids that are looked up in `table_name`."""
    return _of_lookups(program, table_name, outputs=False)


def find_distributed_lookup_table_outputs(program: Program, table_name: str) -> list[Variable]:
    """The rows that come out of `table_name`."""
    return _of_lookups(program, table_name, outputs=True)


def _of_lookups(program: Program, table_name: str, outputs: bool) -> list[Variable]:
    block = program.global_block()
    found = [
        name
        for op in block.ops
        if op.type == LOOKUP_TABLE_TYPE and op.input("W")[0] == table_name
        for name in (op.output("Out") if outputs else op.input("Ids"))
    ]
    return [block.vars[name] for name in found]
