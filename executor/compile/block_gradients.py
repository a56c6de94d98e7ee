"""Gradients of loops and branches in a plan: the gradient block runs once for each step that was kept, the
last first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.executor.compile.blocks import (
    Body,
    Record,
    block_writer,
    keep,
    merge,
    merge_all,
    shaped,
    taken,
)
from fluidlite.executor.compile.emitter import Fresh
from fluidlite.executor.compile.plan_ir import Elementwise, Step, Storage, Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.loops import array_result, changed, replaced_names
from fluidlite.ops.flow.sub_blocks import added, wanted_gradients, zeros_of
from fluidlite.values.tensor import LoDTensorArray

__all__ = ["Total", "combined", "finish", "zeros"]


# ---------- what the generated source calls for values of any kind
class _Bound:
    """Something that works with the array module of the place that a plan is bound to."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp


class Add(_Bound):
    """The sum of two gradients, either of which may be None."""

    def __call__(self, a: Any, b: Any) -> Any:
        return added(self.xp, a, b)


class ZerosIfNone(_Bound):
    """A gradient, or zeros that look like the value it belongs to."""

    def __call__(self, made: Any, value: Any) -> Any:
        return made if made is not None else zeros_of(self.xp, value)


class StepBack(_Bound):
    """What the step before gets for a variable whose gradient came in: arrays add up, and so does the
    total of what was added.
    """

    def __init__(self, xp: Any, carried: bool, replaced: bool) -> None:
        super().__init__(xp)
        self.carried, self.replaced = carried, replaced

    def __call__(self, outer: Any, inner: Any, total: Any) -> tuple[Any, Any]:
        if isinstance(inner, LoDTensorArray):
            written = changed(outer, inner)
            return added(self.xp, outer, written), added(self.xp, total, written)
        if self.carried:
            return inner, total
        return (zeros_of(self.xp, inner) if inner is not None and self.replaced else outer), total


# ---------------------------------------------------------------------- parts
def zeros(builder: Any, op: Operator, like: Value, steps: list[Step]) -> Value:
    """Zeros in the shape of a value of known shape."""
    assert like.dtype is not None
    value: Value = builder.values.make(like.shape, like.dtype, Storage.BUFFER)
    value.uniform = np.zeros((), like.dtype).item()
    steps.append(Step(op, [], [value], elementwise=Elementwise("copy", (value.uniform,))))
    return value


def _or_zeros(
    builder: Any, op: Operator, made: Value | None, value: Value | None, steps: list[Step]
) -> Value | None:
    """`made`, or zeros like `value` where that is None: the gradient of what nobody used."""
    if made is not None and made.known:
        return made
    if made is None and value is not None and value.known:
        return zeros(builder, op, value, steps)
    if made is None and value is None:
        return None
    known = made is not None and shaped(made)
    found: Value = builder.values.make(
        made.shape if known and made else None, made.dtype if known and made else None, Storage.LOCAL
    )
    if known:
        assert made is not None
        text = f"{keep(builder, made)} if {made} is not None else zeros({made.shape}, {str(made.dtype)!r})"
    else:
        text = f"{builder.bind('zeros_if_none', Fresh(ZerosIfNone, ()))}({keep(builder, made) if made else None}, {value})"
    steps.append(
        Step(
            op,
            [one for one in (made, value) if one is not None],
            [found],
            [f"{found} = {text}"],
            holds=[made] if made else [],
        )
    )
    return found


def finish(builder: Any, op: Operator, name: str, made: Value | None, of: str) -> None:
    """Let `made`, or zeros, be the variable `name`, the gradient of `of`, with the level of detail of
    that.
    """
    value = builder._argument(op, of)
    found = _or_zeros(builder, op, made, value, builder.steps)
    if found is None:
        return
    if value is not None and value.lod and found.lod != value.lod:
        copy = builder.values.make(found.shape, found.dtype, Storage.LOCAL, name=name, maybe=found.maybe)
        copy.lod = f"l{copy.number}"
        builder.steps.append(
            Step(
                op,
                [found, value],
                [copy],
                [f"{copy}, {copy.lod} = {keep(builder, found)}, {value.lod}"],
                holds=[found],
            )
        )
        found = copy
    builder._assign(op, name, found)


