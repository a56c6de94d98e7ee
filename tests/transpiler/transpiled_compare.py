"""Differences of two programs, read off their ProgramDesc messages: op by op, variable by variable, one
line each.
"""

from __future__ import annotations

import difflib
import gzip
import itertools
import json
import math
import os
import re
import zipfile
from collections.abc import Iterator
from typing import Any

# Attributes that say nothing about what the program computes or who talks to whom:
IGNORED = frozenset(
    [
        "op_callstack",  # where the op was built
        "op_device",  # no transpiler reads or writes it
        "use_mkldnn",
        "use_cudnn",
        "use_quantizer",
        "mkldnn_data_type",
        "is_test_grad",  # which library computes it
    ]
)
MADE_UP = frozenset(["gen_nccl_id", "c_gen_nccl_id"])  # the recorder's prototypes know no types of attributes
UNORDERED = frozenset(["grad_to_block_id"])  # 1.8.5 makes this list from a set: in any order
STAMPS: dict[str, Any] = {"op_role": 0, "op_role_var": [], "op_namescope": "/"}
# in the order of the enumeration AttrType, and where the message holds each
VALUE_OF = {
    "INT": "i",
    "FLOAT": "f",
    "STRING": "s",
    "INTS": "ints",
    "FLOATS": "floats",
    "STRINGS": "strings",
    "BOOLEAN": "b",
    "BOOLEANS": "bools",
    "BLOCK": "block_idx",
    "LONG": "l",
    "BLOCKS": "blocks_idx",
    "LONGS": "longs",
}
KINDS = list(VALUE_OF)
CONTROL = "__control_var@"
SNAPSHOT = "@SNAPSHOT"
TENSORS = {7: "lod_tensor", 8: "selected_rows", 13: "tensor_array"}


# ------------------------------------------------------------------------------------------------ files
def write(path: str, files: dict[str, bytes]) -> None:
    """All in one stream, which packs twice as well, and `index`, the name and size of each."""
    index = "\n".join(f"{name} {len(data)}" for name, data in files.items())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in (("index", index.encode()), ("files", b"".join(files.values()))):
            archive.writestr(zipfile.ZipInfo(entry), data, zipfile.ZIP_DEFLATED)


def read(path: str) -> dict[str, bytes]:
    """The files that `write` wrote."""
    with zipfile.ZipFile(path) as archive:
        index, stream = archive.read("index").decode(), archive.read("files")
    files, start = {}, 0
    for line in index.splitlines():
        name, size = line.split()
        files[name] = stream[start : start + int(size)]
        start += int(size)
    return files


# ------------------------------------------------------------------------------------------------ attributes
def load_protos() -> Any:
    path = os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "op_protos.json.gz"
    )
    with gzip.open(path, "rt") as source:
        return json.load(source)


PROTOS = load_protos()


def text(value: Any) -> str:
    """Strings are bytes in FluidLite's messages and str in Paddle's."""
    return value.decode() if isinstance(value, bytes) else value


def default_of(op_type: str, attr: str) -> Any:
    """(type, value) of an attribute that nobody set; None where there is none. A gradient op has its
    forward op's.
    """
    if attr in STAMPS:
        return STAMPS[attr]
    while op_type not in PROTOS and op_type.endswith("_grad"):
        op_type = op_type[: -len("_grad")]
    entry = PROTOS.get(op_type, {"attrs": {}})["attrs"].get(attr)
    return None if entry is None or entry[1] == "required" else entry[1]


def attr_value(attr: Any) -> Any:
    value = getattr(attr, VALUE_OF[KINDS[attr.type]])
    if isinstance(value, (bytes, str)):
        return text(value)
    return value if isinstance(value, (bool, int, float)) else [text(one) for one in value]


