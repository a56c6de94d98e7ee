"""An ONNX graph on its way into a program, and the tables of rules that append the ops of a node.

A rule reads or refuses every attribute and every input of its node: an attribute that it does not read must
have the value that ONNX gives it by default, and an input that it does not read must be absent.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import Array, to_vartype
from fluidlite.base.errors import EnforceNotMet, FormatError, UnsupportedError, did_you_mean
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.graph import onnx_package
from fluidlite.saving.onnx.loading.files import OnnxFile
from fluidlite.saving.onnx.loading.values import MOST_PARTS, OnnxValue, RunSize, constant_of

__all__ = ["FOLDS", "NOT_READ", "READERS", "GraphReader", "NodeView", "folds", "parts_of_shape", "reads"]

Reader: TypeAlias = "Callable[[NodeView], None]"
Fold: TypeAlias = "Callable[..., Array | tuple[Array, Any] | None]"
READERS: dict[str, Reader] = {}
"""ONNX op -> the rule that appends the ops of a node."""
FOLDS: dict[str, Fold] = {}
"""ONNX op -> what is known of its result from the parts of its inputs, which `NodeView` describes."""

NOT_READ = {
    "SequenceErase": "an array of tensors loses no entry, unless another one is inserted in its place at once"
}
"""ONNX ops that our own files have, and why no rule reads them."""


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Enter a rule into the table, for these ONNX ops."""

    def enter(rule: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, rule))
        return rule

    return enter


def folds(*kinds: str) -> Callable[[Fold], Fold]:
    """Enter a function that computes with the parts of values: it gives the parts of the first output, with
    their data type where that is not the first input's, or None.
    """

    def enter(fold: Fold) -> Fold:
        FOLDS.update(dict.fromkeys(kinds, fold))
        return fold

    return enter


@functools.cache
def _schema(kind: str, opset: int) -> Any:
    """ONNX's declaration of an op; None where it has none of that name."""
    defs = onnx_package("onnx.defs")
    try:
        return defs.get_schema(kind, opset, "")
    except defs.SchemaError:
        return None


class OpenGraph:
    """A graph, and how many of its nodes have been read."""

    def __init__(self, graph: Any, repeats: bool) -> None:
        self.graph = graph
        self.repeats = repeats
        self.done = 0

    def later(self) -> Iterator[str]:
        """The names that nodes behind the current one read, and those of the results."""
        for node in self.graph.node[self.done + 1 :]:
            yield from _read_by(node)
        yield from (output.name for output in self.graph.output)

    def defined(self) -> Iterator[str]:
        """The names that belong to this graph."""
        yield from (each.name for each in self.graph.input)
        for node in self.graph.node:
            yield from node.output


def _inner(node: Any) -> list[Any]:
    """The graphs in a node's attributes."""
    return [each.g for each in node.attribute if each.HasField("g")]


def _read_by(node: Any) -> Iterator[str]:
    yield from node.input
    for graph in _inner(node):
        yield from _used(graph)


def _used(graph: Any) -> Iterator[str]:
    """The names that somebody reads."""
    for node in graph.node:
        yield from _read_by(node)
    yield from (output.name for output in graph.output)


def _count(graph: Any) -> int:
    return sum(1 + sum(map(_count, _inner(node))) for node in graph.node)