def combined(builder: Any, op: Operator, a: Value | None, b: Value | None, steps: list[Step]) -> Value | None:
    """The sum of two gradients."""
    if a is None or b is None:
        return b if a is None else a
    if a.known and b.known and a.shape == b.shape and a.dtype == b.dtype:
        value: Value = builder.values.make(a.shape, a.dtype, Storage.BUFFER)
        steps.append(Step(op, [a, b], [value], elementwise=Elementwise("add", (a, b))))
        return value
    value = builder.values.make(None, None, Storage.LOCAL)
    function = builder.bind("added", Fresh(Add, ()))
    steps.append(
        Step(
            op,
            [a, b],
            [value],
            [f"{value} = {function}({keep(builder, a)}, {keep(builder, b)})"],
            holds=[a, b],
        )
    )
    return value


class Total:
    """The sum over all steps of what the block finds for one variable that the loop only reads."""

    def __init__(
        self, body: Body, inner: Value | None, value: Value | None, start: Value | None = None
    ) -> None:
        self.value = start
        if inner is None:
            return
        builder, op = body.builder, body.op
        if (
            start is None
            and inner.known
            and value is not None
            and value.shape == inner.shape
            and value.dtype == inner.dtype
        ):
            self.value = builder.values.make(inner.shape, inner.dtype, Storage.LOCAL, name=inner.name)
            body.before.append(
                Step(op, [], [self.value], [f"{self.value} = zeros({inner.shape}, {str(inner.dtype)!r})"])
            )
            body.steps.append(
                Step(op, [self.value, inner], [self.value], [f"add({self.value}, {inner}, out={self.value})"])
            )
            return
        self.value = start or body.start("None")
        assert self.value is not None
        self.value.maybe = True
        function = builder.bind("added", Fresh(Add, ()))
        text = f"{self.value} = {function}({self.value}, {keep(builder, inner)})"
        body.steps.append(Step(op, [self.value, inner], [self.value], [text], holds=[inner]))


