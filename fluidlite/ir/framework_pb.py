"""The messages of Paddle's framework.proto, built in a pool of their own so that they never meet Paddle's.

Field numbers are those that PaddlePaddle 1.8.5 and 2.6.2 declare. Strings are declared as bytes, which the
wire does not tell apart: a call stack may hold source lines of any encoding, and decoding is
`fluidlite.ir.proto`'s business. Programs that read descriptions by themselves get them with text, from
`fluid.proto.framework_pb2`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

__all__ = [
    "ATTR_TYPES",
    "BlockDesc",
    "DecodeError",
    "OpDesc",
    "ProgramDesc",
    "TensorDesc",
    "VarDesc",
    "attr_type_name",
    "declared",
    "parsed",
]

_PACKAGE = "paddle.framework.proto"
_ENUMS = {
    # in the order of their numbers, which start at 0
    "AttrType": "INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS FLOAT64S VAR "
    "VARS FLOAT64 SCALAR "
    "SCALARS",
    "VarType.Type": "BOOL INT16 INT32 INT64 FP16 FP32 FP64 LOD_TENSOR SELECTED_ROWS FEED_MINIBATCH "
    "FETCH_LIST STEP_SCOPES "
    "LOD_RANK_TABLE LOD_TENSOR_ARRAY PLACE_LIST READER _16 RAW TUPLE SIZE_T UINT8 INT8 BF16 COMPLEX64 "
    "COMPLEX128 "
    "STRING STRINGS VOCAB FEED_LIST PSTRING SPARSE_COO SPARSE_CSR",
    "CompatibleInfo.Type": "COMPATIBLE DEFINITELY_NOT POSSIBLE BUG_FIX PRECISION_CHANGE",
    "Scalar.Type": "_0 BOOLEAN LONG FLOAT64 COMPLEX128",
}
# message -> its fields: number, name, ! required, * repeated, and the type: a message or enum of this file,
# or a scalar
_MESSAGES = {
    "Version": "1 version int64",
    "Complex": "1 r! double, 2 i! double",
    "Scalar": "1 type! Scalar.Type, 2 b bool, 3 i int64, 4 r double, 5 c Complex",
    "OpDesc": "3 type! bytes, 1 inputs* OpDesc.Var, 2 outputs* OpDesc.Var, 4 attrs* OpDesc.Attr, 5 is_target "
    "bool",
    "OpDesc.Var": "1 parameter! bytes, 2 arguments* bytes",
    "OpDesc.Attr": "1 name! bytes, 2 type! AttrType, 3 i int32, 4 f float, 5 s bytes, 6 ints* int32, 7 "
    "floats* float, "
    "8 strings* bytes, 10 b bool, 11 bools* bool, 12 block_idx int32, 13 l int64, 14 blocks_idx* int32, "
    "15 longs* int64, 16 float64s* double, 17 var_name bytes, 18 vars_name* bytes, 19 float64 double, "
    "20 scalar Scalar, 21 scalars* Scalar",
    "VarType": "1 type! VarType.Type, 2 selected_rows VarType.TensorDesc, 3 lod_tensor "
    "VarType.LoDTensorDesc, "
    "4 tensor_array VarType.LoDTensorDesc, 5 reader VarType.ReaderDesc",
    "VarType.TensorDesc": "1 data_type! VarType.Type, 2 dims* int64",
    "VarType.LoDTensorDesc": "1 tensor! VarType.TensorDesc, 2 lod_level int32",
    "VarType.ReaderDesc": "1 lod_tensor* VarType.LoDTensorDesc",
    "VarDesc": "1 name! bytes, 2 type! VarType, 3 persistable bool, 4 need_check_feed bool, 5 is_parameter "
    "bool, "
    "6 stop_gradient bool",
    "BlockDesc": "1 idx! int32, 2 parent_idx! int32, 3 vars* VarDesc, 4 ops* OpDesc, 5 forward_block_idx "
    "int32",
    "CompatibleInfo": "1 version! bytes, 2 type! CompatibleInfo.Type",
    "OpCompatibleMap": "1 pair* OpCompatibleMap.OpCompatiblePair, 2 default_required_version bytes",
    "OpCompatibleMap.OpCompatiblePair": "1 op_name! bytes, 2 compatible_info! CompatibleInfo",
    "OpVersion": "1 version! int32",
    "OpVersionMap": "1 pair* OpVersionMap.OpVersionPair",
    "OpVersionMap.OpVersionPair": "1 op_name! bytes, 2 op_version! OpVersion",
    "ProgramDesc": "1 blocks* BlockDesc, 4 version Version, 3 op_compatible_map OpCompatibleMap, "
    "5 op_version_map OpVersionMap",
    "OpProto": "1 type! bytes, 2 inputs* OpProto.Var, 3 outputs* OpProto.Var, 4 attrs* OpProto.Attr, "
    "5 comment! bytes",
    "OpProto.Var": "1 name! bytes, 2 comment! bytes, 3 duplicable bool, 4 intermediate bool, "
    "5 dispensable bool",
    "OpProto.Attr": "1 name! bytes, 2 type! AttrType, 3 comment! bytes, 4 generated bool",
}


ATTR_TYPES = {name: number for number, name in enumerate(_ENUMS["AttrType"].split())}
"""The members of the enumeration AttrType, which are more than fluid's."""


