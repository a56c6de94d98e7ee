"""`fluid.op`: single ops, made from names and run on the variables of a scope without a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import UnknownOpError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import Place
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.ir.operator import Operator as ProgramOperator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = ["OpInfo", "Operator", "ScopeOperator", "is_str"]


class ScopeOperator:
    """One op whose slots name variables of a scope."""

    def __init__(self, op_type: str, arguments: dict[str, Any]) -> None:
        definition = registry.get(op_type)
        inputs = {slot: arguments[slot] for slot in definition.inputs if slot in arguments}
        outputs = {slot: arguments[slot] for slot in definition.outputs if slot in arguments}
        attrs = {
            name: value for name, value in arguments.items() if name not in inputs and name not in outputs
        }
        self._op = ProgramOperator.build(Program().global_block(), op_type, inputs, outputs, attrs)

    def type(self) -> str:
        """The op type."""
        return self._op.type

    def inputs(self) -> dict[str, list[str]]:
        """Input slot -> names."""
        return dict(self._op.inputs)

    def outputs(self) -> dict[str, list[str]]:
        """Output slot -> names."""
        return dict(self._op.outputs)

    def input_vars(self) -> list[str]:
        """All names read."""
        return self._op.input_arg_names

    def output_vars(self) -> list[str]:
        """All names written."""
        return self._op.output_arg_names

    def run(self, scope: Scope, place: Place) -> None:
        """Run the op on the variables of `scope`."""
        block = self._op.block
        for name in (*self.input_vars(), *self.output_vars()):
            _declare(block, name, scope)
        # sizes that do not fit are refused before the kernel runs, as in Paddle
        self._op.infer()
        frame = Frame(block, scope)
        with np.errstate(all="ignore"):
            Interpreter(place, scope, np.random.default_rng()).run_op(self._op, frame)

    def __str__(self) -> str:
        return str(self._op)


def _declare(block: Any, name: str, scope: Scope) -> None:
    """Declare a variable as persistable, so that its value is the scope's."""
    held = scope.var(name).value
    value = held.array if isinstance(held, (LoDTensor, SelectedRows)) else None
    level = len(held.lod()) if isinstance(held, LoDTensor) else 0
    kind = VarType.SELECTED_ROWS if isinstance(held, SelectedRows) else VarType.LOD_TENSOR
    block.vars.pop(name, None)
    if value is None:
        block.create_var(name=name, type=kind, persistable=True)
    else:
        form = {"shape": value.shape, "dtype": value.dtype, "lod_level": level}
        block.create_var(name=name, type=kind, persistable=True, **form)


class OperatorFactory:
    """Makes ops: `Operator("sum", X=["a", "b"], Out="c")`, slots and attributes as keywords."""

    def __call__(self, *args: Any, **kwargs: Any) -> ScopeOperator:
        if len(args) > 1 or (not args and "type" not in kwargs):
            raise ValueError(
                'Except the argument "type",all of the other arguments should be keyword arguments.'
            )
        op_type = args[0] if args else kwargs.pop("type")
        try:
            return ScopeOperator(op_type, kwargs)
        except UnknownOpError:
            raise ValueError(f"The operator: {op_type} is not registered.") from None

    @staticmethod
    def types() -> list[str]:
        """All op types."""
        return registry.known_types()

    @staticmethod
    def get_op_input_names(type: str) -> list[str]:
        """The input slots of an op type."""
        return list(registry.get(type).inputs)

    @staticmethod
    def get_op_output_names(type: str) -> list[str]:
        """The output slots of an op type."""
        return list(registry.get(type).outputs)

    @staticmethod
    def get_op_attr_names(type: str) -> list[str]:
        """The attributes of an op type."""
        return list(registry.get(type).attr_defs)


class OpInfo:
    """An op type: what makes one, and the names of its slots and attributes."""

    def __init__(self, name: str, method: Any, inputs: Any, outputs: Any, attrs: Any) -> None:
        self.name, self.method = name, method
        self.inputs, self.outputs, self.attrs = inputs, outputs, attrs


def is_str(s: object) -> bool:
    """True for a text."""
    return isinstance(s, str)


Operator = OperatorFactory()

if not TYPE_CHECKING:
    __getattr__ = imported_names(__name__)
