"""All steps of a gated recurrent unit as one function, forward and back; see `lstm`.

The candidate waits for the states that the reset gate lets through: a step is two products forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fluidlite.executor.fast.loops.gates import activated, slope
from fluidlite.executor.fast.loops.panels import product_call, product_text
from fluidlite.executor.fast.loops.routine import Routine
from fluidlite.executor.fast.loops.steps import StepCode, steps_back, whole_text

__all__ = ["BACK", "FORWARD", "GruForm", "back_text", "forward_text"]

_STEPS = ("Rows", "Starts", "steps", "size", "Scratch", "stride", "panels", "Weight", "whole", "Table")
_SECOND = ("stride2", "panels2", "Weight2", "whole2")
FORWARD = (*_STEPS, *_SECOND, "X", "Bias", "First", "depth", "Hidden", "Gates", "Reset")
"""The arguments in order; capitals for arrays."""
BACK = (*_STEPS, *_SECOND, "First", "Hidden", "Gates", "D", "DX", "Carry", "Earlier", "Passed", "DBias")


@dataclass(frozen=True)
class GruForm:
    """The differences between the functions: activations by name, and what there is.

    `vectors` are those of the panels of both products.
    """

    lanes: int
    vectors: tuple[int, int]
    gate: str
    candidate: str
    is_masked: bool
    origin_mode: bool
    has_first: bool


def _products(form: GruForm, intrinsics: dict[str, str]) -> list[str]:
    return [product_text(form.lanes, vectors, intrinsics) for vectors in sorted(set(form.vectors))]


def _first_product(a: Routine, form: GruForm, count: str, depth: str) -> None:
    operands = {"weight": "%Weight", "whole": "%whole", "panels": "%panels", "stride": "%stride"}
    product_call(a, form.vectors[0], rows="%Table", count=count, depth=depth, out="%Scratch", **operands)


def _second_product(a: Routine, form: GruForm, count: str, depth: str) -> None:
    operands = {"weight": "%Weight2", "whole": "%whole2", "panels": "%panels2", "stride": "%stride2"}
    product_call(a, form.vectors[1], rows="%Table", count=count, depth=depth, out="%Scratch", **operands)


def _note(a: Routine, row: str, address: str) -> None:
    """Make an address an operand of the next product."""
    a.do(f"store ptr {address}, ptr {a.at('%Table', row, 'ptr')}")


# ---------------------------------------------------------------------- forward
@cache
def forward_text(form: GruForm) -> str:
    """The text of all steps forward."""
    intrinsics: dict[str, str] = {}
    a = Routine(form.lanes, intrinsics)
    a.arguments(FORWARD)
    with a.loop("0", "%steps") as steps:
        step = StepCode(a, steps.index, form.has_first)
        depth = a.pick(step.is_first, "%depth", "%size")
        with a.loop("0", step.count) as row:
            _note(a, row.index, step.earlier(row.index, "%Hidden", "%First"))
        _first_product(a, form, step.count, depth)
        with a.loop("0", step.count) as row:
            _open_gates(a, form, step, row.index)
        _second_product(a, form, step.count, depth)
        with a.loop("0", step.count) as row:
            _new_states(a, form, step, row.index)
    return whole_text(a, _products(form, intrinsics), intrinsics)


def _open_gates(a: Routine, form: GruForm, step: StepCode, row: str) -> None:
    x = a.at("%X", a.times(step.row(row), step.three))
    sums = a.at("%Scratch", a.times(row, "%stride"))
    stored = step.stored(row)
    gates = a.at("%Gates", a.times(stored, step.three))
    reset = a.at("%Reset", a.times(stored, "%size"))
    before = step.earlier(row, "%Hidden", "%First")
    with a.units("%size", form.is_masked) as unit:
        here = [a.sum(gate, unit.index) for gate in step.gates[:2]]
        update, let_through = (
            activated(form.gate, a.load(sums, at) + a.load(x, at) + a.load("%Bias", at)) for at in here
        )
        a.store(update, gates, here[0])
        a.store(let_through, gates, here[1])
        a.store(step.if_known(let_through * a.load(before, unit.index)), reset, unit.index)
    _note(a, row, reset)


def _new_states(a: Routine, form: GruForm, step: StepCode, row: str) -> None:
    place = step.row(row)
    x = a.at("%X", a.times(place, step.three))
    sums = a.at("%Scratch", a.times(row, "%stride2"))
    gates = a.at("%Gates", a.times(step.stored(row), step.three))
    before = step.earlier(row, "%Hidden", "%First")
    hidden = a.at("%Hidden", a.times(place, "%size"))
    with a.units("%size", form.is_masked) as unit:
        at = a.sum(step.gates[2], unit.index)
        raw = a.load(sums, unit.index) + a.load(x, at) + a.load("%Bias", at)
        candidate = activated(form.candidate, raw)
        update, earlier = a.load(gates, unit.index), a.load(before, unit.index)
        opened, closed = (earlier, candidate) if form.origin_mode else (candidate, earlier)
        a.store(candidate, gates, at)
        a.store((opened - closed) * update + closed, hidden, unit.index)


# ---------------------------------------------------------------------- back
@cache
def back_text(form: GruForm) -> str:
    """The text of all steps back; `Carry` holds what goes on to the step before."""
    intrinsics: dict[str, str] = {}
    a = Routine(form.lanes, intrinsics)
    a.arguments(BACK)
    with steps_back(a, form.has_first) as step:
        with a.loop("0", step.count) as row:
            _back_candidate(a, form, step, row.index)
        _second_product(a, form, step.count, "%size")
        with a.loop("0", step.count) as row:
            _back_reset(a, form, step, row.index)
        _first_product(a, form, step.count, a.times("%size", "2"))
        _gather(a, form, step)
    return whole_text(a, _products(form, intrinsics), intrinsics)


def _back_candidate(a: Routine, form: GruForm, step: StepCode, row: str) -> None:
    """The gradients of update gate and candidate, and what goes straight on."""
    place = step.row(row)
    own = a.times(place, "%size")
    gates = a.at("%Gates", a.times(step.stored(row), step.three))
    dx = a.at("%DX", a.times(place, step.three))
    before = step.earlier(row, "%Hidden", "%First")
    carry = a.at("%Carry", a.times(row, "%size"))
    with a.units("%size", form.is_masked) as unit:
        at = a.sum(step.gates[2], unit.index)
        update, candidate = a.load(gates, unit.index), a.load(gates, at)
        earlier = a.load(before, unit.index)
        d = a.load("%D", a.sum(own, unit.index)) + a.load(carry, unit.index)
        opened, closed = (earlier, candidate) if form.origin_mode else (candidate, earlier)
        shut = 1.0 - update
        own_share, straight = (shut, update) if form.origin_mode else (update, shut)
        a.store(slope(form.gate, update) * (opened - closed) * d, dx, unit.index)
        a.store(slope(form.candidate, candidate) * own_share * d, dx, at)
        a.store(d * straight, carry, unit.index)
        a.store(earlier, "%Earlier", a.sum(own, unit.index))
    _note(a, row, a.at(dx, step.gates[2]))


def _back_reset(a: Routine, form: GruForm, step: StepCode, row: str) -> None:
    """The gradient of the reset gate."""
    place = step.row(row)
    gates = a.at("%Gates", a.times(step.stored(row), step.three))
    dx = a.at("%DX", a.times(place, step.three))
    before = step.earlier(row, "%Hidden", "%First")
    carry = a.at("%Carry", a.times(row, "%size"))
    sums = a.at("%Scratch", a.times(row, "%stride2"))
    own = a.at("%Passed", a.times(place, "%size"))
    with a.units("%size", form.is_masked) as unit:
        at = a.sum(step.gates[1], unit.index)
        let_through, passed = a.load(gates, at), a.load(sums, unit.index)
        earlier = a.load(before, unit.index)
        a.store(slope(form.gate, let_through) * earlier * passed, dx, at)
        a.store(step.if_known(let_through * earlier), own, unit.index)
        a.store(a.load(carry, unit.index) + passed * let_through, carry, unit.index)
    _note(a, row, dx)


def _gather(a: Routine, form: GruForm, step: StepCode) -> None:
    """Add what comes back from both gates to what goes on, and all gradients to the bias's."""
    with a.units("%size", form.is_masked) as unit:
        here = [a.sum(gate, unit.index) for gate in step.gates[:3]]
        with a.loop("0", step.count, carried=[a.zero()] * 3) as row:
            dx = a.at("%DX", a.times(step.row(row.index), step.three))
            carry = a.sum(a.times(row.index, "%size"), unit.index)
            sums = a.load("%Scratch", a.sum(a.times(row.index, "%stride"), unit.index))
            a.store(a.load("%Carry", carry) + sums, "%Carry", carry)
            row.next = [total + a.load(dx, at) for total, at in zip(row.values, here, strict=True)]
        for total, at in zip(row.values, here, strict=True):
            a.store(a.load("%DBias", at) + total, "%DBias", at)
