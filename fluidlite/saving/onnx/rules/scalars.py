"""ONNX for element-wise ops: written from the scalar expression that each op declares.

An op for which ONNX has a node of its own, with the same meaning, gets that node instead.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base import registry
from fluidlite.ops.kernels.scalar import ExprNode, Ref, parse
from fluidlite.saving.onnx.graph import OpView, exports, exports_expressions

__all__ = ["expression", "node_of"]

Operand: TypeAlias = "str | float | bool"
"""The name of a value, or a number that is known."""

_NODES = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "rint": "Round",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "maximum": "Max",
    "minimum": "Min",
    "pow": "Pow",
    "where": "Where",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "lt": "Less",
    "le": "LessOrEqual",
    "eq": "Equal",
    "both": "And",
    "either": "Or",
    "invert": "Not",
    "differ": "Xor",
    "isnan": "IsNaN",
    "erf": "Erf",
}
_BY_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "exp": np.exp,
    "log": np.log,
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "maximum": max,
    "minimum": min,
}
"""Functions of numbers that are known: none of them needs a node."""
# of whole numbers these give fractions, which our kernels cut off and ONNX refuses or keeps
_FRACTIONS = frozenset(
    ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")
    + ("sinh", "cosh", "tanh", "erf", "pow", "div")
)


class _ExpressionNodes:
    """Writes the nodes of one expression, whose names are values or numbers."""

    def __init__(self, op: OpView, known: dict[str, Operand], dtype: np.dtype[Any]) -> None:
        self.op, self.known, self.dtype = op, known, dtype
        self.made: dict[int, Operand] = {}

    def value(self, operand: Operand) -> str:
        """An operand as a value, a number as a constant of the expression's type."""
        if isinstance(operand, str):
            return operand
        if isinstance(operand, bool):
            return self.op.graph.constant(operand, np.bool_)
        return self.op.graph.constant(operand, self.dtype)

    def write(self, nodes: list[ExprNode], operand: Any) -> Operand:
        """The value of an operand of the expression."""
        if isinstance(operand, str):
            return self.known[operand]
        if not isinstance(operand, Ref):
            return operand  # type: ignore[no-any-return]
        if operand.index not in self.made:
            node = nodes[operand.index]
            operands = [self.write(nodes, each) for each in node.operands]
            self.made[operand.index] = self._node(node.function, operands)
        return self.made[operand.index]

    def _node(self, function: str, operands: list[Operand]) -> Operand:
        if function == "where" and not isinstance(operands[0], str):
            return operands[1] if operands[0] else operands[2]
        if function in _BY_NUMBERS and not any(isinstance(each, str) for each in operands):
            found: Operand = _BY_NUMBERS[function](*operands)
            return found if isinstance(found, bool) else float(found)
        return str(self._written(function, [self.value(each) for each in operands]))

    def _written(self, function: str, values: list[str]) -> Any:
        add = self.op.add
        one = self.op.graph.constant(1, self.dtype)
        if function == "square":
            return add("Mul", values[0], values[0])
        if function == "expm1":
            return add("Sub", add("Exp", values[0]), one)
        if function == "log1p":
            return add("Log", add("Add", one, values[0]))
        if function == "ne":
            return add("Not", add("Equal", *values))
        if function == "fmod":
            return add("Mod", *values, fmod=1)
        if function == "floordiv":
            return add("Div" if self.dtype.kind in "iu" else "Floor", *self._quotient(values))
        if function == "mod" and self.dtype.kind in "iu":
            return add("Mod", *values, fmod=0)
        if function == "mod":
            floor = add("Floor", add("Div", *values))
            return add("Sub", values[0], add("Mul", floor, values[1]))
        return add(_NODES[function], *values)

    def _quotient(self, values: list[str]) -> list[str]:
        # expressions of whole numbers divide without a rest
        return values if self.dtype.kind in "iu" else [self.op.add("Div", *values)]


def node_of(op_type: str) -> str:
    """The node of ONNX for an op whose expression is one function."""
    (node,) = parse(registry.get(op_type).expr or "").nodes
    return _NODES[node.function]


def expression(op: OpView, text: str, known: dict[str, Operand], slot: str = "X") -> str:
    """The value of a scalar expression whose names are `known`, in the type of a slot; names that are not are
    attributes.
    """
    parsed = parse(text)
    dtype = op.dtype(slot)
    fractions = {node.function for node in parsed.nodes} & _FRACTIONS
    if dtype.kind in "iub" and fractions:
        raise op.error(f"{' and '.join(sorted(fractions))} of integers: {slot} holds {dtype}")
    for name in parsed.names:
        if name not in known:
            known[name] = op.attr(name.removesuffix("_"))
    writer = _ExpressionNodes(op, known, dtype)
    made = writer.write(parsed.nodes, parsed.result)
    return writer.value(made)


@exports_expressions
def _by_expression(op: OpView) -> None:
    """An op `X -> Out` that declares an expression."""
    definition = registry.get(op.type)
    made = expression(op, definition.expr or "", {"x": op.x()})
    if "x" not in parse(definition.expr or "").names:
        shape = op.add("Shape", op.x())
        made = op.add("Expand", made, shape)
    op.put(made)


# ----------------------------------------------------------------------- nodes of their own
_OF_FLOATS = frozenset(("float32",))


Attributes: TypeAlias = "dict[str, float] | None"


def _node(kind: str, **names: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Let an op be a node whose attributes are those of the op, where the function says that both mean the
    same; elsewhere, and for other types than float32, the expression is written.
    """

    def declare(fits: Callable[..., bool]) -> Callable[..., bool]:
        @functools.wraps(fits)
        def rule(op: OpView) -> None:
            if op.dtype().name in _OF_FLOATS and fits(op):
                attributes = {key: float(op.attr(name)) for key, name in names.items()}
                made = op.add(kind, op.x(), **attributes)
                op.put(made)
            else:
                _by_expression(op)

        exports(fits.__name__.strip("_"))(rule)
        return fits

    return declare


@_node("Reciprocal")
def _reciprocal(op: OpView) -> bool:
    return True


@_node("Relu")
def _relu(op: OpView) -> bool:
    return True


@_node("Sigmoid")
def _sigmoid(op: OpView) -> bool:
    return True


@_node("Softsign")
def _softsign(op: OpView) -> bool:
    return True


@_node("LeakyRelu", alpha="alpha")
def _leaky_relu(op: OpView) -> bool:
    # fluid's takes the larger one of x and alpha x
    return op.attr("of_2x") or op.attr("alpha") <= 1  # type: ignore[no-any-return]


@_node("Elu", alpha="alpha")
def _elu(op: OpView) -> bool:
    return True


@_node("Selu", gamma="scale", alpha="alpha")
def _selu(op: OpView) -> bool:
    return True


@_node("HardSigmoid", alpha="slope", beta="offset")
def _hard_sigmoid(op: OpView) -> bool:
    return True


@_node("Softplus")
def _softplus(op: OpView) -> bool:
    # beyond a threshold of 15 the two differ by less than float32 shows
    return op.attr("beta") == 1 and op.attr("threshold") >= 15  # type: ignore[no-any-return]


@_node("ThresholdedRelu", alpha="threshold")
def _thresholded_relu(op: OpView) -> bool:
    return True
