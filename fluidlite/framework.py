"""`fluid.framework`: the IR's classes and guards under the names that fluid programs import them by."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fluidlite import unique_name
from fluidlite.base import registry
from fluidlite.base.dtypes import DTypeLike, convert_np_dtype_to_dtype_, is_float, to_vartype
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.flags import get_flags, require_version, set_flags
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import (
    CPUPlace,
    CUDAPlace,
    Place,
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    is_compiled_with_cuda,
)
from fluidlite.compat.op_protos import all_op_protos as get_all_op_protos
from fluidlite.compat.op_protos import op_proto
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded, offered
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import (
    Program,
    current_device,
    current_name_scope,
    default_main_program,
    default_startup_program,
    device_guard,
    name_scope,
    program_guard,
    switch_main_program,
    switch_startup_program,
)
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.values.scope import Scope, _switch_scope

if TYPE_CHECKING:
    from fluidlite.compat.ir_graph import IrGraph, IrNode, IrOpNode, IrVarNode

__all__ = [
    "Block",
    "IrGraph",
    "IrNode",
    "IrOpNode",
    "IrVarNode",
    "OpProtoHolder",
    "OpRole",
    "Operator",
    "Parameter",
    "Program",
    "Variable",
    "convert_np_dtype_to_dtype_",
    "cpu_places",
    "cuda_pinned_places",
    "cuda_places",
    "current_device",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "dtype_is_floating",
    "generate_control_dev_var_name",
    "get_flags",
    "grad_var_name",
    "in_dygraph_mode",
    "is_compiled_with_cuda",
    "dygraph_not_support",
    "dygraph_only",
    "get_all_op_protos",
    "load_op_library",
    "name_scope",
    "program_guard",
    "require_version",
    "reset_default_programs",
    "set_flags",
    "switch_main_program",
    "switch_startup_program",
    "unique_name",
]


def reset_default_programs(scope: bool = False) -> None:
    """Begin anew, as a cell of a notebook does that runs again: empty default programs, and names that
    count from 0.

    With `scope` the values of the global scope go, too, those of trained parameters among them; without it
    they stay, and a startup program that runs fills them again.
    """
    switch_main_program(type(default_main_program())())
    startup = type(default_startup_program())()
    startup._is_start_up_program_ = True
    switch_startup_program(startup)
    unique_name.switch()
    if scope:
        _switch_scope(Scope())


EMPTY_VAR_NAME = registry.EMPTY_VAR
TEMP_VAR_NAME = "@TEMP@"
GRAD_VAR_SUFFIX = registry.GRAD_SUFFIX
ZERO_VAR_SUFFIX = "@ZERO"
CONTROL_DEP_VAR_PREFIX = "__control_var"


_GRAPHS = ("IrGraph", "IrNode", "IrOpNode", "IrVarNode")


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
    """True if a dtype holds real numbers."""
    return is_float(to_vartype(dtype))


def _current_expected_place() -> Place:
    """The place of an executor that is given none."""
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


_imported, _public = imported_names(__name__)


def _load(name: str) -> Any:
    if name in _GRAPHS:  # start-up time: the classes of graphs, and what draws them, take 13 ms to load
        return offered(vars(importlib.import_module("fluidlite.compat.ir_graph"))[name], __name__)
    if name in ("_main_program_", "_startup_program_"):
        return default_main_program() if name == "_main_program_" else default_startup_program()
    return _imported(name)


def _full_name_scope() -> str:
    return current_name_scope()


def _cpu_num() -> int:
    return int(os.environ.get("CPU_NUM", 1))


def _dygraph_tracer() -> None:
    """None: there is no tracer in static mode."""


def dygraph_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate what only dygraph mode has: AssertionError when it is called."""

    def refuse(*unused: Any, **options: Any) -> Any:
        raise AssertionError(
            f"{function.__name__} belongs to dygraph mode, but FluidLite runs static graphs only"
        )

    return refuse


_dygraph_only_ = dygraph_only


def dygraph_not_support(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate what dygraph mode lacks: nothing changes here."""
    return function


_dygraph_not_support_ = dygraph_not_support


def load_op_library(lib_filename: str) -> None:
    """EnforceNotMet: compiled libraries hold Paddle's C++; declare an op with `fluidlite.base.registry.Op`
    instead.
    """
    raise EnforceNotMet(
        f"{lib_filename!r} cannot be loaded: ops are declared in Python here, with fluidlite.base.registry.Op"
    )


def _get_var(name: str, program: Program | None = None) -> Variable:
    """The variable `name` of `program`'s global block."""
    assert program is None or isinstance(program, Program), f"{program!r} is not a Program"
    return (program or default_main_program()).global_block().var(name)


class OpProtoHolder:
    """The registered ops, as fluid's tests and tools ask for them."""

    _instance: OpProtoHolder | None = None

    @classmethod
    def instance(cls) -> OpProtoHolder:
        """The one holder there is."""
        cls._instance = cls._instance or object.__new__(cls)
        return cls._instance

    def __init__(self) -> None:
        raise AssertionError("Please use `instance()` to get the OpProtoHolder object")

    @property
    def op_proto_map(self) -> dict[str, Any]:
        """Op type -> its declaration."""
        return {proto.type: proto for proto in get_all_op_protos()}

    def get_op_proto(self, type: str) -> Any:
        """The declaration of an op type; UnknownOpError for a type that is not registered."""
        return op_proto(registry.get(type))

    def has_op_proto(self, type: str) -> bool:
        """True if an op type is registered."""
        return registry.find(type) is not None

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        """The attributes that every op carries."""
        return {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device"}


if not TYPE_CHECKING:
    globals().update(guarded(__name__, set(__all__) - set(_GRAPHS)))
    __getattr__, __dir__ = _load, _public
