"""Messages of Paddle's, declared from a table in a pool of their own, so that they never meet Paddle's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["declare_messages", "text_format"]

_LABELS = {"!": "LABEL_REQUIRED", "?": "LABEL_OPTIONAL", "*": "LABEL_REPEATED"}


def declare_messages(
    package: str, messages: Mapping[str, str], enums: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Message name -> class. `messages` has for each its fields, `number name type label [default]`, with
    commas between them; `enums` the members, in the order of their numbers, of `Message.Enum`.
    """
    # most programs read no such files, and protobuf takes longer to import than any module here
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    enums = enums or {}
    file = descriptor_pb2.FileDescriptorProto(
        name=f"fluidlite/{package}.proto", package=package, syntax="proto2"
    )
    made = {name: file.message_type.add(name=name) for name in messages}
    for name, members in enums.items():
        outer, _, inner = name.partition(".")
        enum = made[outer].enum_type.add(name=inner)
        for value, member in enumerate(members.split()):
            enum.value.add(name=member, number=value)
    for name, fields in messages.items():
        for text in fields.split(","):
            number, field_name, kind, label, *default = text.split()
            field = made[name].field.add(name=field_name, number=int(number))
            field.label = getattr(descriptor_pb2.FieldDescriptorProto, _LABELS[label])
            if kind in messages or kind in enums:
                field.type = field.TYPE_MESSAGE if kind in messages else field.TYPE_ENUM
                field.type_name = f".{package}.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind}")
            if default:
                field.default_value = default[0]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def text_format() -> Any:
    """protobuf's module of that name, imported at first use as above."""
    from google.protobuf import text_format as found

    return found
