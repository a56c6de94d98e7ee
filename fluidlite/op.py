"""`fluid.op`: single ops, made from names and run on the variables of a scope without a program; and the
declarations of op types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import UnknownOpError, UnsupportedError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import Place
from fluidlite.compat.op_protos import all_op_protos as get_all_op_protos
from fluidlite.compat.op_protos import attr_value, make_op_desc, message, op_proto
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.ir.operator import Operator as ProgramOperator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = [
    "CondOp",
    "DynamicRecurrentOp",
    "OpDescCreationMethod",
    "OpInfo",
    "Operator",
    "RecurrentOp",
    "ScopeOperator",
    "create_op_creation_method",
    "get_all_op_protos",
    "is_str",
]


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

    @classmethod
    def create(cls, data: bytes) -> ScopeOperator:
        """The op that the bytes of an OpDesc message describe."""
        desc = message("OpDesc").FromString(data)
        slots = {slot.parameter: list(slot.arguments) for slot in (*desc.inputs, *desc.outputs)}
        return cls(desc.type, {**slots, **{attr.name: attr_value(attr) for attr in desc.attrs}})

    def type(self) -> str:
        """The op type."""
        return self._op.type

    def inputs(self) -> dict[str, list[str]]:
        """Input slot -> names, for every slot that the op type has."""
        return {slot: list(self._op.inputs.get(slot, ())) for slot in sorted(self._slots("inputs"))}

    def outputs(self) -> dict[str, list[str]]:
        """Output slot -> names, for every slot that the op type has."""
        return {slot: list(self._op.outputs.get(slot, ())) for slot in sorted(self._slots("outputs"))}

    def _slots(self, kind: str) -> list[str]:
        definition = registry.get(self._op.type)
        slots = definition.inputs if kind == "inputs" else definition.outputs
        return [slot for slot in slots if slot not in definition.later]

    def input_vars(self) -> list[str]:
        """All names read."""
        return self._op.input_arg_names

    def output_vars(self) -> list[str]:
        """All names written."""
        return self._op.output_arg_names

    def no_intermediate_outputs(self) -> list[str]:
        """Names written, but for those that only a gradient reads."""
        proto = op_proto(registry.get(self._op.type))
        slots = [slot.name for slot in proto.outputs if not slot.intermediate]
        return [name for slot in slots for name in self._op.outputs.get(slot, ())]

    def support_gpu(self) -> bool:
        """True if the op has a kernel, which here runs on every place."""
        return registry.get(self._op.type).compute is not None

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
        return (
            f"Op({self.type()}), inputs:{_slots_text(self.inputs())}, outputs:{_slots_text(self.outputs())}."
        )


def _slots_text(slots: dict[str, list[str]]) -> str:
    return "{" + ", ".join(f"{slot}[{', '.join(names)}]" for slot, names in slots.items()) + "}"


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


class OpInfo:
    """An op type: what makes one, and the names of its slots and attributes.

    inputs, outputs: (slot, True if it takes any number of variables). attrs: names.
    """

    def __init__(self, name: str, method: Any, inputs: Any, outputs: Any, attrs: Any) -> None:
        self.name, self.method = name, method
        self.inputs, self.outputs, self.attrs = inputs, outputs, attrs


class OpDescCreationMethod:
    """Makes the OpDesc message of one op, with slots and attributes as keywords."""

    def __init__(self, op_proto: Any) -> None:
        if not isinstance(op_proto, message("OpProto")):
            raise TypeError("Type of op_proto should be OpProto in PaddlePaddle.")
        self.__op_proto__ = op_proto

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args:
            raise ValueError("Only keyword arguments are supported.")
        return make_op_desc(self.__op_proto__, kwargs)

    @staticmethod
    def any_is_true(generator: Any) -> bool:
        """True if one item is."""
        return any(generator)


def create_op_creation_method(op_proto: Any) -> OpInfo:
    """The names of a declared op type, and a method that makes such an op for a scope."""

    def make(*args: Any, **kwargs: Any) -> ScopeOperator:
        if args:
            raise ValueError("Only keyword arguments are supported.")
        return ScopeOperator(op_proto.type, kwargs)

    return OpInfo(
        name=op_proto.type,
        method=make,
        inputs=[(slot.name, slot.duplicable) for slot in op_proto.inputs],
        outputs=[(slot.name, slot.duplicable) for slot in op_proto.outputs],
        attrs=[attr.name for attr in op_proto.attrs],
    )


class OperatorFactory:
    """Makes ops: `Operator("sum", X=["a", "b"], Out="c")`, slots and attributes as keywords."""

    def __call__(self, *args: Any, **kwargs: Any) -> ScopeOperator:
        if len(args) > 1 or (not args and "type" not in kwargs):
            raise ValueError(
                'Except the argument "type",all of the other arguments should be keyword arguments.'
            )
        op_type = args[0] if args else kwargs.pop("type")
        if not is_str(op_type):
            raise ValueError(f"The operator: {op_type} is not registered.")
        try:
            return ScopeOperator(op_type, kwargs)
        except UnknownOpError:
            raise ValueError(f"The operator: {op_type} is not registered.") from None

    @staticmethod
    def types() -> list[str]:
        """All op types."""
        return registry.known_types()

    @staticmethod
    def get_op_info(t: str) -> OpInfo:
        """An op type's names; ValueError for one that is not registered."""
        found = registry.find(t)
        if found is None:
            raise ValueError(f"The operator: {t} is not registered.")
        return create_op_creation_method(op_proto(found))

    def get_op_input_names(self, type: str) -> list[str]:
        """The input slots of an op type."""
        return [name for name, _ in self.get_op_info(type).inputs]

    def get_op_output_names(self, type: str) -> list[str]:
        """The output slots of an op type."""
        return [name for name, _ in self.get_op_info(type).outputs]

    def get_op_attr_names(self, type: str) -> list[str]:
        """The attributes of an op type, with those that every op carries."""
        return list(self.get_op_info(type).attrs)


class _WholeNetwork:
    """An op type that stood for a network of its own, as 1.8.5 names it; it has no such ops either."""

    def __init__(self, op_type: str) -> None:
        self.type = op_type

    def __call__(self, *unused: Any, **options: Any) -> Any:
        raise UnsupportedError(
            f"there are no {self.type!r} ops that hold a network of their own; "
            "write the block with fluid.layers (StaticRNN, DynamicRNN, cond)"
        )


def is_str(s: object) -> bool:
    """True for a text."""
    return isinstance(s, str)


Operator = OperatorFactory()
RecurrentOp, DynamicRecurrentOp, CondOp = map(_WholeNetwork, ("recurrent", "dynamic_recurrent", "cond"))

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
