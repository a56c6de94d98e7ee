"""Lowering: from the ops of a block to the steps of a plan.

A lowering rule (`fluidlite.executor.compile.lowering`) gets an `Emitter` that stands for one op, reads its
inputs as `Value`s of known shape, and emits steps. An op without a rule, or with inputs whose shapes are not
known, becomes a call of its portable kernel.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from fluidlite.base.errors import FluidError, KernelError
from fluidlite.base.registry import EMPTY_VAR, ZERO_DIM_ATTR, Spec
from fluidlite.executor.compile.scalars import broadcast, number_of, result_dtype
from fluidlite.executor.plan.actions import (
    Action,
    Assign,
    Bound,
    Call,
    Elementwise,
    Function,
    LodOf,
    Method,
    Operand,
    Out,
    SetItem,
)
from fluidlite.executor.plan.objects import Fresh, FreshDraws, Plain
from fluidlite.executor.plan.plan import Target
from fluidlite.executor.plan.sizes import Made, plain, resolver
from fluidlite.executor.plan.steps import Step, shown
from fluidlite.executor.plan.values import (
    Reshape,
    Same,
    Slices,
    Storage,
    Transpose,
    Value,
    ValueFactory,
    View,
)
from fluidlite.executor.run.located import locate
from fluidlite.executor.run.operand_types import check_attributes, check_operand_types, checked_slots
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ops.kernels import scalar

__all__ = ["CannotLower", "Emitter", "Lowered", "expression_rule", "lowering", "rules"]

Rule = Callable[["Emitter"], None]
_RULES: dict[str, Rule] = {}


class CannotLower(Exception):
    """The op, with these inputs, is left to its portable kernel."""


def lowering(*types: str) -> Callable[[Rule], Rule]:
    """Declare the lowering rule of op types."""

    def declare(rule: Rule) -> Rule:
        for op_type in types:
            assert op_type not in _RULES, op_type
            _RULES[op_type] = rule
        return rule

    return declare


def lowering_of_gradients(forward: Rule) -> Callable[[Rule], Rule]:
    """Declare the lowering rule of the gradient ops of all op types that have the rule `forward`."""
    return lowering(*(f"{op_type}_grad" for op_type, rule in _RULES.items() if rule is forward))


def rules() -> dict[str, Rule]:
    """The rules by op type, of the modules of `fluidlite.executor.compile.lowering` that are imported."""
    return _RULES


_SLOT_OF = {"x": "X", "out": "Out", "dout": "Out@GRAD"}


def expression_rule(expr: str) -> Rule:
    """The rule of an op that is declared by a scalar expression."""

    def rule(e: Emitter) -> None:
        operands = {name: _operand_of(e, name) for name in scalar.parse(expr).names}
        # any operand will do: an expression without broadcasting has one shape for all of them
        template = next((value for value in operands.values() if isinstance(value, Value)), None)
        template = template or e.need("X")
        if template.dtype is not None and template.dtype.kind in "iu":
            raise CannotLower("NumPy would return floating point for integers")
        if e.op.type in scalar.ROUNDED and template.size == 1:
            raise CannotLower("integer division rounds as in C")
        first = next(iter(e.op.outputs))
        # a choice is written as two copies, of which the second reads what the first may have overwritten
        inplace = not scalar.parse(expr).ends_in_choice
        operands, out = e.laid_alike(operands, first, template, inplace)
        e.elementwise(expr, out, **operands)

    return rule


def _operand_of(e: Emitter, name: str) -> Any:
    """The value or attribute that a name of a scalar expression stands for."""
    if name in _SLOT_OF:
        return e.laid_need(_SLOT_OF[name])
    return e.attr(name.removesuffix("_"))


class Lowered(Protocol):
    """Services of the plan builder that lowering rules use, all of them through `Emitter`."""

    @property
    def values(self) -> ValueFactory:
        """Makes values."""

    target: Target
    """The machine that the plan is made for."""

    @property
    def depth(self) -> int:
        """The number of sub-blocks that the op is in."""

    @property
    def block(self) -> Block:
        """The block that is lowered."""

    def newest(self, name: str) -> Value | None:
        """The newest value of a variable that something has written in this plan."""

    def visible(self) -> Iterable[tuple[str, Value]]:
        """Variable -> newest value, of all that is written or read so far."""

    def value(self, op: Operator, slot: str, name: str) -> Value:
        """The newest value of a variable; the error for one that nothing has written."""

    def later_ops(self) -> Sequence[Operator]:
        """The ops behind the one that is lowered."""

    def inferred(self, op: Operator) -> dict[str, list[Spec]]:
        """Output specs of an op; nothing where its rule cannot tell."""

    def is_needed(self, name: str, op: Operator) -> bool:
        """True if a variable that `op` writes is read later, fetched, or outlives the run."""

    def later_readers(self, name: str) -> Sequence[Operator] | None:
        """The ops that read a variable later; None where something else does, too."""

    def is_persistable(self, name: str) -> bool:
        """True if a variable outlives the run."""

    def held(self, name: str) -> Any:
        """The plain array that the scope holds for a variable, or None."""

    def param(self, name: str, array: Any) -> Value:
        """A new version of a persistable variable in its own array."""

    def output(self, op: Operator, name: str, shape: Any, dtype: Any, inplace: bool) -> Value:
        """The value that an output is written to; see `Emitter.out`."""

    def changes(self, name: str) -> bool:
        """True if the program writes a persistable variable."""

    @property
    def changes_nothing(self) -> bool:
        """True if the program writes no persistable variable."""

    def is_read(self, value: Value) -> bool:
        """True if a step so far reads a value that a step has written."""

    def recall(self, key: Any) -> Any:
        """The thing that an earlier op's rule remembered, or None."""

    def remember(self, key: Any, thing: Any) -> None:
        """Let later ops' rules find `thing` under `key`."""


