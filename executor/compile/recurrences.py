"""`recurrent` and its gradient in a plan: a loop over the first dimension of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.executor.compile.block_gradients import combined, finish, saved_forward, total_of
from fluidlite.executor.compile.blocks import Body, block_writer, kept_names
from fluidlite.executor.compile.builder import CannotInline, PlanBuilder
from fluidlite.executor.compile.collected import WeightProducts
from fluidlite.executor.compile.saved import SavedForBackward, keep
from fluidlite.executor.plan.actions import (
    Assign,
    At,
    Bound,
    Call,
    Copy,
    Length,
    Loop,
    New,
    Operand,
    SetItem,
    Sum,
)
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.sub_blocks import facts_of, wanted_gradients


class StackRows:
    """Rows by step as one array."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __call__(self, rows: Mapping[int, Any]) -> Any:
        return self.xp.stack([rows[step] for step in sorted(rows)])


class _StepLoop:
    """The loop of a `recurrent` op or of its gradient: slices on the way in, rows on the way out."""

    def __init__(
        self, builder: PlanBuilder, op: Operator, body: Body, position: Value, length: int | None
    ) -> None:
        self.builder = builder
        self.op = op
        self.body = body
        self.position = position
        self.length = length

    def slice(self, value: Value) -> Value:
        """A step's part of `value`."""
        if value.base is not None and not value.lies_in_order:
            value = self._copied(value)
        # a slice shows the array, which the program is about to change
        if keep(self.builder, value) is not value:
            raise CannotInline("it runs over a persistable variable that the program changes")
        is_known = value.known and bool(value.shape)
        found = self.builder.values.local(
            shape=value.shape[1:] if is_known and value.shape else None,
            dtype=value.dtype if is_known else None,
        )
        part = At(value, self.position)
        self.body.add(Assign((found,), (part,)), holds=(value,))
        return found

    def _copied(self, value: Value) -> Value:
        """A value in C order, ahead of the loop: so each of its rows is."""
        whole = self.builder.values.local(value, name=value.name)
        self.body.before.append(Step(self.op, Assign((whole,), (Copy(value),))))
        return whole

    def row(self, inner: Value) -> tuple[Value, bool]:
        """Collects what each step leaves; gives the array, or rows by step (True) where its shape is not
        known.
        """
        # with the shape known ahead, each step writes its row into the result: nothing is stacked afterwards
        if inner.known and inner.shape is not None and self.length is not None:
            shape = (self.length, *inner.shape)
            whole = self.builder.values.local(shape=shape, dtype=inner.dtype)
            empty = New("empty", shape, str(inner.dtype))
            self.body.before.append(Step(self.op, Assign((whole,), (empty,))))
            self.body.add(SetItem(whole, self.position, inner))
            return whole, False
        # by position in a dict, because a reversed loop fills the rows from the end
        whole = self.body.start({})
        row = keep(self.builder, inner)
        self.body.add(SetItem(whole, self.position, row), holds=(inner,))
        return whole, True

    def stacked(self, whole: Value, is_by_step: bool) -> Value:
        """The array of all rows."""
        if not is_by_step:
            return whole
        found = self.builder.values.local()
        stacked = Call(Bound("stack", Fresh(StackRows)), (whole,))
        self.builder.add(self.op, Assign((found,), (stacked,)))
        return found


def _values(builder: PlanBuilder, op: Operator, slot: str) -> list[Value]:
    found = [builder.argument(op, name) for name in op.input(slot)]
    # a slice of None would fail with an error that does not name the op
    values = [value for value in found if value is not None and not value.maybe]
    if len(values) < len(found):
        raise CannotInline(f"a variable in its slot {slot} may have no value")
    return values


def _length(inputs: list[Value]) -> int | None:
    """The number of steps, None where it is not known."""
    if not inputs:
        raise CannotInline("it has no inputs to run over")
    length = inputs[0].shape[0] if inputs[0].known and inputs[0].shape else None
    if length == 0:
        # the outputs would have no row to take their shape from
        raise CannotInline("it runs no step")
    return length


# ---------------------------------------------------------------------- forward
@block_writer("recurrent")
def _(builder: PlanBuilder, op: Operator) -> bool:
    inputs = _values(builder, op, "inputs")
    initial = _values(builder, op, "initial_states")
    length = _length(inputs)
    while True:
        loop = _RecurrentForward(builder, op, inputs, initial, length)
        if loop.body.stable:
            break
    count: Operand = length if length is not None else Length(inputs[0])
    loop.body.write(Loop(loop.position, count, backwards=bool(op.attrs.get("reverse"))))
    for name, row in zip(op.output("outputs"), loop.rows, strict=True):
        builder.publish(op, name, loop.steps.stacked(*row))
    if loop.saved is not None:
        builder.save_for_backward(op.output("step_scopes")[0], loop.saved)
    return True


class _RecurrentForward:
    """One attempt at the body of a `recurrent` op."""

    def __init__(
        self,
        builder: PlanBuilder,
        op: Operator,
        inputs: list[Value],
        initial: list[Value],
        length: int | None,
    ) -> None:
        facts = facts_of(op, "parameters")
        # without a gradient no step keeps anything
        names, old = kept_names(builder, op, facts.carried, "step_scopes") if facts.keeps else ([], [])
        states = op.attrs["states"]
        ex_states = op.attrs["ex_states"]
        outputs = op.output("outputs")
        body = self.body = Body(builder, op, [*outputs, *op.input("inputs"), *ex_states])
        self.position = builder.values.local()
        self.steps = _StepLoop(builder, op, body, self.position, length)
        for name, value in zip(op.input("inputs"), inputs, strict=True):
            body.given[name] = self.steps.slice(value)
        memory = {
            name: body.symbol(name, value, lod=False) for name, value in zip(ex_states, initial, strict=True)
        }
        # what comes first in the body: the memory of the step before
        body.given.update(memory)
        body.carry()
        with body.entered([*names, *states]):
            builder.lower(body.block.ops)
            outer = {name: body.carried.get(name, body.env.get(name)) for name in old}
            self.saved = body.save(names, outer) if facts.keeps else None
            self.rows = [self.steps.row(_present(body, name)) for name in outputs]
            for name, state in zip(ex_states, states, strict=True):
                body.move(name, memory[name], body.env.get(state))
            for name, symbol in body.carried.items():
                body.move(name, symbol, body.env.get(name))
            body.finish_moves()