# ---------------------------------------------------------------------- while
class _WhileGradient:
    """One `while_grad`: the gradients that go from each step to the one before, and those that add up over
    all steps.
    """

    def __init__(self, builder: Any, op: Operator, record: Record) -> None:
        self.builder, self.op, self.record = builder, op, record
        self.wanted = wanted_gradients(op, "X")
        self.inside = dict(zip(op.attrs["original_output_grad"], op.input("Out@GRAD"), strict=True))
        outer = {name: inner for inner, name in self.inside.items()}
        self.carried = {name for index, name in self.wanted if outer.get(op.output("X@GRAD")[index]) == name}
        self.replaced = replaced_names(op.attrs["sub_block"])
        self.nested = builder.in_gradient

    def write(self) -> None:
        """Write the loop, then what it found."""
        builder, op = self.builder, self.op
        while True:
            mark = len(builder.steps)
            names = [name for _, name in self.wanted]
            body = Body(builder, op, [*names, *self.inside], record=self.record)
            first = self._entries(body)
            body.carry()
            position = builder.values.make(None, None, Storage.LOCAL)
            body.reopen(self.record, position)
            with body.entered():
                builder.in_gradient = True
                builder.lower(body.block.ops)
                totals = self._step_back(body)
                for name, symbol in body.carried.items():
                    body.move(name, symbol, body.env.get(name))
                for index, name in self.wanted:
                    if name not in self.carried:
                        totals[name] = Total(
                            body, body.env.get(name), builder.env.get(op.input("X")[index]), totals.get(name)
                        ).value
                body.finish_moves()
            builder.in_gradient = self.nested
            if body.stable:
                break
            del builder.steps[mark:]
        body.run(
            f"for {position} in range({self.record.count} - 1, -1, -1):", [self.record.count], [position]
        )
        self._finish(first, totals)

    def _entries(self, body: Body) -> dict[str, Value | None]:
        """Symbols for the gradients that come in; gives what they start with."""
        results = {grad_name(name): name for name in self.op.input("Out")}
        first, self.symbols = dict[str, Value | None](), dict[str, Value]()
        for inner, outer in self.inside.items():
            result = results.get(inner)
            value = self.builder._argument(self.op, result) if result else None
            made = self.builder.env.get(outer) if outer != EMPTY_VAR else None
            first[inner] = _or_zeros(self.builder, self.op, made, value, body.before)
            body.given[inner] = self.symbols[inner] = body.symbol(inner, first[inner], lod=False)
        return first

    def _step_back(self, body: Body) -> dict[str, Value | None]:
        """What the step before gets for each gradient that came in; totals of entries written to arrays."""
        totals: dict[str, Value | None] = {}
        for name, symbol in self.symbols.items():
            inner = body.env.get(name)
            if symbol.shape is not None:
                if name in self.carried:
                    body.move(name, symbol, inner)
                elif name in self.replaced:
                    body.move(name, symbol, zeros(self.builder, self.op, symbol, body.steps))
                continue
            total = totals[name] = body.start("None")
            total.maybe = True
            new = self.builder.values.make(None, None, Storage.LOCAL, maybe=symbol.maybe)
            function = self.builder.bind(
                "step_back", Fresh(StepBack, (name in self.carried, name in self.replaced))
            )
            text = f"{new}, {total} = {function}({symbol}, {keep(self.builder, inner) if inner else None}, {total})"
            body.steps.append(
                Step(
                    self.op,
                    [one for one in (symbol, inner, total) if one is not None],
                    [new, total],
                    [text],
                    holds=[inner] if inner else [],
                )
            )
            body.move(name, symbol, new)
        return totals

    def _finish(self, first: dict[str, Value | None], totals: dict[str, Value | None]) -> None:
        for index, name in self.wanted:
            made = (
                self._result(name, first[name], totals.get(name))
                if name in self.carried
                else totals.get(name)
            )
            finish(self.builder, self.op, self.op.output("X@GRAD")[index], made, self.op.input("X")[index])

    def _result(self, name: str, first: Value | None, total: Value | None) -> Value:
        """The gradient before the first step. Inside another loop an array comes without what that loop
        will add itself.
        """
        symbol = self.symbols[name]
        if not self.nested or total is None:
            return symbol
        found: Value = self.builder.values.make(None, None, Storage.LOCAL, maybe=symbol.maybe)
        function = self.builder.bind("array_result", array_result)
        self.builder.steps.append(
            Step(
                self.op,
                [one for one in (symbol, total, first) if one is not None],
                [found],
                [f"{found} = {function}({symbol}, {total}, {keep(self.builder, first) if first else None})"],
                holds=[first] if first else [],
            )
        )
        return found


@block_writer("while_grad")
def _(builder: Any, op: Operator) -> bool:
    record = builder.records.get(op.input("StepScopes")[0])
    if record is None:
        return False
    _WhileGradient(builder, op, record).write()
    return True


# ---------------------------------------------------------------------- conditional_block
@block_writer("conditional_block_grad")
def _(builder: Any, op: Operator) -> bool:
    record = next((builder.records[name] for name in op.input("Scope") if name in builder.records), None)
    if record is None:
        return False
    wanted = wanted_gradients(op, "Input")
    incoming = {
        grad_name(name): builder.env.get(outer)
        for name, outer in zip(op.input("Out"), op.input("Out@GRAD"), strict=False)
    }
    head, reads = taken(builder, op)
    body = Body(builder, op, [*incoming, *(name for _, name in wanted)], record=record)
    body.given.update(record.values)
    body.records.update(record.nested)
    for name, value in incoming.items():
        if value is not None:
            given = _or_zeros(builder, op, value, None, body.steps) if shaped(value) else value
            assert given is not None
            body.given[name] = given
    with body.entered():
        builder.in_gradient, nested = True, builder.in_gradient
        builder.lower(body.block.ops)
    builder.in_gradient = nested
    results = _merged(body, {name: incoming.get(name) for _, name in wanted})
    merge_all(body)
    body.run(f"if {record.count} and {head}:", [record.count, *reads])
    for index, name in wanted:
        finish(builder, op, op.output("Input@GRAD")[index], results[name], op.input("Input")[index])
    return True


def _merged(body: Body, incoming: dict[str, Value | None]) -> dict[str, Value | None]:
    """For each gradient what the block made, or what came in where the block did not run."""
    return {name: merge(body, name, old, body.env.get(name)) for name, old in incoming.items()}
