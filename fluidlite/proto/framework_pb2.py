"""`fluid.proto.framework_pb2`: the messages of programs;
`ProgramDesc.FromString(program.desc.serialize_to_string())`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper  # type: ignore[import-untyped]

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.framework_pb import ATTR_TYPES, declared

__all__ = [
    "AttrType",
    "BlockDesc",
    "CompatibleInfo",
    "OpCompatibleMap",
    "OpDesc",
    "OpProto",
    "ProgramDesc",
    "VarDesc",
    "VarType",
    "Version",
]

_messages = declared("string")
BlockDesc, OpDesc, ProgramDesc, VarDesc, VarType, Version = (
    _messages[name] for name in ("BlockDesc", "OpDesc", "ProgramDesc", "VarDesc", "VarType", "Version")
)
CompatibleInfo, OpCompatibleMap, OpProto = (
    _messages[name] for name in ("CompatibleInfo", "OpCompatibleMap", "OpProto")
)
AttrType: Any = EnumTypeWrapper(ProgramDesc.DESCRIPTOR.file.enum_types_by_name["AttrType"])
"""The enumeration of attribute types; its members are names of this module (`framework_pb2.INT`)."""

globals().update({name: number for name, number in ATTR_TYPES.items() if not name.startswith("_")})

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
