"""`fluid.transpiler.details`: parts of fluid's transpilers, under fluid's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.show.code import block_to_code, program_to_code
from fluidlite.show.code import op_code as op_to_code
from fluidlite.show.code import variable_code as variable_to_code
from fluidlite.transpiler.details.checkport import wait_server_ready
from fluidlite.transpiler.details.program_utils import delete_ops, find_op_by_input_arg, find_op_by_output_arg
from fluidlite.transpiler.details.ufind import UnionFind
from fluidlite.transpiler.details.vars_distributed import VarDistributed, VarsDistributed, VarStruct

__all__ = [
    "UnionFind",
    "VarDistributed",
    "VarStruct",
    "VarsDistributed",
    "block_to_code",
    "delete_ops",
    "find_op_by_input_arg",
    "find_op_by_output_arg",
    "op_to_code",
    "program_to_code",
    "variable_to_code",
    "wait_server_ready",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
