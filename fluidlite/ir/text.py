"""Programs as text: one line a variable or op, and what is printed is read back: print(parse(print(p))) is
print(p).

    program random_seed=7

    block 0
      param fc_0.w_0: float32[784, 10] learning_rate=2.0
      data img: float32[-1, 784]
      var fc_0.tmp_0: float32[-1, 10]
      mul(X=img, Y=fc_0.w_0) -> Out=fc_0.tmp_0 {x_num_col_dims=1, y_num_col_dims=1} at "train.py":26 in net

    block 1 parent=0
      ...

A name that holds anything but letters, digits and `_ @ . / $ + -` stands in double quotes, with JSON's
escapes. An attribute whose type is not the one that its value suggests says so: `shape=[2, 3]: longs`. Role,
name scope and device of an op are left out where they are Forward, "/" and "". Like Paddle's own format the
text has no place for regularizers, clipping and initialisers, which the ops that they made stand for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError
from fluidlite.base.registry import AttrType, Spec, infer_attr_type
from fluidlite.ir.attributes import DEVICE_ATTR, NAMESCOPE_ATTR, ROLE_ATTR, ROLE_VAR_ATTR, OpRole, exact_value
from fluidlite.ir.block import Block
from fluidlite.ir.printing import DTYPE_NAMES, WORD
from fluidlite.ir.program import Program
from fluidlite.ir.restore import MAX_BLOCKS, add_operator, add_variable
from fluidlite.ir.structure import check_blocks, check_parents
from fluidlite.ir.where import Where

__all__ = ["parse"]

T = TypeVar("T")
_TOKEN = re.compile(
    rf'\s*(?:(?P<arrow>->)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<word>{WORD})'
    r"|(?P<mark>[()\[\]{}=,:|])|(?P<end>$))"
)
_KINDS = {name: kind for kind, name in DTYPE_NAMES.items()}
_STAMPS = {
    "role": (ROLE_ATTR, AttrType.INT),
    "role_var": (ROLE_VAR_ATTR, AttrType.STRINGS),
    "scope": (NAMESCOPE_ATTR, AttrType.STRING),
    "device": (DEVICE_ATTR, AttrType.STRING),
}
_VARIABLE_FLAGS = frozenset(
    (
        "lod_level",
        "persistable",
        "stop_gradient",
        "is_data",
        "need_check_feed",
        "belong_to_optimizer",
        "trainable",
        "do_model_average",
        "need_clip",
        "is_distributed",
        "learning_rate",
    )
)
_INTEGER = re.compile(r"[+-]?\d+")
_MAX_DIGITS = 30  # Python takes quadratic time to read a number


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > _MAX_DIGITS:
        raise FormatError(f"wanted an integer, found {text[:_MAX_DIGITS]!r}")
    return int(text)


class _Line:
    """The tokens of one line and a position in them."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while True:
            match = _TOKEN.match(text, position)
            if match is None:
                raise FormatError(f"cannot read {text[position : position + 20]!r}")
            self.tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            position = match.end()
            if match.lastgroup == "end":
                break
        self.at = 0

    def next(self) -> tuple[str, str]:
        """The next token, taken."""
        token = self.tokens[self.at]
        # the end of the line stays the next token, however often it is asked for
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def has(self, text: str) -> bool:
        """Take the mark or word `text` if it is next."""
        kind, found = self.tokens[self.at]
        if kind != "string" and found == text and kind != "end":
            self.at += 1
            return True
        return False

    def need(self, text: str) -> None:
        """Take the mark or word `text`; FormatError where something else is next."""
        if not self.has(text):
            raise FormatError(f"wanted {text!r}, found {self.tokens[self.at][1] or 'the end of the line'!r}")

    @property
    def done(self) -> bool:
        """True if the line is used up."""
        return self.tokens[self.at][0] == "end"

    def name(self) -> str:
        """A plain or quoted name."""
        kind, text = self.next()
        if kind == "string":
            found: str = json.loads(text, strict=False)
            return found
        if kind != "word":
            raise FormatError(f"wanted a name, found {text or 'the end of the line'!r}")
        return text

    def integer(self) -> int:
        """An integer."""
        return _integer(self.name())

    def many(self, item: Callable[[], T], end: str) -> list[T]:
        """Items between commas, up to `end`."""
        items: list[T] = []
        while not self.has(end):
            if items:
                self.need(",")
            items.append(item())
        return items


def _version(line: _Line) -> tuple[str, int]:
    """`roll=2`: the version of an op type."""
    op_type = line.name()
    line.need("=")
    return op_type, line.integer()


