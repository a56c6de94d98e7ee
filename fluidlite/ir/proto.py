"""Programs as bytes: Paddle's ProgramDesc, read and written.

What is read may come from anywhere: sizes are checked before anything is built, and whatever is wrong is a
FormatError. Attribute values of type FLOAT are 32-bit on the wire; they are read as the shortest decimal that
means the same 32-bit number, so that 0.1 written is 0.1 read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError
from fluidlite.base.exhausted import memory_errors
from fluidlite.base.flags import FIRST_OF_2X
from fluidlite.base.kept_attrs import kept_attrs
from fluidlite.base.registry import OF_2X_ATTR, ZERO_DIM_ATTR, Attr, AttrType, Spec
from fluidlite.ir import framework_pb
from fluidlite.ir.attributes import CALLSTACK_ATTR, exact_value
from fluidlite.ir.fused import unfuse
from fluidlite.ir.op_versions import check_op_versions
from fluidlite.ir.restore import MAX_BLOCKS, MAX_OPS, MAX_VARS, add_operator, add_variable
from fluidlite.ir.scalars import mark_zero_dims
from fluidlite.ir.structure import check_blocks, check_parents
from fluidlite.ir.variable import Parameter
from fluidlite.ir.where import Where

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program
    from fluidlite.ir.variable import Variable

__all__ = [
    "MAX_BYTES",
    "read_program",
    "serialize_block",
    "serialize_operator",
    "serialize_program",
    "serialize_variable",
]

MAX_BYTES = 1 << 26  # 64 MB; parameters lie in files of their own, so programs are small
_MAX_TYPE = 256
_MAX_LOD_LEVEL = 64
_LONG_LIST = 1 << 12
_MOST_FRAMES = 64
_FRAME = re.compile(r'  File "(.*)", line (\d{1,9}), in (.*)')
# the frames of a call stack that lie in Paddle itself: a user looks for the line in the script
_PADDLE = re.compile(
    r"[/\\]paddle[/\\](fluid|base|framework|static|nn|optimizer|tensor)[/\\]|^<decorator-gen|contextlib\.py$"
)


def read_program(program: Program, data: bytes) -> None:
    """Fill an empty program from ProgramDesc bytes; FormatError where they are none, or say what no program
    can say.
    """
    desc = _message(data)
    _check_counts(desc)
    # all blocks before any op: an attribute may name a block that comes later
    program.make_blocks(len(desc.blocks))
    version = desc.version.version
    if version == 0 or version >= FIRST_OF_2X:  # development builds of 2.x write 0
        program.file_version = max(version, FIRST_OF_2X)
    try:
        for block, block_desc in zip(program.blocks, desc.blocks, strict=True):
            _read_block(block, block_desc)
        # before the ops, whose reading looks variables up through the parents
        check_parents(program)
        for block, block_desc in zip(program.blocks, desc.blocks, strict=True):
            for op_desc in block_desc.ops:
                _read_op(block, op_desc)
    except UnicodeDecodeError as error:
        raise FormatError(f"a name is not UTF-8: {error.object[:80]!r}") from None
    check_blocks(program)
    program.op_versions = {
        pair.op_name.decode(errors="replace"): pair.op_version.version for pair in desc.op_version_map.pair
    }
    # before any look at the meaning of ops: some hold others
    unfuse(program)
    check_op_versions(program)
    _mark_feeds(program)
    if program.is_of_2x:
        mark_zero_dims(program)


def _message(data: bytes) -> Any:
    if len(data) > MAX_BYTES:
        raise FormatError(f"{len(data)} bytes are too many for a program (the limit is {MAX_BYTES})")
    try:
        desc = framework_pb.parsed(framework_pb.ProgramDesc, bytes(data))
    except framework_pb.DecodeError as error:
        raise FormatError(f"these {len(data)} bytes cannot be parsed as a ProgramDesc: {error}") from None
    # parsing alone lets missing required fields pass
    if not desc.IsInitialized():
        raise FormatError(
            f"these {len(data)} bytes are not a complete ProgramDesc: names, types or block "
            "numbers are missing"
        )
    return desc


def _check_counts(desc: Any) -> None:
    """FormatError for more blocks, variables or ops than any program has, and for none."""
    if not desc.blocks:
        raise FormatError("a program has at least one block, and these bytes hold none")
    counts = {
        "blocks": (len(desc.blocks), MAX_BLOCKS),
        "variables": (sum(len(block.vars) for block in desc.blocks), MAX_VARS),
        "ops": (sum(len(block.ops) for block in desc.blocks), MAX_OPS),
    }
    for what, (found, limit) in counts.items():
        if found > limit:
            raise FormatError(f"a program with {found} {what} is too large (the limit is {limit})")


def _read_block(block: Block, desc: Any) -> None:
    # attributes and parents name blocks by number, so a number has to be the position
    if desc.idx != block.idx:
        raise FormatError(f"block {block.idx} has the index {desc.idx} in the file")
    block.parent_idx = desc.parent_idx
    block.forward_block_idx = desc.forward_block_idx
    if block.idx == 0 and desc.parent_idx != -1:
        raise FormatError(f"block 0 has block {desc.parent_idx} as its parent")
    for var_desc in desc.vars:
        _read_variable(block, var_desc)


# ------------------------------------------------------------------------------------------------ variables
def _kind(number: int, what: str) -> VarType:
    try:
        return VarType(number)
    except ValueError:
        raise FormatError(f"{what}: type number {number} is not one of fluid's") from None


def _read_variable(block: Block, desc: Any) -> Variable:
    name = desc.name.decode()
    kind = _kind(desc.type.type, f"variable {name!r}")
    # a reader has a spec for each tensor that it reads; everything else has one, or none
    specs = [_spec(item, name, kind) for item in _tensors(desc.type, kind)]
    tensor = specs[0] if specs and kind != VarType.READER else Spec((), VarType.FP32, 0)
    return add_variable(
        block,
        name,
        kind=kind,
        dtype=tensor.dtype if specs and kind != VarType.READER else None,
        shape=tensor.shape,
        lod_level=tensor.lod_level,
        persistable=desc.persistable,
        need_check_feed=desc.need_check_feed,
        is_data=desc.need_check_feed,
        stop_gradient=desc.stop_gradient,
        parameter=desc.is_parameter,
        reader_specs=specs if kind == VarType.READER else (),
    )


_TENSOR_FIELDS = {
    VarType.LOD_TENSOR: "lod_tensor",
    VarType.SELECTED_ROWS: "selected_rows",
    VarType.LOD_TENSOR_ARRAY: "tensor_array",
}


def _tensors(desc: Any, kind: VarType) -> Sequence[Any]:
    """The messages that describe what a variable of that kind holds."""
    if kind == VarType.READER:
        return list(desc.reader.lod_tensor)
    field = _TENSOR_FIELDS.get(kind)
    return [getattr(desc, field)] if field and desc.HasField(field) else []


def _spec(desc: Any, name: str, kind: VarType) -> Spec:
    """Shape, dtype and level of detail from a LoDTensorDesc, or a TensorDesc as SelectedRows have it."""
    # SelectedRows have no level of detail: their message is the TensorDesc itself
    rows = kind == VarType.SELECTED_ROWS
    tensor, level = (desc, 0) if rows else (desc.tensor, desc.lod_level)
    if not 0 <= level <= _MAX_LOD_LEVEL:
        raise FormatError(f"variable {name!r} has {level} levels of detail")
    # Paddle multiplies unknown dimensions: -1 rows of 4 are -4 in its programs
    return Spec(
        tuple(dim if dim >= 0 else -1 for dim in tensor.dims),
        _kind(tensor.data_type, f"variable {name!r}"),
        level,
    )


def _mark_feeds(program: Program) -> None:
    """The wire does not say which variables are fed; they are the dense ones that ops read and none but
    `feed` writes.
    """
    block = program.global_block()
    written = {
        name
        for each in program.blocks
        for op in each.ops
        if op.type != "feed"
        for name in op.output_arg_names
    }
    read = {name for each in program.blocks for op in each.ops for name in op.input_arg_names}
    for var in block.vars.values():
        if (
            var.name in read
            and var.name not in written
            and not var.persistable
            and var.type == VarType.LOD_TENSOR
        ):
            var.is_data = True


# ------------------------------------------------------------------------------------------------ ops
def _read_op(block: Block, desc: Any) -> Operator:
    op_type = desc.type.decode()
    if len(op_type) > _MAX_TYPE:
        raise FormatError(f"an op type of {len(op_type)} characters: {op_type[:40]!r}...")
    what = f"op {op_type!r}"
    attrs: dict[str, tuple[AttrType, Any]] = {}
    where = None
    for attr in desc.attrs:
        name = attr.name.decode()
        # protobuf keeps both, and which one counts depends on the reader
        if name in attrs:
            # 2.x writes some twice, such as mkldnn_data_type of every reshape2
            if attrs[name] != _read_attr(attr, block.program, f"{what}, attribute {name!r}"):
                raise FormatError(f"{what} has the attribute {name!r} twice, with different values")
            continue
        # kept as one place, from which the lines are made again
        if name == CALLSTACK_ATTR:
            where = _user_frame(attr.strings)
        else:
            attrs[name] = _read_attr(attr, block.program, f"{what}, attribute {name!r}")
    inputs, outputs = (_read_slots(slots, what) for slots in (desc.inputs, desc.outputs))
    if not block.program.is_of_2x:
        attrs = _without_kept(op_type, attrs)
    return add_operator(block, op_type, inputs, outputs, attrs, where)


def _without_kept(op_type: str, attrs: dict[str, tuple[AttrType, Any]]) -> dict[str, tuple[AttrType, Any]]:
    """The attributes but for those that are kept for nothing, at their defaults: an op shows these, and goes
    out with them, whether it stores them or not.
    """
    kept = kept_attrs(op_type)
    return {
        name: (kind, value)
        for name, (kind, value) in attrs.items()
        if name not in kept or kept[name] != Attr(kind, value)
    }


def _read_slots(slots: Iterable[Any], what: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for slot in slots:
        name = slot.parameter.decode()
        if name in found:
            raise FormatError(f"{what} has the slot {name!r} twice")
        found[name] = [argument.decode() for argument in slot.arguments]
    return found


def _text(data: bytes) -> str:
    """The text in an attribute; bytes that are no UTF-8 survive reading and writing."""
    return data.decode(errors="surrogateescape")


def _short(values: Sequence[float]) -> list[float]:
    """32-bit numbers as the shortest decimals that mean them; long lists exactly, because this takes a
    microsecond each.
    """
    if len(values) > _LONG_LIST:
        return list(values)
    # NumPy prints a float32 with as few digits as tell it from its neighbours
    return [float(str(value)) for value in np.asarray(values, np.float32)]


_READERS: dict[str, tuple[AttrType, Callable[[Any], Any]]] = {
    "INT": (AttrType.INT, lambda attr: attr.i),
    "FLOAT": (AttrType.FLOAT, lambda attr: _short([attr.f])[0]),
    "STRING": (AttrType.STRING, lambda attr: _text(attr.s)),
    "INTS": (AttrType.INTS, lambda attr: list(attr.ints)),
    "FLOATS": (AttrType.FLOATS, lambda attr: _short(attr.floats)),
    "STRINGS": (AttrType.STRINGS, lambda attr: [_text(item) for item in attr.strings]),
    "BOOLEAN": (AttrType.BOOLEAN, lambda attr: attr.b),
    "BOOLEANS": (AttrType.BOOLEANS, lambda attr: list(attr.bools)),
    "LONG": (AttrType.LONG, lambda attr: attr.l),
    "LONGS": (AttrType.LONGS, lambda attr: list(attr.longs)),
    # types that 2.x added, as the nearest that fluid has
    "FLOAT64S": (AttrType.FLOATS, lambda attr: list(attr.float64s)),
    "FLOAT64": (AttrType.FLOAT, lambda attr: attr.float64),
    "VAR": (AttrType.STRING, lambda attr: _text(attr.var_name)),
    "VARS": (AttrType.STRINGS, lambda attr: [_text(item) for item in attr.vars_name]),
}


def _read_attr(attr: Any, program: Program, what: str) -> tuple[AttrType, Any]:
    """Type and value of an attribute; a block index becomes the Block."""
    kind = framework_pb.attr_type_name(attr.type)
    if kind in _READERS:
        attr_type, read = _READERS[kind]
        return attr_type, read(attr)
    if kind == "BLOCK":
        return AttrType.BLOCK, _block(program, attr.block_idx, what)
    if kind == "BLOCKS":
        return AttrType.BLOCKS, [_block(program, index, what) for index in attr.blocks_idx]
    scalars = [_scalar(item, what) for item in (attr.scalars if kind == "SCALARS" else [attr.scalar])]
    if kind == "SCALAR":
        return scalars[0]
    # an empty list says nothing of its type
    types = {attr_type for attr_type, _ in scalars} or {AttrType.FLOAT}
    if len(types) > 1:
        raise FormatError(f"{what} mixes types: {sorted(one.name for one in types)}")
    lists = {
        AttrType.BOOLEAN: AttrType.BOOLEANS,
        AttrType.LONG: AttrType.LONGS,
        AttrType.FLOAT: AttrType.FLOATS,
    }
    return lists[types.pop()], [value for _, value in scalars]


def _scalar(scalar: Any, what: str) -> tuple[AttrType, Any]:
    # the numbers of 2.x's Scalar.Type: 1 a bool, 2 an int64, 3 a double, 4 a complex number
    if scalar.type == 4:
        raise FormatError(f"{what} is a complex number, which fluid's attributes cannot hold")
    return {1: (AttrType.BOOLEAN, scalar.b), 2: (AttrType.LONG, scalar.i), 3: (AttrType.FLOAT, scalar.r)}.get(
        scalar.type, (AttrType.LONG, 0)
    )


def _block(program: Program, index: int, what: str) -> Block:
    if not 0 <= index < len(program.blocks):
        raise FormatError(f"{what} names block {index}, and the program has {len(program.blocks)}")
    return program.blocks[index]


def _user_frame(callstack: Iterable[bytes]) -> Where | None:
    """The innermost frame outside Paddle, with its callers; entries run from the inside out."""
    frames: list[Where] = []
    called = ""
    for entry in callstack:
        match = _FRAME.match(entry.decode(errors="replace"))
        # bytes of 1.8.5 begin with its own frames; the script's is the first behind them
        if match and _PADDLE.search(match[1]):
            called = called if frames else match[3]
        elif match and len(frames) < _MOST_FRAMES:
            frames.append(Where(match[1], int(match[2]), match[3]))
    if not frames:
        return None
    return dataclasses.replace(frames[0], callers=tuple(frames[1:]), called=called)


# ------------------------------------------------------------------------------------------------ writing
def serialize_program(program: Program) -> bytes:
    """The bytes of a ProgramDesc, which PaddlePaddle 1.8.5 and 2.x read."""
    desc = framework_pb.ProgramDesc()
    desc.version.version = program.file_version
    for op_type, version in program.op_versions.items():
        desc.op_version_map.pair.add(op_name=op_type.encode()).op_version.version = version
    for block in program.blocks:
        _write_block(desc.blocks.add(), block)
    return _serialised(desc)


def serialize_block(block: Block) -> bytes:
    """The bytes of a BlockDesc."""
    return _bytes_of(framework_pb.BlockDesc(), _write_block, block)


def serialize_variable(var: Variable) -> bytes:
    """The bytes of a VarDesc."""
    return _bytes_of(framework_pb.VarDesc(), _write_variable, var)


def serialize_operator(op: Operator) -> bytes:
    """The bytes of an OpDesc."""
    return _bytes_of(framework_pb.OpDesc(), _write_op, op)


def _bytes_of(desc: Any, write: Callable[[Any, Any], None], source: Any) -> bytes:
    write(desc, source)
    return _serialised(desc)


def _serialised(desc: Any) -> bytes:
    with memory_errors("a program as bytes"):
        # the same program gives the same bytes: protobuf promises no order of its own otherwise
        data: bytes = desc.SerializeToString(deterministic=True)
    return data


def _write_block(desc: Any, block: Block) -> None:
    desc.idx = block.idx
    desc.parent_idx = block.parent_idx
    # -1 is the default of the field, which 1.8.5 does not write either
    if block.forward_block_idx >= 0:
        desc.forward_block_idx = block.forward_block_idx
    for var in block.vars.values():
        _write_variable(desc.vars.add(), var)
    for op in block.ops:
        _write_op(desc.ops.add(), op)


def _write_variable(desc: Any, var: Variable) -> None:
    desc.name = var.name.encode()
    desc.persistable = var.persistable
    desc.type.type = int(var.type)
    if var.type == VarType.READER:
        for spec in var.reader_specs:
            _write_tensor(desc.type.reader.lod_tensor.add(), spec)
    elif var.type in _TENSOR_FIELDS:
        write = _write_dims if var.type == VarType.SELECTED_ROWS else _write_tensor
        write(getattr(desc.type, _TENSOR_FIELDS[var.type]), var.spec)
    # only where they are true: a plain variable then has the bytes that 1.8.5 gives it
    if var.need_check_feed:
        desc.need_check_feed = True
    if isinstance(var, Parameter):
        desc.is_parameter = True
    if var.stop_gradient:
        desc.stop_gradient = True


def _write_tensor(desc: Any, spec: Spec) -> None:
    _write_dims(desc.tensor, spec)
    desc.lod_level = spec.lod_level or 0


def _write_dims(desc: Any, spec: Spec) -> None:
    desc.data_type = int(spec.dtype)
    desc.dims.extend(spec.shape)


def _write_op(desc: Any, op: Operator) -> None:
    desc.type = op.type.encode()
    for slots, fields in ((op.inputs, desc.inputs), (op.outputs, desc.outputs)):
        for slot, names in slots.items():
            fields.add(parameter=slot.encode(), arguments=[name.encode() for name in names])
    # sorted, because the order in a dict depends on how the program was made, and bytes should not
    # kernels of 1.8.5's gradients know no defaults
    kept = () if op.block.program.is_of_2x else kept_attrs(op.type)
    # what a reader finds again in the declared shapes and the version is no attribute of Paddle's
    for name in sorted({*op.attrs, *kept, CALLSTACK_ATTR} - {ZERO_DIM_ATTR, OF_2X_ATTR}):
        attr = desc.attrs.add(name=name.encode())
        if op.definition is not None and name == op.definition.root.scalars:
            _write_scalars(attr, op.attr(name))
            continue
        try:
            _write_attr(
                attr, AttrType.STRINGS if name == CALLSTACK_ATTR else op.attr_type(name), op.attr(name)
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"op {op.type!r}: attribute {name!r} cannot hold {op.attrs.get(name)!r}: {error}\n"
                f"  built at {op.where}"
            ) from error


def _write_scalars(desc: Any, values: Sequence[float]) -> None:
    """Numbers of double precision."""
    desc.type = framework_pb.ATTR_TYPES["SCALARS"]
    for value in values:
        desc.scalars.add(type=3, r=float(value))


_FIELDS = {
    AttrType.INT: "i",
    AttrType.FLOAT: "f",
    AttrType.STRING: "s",
    AttrType.INTS: "ints",
    AttrType.FLOATS: "floats",
    AttrType.STRINGS: "strings",
    AttrType.BOOLEAN: "b",
    AttrType.BOOLEANS: "bools",
    AttrType.BLOCK: "block_idx",
    AttrType.LONG: "l",
    AttrType.BLOCKS: "blocks_idx",
    AttrType.LONGS: "longs",
}


def _write_attr(desc: Any, attr_type: AttrType, value: Any) -> None:
    desc.type = int(attr_type)
    exact = exact_value(value, attr_type)
    # what was read as bytes without a meaning in UTF-8 goes out as the same bytes
    if attr_type == AttrType.STRING:
        exact = exact.encode(errors="surrogateescape")
    elif attr_type == AttrType.STRINGS:
        exact = [item.encode(errors="surrogateescape") for item in exact]
    if isinstance(exact, list):
        getattr(desc, _FIELDS[attr_type]).extend(exact)
    else:
        setattr(desc, _FIELDS[attr_type], exact)
