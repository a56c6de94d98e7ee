"""An ONNX graph in the making, and the table of rules that write an op into it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.base.errors import MissingExtraError, UnsupportedError
from fluidlite.ir.operator import Operator

__all__ = ["RULES", "OnnxGraph", "OpView", "exports", "onnx_package"]


def onnx_package(name: str = "onnx") -> Any:
    """The package `onnx`, or a module of it; MissingExtraError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError("ONNX files need onnx: pip install 'fluidlite[onnx]'") from error


class OnnxGraph:
    """Nodes and constants. Every value has one name and is written once, as ONNX wants it: `names` maps a
    variable of the program to the value that it has at the moment.
    """

    def __init__(self) -> None:
        self.helper = onnx_package("onnx.helper")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names: dict[str, str] = {}
        self._taken: set[str] = set()

    def name(self, hint: str) -> str:
        """A new name like `hint`."""
        name, number = hint, 0
        while name in self._taken:
            number += 1
            name = f"{hint}.{number}"
        self._taken.add(name)
        return name

    def constant(self, value: Any, dtype: Any = None, hint: str = "constant") -> str:
        """A constant's name."""
        array = np.ascontiguousarray(np.asarray(value, dtype))
        # a 0-d array has become one of [1]
        array = array.reshape(np.shape(value))
        name = self.name(hint)
        self.constants.append(onnx_package("onnx.numpy_helper").from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, hint: str = "", **attrs: Any) -> Any:
        """A node; the name of its output, or the names of several."""
        names = [self.name(hint or f"{kind.lower()}.out") for _ in range(outputs)]
        known = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(self.helper.make_node(kind, list(inputs), names, **known))
        return names[0] if outputs == 1 else names

    def dtype(self, dtype: Any) -> int:
        """ONNX's number for a data type."""
        found: int = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return found


class OpView:
    """One op as its rule sees it: names of ONNX values, attributes, shapes."""

    def __init__(self, graph: OnnxGraph, op: Operator) -> None:
        self.graph, self.op, self.type = graph, op, op.type

    def has(self, slot: str) -> bool:
        """True if something is in an input slot."""
        return bool(self.op.inputs.get(slot))

    def x(self, slot: str = "X", place: int = 0) -> str:
        """The value in an input slot."""
        return self.value(self.op.inputs[slot][place])

    def value(self, name: str) -> str:
        """The value that a variable has at the moment."""
        if name not in self.graph.names:
            raise self.error(f"{name!r} has no value when it is read")
        return self.graph.names[name]

    def all(self, slot: str = "X") -> list[str]:
        """The values in an input slot."""
        return [self.value(name) for name in self.op.inputs[slot]]

    def put(self, value: str, slot: str = "Out", place: int = 0) -> None:
        """Say which value an output has."""
        names = self.op.outputs.get(slot)
        if names:
            self.graph.names[names[place]] = value

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; the default where the file does not have it."""
        value = self.op.attrs.get(name)
        return default if value is None else value

    def var(self, slot: str = "X", place: int = 0) -> Any:
        """The variable in an input slot, or in an output slot of that name."""
        name = (self.op.inputs.get(slot) or self.op.outputs[slot])[place]
        return self.op.block._var_recursive(name)

    def shape(self, slot: str = "X", place: int = 0) -> tuple[int, ...]:
        """The declared shape in a slot."""
        return tuple(self.var(slot, place).shape)

    def rank(self, slot: str = "X") -> int:
        """The number of dimensions in a slot."""
        return len(self.shape(slot))

    def dtype(self, slot: str = "X") -> np.dtype[Any]:
        """The data type in a slot."""
        return np.dtype(to_numpy(self.var(slot).dtype))

    def axes(self, values: Sequence[int] | int, slot: str = "X", more: int = 0) -> list[int]:
        """Axes counted from the front; `more` are those that come to the input's."""
        listed = [values] if isinstance(values, int) else values
        rank = self.rank(slot) + more
        return [int(axis) + rank if axis < 0 else int(axis) for axis in listed]

    def add(self, kind: str, *inputs: str, **attrs: Any) -> Any:
        """A node; see `OnnxGraph.add`."""
        return self.graph.add(kind, *inputs, **attrs)

    def ints(self, *values: int) -> str:
        """A constant of integers in a row."""
        return self.graph.constant(values, np.int64)

    def number(self, value: float, slot: str = "X") -> str:
        """A constant of the type in a slot."""
        return self.graph.constant(value, self.dtype(slot))

    def array(self, name: str) -> Array:
        """The value of a parameter; an error where it is computed."""
        found = next((item for item in self.graph.constants if item.name == self.value(name)), None)
        if found is None:
            raise self.error(f"{name!r} is not a parameter, but ONNX requires a constant")
        array: Array = onnx_package("onnx.numpy_helper").to_array(found)
        return array

    def error(self, why: str) -> UnsupportedError:
        """An error that names the op and the user's line."""
        return UnsupportedError(f"no ONNX equivalent of op {self.type!r}: {why}{_built_at(self.op)}")


def _built_at(op: Operator) -> str:
    return "" if op.where is None else f" (built at {op.where})"


Rule: TypeAlias = "Callable[[OpView], None]"
RULES: dict[str, Rule] = {}


def exports(*types: str) -> Callable[[Rule], Rule]:
    """Enter a rule into the table, for these types of ops."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(types, rule))
        return rule

    return enter