def attrs_of(op: Any) -> dict[str, tuple[str, Any]]:
    """Name -> (type, value); name scopes without their numbers, which count up through a whole process."""
    found = {
        text(attr.name): (KINDS[attr.type], attr_value(attr))
        for attr in op.attrs
        if text(attr.name) not in IGNORED
    }
    if "op_namescope" in found:
        kind, scope = found["op_namescope"]
        found["op_namescope"] = kind, re.sub(r"_\d+/", "/", scope)
    return found


def slots_of(slots: Any) -> dict[str, list[str]]:
    return {text(slot.parameter): [text(name) for name in slot.arguments] for slot in slots if slot.arguments}


def same_value(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same_value(*pair) for pair in zip(left, right))
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right or math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-30)
    return bool(left == right)


def number_control_variables(program: Any) -> Any:
    """Rename, in place, the variables that only tie sends to barriers; 1.8.5 names them by random numbers.

    They are numbered in the order in which ops name them. One that no op names says nothing (1.8.5 declares
    one in asynchronous trainers, for the barrier that they do not have): it goes.
    """
    slots = [
        slot
        for block in program.blocks
        for op in block.ops
        for kind in (op.outputs, op.inputs)
        for slot in kind
    ]
    names = [text(name) for slot in slots for name in slot.arguments]
    mine = list(dict.fromkeys(name for name in names if name.startswith(CONTROL)))
    new = {name: f"{CONTROL}{index}" for index, name in enumerate(mine)}

    def renamed(name: Any) -> Any:
        found = new.get(text(name), text(name))
        return found.encode() if isinstance(name, bytes) else found

    for slot in slots:
        if any(text(name) in new for name in slot.arguments):
            slot.arguments[:] = [renamed(name) for name in slot.arguments]
    for block in program.blocks:
        for index in reversed(range(len(block.vars))):
            block.vars[index].name = renamed(block.vars[index].name)
            if (
                text(block.vars[index].name).startswith(CONTROL)
                and text(block.vars[index].name) not in new.values()
            ):
                del block.vars[index]
    return program


# ------------------------------------------------------------------------------------------------ ops
def op_differences(where: str, mine: Any, theirs: Any) -> Iterator[str]:
    for kind in ("inputs", "outputs"):
        ours, paddles = slots_of(getattr(mine, kind)), slots_of(getattr(theirs, kind))
        for slot in sorted(set(ours) | set(paddles)):
            if ours.get(slot) != paddles.get(slot):
                yield f"{where}: {kind[:-1]} {slot} is {ours.get(slot)}, Paddle has {paddles.get(slot)}"
    yield from attr_differences(where, text(theirs.type), attrs_of(mine), attrs_of(theirs))


def attr_differences(
    where: str, op_type: str, ours: dict[str, Any], paddles: dict[str, Any]
) -> Iterator[str]:
    for name in sorted(set(ours) | set(paddles)):
        default = None, default_of(op_type, name)
        (kind, left), (wanted, right) = ours.get(name, default), paddles.get(name, default)
        if name in UNORDERED:
            left, right = sorted(left or []), sorted(right or [])
        if not same_value(left, right):
            yield f"{where}: attribute {name} is {left!r}, Paddle has {right!r}"
        elif kind and wanted and kind != wanted and op_type not in MADE_UP:
            yield f"{where}: attribute {name} has type {kind}, Paddle has {wanted}"


def line_of(op: Any) -> str:
    """An op in short, for lists that part."""
    outputs = [name for names in slots_of(op.outputs).values() for name in names]
    inputs = [name for names in slots_of(op.inputs).values() for name in names]
    return f"{text(op.type)}({', '.join(inputs[:4])}) -> {', '.join(outputs[:4])}"


def in_order(ops: list[Any]) -> list[Any]:
    """The ops, neighbouring `fake_init` by what they make: 1.8.5 makes them from a set."""
    found: list[Any] = []
    for empties, group in itertools.groupby(ops, key=lambda op: text(op.type) == "fake_init"):
        neighbours = list(group)
        found += sorted(neighbours, key=line_of) if empties else neighbours
    return found


