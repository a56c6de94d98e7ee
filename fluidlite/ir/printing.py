"""Programs, blocks, variables and ops as the text that `fluidlite.ir.text` describes and reads back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

from fluidlite.base.dtypes import VarType
from fluidlite.base.flags import PROGRAM_VERSION
from fluidlite.base.registry import AttrType, Spec, infer_attr_type
from fluidlite.ir.attributes import (
    CALLSTACK_ATTR,
    DEVICE_ATTR,
    NAMESCOPE_ATTR,
    ROLE_ATTR,
    ROLE_VAR_ATTR,
    STAMPS,
    OpRole,
    exact_value,
)
from fluidlite.ir.where import Where

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program
    from fluidlite.ir.variable import Parameter, Variable

__all__ = ["DTYPE_NAMES", "WORD", "block_text", "operator_text", "program_text", "role_text", "variable_text"]

WORD = r"[\w@./$+-]+"
_PLAIN = re.compile(WORD)
_COMPACT = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BF16": "bfloat16"}
DTYPE_NAMES = {kind: _COMPACT.get(kind.name, kind.name.lower()) for kind in VarType}
_STAMP_WORDS = {ROLE_ATTR: "role", ROLE_VAR_ATTR: "role_var", NAMESCOPE_ATTR: "scope", DEVICE_ATTR: "device"}


def program_text(program: Program) -> str:
    """The whole program."""
    header = f"program random_seed={program.random_seed}" if program.random_seed else "program"
    if program.file_version != PROGRAM_VERSION:
        header += f" file_version={program.file_version}"
    if program.op_versions:
        versions = ", ".join(f"{_name(name)}={version}" for name, version in program.op_versions.items())
        header += f" op_versions=[{versions}]"
    return "\n".join([header, *(f"\n{block_text(block)}" for block in program.blocks)])


def block_text(block: Block) -> str:
    """One block: its variables in order of creation, then its ops."""
    parent = f" parent={block.parent_idx}" if block.parent_idx >= 0 else ""
    forward = f" forward={block.forward_block_idx}" if block.forward_block_idx >= 0 else ""
    lines = [f"block {block.idx}{parent}{forward}"]
    lines += [f"  {variable_text(var)}" for var in block.vars.values()]
    lines += [f"  {operator_text(op)}" for op in block.ops]
    return "\n".join(lines) + "\n"


def variable_text(var: Variable) -> str:
    """`data img: float32[-1, 784] lod_level=1`."""
    keyword = _keyword(var)
    flags = "".join(
        f" {key}" if value is True else f" {key}={json.dumps(value)}" for key, value in _flags(var, keyword)
    )
    return f"{keyword} {_name(var.name)}: {_declared_type(var)}{flags}"


def _is_parameter(var: Variable) -> TypeGuard[Parameter]:
    return var.is_parameter


def _keyword(var: Variable) -> str:
    if _is_parameter(var):
        return "param"
    return "data" if var.is_data else "var"


def operator_text(op: Operator) -> str:
    """`mul(X=img, Y=fc_0.w_0) -> Out=fc_0.tmp_0 {x_num_col_dims=1} role=Backward at "train.py":26`."""
    outputs = f" -> {_slots(op.outputs)}" if op.outputs else ""
    # of another type than usual, a stamp is printed with the other attributes, and so keeps its type
    stamps = [stamp for stamp in STAMPS if stamp in op.attrs and _is_stamp(op, stamp)]
    rest = [name for name in sorted(op.attrs) if name not in stamps and name != CALLSTACK_ATTR]
    attrs = ", ".join(f"{_name(name)}={_attr(op.attrs[name], op.attr_type(name))}" for name in rest)
    return (
        f"{_name(op.type)}({_slots(op.inputs)}){outputs}{f' {{{attrs}}}' if attrs else ''}{_tail(op, stamps)}"
    )


# ------------------------------------------------------------------------------------------------ variables
def _declared_type(var: Variable) -> str:
    kind = "" if var.type == VarType.LOD_TENSOR else DTYPE_NAMES[var.type]
    if var.reader_specs and var.type == VarType.READER:
        return f"{kind}({', '.join(map(_spec, var.reader_specs))})"
    if var._dtype is None and not var.shape:
        return kind or "untyped[]"
    dtype = "untyped" if var._dtype is None else DTYPE_NAMES[var._dtype]
    return f"{kind}{' ' if kind else ''}{dtype}[{', '.join(map(str, var.shape))}]"


def _spec(spec: Spec) -> str:
    level = f" lod_level={spec.lod_level}" if spec.lod_level else ""
    return f"{DTYPE_NAMES[spec.dtype]}[{', '.join(map(str, spec.shape))}]{level}"


def _flags(var: Variable, keyword: str) -> Iterator[tuple[str, Any]]:
    """The parts of a declaration that are not the usual ones."""
    usual: dict[str, Any] = {
        "lod_level": 0,
        "persistable": keyword == "param",
        "stop_gradient": False,
        "is_data": keyword == "data",
        "need_check_feed": False,
        "belong_to_optimizer": False,
    }
    if _is_parameter(var):
        usual.update(trainable=True, do_model_average=True, need_clip=True, is_distributed=False)
    for key, value in usual.items():
        found = getattr(var, key)
        # None stands for what nobody has said, and prints as the usual value
        if found is not None and found != value:
            yield key, found if isinstance(found, int) else bool(found)
    # the factor may be a Variable, which the text has no way to say
    factor = var.optimize_attr.get("learning_rate", 1.0) if _is_parameter(var) else 1.0
    if isinstance(factor, (int, float)) and factor != 1.0:
        yield "learning_rate", factor


# ------------------------------------------------------------------------------------------------ ops
def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # escapes for what would break the line, or not be seen
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _slots(slots: dict[str, list[str]]) -> str:
    return ", ".join(
        f"{_name(slot)}={_name(names[0]) if len(names) == 1 else _list(map(_name, names))}"
        for slot, names in slots.items()
    )


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _attr(value: Any, attr_type: AttrType) -> str:
    exact = exact_value(value, attr_type)
    if attr_type == AttrType.BLOCK:
        return f"block {exact}"
    if attr_type == AttrType.BLOCKS:
        return _list(f"block {index}" for index in exact) + ("" if exact else ": blocks")
    shown = _list(map(_scalar, exact)) if isinstance(exact, list) else _scalar(exact)
    return shown if infer_attr_type(exact) == attr_type else f"{shown}: {attr_type.name.lower()}"


def _scalar(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _is_stamp(op: Operator, name: str) -> bool:
    """True if the attribute has the type that every program gives it, so that it needs no braces."""
    default = STAMPS[name]
    return (
        isinstance(op.attrs[name], type(default))
        and not isinstance(op.attrs[name], bool)
        and (op.attr_type(name) == (AttrType.STRINGS if name == ROLE_VAR_ATTR else infer_attr_type(default)))
    )


def _tail(op: Operator, stamps: list[str]) -> str:
    parts = [
        f" {_STAMP_WORDS[stamp]}={_stamp(stamp, op.attrs[stamp])}"
        for stamp in stamps
        if op.attrs[stamp] != STAMPS[stamp]
    ]
    return "".join(parts) + (_where(op.where) if op.where else "")


def _stamp(name: str, value: Any) -> str:
    if name == ROLE_ATTR:
        return role_text(value)
    return _list(map(_name, value)) if name == ROLE_VAR_ATTR else _quoted(value)


def role_text(role: int) -> str:
    """`Backward|Loss`; the number where it has bits without a name."""
    flags = [flag for flag in OpRole if flag and flag & role]
    return "|".join(str(flag.name) for flag in flags) if flags and sum(flags) == role else str(role)


def _where(where: Where) -> str:
    function = "" if where.function == "<module>" else f" in {_name(where.function)}"
    return f" at {_quoted(where.file)}:{where.line}{function}"
