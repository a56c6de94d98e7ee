"""`fluid.framework`: the IR's classes and guards under the names that fluid programs import them by."""
from __future__ import annotations

from fluidlite import unique_name
from fluidlite.dtypes import convert_np_dtype_to_dtype_
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import (
    Program,
    current_device,
    default_main_program,
    default_startup_program,
    device_guard,
    name_scope,
    program_guard,
    switch_main_program,
    switch_startup_program,
)
from fluidlite.ir.variable import Parameter, Variable

__all__ = [
    "Block", "OpRole", "Operator", "Parameter", "Program", "Variable", "convert_np_dtype_to_dtype_", "current_device",
    "default_main_program", "default_startup_program", "device_guard", "grad_var_name", "in_dygraph_mode", "name_scope",
    "program_guard", "switch_main_program", "switch_startup_program", "unique_name",
]


def grad_var_name(var_name: str) -> str:
    """The name of a variable's gradient."""
    return var_name + "@GRAD"


def in_dygraph_mode() -> bool:
    """False: FluidLite is the static graph."""
    return False


def _get_var(name: str, program: Program | None = None) -> Variable:
    """The variable `name` of `program`'s global block."""
    return (program or default_main_program()).global_block().var(name)