class _TextReader:
    """Fills a program line by line."""

    def __init__(self) -> None:
        self.program = Program()
        self.block: Block | None = None

    def header(self, line: _Line) -> None:
        """`program random_seed=7 file_version=2006002 op_versions=[roll=2]`."""
        line.need("program")
        # without one it has none, whatever seed new programs have
        self.program._seed = 0
        if line.has("random_seed"):
            line.need("=")
            self.program._seed = line.integer()
        if line.has("file_version"):
            line.need("=")
            self.program.file_version = line.integer()
        if line.has("op_versions"):
            line.need("=")
            line.need("[")
            self.program.op_versions = dict(line.many(lambda: _version(line), "]"))

    def start_block(self, line: _Line) -> None:
        """`block 1 parent=0 forward=3`; the blocks themselves are there already."""
        line.need("block")
        index = line.integer()
        if index != (0 if self.block is None else self.block.idx + 1):
            raise FormatError(f"block {index} is out of order")
        self.block = self.program.blocks[index]
        for key, field in (("parent", "parent_idx"), ("forward", "forward_block_idx")):
            if line.has(key):
                line.need("=")
                setattr(self.block, field, line.integer())

    def content(self, line: _Line) -> None:
        """A variable or an op of the current block."""
        if self.block is None:
            raise FormatError("this line comes before the first block")
        if line.tokens[0][1] in ("var", "data", "param") and line.tokens[1][0] in ("word", "string"):
            self.variable(line, self.block)
        else:
            self.operator(line, self.block)

    # ------------------------------------------------------------------ variables
    def variable(self, line: _Line, block: Block) -> None:
        """`data img: float32[-1, 784] lod_level=1`."""
        keyword = line.name()
        name = line.name()
        line.need(":")
        kind, dtype, shape, specs = self.declared_type(line)
        flags = self.flags(line)
        flags.setdefault("is_data", keyword == "data")
        flags.setdefault("persistable", keyword == "param")
        # the text says the factor alone, which is all that most parameters have
        factor = flags.pop("learning_rate", None)
        if factor is not None:
            flags["optimize_attr"] = {"learning_rate": factor}
        var = add_variable(
            block,
            name,
            kind=kind,
            dtype=dtype,
            shape=shape,
            parameter=keyword == "param",
            reader_specs=specs,
            **flags,
        )
        var._persistable = flags["persistable"]

    def declared_type(self, line: _Line) -> tuple[VarType, VarType | None, tuple[int, ...], tuple[Spec, ...]]:
        """`selected_rows float32[10, 3]`, `reader(float32[-1, 3], ...)`, `step_scopes`."""
        word = line.name()
        if line.has("["):
            return VarType.LOD_TENSOR, self.dtype(word), self.shape(line), ()
        kind = self.dtype(word)
        if kind is None:
            raise FormatError("wanted a kind of variable, found 'untyped'")
        if line.has("("):
            return kind, None, (), tuple(line.many(lambda: self.spec(line), ")"))
        ahead, after = line.tokens[line.at : line.at + 2] if not line.done else (("", ""), ("", ""))
        if ahead[0] != "word" or after[1] != "[":
            return kind, None, (), ()
        dtype = self.dtype(line.name())
        line.need("[")
        return kind, dtype, self.shape(line), ()

    @staticmethod
    def dtype(word: str) -> VarType | None:
        """The dtype or kind that `word` names; None for `untyped`."""
        if word != "untyped" and word not in _KINDS:
            raise FormatError(f"{word!r} is neither a dtype nor a kind of variable")
        return _KINDS.get(word)

    @staticmethod
    def shape(line: _Line) -> tuple[int, ...]:
        """The rest of `[-1, 784]`."""
        return tuple(line.many(line.integer, "]"))

    def spec(self, line: _Line) -> Spec:
        """`float32[-1, 3] lod_level=1`."""
        dtype = self.dtype(line.name())
        line.need("[")
        shape = self.shape(line)
        level = 0
        if line.has("lod_level"):
            line.need("=")
            level = line.integer()
        return Spec(shape, VarType.FP32 if dtype is None else dtype, level)

    @staticmethod
    def flags(line: _Line) -> dict[str, Any]:
        """`persistable lod_level=1 need_clip=false`."""
        found: dict[str, Any] = {}
        while not line.done:
            key = line.name()
            if key not in _VARIABLE_FLAGS:
                raise FormatError(f"{key!r} is not a property of a variable")
            found[key] = json.loads(line.name()) if line.has("=") else True
            # properties are numbers and truth values: JSON would let a name in their place pass
            if isinstance(found[key], (str, list, dict)):
                raise FormatError(f"{key} cannot be {found[key]!r}")
        return found

    # ------------------------------------------------------------------ ops
    def operator(self, line: _Line, block: Block) -> None:
        """`mul(X=img, Y=w) -> Out=tmp {x_num_col_dims=1} role=Backward at "train.py":26`."""
        op_type = line.name()
        line.need("(")
        inputs = dict(line.many(lambda: self.slot(line), ")"))
        outputs: dict[str, list[str]] = {}
        if line.has("->"):
            outputs = dict([self.slot(line)])
            while line.has(","):
                outputs.update([self.slot(line)])
        attrs = dict(line.many(lambda: self.attribute(line), "}")) if line.has("{") else {}
        where = None
        while not line.done:
            if line.has("at"):
                where = self.where(line)
                continue
            name, value = self.stamp(line)
            attrs[name] = value
        add_operator(block, op_type, inputs, outputs, attrs, where, defaults=False)

    def slot(self, line: _Line) -> tuple[str, list[str]]:
        """`X=img` or `X=[a, b]`."""
        slot = line.name()
        line.need("=")
        return slot, line.many(line.name, "]") if line.has("[") else [line.name()]

    def attribute(self, line: _Line) -> tuple[str, tuple[AttrType, Any]]:
        """`axis=1`, `shape=[2, 3]: longs`."""
        name = line.name()
        line.need("=")
        value = line.many(lambda: self.scalar(line), "]") if line.has("[") else self.scalar(line)
        if not line.has(":"):
            return name, (infer_attr_type(value), value)
        word = line.name()
        if word.upper() not in AttrType.__members__:
            raise FormatError(f"{word!r} is not a type of an attribute")
        kind = AttrType[word.upper()]
        try:
            if isinstance(value, list) != kind.name.endswith("S"):
                raise TypeError(f"a {type(value).__name__}")
            exact_value(value, kind)
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise FormatError(f"{name} cannot be {value!r}, which is not a value of type {word}") from None
        return name, (kind, value)

    def scalar(self, line: _Line) -> Any:
        """A string, number, True, False, or `block 3`."""
        kind, text = line.tokens[line.at]
        word = line.name()
        if kind == "string":
            return word
        if word == "block":
            index = line.integer()
            if not 0 <= index < len(self.program.blocks):
                raise FormatError(f"there is no block {index}")
            return self.program.blocks[index]
        if word in ("True", "False"):
            return word == "True"
        # `float` reads nan and inf, too, as they are printed
        return _integer(text) if _INTEGER.fullmatch(text) else float(text)

    def stamp(self, line: _Line) -> tuple[str, tuple[AttrType, Any]]:
        """`role=Backward|Loss`, `role_var=[w, w@GRAD]`, `scope="/s1/"`, `device="gpu:0"`."""
        key = line.name()
        if key not in _STAMPS:
            raise FormatError(f"wanted role, role_var, scope, device or at, found {key!r}")
        line.need("=")
        value: Any
        if key == "role":
            value = self.role(line)
        elif key == "role_var":
            line.need("[")
            value = line.many(line.name, "]")
        else:
            value = line.name()
        name, attr_type = _STAMPS[key]
        return name, (attr_type, value)

    @staticmethod
    def role(line: _Line) -> int:
        """`Backward|Loss`, or a number."""
        words = [line.name()]
        while line.has("|"):
            words.append(line.name())
        if len(words) == 1 and _INTEGER.fullmatch(words[0]):
            return _integer(words[0])
        return sum(int(OpRole[word]) for word in words)

    @staticmethod
    def where(line: _Line) -> Where:
        """`"train.py":26 in net`."""
        file = line.name()
        line.need(":")
        number = line.integer()
        return Where(file, number, line.name()) if line.has("in") else Where(file, number)


