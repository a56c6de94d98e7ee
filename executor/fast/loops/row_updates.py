"""Updates by row-sparse gradients, from the steps of an update rule: one pass over the rows touched.

For each row the gradients that belong to it are added up in the order in which they came, and the steps
follow while the sum is in registers. Rows are different ones, so threads share them; what a row comes to does
not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.arithmetic import result_of
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.routine import Routine
from fluidlite.executor.fast.loops.tables import fits, prefetch
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.executor.fast.machine import MachineCalls, share_once
from fluidlite.ops.kernels.scalar import FUNCTIONS, Ref, ScalarExpr, parse
from fluidlite.ops.training.optimizer import target_of, update_function
from fluidlite.values.tensor import SelectedRows, sorted_runs

__all__ = ["CompiledRowUpdate"]

_SHARED = 1 << 16  # numbers in a gradient from which waking a second thread pays

Steps: TypeAlias = "Sequence[tuple[str, str]]"


@dataclass(frozen=True)
class _Form:
    """The steps of an update of the arrays `tall`, which have rows: those of numbers, which NumPy does, and
    those of lanes.
    """

    tall: tuple[str, ...]
    outputs: tuple[str, ...]
    of_numbers: tuple[tuple[str, str], ...]
    of_lanes: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    """The names of numbers that steps of lanes read."""


def _form(
    steps: Steps, outputs: Sequence[str], tall: tuple[str, ...], attributes: Mapping[str, Any]
) -> _Form:
    laned = {"Grad", *tall}
    of_numbers, of_lanes = [], []
    numbers: dict[str, None] = {}
    for name, expr in steps:
        names = parse(expr).names
        if laned.isdisjoint(names):
            of_numbers.append((name, expr))
            continue
        numbers.update(
            dict.fromkeys(known for known in names if known not in laned and known not in attributes)
        )
        of_lanes.append((name, expr))
        laned.add(name)
    kept = tuple(name for name in outputs if target_of(name) in tall)
    return _Form(tall, kept, tuple(of_numbers), tuple(of_lanes), tuple(numbers))


def _code(form: _Form, attributes: Mapping[str, Any]) -> LoopCode | None:
    """The code of a form; None where a step has a function that there is no code for."""
    intrinsics: dict[str, str] = {}
    a = Routine(widths()[1], intrinsics)
    states = [f"%State{number}" for number in range(len(form.tall))]
    a.arguments(["Order", "Starts", "Ids", "Rows", "width", "Numbers", *(name[1:] for name in states)])
    known: dict[str, Any] = dict(attributes)
    for number, name in enumerate(form.numbers):
        known[name] = a.spread(a.entry("%Numbers", number, "float"))
    first, last, width = map(a.integer, ("first", "last", "width"))
    end = last - 1
    with a.loop(first, last) as run:
        for state in states:
            prefetch(a, state, "%Ids", run.index, end)
        base = a.entry("%Ids", run.index) * width
        held = [a.at(state, base) for state in states]
        start, stop = (a.entry("%Starts", run.index + step) for step in (0, 1))
        with a.units(width, is_masked=True) as unit:
            with a.loop(start, stop, carried=[a.zero()]) as turn:
                row = a.at("%Rows", a.entry("%Order", turn.index) * width)
                turn.next[0] = turn.values[0] + a.load(row, unit.index)
            known["Grad"] = turn.values[0]
            known |= {name: a.load(at, unit.index) for name, at in zip(form.tall, held, strict=True)}
            for name, expr in form.of_lanes:
                known[name] = _vector(a, parse(expr), known)
                if known[name] is None:
                    return None
            for name in form.outputs:
                a.store(known[name], held[form.tall.index(target_of(name))], unit.index)
    text = a.function("void @LOOP(i64 %first, i64 %last, ptr %arguments)")
    return loop_of("\n".join([*intrinsics.values(), text]))


def _vector(a: Routine, expression: ScalarExpr, known: Mapping[str, Any]) -> Vector | None:
    """The lanes of an expression; None where there is no code for one of its functions."""
    results: list[Any] = []

    def operand(item: Any) -> Any:
        if isinstance(item, Ref):
            return results[item.index]
        return known[item] if isinstance(item, str) else item

    for node in expression.nodes:
        operands = [operand(item) for item in node.operands]
        if not any(isinstance(item, Vector) for item in operands):
            # as NumPy computes with Python's numbers
            results.append(float(getattr(np, FUNCTIONS[node.function][0])(*operands)))
            continue
        found = _applied(a, node.function, operands)
        if found is None:
            return None
        results.append(found)
    result = operand(expression.result)
    return result if isinstance(result, Vector) else a.code.number(result, "float")


def _applied(a: Routine, function: str, operands: Sequence[Any]) -> Vector | None:
    vectors = [item if isinstance(item, Vector) else a.code.number(item, "float") for item in operands]
    if function == "where":
        return a.code.select(vectors[0], vectors[1], vectors[2])
    return result_of(a.code, function, vectors)


class CompiledRowUpdate:
    """update(gradient, state) moves the rows of a sparse gradient in place, and is true; false where that is
    left to NumPy.
    """

    def __init__(
        self, steps: Steps, attributes: Mapping[str, Any], outputs: Sequence[str], threads: int, wait: bool
    ) -> None:
        self.steps = steps
        self.attributes = attributes
        self.outputs = outputs
        self.threads = threads
        self.wait = wait
        self.runs = 0
        self.codes: dict[tuple[str, ...], tuple[_Form, LoopCode | None]] = {}

    def __call__(self, grad: SelectedRows, state: Mapping[str, Array]) -> bool:
        rows = grad.array
        shape = (grad.height(), *rows.shape[1:])
        tall = tuple(name for name, value in state.items() if value.shape == shape)
        small = [value for name, value in state.items() if name not in tall]
        if any(value.size != 1 or value.dtype != np.float32 for value in small) or "Param" not in tall:
            return False
        if not all(fits(state[name], grad.ids, rows) for name in tall):
            return False
        if tall not in self.codes:
            form = _form(self.steps, self.outputs, tall, self.attributes)
            self.codes[tall] = form, _code(form, self.attributes)
        form, code = self.codes[tall]
        self.runs += 1
        if code is None or not code.ready(self.runs, self.wait):
            return False
        numbers = self._numbers(form, state)
        self._move(form, code, grad, state, numbers)
        for name in self.outputs:
            if name not in form.outputs:
                state[target_of(name)][...] = numbers[name]
        return True

    def _numbers(self, form: _Form, state: Mapping[str, Array]) -> dict[str, Any]:
        known = dict(self.attributes)
        known.update({name: value.reshape(()) for name, value in state.items() if name not in form.tall})
        for name, expr in form.of_numbers:
            known[name] = update_function(expr)(np, *(known[operand] for operand in parse(expr).names))
        return known

    def _move(
        self,
        form: _Form,
        code: LoopCode,
        grad: SelectedRows,
        state: Mapping[str, Array],
        numbers: Mapping[str, Any],
    ) -> None:
        ids, starts, order = sorted_runs(grad.ids)
        given = np.array([numbers[name] for name in form.numbers], np.float32)
        rows = grad.array
        before = [address_of(array) for array in (order, starts, ids, rows)]
        behind = [address_of(array) for array in (given, *(state[name] for name in form.tall))]
        table = np.array([*before, rows.size // len(rows), *behind], np.int64)
        threads = self.threads if rows.size >= _SHARED else 1

        def part(calls: MachineCalls, member: int) -> None:
            first, last = (len(ids) * (member + step) // threads for step in (0, 1))
            calls.code(code.function, first, last, address_of(table))

        share_once(threads, threads, part)
