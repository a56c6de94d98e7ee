"""Programs as JSON that is read back: parse(program_json(p)) is p.

    {"format": "fluidlite-program", "version": 1, "random_seed": 0, "blocks": [
      {"parent": -1, "forward": -1,
       "vars": [{"name": "w", "kind": "lod_tensor", "dtype": "float32", "shape": [784, 10], "parameter": true,
                 "trainable": true}],
       "ops": [{"type": "mul", "inputs": {"X": ["img"], "Y": ["w"]}, "outputs": {"Out": ["y"]},
                "attrs": {"x_num_col_dims": {"type": "int", "value": 1}},
                "where": {"file": "train.py", "line": 26, "function": "<module>"}}]}]}

Of a variable `kind`, `dtype` (null where it has none) and `shape` always stand there; a reader has `tensors`,
a list of `{dtype, shape, lod_level}`; the other fields (`_FIELDS`, and of parameters `_PARAMETER_FIELDS`)
only where they are not what variables usually have. Attributes have the names of Paddle's types in lower
case; a block stands as its number, and floats that JSON cannot say as "nan", "inf", "-inf". `where` is left
out where nobody knows it; `called` and `callers` ([file, line, function] each) complete it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError
from fluidlite.base.flags import PROGRAM_VERSION
from fluidlite.base.registry import AttrType, Spec
from fluidlite.ir.attributes import STAMPS, exact_value
from fluidlite.ir.block import Block
from fluidlite.ir.operator import CALLSTACK_ATTR, Operator, Where
from fluidlite.ir.printing import DTYPE_NAMES
from fluidlite.ir.program import Program
from fluidlite.ir.restore import MAX_BLOCKS, add_operator, add_variable
from fluidlite.ir.structure import check_blocks, check_parents
from fluidlite.ir.variable import Parameter, Variable

__all__ = ["FORMAT", "VERSION", "parse", "program_data", "program_json"]

FORMAT, VERSION = "fluidlite-program", 1
_FIELDS: dict[str, Any] = {
    "lod_level": 0,
    "persistable": False,
    "stop_gradient": False,
    "is_data": False,
    "need_check_feed": False,
    "belong_to_optimizer": False,
}
_PARAMETER_FIELDS: dict[str, Any] = {
    "trainable": True,
    "do_model_average": True,
    "need_clip": True,
    "is_distributed": False,
}
_KINDS = {name: kind for kind, name in DTYPE_NAMES.items()}
_VALUES: dict[AttrType, tuple[type, ...]] = {
    AttrType.INT: (int,),
    AttrType.LONG: (int,),
    # text: "nan", "inf" and "-inf", which JSON has no numbers for
    AttrType.FLOAT: (int, float, str),
    AttrType.STRING: (str,),
    AttrType.BOOLEAN: (bool,),
    AttrType.BLOCK: (int,),
    AttrType.INTS: (int,),
    AttrType.LONGS: (int,),
    AttrType.FLOATS: (int, float, str),
    AttrType.STRINGS: (str,),
    AttrType.BOOLEANS: (bool,),
    AttrType.BLOCKS: (int,),
}
_LISTS = (
    AttrType.INTS,
    AttrType.LONGS,
    AttrType.FLOATS,
    AttrType.STRINGS,
    AttrType.BOOLEANS,
    AttrType.BLOCKS,
)


def program_json(program: Program, indent: int | None = 1) -> str:
    """The whole program."""
    # Python would write NaN and Infinity as words that no other reader of JSON knows
    return json.dumps(program_data(program), indent=indent, allow_nan=False) + "\n"


def program_data(program: Program) -> dict[str, Any]:
    """A program as the dicts and lists that `program_json` writes."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "random_seed": program.random_seed,
        "file_version": program.file_version,
        "op_versions": dict(program.op_versions),
        "blocks": list(map(_block_data, program.blocks)),
    }