def parse(text: str) -> Program:
    """The program that `text` describes; FormatError names the line that cannot be read."""
    reader = _TextReader()
    numbered = enumerate(text.split("\n"), 1)
    lines = [
        (number, line) for number, line in numbered if line.strip() and not line.lstrip().startswith("#")
    ]
    # all blocks first: an attribute may name a block that comes later
    blocks = sum(line.startswith("block ") for _, line in lines)
    if blocks > MAX_BLOCKS:
        raise FormatError(f"a program has at most {MAX_BLOCKS} blocks, not {blocks}")
    reader.program.make_blocks(max(blocks, 1))
    for position, (number, line) in enumerate(lines):
        try:
            tokens = _Line(line)
            if position == 0:
                reader.header(tokens)
            elif line.startswith("block "):
                reader.start_block(tokens)
            else:
                reader.content(tokens)
            if not tokens.done:
                raise FormatError(f"unexpected {tokens.tokens[tokens.at][1]!r} at the end of the line")
        except (FormatError, ValueError, TypeError, KeyError) as error:
            raise FormatError(f"line {number}: {error}\n  {line.strip()[:200]}") from None
    if not lines or not blocks:
        raise FormatError("this is not the text of a program: it has no blocks")
    check_parents(reader.program)
    check_blocks(reader.program)
    return reader.program
