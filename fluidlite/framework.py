"""`fluid.framework`: the IR's classes and guards under the names that fluid programs import them by."""
from __future__ import annotations

from typing import Any

from fluidlite import registry, unique_name
from fluidlite.dtypes import DTypeLike, convert_np_dtype_to_dtype_, is_float, to_vartype
from fluidlite.flags import get_flags, require_version, set_flags
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
from fluidlite.place import CPUPlace, CUDAPlace, Place, cpu_places, cuda_pinned_places, cuda_places, is_compiled_with_cuda

__all__ = [
    "Block", "OpProtoHolder", "OpRole", "Operator", "Parameter", "Program", "Variable", "convert_np_dtype_to_dtype_", "cpu_places",
    "cuda_pinned_places", "cuda_places", "current_device", "default_main_program", "default_startup_program", "device_guard",
    "dtype_is_floating", "generate_control_dev_var_name", "get_flags", "grad_var_name", "in_dygraph_mode", "is_compiled_with_cuda",
    "name_scope", "program_guard", "require_version", "set_flags", "switch_main_program", "switch_startup_program", "unique_name",
]

EMPTY_VAR_NAME = registry.EMPTY_VAR
TEMP_VAR_NAME = "@TEMP@"
GRAD_VAR_SUFFIX = registry.GRAD_SUFFIX
ZERO_VAR_SUFFIX = "@ZERO"
CONTROL_DEP_VAR_PREFIX = "__control_var"


def grad_var_name(var_name: str) -> str:
    """The name of a variable's gradient."""
    return var_name + GRAD_VAR_SUFFIX


def generate_control_dev_var_name() -> str:
    """A new name for a variable that only orders ops."""
    return f"{CONTROL_DEP_VAR_PREFIX}@{unique_name.generate(CONTROL_DEP_VAR_PREFIX)}"


def in_dygraph_mode() -> bool:
    """False: FluidLite is the static graph."""
    return False


def dtype_is_floating(dtype: DTypeLike) -> bool:
    """Whether a dtype holds real numbers."""
    return is_float(to_vartype(dtype))


def _current_expected_place() -> Place:
    """The place of an executor that is given none."""
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


def _get_var(name: str, program: Program | None = None) -> Variable:
    """The variable `name` of `program`'s global block."""
    return (program or default_main_program()).global_block().var(name)


class OpProtoHolder:
    """The registered ops, as fluid's tests and tools ask for them."""

    _instance: OpProtoHolder | None = None

    @classmethod
    def instance(cls) -> OpProtoHolder:
        """The one holder there is."""
        cls._instance = cls._instance or cls()
        return cls._instance

    def get_op_proto(self, type: str) -> Any:
        """What is known of an op type (`fluidlite.registry.Op`); UnknownOpError for a type that is not registered."""
        return registry.get(type)

    def has_op_proto(self, type: str) -> bool:
        """Whether an op type is registered."""
        return registry.find(type) is not None

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        """The attributes that every op carries."""
        return {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"}
