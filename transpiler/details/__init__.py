"""What fluid's transpilers are made of, under fluid's names."""
from __future__ import annotations

from fluidlite.transpiler.details.checkport import wait_server_ready
from fluidlite.transpiler.details.program_utils import delete_ops, find_op_by_input_arg, find_op_by_output_arg
from fluidlite.transpiler.details.ufind import UnionFind
from fluidlite.transpiler.details.vars_distributed import VarDistributed, VarsDistributed, VarStruct

__all__ = ["UnionFind", "VarDistributed", "VarStruct", "VarsDistributed", "delete_ops", "find_op_by_input_arg",
           "find_op_by_output_arg", "wait_server_ready"]
