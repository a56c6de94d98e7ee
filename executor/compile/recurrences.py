"""`recurrent` and its gradient in a plan: a loop over the first dimension of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.executor.compile.block_gradients import Total, combined, finish
from fluidlite.executor.compile.blocks import Body, CannotInline, Record, block_writer, gradient_reads, keep
from fluidlite.executor.compile.emitter import Fresh
from fluidlite.executor.compile.plan_ir import Step, Storage, Value
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.sub_blocks import facts_of, wanted_gradients


class Stack:
    """Rows by step as one array."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __call__(self, rows: Mapping[int, Any]) -> Any:
        return self.xp.stack([rows[step] for step in sorted(rows)])


class _Steps:
    """The loop of a `recurrent` op or of its gradient: slices on the way in, rows on the way out."""

    def __init__(self, builder: Any, op: Operator, body: Body, position: Value, length: int | None) -> None:
        self.builder, self.op, self.body, self.position, self.length = builder, op, body, position, length

    def slice(self, value: Value) -> Value:
        """What a step sees of `value`."""
        known = value.known
        found: Value = self.builder.values.make(
            value.shape[1:] if known and value.shape else None, value.dtype if known else None, Storage.LOCAL
        )
        if ".copy()" in keep(self.builder, value):
            raise CannotInline("it runs over a persistable variable that the program changes")
        self.body.steps.append(
            Step(
                self.op,
                [value, self.position],
                [found],
                [f"{found} = {value}[{self.position}]"],
                holds=[value],
            )
        )
        return found

    def row(self, inner: Value) -> tuple[Value, bool]:
        """Collects what each step leaves; gives the array, or rows by step (True) where its shape is not
        known.
        """
        if inner.known and self.length is not None:
            whole: Value = self.builder.values.make((self.length, *inner.shape), inner.dtype, Storage.LOCAL)  # type: ignore[misc]
            self.body.before.append(
                Step(self.op, [], [whole], [f"{whole} = empty({whole.shape}, {str(whole.dtype)!r})"])
            )
            text = f"{whole}[{self.position}] = {inner}"
        else:
            whole = self.body.start("{}")
            text = f"{whole}[{self.position}] = {keep(self.builder, inner)}"
        held = [] if whole.shape is not None else [inner]
        self.body.steps.append(Step(self.op, [inner, whole, self.position], [whole], [text], holds=held))
        return whole, whole.shape is None

    def stacked(self, whole: Value, rows: bool) -> Value:
        """The array of all rows."""
        if not rows:
            return whole
        found: Value = self.builder.values.make(None, None, Storage.LOCAL)
        self.builder.steps.append(
            Step(
                self.op,
                [whole],
                [found],
                [f"{found} = {self.builder.bind('stack', Fresh(Stack, ()))}({whole})"],
            )
        )
        return found


def _values(builder: Any, op: Operator, slot: str) -> list[Value]:
    found = [builder._argument(op, name) for name in op.input(slot)]
    if any(value is None or value.maybe for value in found):
        raise CannotInline(f"a variable in its slot {slot} may have no value")
    return found


def _length(inputs: list[Value]) -> tuple[int | None, str]:
    """The number of steps, None where it is not known, and as text."""
    if not inputs:
        raise CannotInline("it has no inputs to run over")
    length = inputs[0].shape[0] if inputs[0].known and inputs[0].shape else None
    if length == 0:
        raise CannotInline("it runs no step")
    return length, str(length) if length is not None else f"len({inputs[0]})"


# ---------------------------------------------------------------------- forward
@block_writer("recurrent")
def _(builder: Any, op: Operator) -> bool:
    keeps = facts_of(op, "inputs", "step_scopes").keeps
    names = gradient_reads(op, "step_scopes") if keeps else []
    inputs, initial = _values(builder, op, "inputs"), _values(builder, op, "initial_states")
    length, text = _length(inputs)
    states, ex_states, outputs = op.attrs["states"], op.attrs["ex_states"], op.output("outputs")
    while True:
        body = Body(builder, op, [*outputs, *op.input("inputs"), *ex_states])
        position = builder.values.make(None, None, Storage.LOCAL)
        steps = _Steps(builder, op, body, position, length)
        body.given.update(
            (name, steps.slice(value)) for name, value in zip(op.input("inputs"), inputs, strict=True)
        )
        memory = {
            name: body.symbol(name, value, lod=False) for name, value in zip(ex_states, initial, strict=True)
        }
        body.given.update(memory)
        body.carry()
        with body.entered([*names, *states]):
            builder.lower(body.block.ops)
            record = body.record(names, {}) if keeps else None
            rows = [steps.row(_present(body, name)) for name in outputs]
            for name, state in zip(ex_states, states, strict=True):
                body.move(name, memory[name], body.env.get(state))
            for name, symbol in body.carried.items():
                body.move(name, symbol, body.env.get(name))
            body.finish_moves()
        if body.stable:
            break
    order = f"range({text})" if not op.attrs.get("reverse") else f"range({text} - 1, -1, -1)"
    body.run(f"for {position} in {order}:", inputs[:1], [position])
    for name, row in zip(outputs, rows, strict=True):
        builder._assign(op, name, steps.stacked(*row))
    if record is not None:
        builder.records[op.output("step_scopes")[0]] = record
    return True