class GraphReader:
    """Values by their names in the file, and the program that the nodes go into.

    Every name has one value. `values` has those of outer graphs beneath those of the branch that is being
    read, and `block` is the branch's. `weights` are the arrays of persistable variables by name.
    """

    def __init__(self, file: OnnxFile, program: Program) -> None:
        self.file = file
        self.program = program
        self.values: ChainMap[str, OnnxValue] = ChainMap()
        self.weights: dict[str, Array] = {}
        self.taken: set[str] = {"", "feed", "fetch", "@EMPTY@"}
        self.used = {*_used(file.model.graph)} - {""}
        self._numbers: collections.Counter[str] = collections.Counter()
        self.entries: dict[str, tuple[int, ...]] = {}
        """Arrays of tensors by name, and the sizes that all their entries have."""
        self.levels: list[OpenGraph] = []
        """The graphs that are being read, the innermost one last."""
        # loops are read again until the shapes of their values hold; those in loops, again each time
        self._left = 1000 + 16 * _count(file.model.graph)

    @property
    def block(self) -> Any:
        """The block that ops are appended to."""
        return self.program.current_block()

    def name(self, hint: str) -> str:
        """A new name like `hint`."""
        name = hint
        while name in self.taken:
            # counted, as thousands of values may be called alike
            self._numbers[hint] += 1
            name = f"{hint}.{self._numbers[hint]}"
        self.taken.add(name)
        return name

    def variable(self, value: OnnxValue, hint: str = "constant") -> Variable:
        """The variable of a value; an array becomes a weight."""
        if value.variable is None:
            assert value.array is not None
            name = self.name(hint)
            value.variable = self.program.global_block().create_var(
                name=name,
                shape=value.array.shape,
                dtype=to_vartype(value.array.dtype),
                persistable=True,
                stop_gradient=True,
            )
            self.weights[name] = value.array
        return value.variable

    @contextlib.contextmanager
    def branch(self) -> Iterator[Any]:
        """A block of the program and names of its own."""
        block = self.program._create_block()
        self.values = self.values.new_child()
        try:
            yield block
        finally:
            self.values = self.values.parents
            self.program._rollback()

    def define(self, name: str, value: OnnxValue) -> None:
        """Give a name its value; FormatError where it has one."""
        if not name or name in self.values:
            raise FormatError(f"the graph has two values called {name!r}, or one without a name")
        self.values[name] = value

    def read_graph(self, graph: Any, repeats: bool = False) -> None:
        """The constants and nodes of a graph, or of a branch, or of a body that `repeats`."""
        if graph.sparse_initializer:
            raise UnsupportedError("the graph has sparse constants")
        for tensor in graph.initializer:
            self.define(tensor.name, OnnxValue.constant(self.file.array(tensor)))
        self.levels.append(OpenGraph(graph, repeats))
        for node in graph.node:
            self._left -= 1
            if self._left < 0:
                raise UnsupportedError(
                    "the graph has loops inside of loops, whose values change their shapes"
                )
            self.read(node)
            self.levels[-1].done += 1
        self.levels.pop()

    def results(self, graph: Any) -> list[OnnxValue]:
        """The values of a graph's outputs; FormatError where nothing computes one."""
        for output in graph.output:
            if output.name not in self.values:
                raise FormatError(f"nothing computes the output {output.name!r} of graph {graph.name!r}")
        return [self.values[output.name] for output in graph.output]

    def is_last_reader(self, variable: Variable) -> bool:
        """True if no node behind the one that is being read needs the value that a variable has now."""
        names = {name for name, value in self.values.items() if value.variable is variable}
        for level in reversed(self.levels):
            if names.intersection(level.later()):
                return False
            if names.intersection(level.defined()):
                return True
            if level.repeats:
                return False
        return True

    def read(self, node: Any) -> None:
        """Append the ops of a node."""
        view = NodeView(self, node)
        view.check_form()
        reader = READERS.get(node.op_type)
        if reader is None:
            why = NOT_READ.get(node.op_type)
            raise view.error(why or f"there is no rule for it{did_you_mean(node.op_type, READERS)}")
        try:
            known = view.folded()
            if known is None or known.array is None:
                reader(view)
        except (EnforceNotMet, TypeError, ValueError, IndexError, OverflowError) as error:
            if isinstance(error, (UnsupportedError, FormatError)):
                raise
            first = str(error).partition("\n")[0]
            raise view.error(f"its inputs do not fit ({first})") from error
        if known is not None:
            view.put_known(known)
        view.check_all_was_read()