def _block_data(block: Block) -> dict[str, Any]:
    return {
        "parent": block.parent_idx,
        "forward": block.forward_block_idx,
        "vars": list(map(_variable_data, block.vars.values())),
        "ops": list(map(_op_data, block.ops)),
    }


def _variable_data(var: Variable) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": var.name,
        "kind": DTYPE_NAMES[var.type],
        "dtype": None if var._dtype is None else DTYPE_NAMES[var._dtype],
        "shape": list(var.shape),
    }
    usual = dict(_FIELDS)
    if isinstance(var, Parameter):
        data["parameter"] = True
        usual.update(_PARAMETER_FIELDS, persistable=True)
        factor = var.optimize_attr.get("learning_rate", 1.0)
        if isinstance(factor, (int, float)) and factor != 1.0:
            data["learning_rate"] = factor
    for name, value in usual.items():
        found = getattr(var, name)
        if found is not None and found != value:
            data[name] = found
    if var.reader_specs:
        data["tensors"] = [
            {"dtype": DTYPE_NAMES[spec.dtype], "shape": list(spec.shape), "lod_level": spec.lod_level or 0}
            for spec in var.reader_specs
        ]
    return data


def _op_data(op: Operator) -> dict[str, Any]:
    # without the call stack, which `where` gives
    attrs = {
        name: {
            "type": op.attr_type(name).name.lower(),
            "value": _value(exact_value(value, op.attr_type(name))),
        }
        for name, value in op.attrs.items()
        if name != CALLSTACK_ATTR
    }
    data: dict[str, Any] = {"type": op.type, "inputs": op.inputs, "outputs": op.outputs, "attrs": attrs}
    if op.where is not None:
        data["where"] = _where_data(op.where)
    return data


def _where_data(where: Where) -> dict[str, Any]:
    data: dict[str, Any] = {"file": where.file, "line": where.line, "function": where.function}
    if where.called:
        data["called"] = where.called
    if where.callers:
        data["callers"] = [list(dataclasses.astuple(caller)[:3]) for caller in where.frames()[1:]]
    return data


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_value, value))
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


