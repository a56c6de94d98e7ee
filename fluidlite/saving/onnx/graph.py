"""An ONNX graph in the making, and the table of rules that write an op into it."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import MissingExtraError, UnsupportedError, did_you_mean
from fluidlite.base.kept_attrs import IDLE, kept_attrs
from fluidlite.ir.operator import COMMON_TYPES, Operator
from fluidlite.saving.variables import value_of

__all__ = [
    "OLDEST",
    "OPSET",
    "RULES",
    "OnnxGraph",
    "OpView",
    "exports",
    "exports_expressions",
    "onnx_package",
    "rule_of",
]

OLDEST = 13  # the first opset whose nodes take their axes and sizes as the rules write them
OPSET = 17  # the first with LayerNormalization; read since 2022
_NEWEST_REDUCTION = 18  # reductions take their axes as an input from there on


def onnx_package(name: str = "onnx") -> Any:
    """The package `onnx`, or a module of it; MissingExtraError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError("ONNX files need onnx: pip install 'fluidlite[onnx]'") from error


class OnnxGraph:
    """Nodes and constants. Every value has one name and is written once, as ONNX wants it: `names` maps a
    variable of the program to the value that it has at the moment, `held` to its data type where that is not
    the declared one.

    `nodes` are those of the graph or of the branch that is being written; constants belong to the whole.
    """

    def __init__(self, opset: int = OPSET) -> None:
        self.helper = onnx_package("onnx.helper")
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.held: dict[str, Any] = {}
        self._parameters: dict[str, str] = {}
        self._numbers: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._taken: set[str] = set()
        self._next: collections.Counter[str] = collections.Counter()

    def name(self, hint: str) -> str:
        """A new name like `hint`."""
        name = hint
        while name in self._taken:
            # counted, as thousands of values may be called alike
            self._next[hint] += 1
            name = f"{hint}.{self._next[hint]}"
        self._taken.add(name)
        return name

    def constant(self, value: Any, dtype: Any = None, hint: str = "constant") -> str:
        """A constant's name; small ones that are equal are one."""
        array = np.ascontiguousarray(np.asarray(value, dtype))
        # a 0-d array has become one of [1]
        shape = np.shape(value)
        array = array.reshape(shape)
        key = (array.tobytes(), array.dtype.str, array.shape)
        is_small = hint == "constant" and array.size <= 16
        if is_small and key in self._numbers:
            return self._numbers[key]
        name = self.name(hint)
        self.constants[name] = onnx_package("onnx.numpy_helper").from_array(array, name)
        if is_small:
            self._numbers[key] = name
        return name

    def parameter(self, var: Any) -> str:
        """The constant that holds a parameter of the global scope."""
        if var.name not in self._parameters:
            self._parameters[var.name] = self.constant(np.asarray(value_of(var)), hint=var.name)
        return self._parameters[var.name]

    def add(self, kind: str, *inputs: str, outputs: int = 1, hint: str = "", **attrs: Any) -> Any:
        """A node; the name of its output, or the names of several."""
        names = [self.name(hint or f"{kind.lower()}.out") for _ in range(outputs)]
        known = {key: value for key, value in attrs.items() if value is not None}
        made = self.helper.make_node(kind, list(inputs), names, **known)
        self.nodes.append(made)
        return names[0] if outputs == 1 else names

    def reduce(self, kind: str, value: str, axes: Sequence[int], keep: bool = False) -> str:
        """A reduction, whose axes are an attribute or an input, as the opset has it."""
        axes = [int(axis) for axis in axes]
        if not axes:
            # of a single number
            return str(self.add(kind, value, keepdims=int(keep)))
        if kind == "ReduceSum" or self.opset >= _NEWEST_REDUCTION:
            listed = self.constant(axes, np.int64)
            return str(self.add(kind, value, listed, keepdims=int(keep)))
        return str(self.add(kind, value, axes=axes, keepdims=int(keep)))

    def type_of(self, var: Any) -> np.dtype[Any]:
        """The data type of a variable's values."""
        found = self.held.get(var.name, var.dtype)
        return np.dtype(to_numpy(found))

    def dtype(self, dtype: Any) -> int:
        """ONNX's number for a data type."""
        found: int = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return found

    @contextmanager
    def branch(self) -> Iterator[list[Any]]:
        """The nodes that are written inside go to a list of their own, and what variables become inside is
        forgotten behind.
        """
        nodes = self.nodes
        names = self.names
        self.nodes, self.names = [], dict(names)
        try:
            yield self.nodes
        finally:
            self.nodes, self.names = nodes, names

    def info(self, name: str, dtype: Any, kind: VarType = VarType.LOD_TENSOR, rank: int | None = None) -> Any:
        """The type of an input or output of a branch, of any shape, or of any of a rank."""
        if kind == VarType.LOD_TENSOR_ARRAY:
            return self.helper.make_tensor_sequence_value_info(name, self.dtype(dtype), None)
        shape = None if rank is None else [None] * rank
        return self.helper.make_tensor_value_info(name, self.dtype(dtype), shape)

    def subgraph(self, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The graph of a branch or of a loop's body."""
        name = self.name("body")
        return self.helper.make_graph(list(nodes), name, list(inputs), list(outputs))

    def translate(self, op: Operator) -> None:
        """Write an op by its rule; UnsupportedError where there is none, or where the rule leaves something
        of the op unread that would change its result.
        """
        view = OpView(self, op)
        rule = rule_of(op.type)
        if rule is None:
            raise view.error(f"there is no rule for it{did_you_mean(op.type, RULES)}")
        rule(view)
        view.check_all_was_read()


class OpView:
    """One op as its rule sees it: names of ONNX values, attributes, shapes.

    The view notes which attributes and slots the rule reads. An attribute that it does not read must have the
    value that the op has without it, and a slot that it does not read must be empty.
    """

    def __init__(self, graph: OnnxGraph, op: Operator) -> None:
        self.graph, self.op, self.type = graph, op, op.type
        self._read: set[str] = set()
        self._written: set[str] = set()

    def has(self, slot: str) -> bool:
        """True if something is in an input slot."""
        self._read.add(slot)
        found = self.op.inputs.get(slot)
        return bool(found)

    def x(self, slot: str = "X", place: int = 0) -> str:
        """The value in an input slot."""
        self._read.add(slot)
        return self.value(self.op.inputs[slot][place])

    def value(self, name: str) -> str:
        """The value that a variable has at the moment."""
        names = self.graph.names
        if name not in names:
            var = self.op.block._find_var_recursive(name)
            # scratch memory of a kernel is persistable too, and no tensor
            if var is None or not var.persistable or var.type != VarType.LOD_TENSOR:
                raise self.error(f"{name!r} has no value when it is read")
            names[name] = self.graph.parameter(var)
        return names[name]

    def all(self, slot: str = "X") -> list[str]:
        """The values in an input slot."""
        self._read.add(slot)
        return [self.value(name) for name in self.op.inputs.get(slot, ())]

    def put(self, value: str, slot: str = "Out", place: int = 0) -> None:
        """Say which value an output has."""
        names = self.op.outputs.get(slot)
        if not names:
            return
        if slot in self.op.attrs.get(registry.ZERO_DIM_ATTR, ()):
            # rules say [1], as fluid does
            value = self.add("Reshape", value, self.graph.constant(np.zeros(0), np.int64))
        self.graph.names[names[place]] = value
        self._written.add(names[place])
        definition = registry.get(self.type)
        if slot in definition.held_as:
            self.graph.held[names[place]] = definition.held_as[slot]

    def put_name(self, name: str, value: str) -> None:
        """Say which value a variable has that the op's sub-block writes."""
        self.graph.names[name] = value
        self._written.add(name)

    def put_all(self, values: str | Sequence[str], slot: str = "Out") -> None:
        """Say which values all outputs of a slot have."""
        for place, value in enumerate([values] if isinstance(values, str) else values):
            self.put(value, slot, place)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; where the file does not have it the default, or else the op's own."""
        self._read.add(name)
        value = self.op.attrs.get(name)
        if value is None and default is None:
            return self._declared(name)
        return default if value is None else value

    def _declared(self, name: str) -> Any:
        definition = registry.find(self.type)
        found = definition.attr_defs.get(name) if definition is not None else None
        return None if found is None or found.required else found.default

    def idle(self, *names: str) -> None:
        """Say that attributes or slots have no influence on what the rule writes."""
        self._read.update(names)

    def check_all_was_read(self) -> None:
        """UnsupportedError for an attribute or slot that the rule has not read, and that may count.

        Outputs that the rule has not put have no value from here on, also where they had one before.
        """
        definition = registry.get(self.type)
        known = {**kept_attrs(self.type), **definition.attr_defs}
        silent = {*COMMON_TYPES, *IDLE, *definition.idle, registry.ZERO_DIM_ATTR}
        for name, value in self.op.attrs.items():
            if name not in known or name in silent or name in self._read:
                continue
            usual = definition.only.get(name, known[name].default)
            if value != usual:
                raise self.error(f"its attribute {name!r} is {value!r}, and the rule knows {usual!r} alone")
        for slot, names in self.op.inputs.items():
            if names and names != [registry.EMPTY_VAR] and slot not in self._read:
                raise self.error(f"the rule does not read its input slot {slot}, which holds {names}")
        for name in self.op.output_arg_names:
            if name not in self._written:
                self.graph.names.pop(name, None)

    def needs_opset(self, least: int) -> None:
        """UnsupportedError where the file's opset is an older one."""
        if self.graph.opset < least:
            raise self.error(
                f"opset {self.graph.opset} cannot say it: it needs --opset {least} or a later one"
            )

    def var(self, slot: str = "X", place: int = 0) -> Any:
        """The variable in an input slot, or in an output slot of that name."""
        name = (self.op.inputs.get(slot) or self.op.outputs[slot])[place]
        return self.op.block._var_recursive(name)

    def shape(self, slot: str = "X", place: int = 0) -> tuple[int, ...]:
        """The declared shape in a slot."""
        return tuple(self.var(slot, place).shape)

    def rank(self, slot: str = "X") -> int:
        """The number of dimensions in a slot."""
        shape = self.shape(slot)
        return len(shape)

    def dtype(self, slot: str = "X") -> np.dtype[Any]:
        """The data type in a slot."""
        made = self.var(slot)
        return self.graph.type_of(made)

    def axes(self, values: Sequence[int] | int, slot: str = "X", more: int = 0) -> list[int]:
        """Axes counted from the front; `more` are those that come to the input's."""
        listed = [values] if isinstance(values, int) else values
        rank = self.rank(slot) + more
        if listed and not rank:
            raise self.error(f"{slot} is a single number without dimensions")
        return [int(axis) + rank if axis < 0 else int(axis) for axis in listed]

    def add(self, kind: str, *inputs: str, **attrs: Any) -> Any:
        """A node; see `OnnxGraph.add`."""
        return self.graph.add(kind, *inputs, **attrs)

    def cast(self, value: str, dtype: Any) -> str:
        """A value in another data type."""
        cast = self.add("Cast", value, to=self.graph.dtype(dtype))
        return str(cast)

    def ints(self, *values: int) -> str:
        """A constant of integers in a row."""
        return self.graph.constant(values, np.int64)

    def whole(self, value: int) -> str:
        """A constant of one whole number without dimensions."""
        return self.graph.constant(value, np.int64)

    def scalar_shape(self) -> str:
        """The shape of a number without dimensions."""
        return self.graph.constant(np.zeros(0), np.int64)

    def sizes(self, slot: str, slots: str, attribute: str) -> str:
        """Whole numbers in a row, from a list of tensors, from one tensor, or from an attribute."""
        values = self.all(slots) if slots else []
        if values:
            self.idle(slot, attribute)
            rows = [self.add("Reshape", self.cast(value, np.int64), self.ints(1)) for value in values]
            concat = self.add("Concat", *rows, axis=0)
            return str(concat)
        if slot and self.has(slot):
            self.idle(attribute)
            cast = self.cast(self.x(slot), np.int64)
            reshape = self.add("Reshape", cast, self.ints(-1))
            return str(reshape)
        return self.ints(*(self.attr(attribute) if attribute else ()))

    def dims(self, value: str, first: int, last: int) -> str:
        """Some sizes of a value, in a row."""
        shape = self.add("Shape", value)
        part = self.add("Slice", shape, self.ints(first), self.ints(last))
        return str(part)

    def number(self, value: float, slot: str = "X") -> str:
        """A constant of the type in a slot; UnsupportedError where that type cannot hold it."""
        dtype = self.dtype(slot)
        if dtype.kind in "iu" and float(value) != int(value):
            raise self.error(f"{value} is not an integer, but {slot} holds {dtype}")
        return self.graph.constant(value, dtype)

    def array(self, name: str) -> Array:
        """The value of a parameter; an error where it is computed."""
        found = self.graph.constants.get(self.value(name))
        if found is None:
            raise self.error(f"{name!r} is not a parameter, but ONNX requires a constant")
        array: Array = onnx_package("onnx.numpy_helper").to_array(found)
        return array

    def parameter(self, slot: str) -> Array:
        """The value of the parameter in a slot."""
        self._read.add(slot)
        return self.array(self.op.inputs[slot][0])

    def error(self, why: str) -> UnsupportedError:
        """An error that names the op and the user's line."""
        return UnsupportedError(f"no ONNX equivalent of op {self.type!r}: {why}{_built_at(self.op)}")


def _built_at(op: Operator) -> str:
    return "" if op.where is None else f" (built at {op.where})"


Rule: TypeAlias = "Callable[[OpView], None]"
RULES: dict[str, Rule] = {}
_BY_EXPRESSION: list[Rule] = []


def rule_of(op_type: str) -> Rule | None:
    """The rule for a type of ops: its own, or that for ops of one operand that declare an expression."""
    definition = registry.find(op_type)
    if op_type in RULES or definition is None:
        return RULES.get(op_type)
    is_plain = definition.expr is not None and list(definition.inputs) == ["X"]
    return _BY_EXPRESSION[0] if is_plain and not op_type.endswith("_grad") else None


def exports_expressions(rule: Rule) -> Rule:
    """Declare the rule for ops of one operand that declare an expression."""
    _BY_EXPRESSION[:] = [rule]
    return rule


def exports(*types: str) -> Callable[[Rule], Rule]:
    """Enter a rule into the table, for these types of ops."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(types, rule))
        return rule

    return enter