class NodeView:
    """One node as its rule sees it: inputs by place, attributes, and the ops that the rule appends.

    Parts of values, for `FOLDS`, are arrays of objects: numbers, a `RunSize`, or None for what is not known.
    """

    def __init__(self, graph: GraphReader, node: Any) -> None:
        self.graph = graph
        self.node = node
        self.kind = node.op_type
        self.opset = graph.file.opset
        is_own = node.domain in ("", "ai.onnx")
        self.schema: Any = _schema(node.op_type, self.opset) if is_own else None
        self._read: set[str] = set()
        self._read_inputs: set[int] = set()

    # ------------------------------------------------------------------ the node
    def check_form(self) -> None:
        """FormatError or UnsupportedError for a node that ONNX's declaration of the op does not allow."""
        if self.schema is None:
            where = f"of {self.node.domain!r}" if self.node.domain else f"in opset {self.opset}"
            raise self.error(f"there is no such op {where}")
        least = self.schema.min_input
        most = self.schema.max_input
        if not least <= len(self.node.input) <= most:
            raise self.malformed(f"it has {len(self.node.input)} inputs, and needs {least} to {most}")
        least = self.schema.min_output
        most = self.schema.max_output
        if not least <= len(self.node.output) <= most:
            raise self.malformed(f"it has {len(self.node.output)} outputs, and may have {least} to {most}")
        for each in self.node.attribute:
            declared = self.schema.attributes.get(each.name)
            if declared is None:
                raise self.error(f"opset {self.opset} has no attribute {each.name!r} of it")
            if each.ref_attr_name or each.type != declared.type.value:
                raise self.malformed(f"its attribute {each.name!r} has another type than ONNX says")
        given = {each.name for each in self.node.attribute}
        for name, declared in self.schema.attributes.items():
            if declared.required and name not in given:
                raise self.malformed(f"it has no attribute {name!r}")
        for name in self.node.input:
            if name and name not in self.graph.values:
                raise self.malformed(f"nothing before it computes its input {name!r}")

    def has(self, place: int) -> bool:
        """True if there is an input at a place."""
        self._read_inputs.add(place)
        return place < len(self.node.input) and bool(self.node.input[place])

    def value(self, place: int = 0) -> OnnxValue:
        """The input at a place."""
        if not self.has(place):
            raise self.malformed(f"its input {self._input_name(place)} is absent")
        return self.graph.values[self.node.input[place]]

    def values(self) -> list[OnnxValue]:
        """All inputs."""
        return [self.value(place) for place in range(len(self.node.input))]

    def x(self, place: int = 0) -> Variable:
        """The variable of the input at a place."""
        return self.graph.variable(self.value(place), self.node.input[place])

    def all(self) -> list[Variable]:
        """The variables of all inputs."""
        return [self.x(place) for place in range(len(self.node.input))]

    def array(self, place: int) -> Array:
        """The input at a place, which must be known; UnsupportedError where the run alone knows it."""
        found = self.value(place).array
        if found is None:
            raise self.error(
                f"its input {self._input_name(place)} is computed, and can be read where it is constant"
            )
        return found

    def ints(self, place: int) -> list[int]:
        """The whole numbers of an input that must be known."""
        return [int(each) for each in self.array(place).reshape(-1)]

    def shape(self, place: int = 0) -> tuple[int, ...]:
        """The shape of an input, -1 for sizes that are not known."""
        found = self.value(place)
        return found.shape

    def rank(self, place: int = 0) -> int:
        """The number of dimensions of an input."""
        return len(self.shape(place))

    def dtype(self, place: int = 0) -> np.dtype[Any]:
        """The data type of an input."""
        found = self.value(place)
        return found.dtype

    def axis(self, value: int, rank: int | None = None) -> int:
        """An axis counted from the front."""
        rank = self.rank() if rank is None else rank
        if not -rank <= value < max(rank, 1):
            raise self.malformed(f"axis {value} is outside of {rank} dimensions")
        return value + rank if value < 0 else value

    def attr(self, name: str) -> Any:
        """An attribute, or ONNX's default; None where there is neither."""
        self._read.add(name)
        helper = onnx_package("onnx.helper")
        for each in self.node.attribute:
            if each.name == name:
                return _plain(helper.get_attribute_value(each))
        declared = self.schema.attributes.get(name) if self.schema is not None else None
        if declared is None or not declared.default_value.name:
            return None
        return _plain(helper.get_attribute_value(declared.default_value))

    def idle(self, *names: str) -> None:
        """Say that attributes have no influence on the result."""
        self._read.update(names)

    def wants(self, place: int) -> bool:
        """True if somebody reads an output."""
        return place < len(self.node.output) and self.node.output[place] in self.graph.used

    def only(self, *places: int) -> None:
        """UnsupportedError where another output than these is asked for."""
        for place in range(len(self.node.output)):
            if place not in places and self.wants(place):
                raise self.error(f"its output {self.schema.outputs[place].name} is asked for")

    def _input_name(self, place: int) -> str:
        names = [each.name for each in self.schema.inputs]
        return repr(names[min(place, len(names) - 1)]) if names else str(place)

    # ------------------------------------------------------------------ what becomes of it
    def emit(
        self,
        type: str,
        inputs: Mapping[str, Any],
        attrs: Mapping[str, Any] | None = None,
        *,
        slot: str = "Out",
        others: Sequence[str] = (),
        scalar: bool = False,
    ) -> Variable:
        """Append an op; the variable in one of its output slots. `others` are slots that it needs besides,
        and `scalar` says that the result has no dimensions.
        """
        return self.emit_all(type, inputs, attrs, {slot: 1, **dict.fromkeys(others, 1)}, scalar)[0]

    def emit_all(
        self,
        type: str,
        inputs: Mapping[str, Any],
        attrs: Mapping[str, Any] | None,
        slots: Mapping[str, int],
        scalar: bool = False,
    ) -> list[Variable]:
        """Append an op; the variables in its output slots, as many as `slots` says for each."""
        definition = registry.get(type)
        outputs = {slot: [self.new() for _ in range(count)] for slot, count in slots.items()}
        marks = {registry.ZERO_DIM_ATTR: [next(iter(slots))]} if scalar else {}
        given = {slot: each if isinstance(each, list) else [each] for slot, each in inputs.items()}
        self.graph.block.append_op(type=type, inputs=given, outputs=outputs, attrs={**(attrs or {}), **marks})
        made = [var for each in outputs.values() for var in each]
        for var in made if definition.dynamic else ():
            # nothing may be concluded from sizes that are only supposed
            var.desc.set_shape([-1] * len(var.shape))
        return made

    def new(self, **declared: Any) -> Variable:
        """A new variable, named after the node's output."""
        hint = next((name for name in self.node.output if name), "unread")
        made: Variable = self.graph.block.create_var(name=self.graph.name(hint), **declared)
        return made

    def fixed(self, array: Any, dtype: Any = None) -> Variable:
        """A variable with values that are known."""
        return self.graph.variable(OnnxValue.constant(np.asarray(array, dtype)))

    def put(self, made: Variable | OnnxValue, place: int = 0) -> None:
        """Say which value an output has."""
        if self.wants(place):
            value = made if isinstance(made, OnnxValue) else OnnxValue(made)
            wanted = self._dtype_of(place)
            if wanted is not None and value.dtype != wanted:
                # ops of fluid may give another one, as sums of int32 do
                value = OnnxValue(self.cast(self.graph.variable(value), wanted))
            self.graph.define(self.node.output[place], value)

    def _dtype_of(self, place: int) -> np.dtype[Any] | None:
        """The data type that ONNX says an output has, where that is one of an input's."""
        declared = self.schema.outputs[min(place, len(self.schema.outputs) - 1)]
        for at, given in enumerate(self.schema.inputs):
            is_there = at < len(self.node.input) and bool(self.node.input[at])
            if is_there and given.type_str == declared.type_str and given.is_homogeneous:
                return self.graph.values[self.node.input[at]].dtype if declared.is_homogeneous else None
        return None

    def put_all(self, made: Sequence[Variable]) -> None:
        """Say which values the outputs have."""
        for place, var in enumerate(made):
            self.put(var, place)

    def put_known(self, known: OnnxValue) -> None:
        """The first output is a constant, or its parts are known."""
        if known.array is not None:
            self.put(known)
        elif self.wants(0):
            self.graph.values[self.node.output[0]].parts = known.parts

    def folded(self) -> OnnxValue | None:
        """The first output, as far as the parts of the inputs tell it; None where they do not."""
        fold = FOLDS.get(self.kind)
        if fold is None or [place for place in range(len(self.node.output)) if self.wants(place)] != [0]:
            return None
        given = [self.graph.values[name].parts if name else None for name in self.node.input]
        pairs = zip(given, self.node.input, strict=True)
        if self.kind not in _OF_SHAPES and any(parts is None and name for parts, name in pairs):
            return None
        made = fold(self, *given)
        if made is None:
            return None
        parts, dtype = made if isinstance(made, tuple) else (made, self.dtype())
        if parts.size > MOST_PARTS:
            return None
        array = constant_of(parts, dtype)
        if array is not None:
            self._read_inputs.update(range(len(self.node.input)))
            return OnnxValue.constant(array)
        return OnnxValue(parts=parts) if np.dtype(dtype) == np.int64 else None

    def check_all_was_read(self) -> None:
        """UnsupportedError for an attribute or input that the rule has not read, and that may count."""
        helper = onnx_package("onnx.helper")
        for each in self.node.attribute:
            if each.name in self._read:
                continue
            declared = self.schema.attributes[each.name].default_value
            usual = helper.get_attribute_value(declared) if declared.name else None
            value = helper.get_attribute_value(each)
            if value != usual:
                raise self.error(
                    f"its attribute {each.name!r} is {_plain(value)!r}, and the rule knows {_plain(usual)!r} "
                    "alone"
                )
        for place, name in enumerate(self.node.input):
            if name and place not in self._read_inputs:
                raise self.error(f"the rule does not read its input {self._input_name(place)}")
        for place, name in enumerate(self.node.output):
            if self.wants(place) and name not in self.graph.values:
                raise self.error(f"the rule does not give its output {name!r}")

    def error(self, why: str) -> UnsupportedError:
        """An error that names the node."""
        return UnsupportedError(f"no equivalent of ONNX op {self._called()}: {why}")

    def malformed(self, why: str) -> FormatError:
        """An error of the file that names the node."""
        return FormatError(f"ONNX op {self._called()} is malformed: {why}")

    def _called(self) -> str:
        name = self.node.name or next(iter(self.node.output), "")
        return f"{self.kind!r} (node {name!r})"

    # ------------------------------------------------------------------ ops that many rules append
    def one(self, type: str, x: Variable, **attrs: Any) -> Variable:
        """The result of an op `X -> Out`."""
        return self.emit(type, {"X": x}, attrs)

    def two(self, type: str, x: Variable, y: Variable, **attrs: Any) -> Variable:
        """The result of an op `X Y -> Out`."""
        return self.emit(type, {"X": x, "Y": y}, attrs)

    def cast(self, x: Variable, dtype: Any) -> Variable:
        """The same in another data type."""
        wanted = to_vartype(np.dtype(dtype))
        if x.dtype == wanted:
            return x
        return self.emit("cast", {"X": x}, {"in_dtype": x.dtype, "out_dtype": wanted})

    def transposed(self, x: Variable, order: Sequence[int]) -> Variable:
        """Dimensions in another order."""
        listed = list(order)
        return self.emit("transpose2", {"X": x}, {"axis": listed})

    def unsqueezed(self, x: Variable, axes: Sequence[int]) -> Variable:
        """With dimensions of 1 at these places of the result."""
        return self.emit("unsqueeze2", {"X": x}, {"axes": sorted(axes)}) if axes else x

    def squeezed(self, x: Variable, axes: Sequence[int]) -> Variable:
        """Without these dimensions of 1."""
        if not axes:
            return x
        scalar = len(set(axes)) == len(x.shape)
        listed = list(axes)
        return self.emit("squeeze2", {"X": x}, {"axes": listed}, scalar=scalar)

    def sizes(self, x: Variable) -> Variable:
        """All sizes of a variable, in int64."""
        return self.cast(self.emit("shape", {"Input": x}), np.int64)

    def reshaped(self, x: Variable, sizes: Sequence[int]) -> Variable:
        """The same elements in another shape: 0 keeps a size, and -1 is what is left."""
        listed = list(sizes)
        return self.emit("reshape2", {"X": x}, {"shape": listed}, scalar=not sizes)

    def part(self, x: Variable, axis: int, start: int, end: int) -> Variable:
        """A range along a dimension."""
        return self.emit("slice", {"Input": x}, {"axes": [axis], "starts": [start], "ends": [end]})


_OF_SHAPES = frozenset(("Shape", "Size"))
"""Ops that read no element, so that their inputs need not be known."""


def _plain(value: Any) -> Any:
    """An attribute's value with text as text."""
    if isinstance(value, bytes):
        return value.decode("utf8", "replace")
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [_plain(each) for each in value]
    return value


def parts_of_shape(var: Variable, shape: Sequence[int]) -> Array:
    """The parts of a variable's shape."""
    count = len(shape)
    found = np.empty(count, object)
    for axis, size in enumerate(shape):
        found[axis] = size if size >= 0 else RunSize(var.name, axis)
    return found