def _present(body: Body, name: str) -> Value:
    value = body.env.get(name)
    if value is None:
        raise CannotInline(f"its steps do not write the output {name!r}")
    return value


# ---------------------------------------------------------------------- gradient
class _RecurrentGradient:
    """One `recurrent_grad`."""

    def __init__(self, builder: PlanBuilder, op: Operator, saved: SavedForBackward) -> None:
        self.builder = builder
        self.op = op
        self.saved = saved
        self.slices = [name for _, name in wanted_gradients(op, "inputs")]
        self.shared = wanted_gradients(op, "parameters")
        self.outputs: dict[str, Value] = {}
        for name, outer in zip(op.input("outputs"), op.input("outputs@GRAD"), strict=False):
            value = builder.newest(outer)
            if value is not None:
                self.outputs[grad_name(name)] = value
        self.pairs = [
            (grad_name(ex), grad_name(state), state)
            for ex, state in zip(op.attrs["ex_states"], op.attrs["states"], strict=True)
        ]
        self.length = _length(_values(builder, op, "inputs"))

    def write(self) -> None:
        """Write the loop, then what it found."""
        builder = self.builder
        op = self.op
        own = [
            *self.slices,
            *(name for _, name in self.shared),
            *(ex for ex, _, _ in self.pairs),
            *self.outputs,
            *(state for _, state, _ in self.pairs),
        ]
        while True:
            body = Body(builder, op, own, saved=self.saved)
            body.carry()
            number = builder.values.local()
            steps = _StepLoop(builder, op, body, self._position(body, number), self.length)
            body.reopen(self.saved, number)
            memory = self._incoming(body, steps)
            products = WeightProducts(body, [name for _, name in self.shared])
            with body.entered(gradient=True):
                builder.lower(body.block.ops)
                totals = self._totals(body)
                rows = {name: steps.row(body.env[name]) for name in self.slices if name in body.env}
                for ex, symbol in memory.items():
                    body.move(ex, symbol, body.env.get(ex))
                for name, symbol in body.carried.items():
                    body.move(name, symbol, body.env.get(name))
                body.finish_moves()
            if body.stable:
                break
        body.write(Loop(number, self.saved.count, backwards=True))
        totals.update(products.write())
        self._finish(totals, {name: steps.stacked(*row) for name, row in rows.items()}, memory)

    def _position(self, body: Body, number: Value) -> Value:
        """The step's position in the inputs; steps are numbered in the order in which they ran."""
        if not self.op.attrs.get("reverse"):
            return number
        position = self.builder.values.local()
        rewound = Sum(((1, self.saved.count), (-1, 1), (-1, number)))
        body.add(Assign((position,), (rewound,)))
        return position

    def _totals(self, body: Body) -> dict[str, Value | None]:
        names = self.op.input("parameters")
        return {
            name: total_of(body, body.env.get(name), self.builder.argument(self.op, names[index]))
            for index, name in self.shared
        }

    def _incoming(self, body: Body, steps: _StepLoop) -> dict[str, Value]:
        """The values that a step's gradient starts with: its rows of what came in, and what the step after it
        found for its memory.
        """
        body.given.update((name, steps.slice(value)) for name, value in self.outputs.items())
        memory: dict[str, Value] = {}
        # a state's gradient has two sources: the step's own output, and the memory of the step that ran after
        # it
        for ex, state, name in self.pairs:
            kept = self.saved.values.get(name)
            start = None
            if kept is not None and kept.entry is not None and kept.entry.known:
                # the last step has none after it: its memory's gradient starts from zeros
                start = self.builder.values.local(kept.entry)
                assert start.shape is not None
                zeros = New("zeros", start.shape, str(start.dtype))
                body.before.append(Step(self.op, Assign((start,), (zeros,))))
            memory[ex] = body.symbol(ex, start, lod=False)
            total = combined(self.builder, self.op, body.given.get(state), memory[ex], body.steps)
            if total is not None:
                body.given[state] = total
        return memory

    def _finish(
        self, totals: Mapping[str, Value | None], rows: Mapping[str, Value], memory: Mapping[str, Value]
    ) -> None:
        op = self.op
        # by position: one Variable may be two states
        found: dict[str, list[Value | None]] = {
            "initial_states": [memory[ex] for ex, _, _ in self.pairs],
            "parameters": [totals.get(grad_name(name)) for name in op.input("parameters")],
            "inputs": [rows.get(grad_name(name)) for name in op.input("inputs")],
        }
        for slot, values in found.items():
            names = zip(op.input(slot), op.output(grad_name(slot)), values, strict=False)
            for name, gradient, value in names:
                if gradient != EMPTY_VAR:
                    finish(self.builder, op, gradient, value, name)


@block_writer("recurrent_grad")
def _(builder: PlanBuilder, op: Operator) -> bool:
    saved = saved_forward(builder, op.input("step_scopes"))
    if saved is None:
        return False
    _RecurrentGradient(builder, op, saved).write()
    return True