class Emitter:
    """One op being lowered: what its rule reads, and the steps that it emits."""

    def __init__(self, builder: Lowered, op: Operator) -> None:
        self.builder = builder
        self.op = op
        self.steps: list[Step] = []
        self.finals: list[tuple[str, Value]] = []
        """(variable, value) pairs to publish when the rule has succeeded."""
        self.learned: dict[Any, Any] = {}
        """The things that later rules may recall when this one has succeeded."""

    @property
    def on_host(self) -> bool:
        """True if the plan is for NumPy."""
        return self.builder.target.on_host

    @property
    def threads(self) -> int:
        """Threads that a step may share its work among."""
        return self.builder.target.threads if self.on_host else 1

    @property
    def loops(self) -> str:
        """The way in which loops are compiled; see `Target`."""
        return self.builder.target.loops

    @property
    def asked(self) -> int:
        """The run of a size that has kernels of libraries made for it; see `Target`."""
        return self.builder.target.asked

    def compiles(self, value: Value) -> bool:
        """True if kernels over an array's rows may be compiled ones."""
        return self.loops != "off" and value.dtype == np.float32 and value.size > 0

    def apply(self, rule: Rule) -> None:
        """Run a lowering rule; its errors name the op and the user's line, as those of kernels do."""
        try:
            rule(self)
        except FluidError as error:
            locate(error, self.op)
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            text = f"op {self.op.type!r}: {error} ({type(error).__name__})"
            text = f"{text}\n  {self.op.call_text()}\n  built at {self.op.where}"
            raise KernelError.of(error, text) from error

    def check_types(self) -> None:
        """KernelError where operands have data types, or attributes values, that the op does not take."""
        check_attributes(self.op)
        slots = checked_slots(self.op)
        if not slots:
            return
        pairs = [(slot, name) for slot in slots for name in self.op.inputs.get(slot, ())]
        # lists and rows, and what is known only when the plan runs, are left to the kernel
        with contextlib.suppress(CannotLower):
            values = [(slot, name, self.builder.value(self.op, slot, name)) for slot, name in pairs]
            check_operand_types(
                self.op, [(slot, name, each.dtype if each.known else None) for slot, name, each in values]
            )

    def check_ranks(self) -> None:
        """ShapeError where a state has another rank in the scope than it declares, and the op refuses it."""
        for name in self.op.input_arg_names:
            var = self.builder.block._find_var_recursive(name)
            held = self.builder.held(name) if var is not None and var.persistable else None
            # the lowering may take, by broadcasting, what the shape rule does not
            if var is not None and held is not None and len(held.shape) != len(var.shape):
                self.builder.inferred(self.op)

    # ------------------------------------------------------------------ reading
    def attr(self, name: str) -> Any:
        """An attribute of the op, its default where it is not set."""
        # a program that was loaded may lack attributes, which then have their defaults
        return self.op.value_for_kernels(name)

    def expression(self) -> str:
        """The scalar expression by which the op is declared; CannotLower without one."""
        if self.op.definition is None or not self.op.definition.expr:
            raise CannotLower("no expression")
        return self.op.definition.expr

    def x(self, slot: str, index: int = 0) -> Value | None:
        """The value in an input slot, None where the slot is empty; CannotLower where its shape is not
        known.
        """
        value = self.laid(slot, index)
        return None if value is None else self.plain(value)

    def laid(self, slot: str, index: int = 0) -> Value | None:
        """The same in whatever order its dimensions lie (`fluidlite.executor.compile.layout`)."""
        names = self.op.inputs.get(slot) or []
        if index >= len(names) or names[index] == EMPTY_VAR:
            return None
        value = self.builder.value(self.op, slot, names[index])
        # rules compute addresses and sizes ahead, which a level of detail makes a matter of each run
        if not value.known or value.has_lod:
            raise CannotLower(slot)
        return value

    def need(self, slot: str, index: int = 0) -> Value:
        """The value in an input slot that must be there."""
        value = self.x(slot, index)
        if value is None:
            raise CannotLower(slot)
        return value

    def laid_need(self, slot: str, index: int = 0) -> Value:
        """The value in an input slot that must be there, in whatever order its dimensions lie."""
        value = self.laid(slot, index)
        if value is None:
            raise CannotLower(slot)
        return value

    def plain(self, value: Value) -> Value:
        """A value as the program has it: a copy where its dimensions lie in another order."""
        return value if value.order is None else self.copied(value)

    def copied(self, value: Value, order: Sequence[int] | None = None) -> Value:
        """A copy with the dimensions in an order (default: as they are), made once for all rules that ask."""
        assert value.shape is not None
        order = tuple(order or range(len(value.shape)))
        key = ("copied", value, order)
        found = self.learned.get(key) or self.builder.recall(key)
        if found is None:
            found = self.learned[key] = self.temp([value.shape[axis] for axis in order], value.dtype)
            found.uniform = value.uniform
            source = value if order == tuple(range(len(order))) else self.transpose(value, order)
            self.copy(source, found)
        return found

    def base_in(self, value: Value, order: Sequence[int]) -> Value:
        """The memory of a value with its dimensions in an order: its base where it lies so, else a copy."""
        assert value.shape is not None
        if value.order == tuple(order):
            assert value.base is not None
            return value.base
        kept = [axis for axis in order if value.shape[axis] != 1]
        # where dimensions of one are all that moves, the elements stay where they are
        if kept == sorted(kept):
            return self.reshape(self.plain(value), [value.shape[axis] for axis in order])
        return self.copied(value, order)

    def published(
        self, slot: str, shape: Sequence[int], dtype: Any, order: Sequence[int], index: int = 0
    ) -> Value:
        """A buffer for an output of a shape, with its dimensions in an order; the output is a view of it."""
        base = self.temp([shape[axis] for axis in order], dtype)
        base.named(self.op.outputs[slot][index])
        back = sorted(range(len(order)), key=lambda axis: order[axis])
        self.alias(slot, self.transpose(base, back), index)
        return base

    def laid_alike(
        self, operands: dict[str, Any], slot: str, like: Value, inplace: bool = False
    ) -> tuple[dict[str, Any], Value]:
        """Operands of one shape as they lie in memory, and an output that lies as they do."""
        values = {key: item for key, item in operands.items() if isinstance(item, Value)}
        order = next((item.order for item in values.values() if item.order is not None), None)
        if order is None or self.persistable(slot) or self.has_no_dims(slot):
            plain = {key: self.plain(item) for key, item in values.items()}
            return {**operands, **plain}, self.out(slot, like.shape, like.dtype, inplace=inplace)
        # every element is one number: the array that would be copied has no reader then
        bases = {
            key: item if item.uniform is not None else self.base_in(item, order)
            for key, item in values.items()
        }
        assert like.shape is not None
        return {**operands, **bases}, self.published(slot, like.shape, like.dtype, order)

    def many(self, slot: str) -> list[Value]:
        """All values in an input slot."""
        count = len(self.op.inputs.get(slot) or [])
        return [self.need(slot, index) for index in range(count)]

    def any(self, slot: str) -> Value:
        """The value in an input slot, of whatever kind."""
        return self.builder.value(self.op, slot, self.op.inputs[slot][0])

    def kind(self, slot: str) -> Any:
        """The kind of variable that the program declares in an input slot."""
        var = self.builder.block._find_var_recursive(self.op.inputs[slot][0])
        return None if var is None else var.type

    def wants(self, slot: str, index: int = 0) -> bool:
        """True if an output slot names a variable that somebody reads."""
        names = self.op.outputs.get(slot) or []
        if index >= len(names) or names[index] == EMPTY_VAR:
            return False
        return self.builder.is_needed(names[index], self.op)

    def persistable(self, slot: str) -> bool:
        """True if the variable in an output slot outlives the run."""
        return self.builder.is_persistable(self.op.outputs[slot][0])

    def inferred_shape(self, slot: str) -> tuple[int, ...]:
        """The shape of an output by the op's shape rule; CannotLower where it is not known."""
        specs = self.builder.inferred(self.op).get(slot)
        if not specs or not specs[0].static:
            raise CannotLower(slot)
        return tuple(specs[0].shape)

    # ------------------------------------------------------------------ values
    def out(
        self,
        slot: str,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        index: int = 0,
        inplace: bool = False,
    ) -> Value:
        """The value of an output: a buffer, or a persistable variable's own array where that is safe.

        `inplace` says that the step may write over an input of the same shape while it reads it.
        """
        name = self.op.outputs[slot][index]
        if self.has_no_dims(slot):  # the rule writes [1], as 1.8 has it, and the variable is []
            value = self.builder.output(self.op, name, (), dtype, inplace)
            self.finals.append((name, value))
            return self.reshape(value, () if shape is None else shape)
        value = self.builder.output(self.op, name, shape, dtype, inplace)
        self.finals.append((name, value))
        return value

    def has_no_dims(self, slot: str) -> bool:
        """True if the op is one of PaddlePaddle 2.x whose output in that slot has the shape []."""
        return slot in self.op.attrs.get(ZERO_DIM_ATTR, ())

    def local(self, slot: str, index: int = 0, like: Value | None = None, maybe: bool = False) -> Value:
        """The value of an output that is not a buffer: whatever a step assigns to its symbol."""
        if self.has_no_dims(slot):
            raise CannotLower(slot)
        value = self.builder.values.local(like, name=self.op.outputs[slot][index], maybe=maybe)
        self.finals.append((value.name, value))
        return value

    def temp(self, shape: Sequence[int], dtype: Any) -> Value:
        """A buffer for this op only."""
        return self.builder.values.make(shape, dtype, Storage.BUFFER)

    def unknown(self) -> Value:
        """A symbol for whatever a step assigns to it."""
        return self.builder.values.local(optional=True)

    def constant(self, array: Any) -> Value:
        """An array made once, when the plan is bound."""
        array = np.asarray(array)
        return self.builder.values.make(array.shape, array.dtype, Storage.CONST, constant=array)

    def made(self, shape: Sequence[int], function: Callable[..., Any], *arguments: Any) -> Value:
        """An array of that shape made once, as `function(*arguments)`: a constant whose size may differ
        from run to run.
        """
        if resolver((tuple(shape), arguments)) is None:
            return self.constant(function(*arguments))
        example = function(*map(plain, arguments))
        recipe = Made(function, arguments)
        return self.builder.values.make(shape, example.dtype, Storage.CONST, constant=recipe)

    def number(self, number: Any, like: Value) -> Value:
        """A constant of no dimensions in the dtype of another value."""
        return self.made((), np.array, number, like.dtype)

    def recall(self, key: Any) -> Any:
        """The thing that an earlier op's rule remembered under `key`, such as an index that forward and
        backward share.
        """
        return self.builder.recall(key)

    def remember(self, key: Any, thing: Any) -> None:
        """Let later ops' rules find `thing` under `key`."""
        self.builder.remember(key, thing)

    # ------------------------------------------------------------------ views
    def view(self, base: Value, view: View, shape: Sequence[int]) -> Value:
        """Another look at a value's memory."""
        value = self.builder.values.make(
            shape, base.dtype, Storage.VIEW, base=base, view=view, uniform=base.uniform
        )
        self.steps.append(shown(self.op, value))
        return value

    def reshape(self, base: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        assert base.shape is not None
        # ranks first: whether a batch is as large as the next dimension of something is not worth a condition
        if len(shape) == len(base.shape) and tuple(shape) == base.shape:
            return base
        return self.view(base, Reshape(tuple(shape)), shape)

    def transpose(self, base: Value, axes: Sequence[int]) -> Value:
        """The dimensions in another order."""
        assert base.shape is not None
        return self.view(base, Transpose(tuple(axes)), [base.shape[axis] for axis in axes])

    def piece(self, base: Value, start: int, stop: int, axis: int = 0) -> Value:
        """[start, stop) along one dimension."""
        assert base.shape is not None
        shape = (*base.shape[:axis], stop - start, *base.shape[axis + 1 :])
        return self.view(base, Slices((*(None,) * axis, (start, stop))), shape)

    def alias(self, slot: str, value: Value, index: int = 0) -> None:
        """Let an output be (a view of) an existing value, without a copy.

        What shows the array of a persistable variable that the program changes gets a step of its own, so
        that a pass can put a copy in its place.
        """
        if self.has_no_dims(slot):
            value = self.reshape(value, ())
        name = self.op.outputs[slot][index]
        root = value.root
        # an op that gives a parameter back under its own name (c_sync_*) writes nothing
        is_itself = value.storage is Storage.PARAM and value.name == name
        if root.storage is Storage.PARAM and self.builder.changes(root.name) and not is_itself:
            value = self.aliased(value)
        self.finals.append((name, value))

    def aliased(self, value: Value) -> Value:
        """The same memory as another variable."""
        alias = self.builder.values.make(
            value.shape, value.dtype, Storage.VIEW, base=value, view=Same(), uniform=value.uniform, alias=True
        )
        self.steps.append(shown(self.op, alias))
        return alias

    # ------------------------------------------------------------------ steps
    def step(self, action: Action, **fields: Any) -> None:
        """Emit an action."""
        self.steps.append(Step(self.op, action, **fields))

    def bind(self, hint: str, thing: Any) -> Bound:
        """A Python object that steps call, the same for all sizes of the feeds."""
        return Bound(hint, Plain(thing))

    def bind_fresh(self, hint: str, factory: Callable[..., Any], *arguments: Any) -> Bound:
        """Like `bind`, for an object with scratch state: each binding of the plan makes its own, by
        `factory(xp, *arguments)`.
        """
        return Bound(hint, Fresh(factory, arguments))

    def bind_draws(self, hint: str, factory: Callable[..., Any], *arguments: Any) -> Bound:
        """Like `bind_fresh`, by `factory(xp, random, *arguments)`, with the run's source of numbers."""
        return Bound(hint, FreshDraws(factory, arguments))

    def call(self, function: str, *operands: Operand, out: Value, **keywords: Any) -> None:
        """`function(*operands, ..., out=out)`, for functions of the array module."""
        named = (*keywords.items(), ("out", Out(out)))
        self.step(Call(Function(function), operands, named))

    def run(self, callee: Bound, *operands: Operand, method: str = "", **fields: Any) -> None:
        """A call of a bound object, or of a method of it; `Out` and `InOut` mark what it writes."""
        self.step(Call(Method(callee, method) if method else callee, operands), **fields)

    def assign(self, target: Value | LodOf, source: Operand, **fields: Any) -> None:
        """target = source."""
        self.step(Assign((target,), (source,)), **fields)

    def copy(self, source: Value, out: Value, **keywords: Any) -> None:
        """Copy an array into another."""
        self.step(Call(Function("copyto"), (Out(out), source), tuple(keywords.items())))

    def set_item(self, array: Value, index: Operand, source: Operand, subtract: bool = False) -> None:
        """array[index] = source, or array[index] -= source."""
        self.step(SetItem(array, index, source, subtract))

    # ------------------------------------------------------------------ element-wise
    def elementwise(self, expr: str, target: Value, /, **operands: Any) -> None:
        """A scalar expression over values and numbers, as steps that passes may fuse."""
        parsed = scalar.parse(expr)
        results: list[Any] = []

        def operand(item: Any) -> Any:
            if isinstance(item, scalar.Ref):
                return results[item.index]
            return operands[item] if isinstance(item, str) else item

        for index, node in enumerate(parsed.nodes):
            arguments = tuple(operand(item) for item in node.operands)
            is_last = isinstance(parsed.result, scalar.Ref) and parsed.result.index == index
            results.append(self._node(node.function, arguments, target if is_last else None))
        if not isinstance(parsed.result, scalar.Ref):
            # the expression is a bare name or number, so no node of it writes the target
            self._node("copy", (operand(parsed.result),), target)

    def fill(self, slot: str, number: Any, shape: Sequence[int], dtype: Any) -> None:
        """Let every element of an output be `number`."""
        self._node("copy", (number,), self.out(slot, shape, dtype))

    def _node(self, function: str, operands: tuple[Any, ...], out: Value | None) -> Any:
        """One array function. What is made of numbers alone is a number: it takes on the dtype of the array
        that it meets, as an array of it would not.
        """
        # an array of equal elements is that number: the gradient of a mean costs no array
        given = tuple(map(_number_or_value, operands))
        if not any(isinstance(item, Value) for item in given):
            if out is None:
                return number_of(function, given)
            assert out.dtype is not None
            number = number_of(function, given, out.dtype)
            out.fill(number)
            # the step stays in case somebody needs the array; where all readers take the number, it is
            # dropped
            given = (number,)
            function = "copy"
        if out is None:
            shapes = [value.shape for value in given if isinstance(value, Value) and value.shape is not None]
            out = self.temp(broadcast(*shapes), result_dtype(function, given))
        self.step(Elementwise(function, given), writes=(out,))
        return out


def _number_or_value(item: Any) -> Any:
    """The number that every element of a value is, if that is known; else the value (or number) itself."""
    return item.uniform if isinstance(item, Value) and item.uniform is not None else item
