"""The declarations of op types as Paddle's messages (OpProto), and ops made from them (OpDesc)."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from fluidlite.base import proto_marks, registry
from fluidlite.base.abstract import abstract
from fluidlite.base.kept_attrs import kept_attrs
from fluidlite.ir.attributes import COMMON_TYPES

__all__ = ["all_op_protos", "attr_value", "make_op_desc", "message", "op_proto"]

# the field of OpDesc.Attr that holds a value of each type
_FIELDS = {
    "INT": "i",
    "FLOAT": "f",
    "STRING": "s",
    "BOOLEAN": "b",
    "LONG": "l",
    "INTS": "ints",
    "FLOATS": "floats",
    "STRINGS": "strings",
    "BOOLEANS": "bools",
    "LONGS": "longs",
}


def _messages() -> Any:
    # start-up time: protobuf takes as long to load as all of fluidlite.ir, and few programs ask for messages
    return importlib.import_module("fluidlite.ir.framework_pb")


def message(name: str) -> Any:
    """The class of a message, such as `OpProto`; the first call loads protobuf."""
    return _messages().declared("string")[name]


def _add_slot(slots: Any, op: registry.Op, slot: registry.Slot, intermediate: bool, optional: bool) -> None:
    """A slot with Paddle's marks: those that its declaration gives, but for what is on the lists."""
    key = f"{op.type}.{slot.name}"
    slots.add(
        name=slot.name,
        comment="",
        duplicable=(slot.many or key in proto_marks.MANY) and key not in proto_marks.SINGLE,
        intermediate=(intermediate or key in proto_marks.INTERMEDIATE)
        and key not in proto_marks.NOT_INTERMEDIATE,
        dispensable=(optional or key in proto_marks.DISPENSABLE) and key not in proto_marks.NEEDED,
    )


def op_proto(op: registry.Op) -> Any:
    """Inputs, outputs and attributes of an op type."""
    proto = message("OpProto")(type=op.type, comment=f"The operator {op.type}: {op.slots}.")
    for slot in op.inputs.values():
        if slot.name not in op.later:
            _add_slot(proto.inputs, op, slot, False, slot.optional)
    for slot in op.outputs.values():
        if slot.name not in op.later:
            _add_slot(proto.outputs, op, slot, slot.optional, False)
    for name, attr in {**op.attr_defs, **kept_attrs(op.type)}.items():
        if not attr.later:
            proto.attrs.add(name=name, type=int(attr.type), comment="", generated=False)
    for name, kind in COMMON_TYPES.items():
        proto.attrs.add(name=name, type=int(kind), comment="", generated=False)
    return proto


def all_op_protos() -> list[Any]:
    """The declarations of all op types."""
    return [op_proto(registry.get(op_type)) for op_type in registry.known_types()]


def make_op_desc(proto: Any, arguments: dict[str, Any]) -> Any:
    """The OpDesc of one op; `arguments` hold names by slot, and attributes.

    A name is one argument of its slot. ValueError where a slot of one variable gets several, and
    AbstractMethodError for attributes that hold blocks.
    """
    desc = message("OpDesc")(type=proto.type)
    for kind, slots, made in (("Input", proto.inputs, desc.inputs), ("Output", proto.outputs, desc.outputs)):
        for slot in slots:
            names = arguments.get(slot.name, [])
            names = [names] if isinstance(names, str) else list(names)
            if len(names) > 1 and not slot.duplicable:
                raise ValueError(
                    f"{kind} {slot.name} expects only one {kind.lower()}, but {len(names)} are given."
                )
            made.add(parameter=slot.name, arguments=names)
    for attr in proto.attrs:
        value = arguments.get(attr.name)
        if value is not None and not attr.generated:
            _add_attr(desc.attrs, attr, value)
    return desc


def _add_attr(attrs: Any, attr: Any, value: Any) -> None:
    field = _FIELDS.get(_messages().attr_type_name(attr.type))
    if field is None:
        abstract(f"A not supported attribute type: {attr.type}.")
    made = attrs.add(name=attr.name, type=attr.type)
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if field.endswith("s") and field != "s":
        getattr(made, field).extend(value)
    else:
        setattr(made, field, bool(value) if field == "b" else value)


def attr_value(attr: Any) -> Any:
    """The value of an attribute of an OpDesc message; AbstractMethodError for one that holds blocks."""
    field = _FIELDS.get(_messages().attr_type_name(attr.type))
    if field is None:
        abstract(f"A not supported attribute type: {attr.type}.")
    value = getattr(attr, field)
    return list(value) if field.endswith("s") and field != "s" else value