def sequence_differences(where: str, mine: list[Any], theirs: list[Any]) -> Iterator[str]:
    """The ops that only one of the two has, then what the common ones differ in."""
    mine, theirs = in_order(mine), in_order(theirs)
    keys = [[text(op.type) for op in ops] for ops in (mine, theirs)]
    matcher = difflib.SequenceMatcher(None, *keys, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            for left, right in zip(range(a, b), range(c, d)):
                yield from op_differences(
                    f"{where}, op {right} ({keys[1][right]})", mine[left], theirs[right]
                )
            continue
        for left in range(a, b):
            yield f"{where}, op {left}: Paddle has no {line_of(mine[left])} here"
        for right in range(c, d):
            yield f"{where}, op {right}: missing {line_of(theirs[right])}"


# ------------------------------------------------------------------------------------------------ variables
def facts_of(var: Any) -> dict[str, Any]:
    """Facts that are declared of a variable; -1 for every unknown dimension (Paddle multiplies them)."""
    kind = var.type.type
    facts: dict[str, Any] = {"type": kind, "persistable": bool(var.persistable)}
    if kind in TENSORS:
        desc = getattr(var.type, TENSORS[kind])
        tensor = desc.tensor if hasattr(desc, "tensor") else desc
        facts.update(shape=[max(dim, -1) for dim in tensor.dims], lod_level=getattr(desc, "lod_level", 0))
        if tensor.dims or tensor.data_type:  # nobody said what a control variable holds: 0, which is bool
            facts["dtype"] = tensor.data_type
    return facts


def declared(block: Any) -> dict[str, dict[str, Any]]:
    return {text(var.name): facts_of(var) for var in block.vars}


def declared_outside(program: Any, block: Any) -> dict[str, dict[str, Any]]:
    """Facts of the variables that the blocks around a block declare."""
    found: dict[str, dict[str, Any]] = {}
    while block.parent_idx >= 0:
        block = program.blocks[block.parent_idx]
        found = {**declared(block), **found}
    return found


def var_differences(where: str, mine: Any, theirs: Any, outer: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Differences in declarations; 1.8.5 repeats in sub-blocks what an `outer` block declares, which
    says nothing new.
    """
    ours, paddles = declared(mine), declared(theirs)
    paddles = {name: facts for name, facts in paddles.items() if name in ours or outer.get(name) != facts}
    for name in [name for name in paddles if name.endswith(SNAPSHOT)]:
        for each in (name, name[: -len(SNAPSHOT)]):  # 1.8.5 says of neither what it holds: bool
            paddles.get(each, {}).pop("dtype", None)
    for name in sorted(set(ours) | set(paddles)):
        if name not in ours:
            yield f"{where}: variable {name} is missing"
        elif name not in paddles:
            yield f"{where}: Paddle has no variable {name}"
        else:
            left, right = ours[name], paddles[name]
            for fact in sorted(right):
                if left.get(fact) != right[fact]:
                    yield f"{where}: {fact} of {name} is {left.get(fact)}, Paddle has {right[fact]}"


def differences(role: str, mine: Any, theirs: Any) -> Iterator[str]:
    """Differences of `mine` from `theirs`, two ProgramDesc messages whose control variables are numbered
    here.
    """
    for program in (mine, theirs):
        number_control_variables(program)
    if len(mine.blocks) != len(theirs.blocks):
        yield f"{role}: {len(mine.blocks)} blocks, Paddle has {len(theirs.blocks)}"
    for left, right in zip(mine.blocks, theirs.blocks):
        where = f"{role}, block {right.idx}"
        for fact in ("parent_idx", "forward_block_idx"):
            if getattr(left, fact) != getattr(right, fact):
                yield f"{where}: {fact} is {getattr(left, fact)}, Paddle has {getattr(right, fact)}"
        yield from sequence_differences(where, list(left.ops), list(right.ops))
        yield from var_differences(where, left, right, declared_outside(theirs, right))