def attr_type_name(number: int) -> str:
    """The name of a number of the enumeration AttrType."""
    return list(ATTR_TYPES)[number]


def _add_field(message: Any, text: str, strings: str) -> None:
    number, name, type_name = text.split()
    field = message.field.add(name=name.rstrip("!*"), number=int(number))
    field.label = field.LABEL_OPTIONAL
    if name.endswith("!"):
        field.label = field.LABEL_REQUIRED
    elif name.endswith("*"):
        field.label = field.LABEL_REPEATED
    if type_name in _MESSAGES or type_name in _ENUMS:
        field.type = field.TYPE_ENUM if type_name in _ENUMS else field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{type_name}"
    else:
        field.type = getattr(field, f"TYPE_{(strings if type_name == 'bytes' else type_name).upper()}")
    # proto2 has defaults, and Paddle's file declares this one
    if field.name == "forward_block_idx":
        field.default_value = "-1"


def _file(strings: str) -> Any:
    from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]

    file = descriptor_pb2.FileDescriptorProto(
        name="fluidlite/framework.proto", package=_PACKAGE, syntax="proto2"
    )
    messages: dict[str, Any] = {}
    for name, fields in _MESSAGES.items():
        outer, _, inner = name.rpartition(".")
        message = messages[name] = (
            messages[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=name)
        )
        for text in fields.split(", "):
            _add_field(message, text, strings)
    for name, values in _ENUMS.items():
        outer, _, inner = name.rpartition(".")
        enum = (messages[outer] if outer else file).enum_type.add(name=inner)
        for number, value in enumerate(values.split()):
            # a name with an underscore holds the place of a number that Paddle left out
            if not value.startswith("_"):
                enum.value.add(name=value, number=number)
    return file


@functools.cache
def declared(strings: str = "bytes") -> dict[str, Any]:
    """Message name -> class, for the messages that stand for themselves; their text is of the protobuf
    type `strings`.
    """
    # protobuf takes as long to import as all of fluidlite.ir, and most programs are neither saved nor loaded
    from google.protobuf import descriptor_pool, message_factory  # type: ignore[import-untyped]

    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file(strings))
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
        if "." not in name
    }


@functools.cache
def _messages() -> dict[str, Any]:
    """The messages by the names that this module has them under, and the error of bytes that are none."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    found = declared()
    return {
        "BlockDesc": found["BlockDesc"],
        "DecodeError": DecodeError,
        "OpDesc": found["OpDesc"],
        "ProgramDesc": found["ProgramDesc"],
        "TensorDesc": found["VarType"].TensorDesc,  # stands in front of a tensor's data in a file
        "VarDesc": found["VarDesc"],
    }


def parsed(message: Any, data: bytes) -> Any:
    """The message in `data`; DecodeError where it is none, MemoryError where there was no memory to tell."""
    from google.protobuf.message import DecodeError

    try:
        return message.FromString(data)
    except DecodeError as error:
        if "alloc failed" in str(error):
            raise MemoryError(f"there is no memory for a message of {len(data)} bytes") from error
        raise


def __getattr__(name: str) -> Any:
    if name not in _messages():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _messages()[name]


if TYPE_CHECKING:  # made at first use, by `__getattr__`
    BlockDesc: Any
    DecodeError: Any
    OpDesc: Any
    ProgramDesc: Any
    TensorDesc: Any
    VarDesc: Any