# ------------------------------------------------------------------------------------------------ reading
def parse(text: str | bytes) -> Program:
    """The program that the JSON describes; FormatError where it describes none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise FormatError(
            f'this JSON is not a program: it lacks "format": "{FORMAT}" and "version": {VERSION}'
        )
    program = Program()
    program._seed = _get(data, "random_seed", int, 0)
    program.file_version = _get(data, "file_version", int, PROGRAM_VERSION)
    versions = _get(data, "op_versions", dict, {})
    program.op_versions = {op_type: _get(versions, op_type, int) for op_type in versions}
    blocks = _get(data, "blocks", list)
    # before they are made: a short file could ask for any number
    if not 0 < len(blocks) <= MAX_BLOCKS:
        raise FormatError(f"a program has 1 to {MAX_BLOCKS} blocks, not {len(blocks)}")
    program.make_blocks(len(blocks))
    try:
        for block, item in zip(program.blocks, blocks, strict=True):
            _read_block(block, item)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise FormatError(f"block {block.idx}: {error}") from None
    check_parents(program)
    check_blocks(program)
    return program


def _get(data: Any, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
    """A field of the right type; `default` where it is missing, if there is one."""
    value = data.get(key, default) if isinstance(data, dict) else None
    # True and False are ints in Python
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise FormatError(
            f"{key!r} should be {kind if isinstance(kind, tuple) else kind.__name__}, not {str(value)[:60]!r}"
        )
    return value


def _read_block(block: Block, data: Any) -> None:
    block.parent_idx = _get(data, "parent", int)
    block.forward_block_idx = _get(data, "forward", int, -1)
    for item in _get(data, "vars", list):
        _read_variable(block, item)
    for item in _get(data, "ops", list):
        _read_op(block, item)


def _where(data: Any) -> Where:
    callers = []
    for caller in _get(data, "callers", list, []):
        if not isinstance(caller, list) or [type(part) for part in caller] != [str, int, str]:
            raise FormatError(f"a caller is [file, line, function], not {caller!r}")
        callers.append(Where(*caller))
    return Where(
        _get(data, "file", str),
        _get(data, "line", int),
        _get(data, "function", str, "<module>"),
        tuple(callers),
        _get(data, "called", str, ""),
    )


def _read_op(block: Block, data: Any) -> None:
    attrs = {name: _read_attr(block, name, attr) for name, attr in _get(data, "attrs", dict, {}).items()}
    where = data.get("where")
    op = add_operator(
        block,
        _get(data, "type", str),
        _slots(data, "inputs"),
        _slots(data, "outputs"),
        attrs,
        _where(where) if where else None,
        defaults=False,
    )
    for name in STAMPS:
        if name not in attrs:
            # added with their defaults a moment ago: what is not in the file is not in the program either
            del op.attrs[name]


def _read_variable(block: Block, data: Any) -> None:
    parameter = _get(data, "parameter", bool, False)
    usual = {**_FIELDS, **(_PARAMETER_FIELDS if parameter else {}), "persistable": parameter}
    fields = {
        name: _get(data, name, type(value), value)
        for name, value in usual.items()
        if name in data or name in _FIELDS
    }
    if "learning_rate" in data:
        fields["optimize_attr"] = {"learning_rate": _get(data, "learning_rate", (int, float))}
    specs = tuple(
        Spec(_shape(item), _kind(item, "dtype"), _get(item, "lod_level", int, 0))
        for item in _get(data, "tensors", list, [])
    )
    var = add_variable(
        block,
        _get(data, "name", str),
        kind=_kind(data, "kind"),
        shape=_shape(data),
        parameter=parameter,
        dtype=None if data.get("dtype") is None else _kind(data, "dtype"),
        reader_specs=specs,
        **fields,
    )
    # a parameter is declared persistable: what the file says is put in afterwards
    var._persistable = fields["persistable"]
    if data.get("dtype") is None and not parameter:
        var._dtype = None


def _kind(data: Any, key: str) -> VarType:
    name = _get(data, key, str)
    if name not in _KINDS:
        raise FormatError(f"{name!r} is neither a dtype nor a kind of variable")
    return _KINDS[name]


def _shape(data: Any) -> tuple[int, ...]:
    return tuple(_checked(item, (int,), "shape") for item in _get(data, "shape", list))


def _slots(data: Any, key: str) -> dict[str, list[str]]:
    return {
        slot: [_checked(name, (str,), key) for name in _get(_get(data, key, dict), slot, list)]
        for slot in _get(data, key, dict)
    }


def _checked(value: Any, kinds: tuple[type, ...], what: str) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise FormatError(f"{what}: {str(value)[:60]!r} is of the wrong type")
    return value


def _read_attr(block: Block, name: str, data: Any) -> tuple[AttrType, Any]:
    word = _get(data, "type", str).upper()
    if word not in AttrType.__members__:
        raise FormatError(f"attribute {name!r}: {word.lower()!r} is not a type of an attribute")
    kind = AttrType[word]
    read = _reader(block, kind)
    value = data.get("value")
    if kind in _LISTS:
        return kind, [read(_checked(item, _VALUES[kind], name)) for item in _get(data, "value", list)]
    return kind, read(_checked(value, _VALUES[kind], name))


def _reader(block: Block, kind: AttrType) -> Callable[[Any], Any]:
    if kind in (AttrType.FLOAT, AttrType.FLOATS):
        return float
    if kind not in (AttrType.BLOCK, AttrType.BLOCKS):
        return lambda value: value
    blocks: Mapping[int, Block] = dict(enumerate(block.program.blocks))

    def find(index: int) -> Block:
        if index not in blocks:
            raise FormatError(f"there is no block {index}")
        return blocks[index]

    return find