def _present(body: Body, name: str) -> Value:
    value = body.env.get(name)
    if value is None:
        raise CannotInline(f"its steps do not write the output {name!r}")
    return value


# ---------------------------------------------------------------------- gradient
class _Gradient:
    """One `recurrent_grad`."""

    def __init__(self, builder: Any, op: Operator, record: Record) -> None:
        self.builder, self.op, self.record = builder, op, record
        self.slices = [name for _, name in wanted_gradients(op, "inputs")]
        self.shared = wanted_gradients(op, "parameters")
        self.outputs = {
            grad_name(name): builder.env[outer]
            for name, outer in zip(op.input("outputs"), op.input("outputs@GRAD"), strict=False)
            if outer in builder.env
        }
        self.pairs = [
            (grad_name(ex), grad_name(state), state)
            for ex, state in zip(op.attrs["ex_states"], op.attrs["states"], strict=True)
        ]
        self.length = _length(_values(builder, op, "inputs"))[0]

    def write(self) -> None:
        """Write the loop, then what it found."""
        builder, op = self.builder, self.op
        own = [
            *self.slices,
            *(name for _, name in self.shared),
            *(ex for ex, _, _ in self.pairs),
            *self.outputs,
            *(state for _, state, _ in self.pairs),
        ]
        while True:
            body = Body(builder, op, own, record=self.record)
            body.carry()
            number = builder.values.make(None, None, Storage.LOCAL)
            steps = _Steps(builder, op, body, self._position(body, number), self.length)
            body.reopen(self.record, number)
            memory = self._incoming(body, steps)
            with body.entered():
                builder.in_gradient, nested = True, builder.in_gradient
                builder.lower(body.block.ops)
                totals = {
                    name: Total(
                        body, body.env.get(name), builder._argument(op, op.input("parameters")[index])
                    ).value
                    for index, name in self.shared
                }
                rows = {
                    name: steps.row(inner)
                    for name in self.slices
                    if (inner := body.env.get(name)) is not None
                }
                for ex, symbol in memory.items():
                    body.move(ex, symbol, body.env.get(ex))
                for name, symbol in body.carried.items():
                    body.move(name, symbol, body.env.get(name))
                body.finish_moves()
            builder.in_gradient = nested
            if body.stable:
                break
        body.run(f"for {number} in range({self.record.count} - 1, -1, -1):", [self.record.count], [number])
        self._finish(totals, {name: steps.stacked(*row) for name, row in rows.items()}, memory)

    def _position(self, body: Body, number: Value) -> Value:
        """Where in the inputs the step was; steps are numbered in the order in which they ran."""
        if not self.op.attrs.get("reverse"):
            return number
        position: Value = self.builder.values.make(None, None, Storage.LOCAL)
        body.steps.append(
            Step(
                self.op,
                [number, self.record.count],
                [position],
                [f"{position} = {self.record.count} - 1 - {number}"],
            )
        )
        return position

    def _incoming(self, body: Body, steps: _Steps) -> dict[str, Value]:
        """What a step's gradient starts with: its rows of what came in, and what the step behind it found
        for its memory.
        """
        body.given.update((name, steps.slice(value)) for name, value in self.outputs.items())
        memory: dict[str, Value] = {}
        for ex, state, name in self.pairs:
            kept = self.record.values.get(name)
            start = None
            if kept is not None and kept.entry is not None and kept.entry.known:
                start = self.builder.values.make(kept.entry.shape, kept.entry.dtype, Storage.LOCAL)
                body.before.append(
                    Step(self.op, [], [start], [f"{start} = zeros({start.shape}, {str(start.dtype)!r})"])
                )
            memory[ex] = body.symbol(ex, start, lod=False)
            total = combined(self.builder, self.op, body.given.get(state), memory[ex], body.steps)
            if total is not None:
                body.given[state] = total
        return memory

    def _finish(
        self, totals: Mapping[str, Value | None], rows: Mapping[str, Value], memory: Mapping[str, Value]
    ) -> None:
        op = self.op
        ends = dict(zip(op.input("initial_states"), (memory[ex] for ex, _, _ in self.pairs), strict=True))
        for slot, found in (
            ("initial_states", ends),
            ("parameters", {name: totals.get(grad_name(name)) for name in op.input("parameters")}),
            ("inputs", {name: rows.get(grad_name(name)) for name in op.input("inputs")}),
        ):
            for name, gradient in zip(op.input(slot), op.output(grad_name(slot)), strict=False):
                if gradient != EMPTY_VAR:
                    finish(self.builder, op, gradient, found[name], name)


@block_writer("recurrent_grad")
def _(builder: Any, op: Operator) -> bool:
    record = next(
        (builder.records[name] for name in op.input("step_scopes") if name in builder.records), None
    )
    if record is None:
        return False
    _Gradient(builder, op, record).write()
    return True
