"""Lowering: from the ops of a block to the steps of a plan.

A lowering rule (`fluidlite.executor.compile.lowering`) gets an `Emitter` that stands for one op, reads its
inputs as `Value`s of known shape, and writes statements. An op without a rule, or with inputs whose shapes
are not known, becomes a call of its portable kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.registry import EMPTY_VAR
from fluidlite.executor.compile.plan_ir import Elementwise, Step, Storage, Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.kernels import scalar

__all__ = ["CannotLower", "Emitter", "Fresh", "HostCheck", "lowering", "rule_for"]

Rule = Callable[["Emitter"], None]
_RULES: dict[str, Rule] = {}
_COMPARE = scalar.PREDICATES


class CannotLower(Exception):
    """This op, with these inputs, is left to its portable kernel."""


def lowering(*types: str) -> Callable[[Rule], Rule]:
    """Declare the lowering rule of op types."""

    def declare(rule: Rule) -> Rule:
        for op_type in types:
            assert op_type not in _RULES, op_type
            _RULES[op_type] = rule
        return rule

    return declare


def rule_for(op: Operator) -> Rule | None:
    """The lowering rule for an op: its own, or the one made from its scalar expression."""
    from fluidlite.executor.compile import lowering as families

    families.load()
    if op.type in _RULES:
        return _RULES[op.type]
    expr = op.definition.expr if op.definition is not None and "Y" not in op.definition.inputs else None
    return _expression_rule(expr) if expr else None


_SLOT_OF = {"x": "X", "out": "Out", "dout": "Out@GRAD"}


def _expression_rule(expr: str) -> Rule:
    def rule(e: Emitter) -> None:
        operands = {
            name: e.need(_SLOT_OF[name]) if name in _SLOT_OF else e.attr(name.removesuffix("_"))
            for name in scalar.parse(expr).names
        }
        first = next(iter(e.op.outputs))
        template = next((value for value in operands.values() if isinstance(value, Value)), None) or e.need(
            "X"
        )
        e.elementwise(expr, e.out(first, template.shape, template.dtype, inplace=True), **operands)

    return rule


@dataclass(frozen=True)
class Fresh:
    """A bound object that is made anew for each binding of a plan."""

    factory: Callable[..., Any]
    arguments: tuple[Any, ...]

    def make(self, xp: Any) -> Any:
        """The object, working with the array module `xp`."""
        return self.factory(xp, *self.arguments)


class HostCheck:
    """A check of values that needs them on the host: plans on a device leave it out, since it would stop
    the stream.
    """


class Emitter:
    """One op being lowered. `builder` is the plan builder that owns values and steps."""

    def __init__(self, builder: Any, op: Operator) -> None:
        self.builder = builder
        self.op = op
        self.steps: list[Step] = []
        self.finals: list[
            tuple[str, Value]
        ] = []  # (variable, value) pairs to publish when the rule succeeded

    @property
    def on_host(self) -> bool:
        """Whether the plan is for NumPy."""
        return bool(self.builder.threads)

    @property
    def threads(self) -> int:
        """How many threads a step may share its work among."""
        return max(int(self.builder.threads), 1)

    # ------------------------------------------------------------------ reading
    def attr(self, name: str) -> Any:
        """An attribute of the op, its default where it is not set."""
        definition = self.op.definition
        if name in self.op.attrs or definition is None:
            return self.op.attrs[name]
        return definition.attr_defs[name].default

    def x(self, slot: str, index: int = 0) -> Value | None:
        """The value in an input slot, None where the slot is empty; CannotLower where its shape is not
        known.
        """
        names = self.op.inputs.get(slot) or []
        if index >= len(names) or names[index] == EMPTY_VAR:
            return None
        value: Value = self.builder.value(self.op, slot, names[index])
        if not value.known or value.lod is not None:
            raise CannotLower(slot)
        return value

    def need(self, slot: str, index: int = 0) -> Value:
        """The value in an input slot that must be there."""
        value = self.x(slot, index)
        if value is None:
            raise CannotLower(slot)
        return value

    def many(self, slot: str) -> list[Value]:
        """All values in an input slot."""
        return [self.need(slot, index) for index in range(len(self.op.inputs.get(slot) or []))]

    def wants(self, slot: str, index: int = 0) -> bool:
        """Whether an output slot names a variable that somebody reads."""
        names = self.op.outputs.get(slot) or []
        return (
            index < len(names) and names[index] != EMPTY_VAR and self.builder.is_needed(names[index], self.op)
        )

    def inferred_shape(self, slot: str) -> tuple[int, ...]:
        """The shape of an output by the op's shape rule; CannotLower where it is not known."""
        specs = self.builder.inferred(self.op).get(slot)
        if not specs or not specs[0].static:
            raise CannotLower(slot)
        return tuple(specs[0].shape)

    # ------------------------------------------------------------------ writing
    def out(
        self,
        slot: str,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        index: int = 0,
        inplace: bool = False,
    ) -> Value:
        """The value of an output: a buffer, or a persistable variable's own array where that is safe.

        `inplace` says that the statement may write over an input of the same shape while it reads it.
        """
        name = self.op.outputs[slot][index]
        value: Value = self.builder.output(self, name, shape, dtype, inplace)
        return value

    def local(self, slot: str, index: int = 0) -> Value:
        """The value of an output that is no dense array: whatever the statement assigns to its symbol."""
        value: Value = self.builder.values.make(None, None, Storage.LOCAL, name=self.op.outputs[slot][index])
        self.finals.append((value.name, value))
        return value

    def any(self, slot: str) -> Value:
        """The value in an input slot, of whatever kind."""
        value: Value = self.builder.value(self.op, slot, self.op.inputs[slot][0])
        return value

    def kind(self, slot: str) -> Any:
        """What kind of variable the program says is in an input slot."""
        var = self.builder.block._find_var_recursive(self.op.inputs[slot][0])
        return None if var is None else var.type

    def persistable(self, slot: str) -> bool:
        """Whether the variable in an output slot outlives the run."""
        return bool(self.builder._persistable(self.op.outputs[slot][0]))

    def temp(self, shape: Sequence[int], dtype: Any) -> Value:
        """A buffer for this op only."""
        value: Value = self.builder.values.make(shape, dtype, Storage.BUFFER)
        return value

    def constant(self, array: Any) -> Value:
        """An array made once, when the plan is bound."""
        value: Value = self.builder.constant(np.asarray(array))
        return value

    def remembered(self, key: Any) -> Any:
        """What an earlier op's rule remembered under `key`, such as an index that forward and backward
        share; else None.
        """
        return self.builder.memory.get(key)

    def remember(self, key: Any, thing: Any) -> None:
        """Let later ops' rules find `thing` under `key`."""
        self.builder.memory[key] = thing

    def unknown(self) -> Value:
        """A name for whatever a statement assigns to it."""
        value: Value = self.builder.values.make(None, None, Storage.LOCAL, optional=True)
        return value

    def bind(self, hint: str, thing: Any) -> str:
        """The name under which the generated source sees a Python object."""
        name: str = self.builder.bind(hint, thing)
        return name

    def bind_fresh(self, hint: str, factory: Callable[..., Any], *arguments: Any) -> str:
        """Like `bind`, for an object with scratch state: each binding of the plan makes its own, by
        `factory(xp, *arguments)`.
        """
        return self.bind(hint, Fresh(factory, arguments))

    def view(self, base: Value, expression: str, shape: Sequence[int]) -> Value:
        """Another look at a value's memory: `expression` over {}."""
        value: Value = self.builder.values.make(
            shape, base.dtype, Storage.VIEW, base=base, expression=expression
        )
        if base.uniform is not None:
            value.uniform = base.uniform
        self.steps.append(Step(self.op, [base], [value]))
        return value

    def reshape(self, base: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        if tuple(shape) == base.shape:
            return base
        return self.view(base, f"{{}}.reshape({tuple(shape)})", shape)

    def alias(self, slot: str, value: Value, index: int = 0) -> None:
        """Let an output be (a view of) an existing value, without a copy."""
        self.builder.alias(self, self.op.outputs[slot][index], value)

    def line(
        self,
        text: str,
        reads: Sequence[Value],
        writes: Sequence[Value],
        temps: Sequence[Value] = (),
        effect: bool = False,
    ) -> None:
        """A statement; values print as their symbols in `text`, and count as read when it mentions them."""
        mentioned = [
            value
            for value in self.builder.values.mentioned(text)
            if value not in writes and value not in temps
        ]
        self.steps.append(
            Step(
                self.op,
                list(dict.fromkeys([*reads, *mentioned])),
                list(writes),
                text.split("\n"),
                list(temps),
                effect=effect,
            )
        )

    def call(self, function: str, *operands: Any, out: Value, **extra: Any) -> None:
        """`function(*operands, out=out)`, for functions that have no problem with other overlaps than
        exact ones.
        """
        text = ", ".join(
            [*map(str, operands), f"out={out}", *(f"{key}={value}" for key, value in extra.items())]
        )
        self.line(f"{function}({text})", [item for item in operands if isinstance(item, Value)], [out])
        if function in ("dot", "matmul"):
            inner = operands[0].shape[-1] if operands[0].shape else 1
            self.steps[-1].products = out.size * inner
            if len(operands[0].shape) >= 2 and len(operands[0].shape) == len(out.shape or ()):
                self.steps[-1].product = (function, operands[0], operands[1], out)

    def elementwise(self, expr: str, target: Value, /, **operands: Any) -> None:
        """A scalar expression over values and numbers, as steps that passes may fuse."""
        parsed = scalar.parse(expr)
        results: list[Value] = []

        def operand(item: Any) -> Any:
            if isinstance(item, scalar.Ref):
                return results[item.index]
            return operands[item] if isinstance(item, str) else item

        for index, node in enumerate(parsed.nodes):
            arguments = tuple(operand(item) for item in node.operands)
            last = isinstance(parsed.result, scalar.Ref) and parsed.result.index == index
            results.append(self._node(node.function, arguments, target if last else None))
        if not isinstance(parsed.result, scalar.Ref):
            self._node("copy", (operand(parsed.result),), target)

    def _node(self, function: str, operands: tuple[Any, ...], out: Value | None) -> Value:
        """One array function; a number where all operands are numbers or uniform values."""
        if out is None:
            shapes = [value.shape for value in operands if isinstance(value, Value) and value.uniform is None]
            uniform = [value.shape for value in operands if isinstance(value, Value)]
            shape = np.broadcast_shapes(*(shapes or uniform or [()]))  # type: ignore[arg-type]
            out = self.builder.values.make(shape, self._dtype(function, operands), Storage.BUFFER)
        assert out is not None
        plain = tuple(
            item.uniform if isinstance(item, Value) and item.uniform is not None else item
            for item in operands
        )
        if not any(isinstance(item, Value) for item in plain):
            function, plain = "copy", (_evaluate(function, plain, out.dtype),)
            out.uniform = plain[0]
        self.steps.append(
            Step(
                self.op,
                [item for item in plain if isinstance(item, Value)],
                [out],
                elementwise=Elementwise(function, plain),
            )
        )
        return out

    @staticmethod
    def _dtype(function: str, operands: tuple[Any, ...]) -> np.dtype[Any]:
        if function in _COMPARE:
            return np.dtype(bool)
        if function == "where":
            operands = operands[1:]
        arrays = [item.dtype for item in operands if isinstance(item, Value)]
        numbers = [item for item in operands if not isinstance(item, Value)]
        found = np.result_type(*arrays, *numbers) if arrays else np.result_type(*numbers)
        if function in _FLOATING and found.kind in "iub":
            return np.dtype(np.float64)
        return found

    def fill(self, slot: str, number: Any, shape: Sequence[int], dtype: Any) -> None:
        """Let every element of an output be `number`."""
        self._node("copy", (number,), self.out(slot, shape, dtype))


def _evaluate(function: str, numbers: tuple[Any, ...], dtype: Any) -> Any:
    """An array function of numbers alone, as a number of `dtype`."""
    if function == "copy":
        return np.asarray(numbers[0], dtype).item()
    if function == "where":
        return numbers[1] if numbers[0] else numbers[2]
    if function == "erf":
        return math.erf(numbers[0])
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, scalar.FUNCTIONS[function][0])(*numbers), dtype).item()


_FLOATING = frozenset(
    (
        "exp",
        "log",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "div",
        "erf",
    )
)
