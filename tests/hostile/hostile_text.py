"""Strings that end a line, a comment or a literal for somebody, and programs that carry them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import fluidlite as fluid
from fluidlite.ir import framework_pb

RAN: list[int] = []
"""The list that the hostile strings below append to, where one of them is run as source."""
CODE = "__import__('hostile_text').RAN.append(1)"
ENDS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0"]
# each of them is a name as well as a label; some differ for people and not for Python, or not for people
HOSTILE = [
    *(f"a{end}    {CODE}#" for end in ENDS),
    *(f"a{end}" for end in ENDS),
    '"""', "'''", '"', "'", "\\", "a\\", "\\N{DIGIT ONE}", "{0}", "%s", "${x}", "`x`", "#", "//", "*/", "-->",
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<<b>x</b>>", "]]>", "&lt;", "|}{",
    "\u202e\u2066abc\u2069", "\u200f", "\ufeff", "\x1b[2J", "\x07", "\x7f", "\x80", "\u0301",
    "\u00b5", "\u03bc", "e\u0301", "\u00e9", "\uff41", "a", "\u212a", "K", "x\u00b2", "x2", "\U0001d465",
    " ", ".", "_", "__", "__debug__", "__import__", "None", "step", "row", "t", "i", "min", "float", "add",
    "x", "x__lod", "x_2", "x@GRAD", "x__grad", "1", "9" * 50, "n" * 5000, "../../etc/passwd", "/dev/zero",
]  # fmt: skip
BYTES = [b"\xff\xfe", b"a\xed\xb0\x80b", b"\xc3("]  # no UTF-8; a lone surrogate as UTF-8 would write it


def string_fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """The fields that hold strings in a message and in those within it, with the message that owns each."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_BYTES:
            yield message, field
        elif field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from string_fields(inner)


def replace_strings(message: Any, new: Mapping[bytes, bytes]) -> None:
    """Replace each whole string in a message, and in those within it, that `new` has another for."""
    for owner, field in list(string_fields(message)):
        held = getattr(owner, field.name)
        if isinstance(held, bytes):
            setattr(owner, field.name, new.get(held, held))
        else:
            held[:] = [new.get(each, each) for each in held]


def described(program: fluid.Program) -> Any:
    """The message of a program."""
    return framework_pb.ProgramDesc.FromString(program.desc.serialize_to_string())


def renamings(programs: Iterable[fluid.Program], texts: Iterable[str]) -> dict[str, str]:
    """Another name for each variable of some programs."""
    supply = itertools.chain(texts, (f"more{number}" for number in itertools.count()))
    names = sorted({var.name for program in programs for var in program.list_vars()})
    return {name: next(supply) for name in names}


def respelled(program: fluid.Program, names: Mapping[str, str], labels: Iterator[str]) -> fluid.Program:
    """A program with other names, whose ops come from lines, scopes and functions of such labels."""
    desc = described(program)
    replace_strings(desc, {old.encode(): new.encode() for old, new in names.items()})
    kinds = framework_pb.ATTR_TYPES
    for op in (op for block in desc.blocks for op in block.ops):
        for attr in [attr for attr in op.attrs if attr.name in (b"op_callstack", b"op_namescope")]:
            op.attrs.remove(attr)
        frames = [f'  File "{next(labels)}", line 3, in {next(labels)}\n', f"    {next(labels)}\n"]
        stack = op.attrs.add(name=b"op_callstack", type=kinds["STRINGS"])
        stack.strings.extend(frame.encode() for frame in frames)
        op.attrs.add(name=b"op_namescope", type=kinds["STRING"], s=next(labels).encode())
    return fluid.Program.parse_from_string(desc.SerializeToString())


def shuffled(texts: list[str], seed: int) -> list[str]:
    """The texts in an order that the seed gives."""
    return random.Random(seed).sample(texts, len(texts))
