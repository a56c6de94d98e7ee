"""`fluid.contrib.utils.lookup_table_utils`: programs and files of jobs whose look-up table lies on the
servers, for one process alone.
"""

from __future__ import annotations

import os
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.saving.distributed import read_whole
from fluidlite.saving.variables import get_program_persistable_vars, load_vars, put_values

__all__ = [
    "convert_dist_to_sparse_program",
    "load_persistables_for_increment",
    "load_persistables_for_inference",
]


def convert_dist_to_sparse_program(program: Program) -> Program | None:
    """Let a trainer's program look its table up in this process: each request to the servers becomes look-ups
    with sparse gradients.

    The program itself is changed, and given back; None, and nothing is changed, where no table is
    distributed.
    """
    if not program._distributed_lookup_table:
        return None
    block = program.global_block()
    requests = [op for op in block.ops if op.type == "distributed_lookup_table"]
    block.insert_ops({}, {op: _lookups(op) for op in requests})
    block.set_ops([op for op in block.ops if op not in requests])
    return program


def _lookups(request: Operator) -> list[Operator]:
    """The look-ups that a request to the servers stands for."""
    block = request.block
    attrs = {
        "is_sparse": True,
        "is_distributed": False,
        "padding_idx": request.attr("padding_idx"),
        "op_role": request.attr("op_role"),
    }
    kind, pairs = request.attr("lookup_table_version"), (request.input("Ids"), request.output("Outputs"))
    made = [
        Operator.build(block, kind, {"Ids": [ids], "W": request.input("W")}, {"Out": [out]}, attrs)
        for ids, out in zip(*pairs, strict=True)
    ]
    for op in made:
        op.where = request.where
    return made


def load_persistables_for_increment(
    dirname: str,
    executor: Any,
    program: Program,
    lookup_table_var: Variable | str,
    lookup_table_var_path: str,
) -> None:
    """Load what training goes on from: the persistable variables of `dirname`, and the table of the file
    `lookup_table_var_path`.
    """
    name = lookup_table_var if isinstance(lookup_table_var, str) else lookup_table_var.name
    _load_but(dirname, executor, program, name)
    folder, file = os.path.split(os.path.abspath(lookup_table_var_path))
    put_values({name: read_whole(folder, file)}, executor)


def load_persistables_for_inference(
    dirname: str, executor: Any, program: Program, lookup_table_var_name: str
) -> None:
    """Load the persistable variables of `dirname`, the table from the parts that servers have saved there, in
    `__lookup_table__`.
    """
    _load_but(dirname, executor, program, lookup_table_var_name)
    put_values({lookup_table_var_name: read_whole(dirname, lookup_table_var_name)}, executor)


def _load_but(dirname: str, executor: Any, program: Program, table: str) -> None:
    if not os.path.isdir(dirname):
        raise ArgumentError(f"{dirname} is not a folder to load variables from")
    wanted = [var for var in get_program_persistable_vars(program) if var.name != table]
    load_vars(executor, dirname, program, vars=wanted)
