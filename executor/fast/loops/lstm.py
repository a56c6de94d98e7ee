"""All steps of a long short-term memory as one function, forward and back: products by panels, and what
`fluidlite.ops.kernels.lstm_steps` does with each step's gates in registers.

A thread computes some of the sequences from the first step to the last, so that threads meet only at the end.
What the layer reads and writes lies as it is given; gates and activated cells lie step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fluidlite.executor.fast.loops.gates import activated, slope
from fluidlite.executor.fast.loops.panels import product_call, product_text
from fluidlite.executor.fast.loops.routine import CodeLoop, Routine
from fluidlite.executor.fast.loops.steps import StepCode, following_rows, steps_back, whole_text
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["BACK", "FORWARD", "LstmForm", "back_text", "forward_text"]

_STEPS = ("Rows", "Starts", "steps", "size", "Scratch", "stride", "panels", "Weight", "whole", "Table")
FORWARD = (
    *_STEPS,
    *("X", "Bias", "Peepholes", "First", "FirstCells", "depth"),
    *("Hidden", "Cells", "Gates", "Active"),
)
"""The arguments in order; capitals for arrays."""
BACK = (
    *_STEPS,
    *("Peepholes", "First", "FirstCells", "Hidden", "Cells", "Gates", "Active"),
    *("D", "DCells", "DX", "Carry", "Earlier", "DBias"),
)


@dataclass(frozen=True)
class LstmForm:
    """The differences between the functions: activations by name, and what there is."""

    lanes: int
    vectors: int
    gate: str
    state: str
    candidate: str
    is_masked: bool
    has_peepholes: bool
    has_first: bool
    has_dcells: bool = False
    clip: float = 0.0


# ---------------------------------------------------------------------- forward
@cache
def forward_text(form: LstmForm) -> str:
    """The text of all steps forward."""
    intrinsics: dict[str, str] = {}
    a = Routine(form.lanes, intrinsics)
    a.arguments(FORWARD)
    with a.loop("0", "%steps") as steps:
        step = StepCode(a, steps.index, form.has_first)
        with a.loop("0", step.count) as row:
            state = step.earlier(row.index, "%Hidden", "%First")
            a.do(f"store ptr {state}, ptr {a.at('%Table', row.index, 'ptr')}")
        product_call(
            a,
            form.vectors,
            rows="%Table",
            count=step.count,
            depth=a.pick(step.is_first, "%depth", "%size"),
            weight="%Weight",
            whole="%whole",
            panels="%panels",
            out="%Scratch",
            stride="%stride",
        )
        with a.loop("0", step.count) as row:
            _forward_row(a, form, step, row.index)
    return whole_text(a, [product_text(form.lanes, form.vectors, intrinsics)], intrinsics)


def _forward_row(a: Routine, form: LstmForm, step: StepCode, row: str) -> None:
    place = step.row(row)
    x = a.at("%X", a.times(place, step.four))
    sums = a.at("%Scratch", a.times(row, "%stride"))
    stored = step.stored(row)
    gates = a.at("%Gates", a.times(stored, step.four))
    active = a.at("%Active", a.times(stored, "%size"))
    own = a.times(place, "%size")
    cells, hidden = a.at("%Cells", own), a.at("%Hidden", own)
    before = step.earlier(row, "%Cells", "%FirstCells")
    with a.units("%size", form.is_masked) as unit:
        here = [a.sum(gate, unit.index) for gate in step.gates]
        raw = [a.load(sums, at) + a.load(x, at) + a.load("%Bias", at) for at in here]
        earlier = a.load(before, unit.index)
        candidate, entry, forget, output = _gates(a, form, raw, earlier, here)
        cell = _clipped(candidate * entry + step.if_known(forget * earlier), form.clip)
        if form.has_peepholes:
            output = activated(form.gate, output + cell * a.load("%Peepholes", here[2]))
        shown = activated(form.state, cell)
        for value, at in zip((candidate, entry, forget, output), here, strict=True):
            a.store(value, gates, at)
        a.store(cell, cells, unit.index)
        a.store(shown, active, unit.index)
        a.store(output * shown, hidden, unit.index)


def _gates(
    a: Routine, form: LstmForm, raw: Sequence[Vector], earlier: Vector, here: Sequence[str]
) -> tuple[Vector, ...]:
    """The activated gates; with peepholes the last one waits for the cell."""
    candidate, entry, forget, output = raw
    candidate = activated(form.candidate, candidate)
    if not form.has_peepholes:
        return candidate, *(activated(form.gate, each) for each in (entry, forget, output))
    entry = activated(form.gate, entry + earlier * a.load("%Peepholes", here[0]))
    forget = activated(form.gate, forget + earlier * a.load("%Peepholes", here[1]))
    return candidate, entry, forget, output


def _clipped(cell: Vector, bound: float) -> Vector:
    if bound <= 0:
        return cell
    select = cell.code.select
    cell = select(cell.compare("ogt", bound), cell.like(bound), cell)
    return select(cell.compare("olt", -bound), cell.like(-bound), cell)


# ---------------------------------------------------------------------- back
@cache
def back_text(form: LstmForm) -> str:
    """The text of all steps back."""
    intrinsics: dict[str, str] = {}
    a = Routine(form.lanes, intrinsics)
    a.arguments(BACK)
    with steps_back(a, form.has_first) as step:
        following = following_rows(a, step, "%DX", step.four)
        product_call(
            a,
            form.vectors,
            rows="%Table",
            count=following,
            depth=step.four,
            weight="%Weight",
            whole="%whole",
            panels="%panels",
            out="%Scratch",
            stride="%stride",
        )
        sums = [a.zero()] * (7 if form.has_peepholes else 4)
        with a.units("%size", form.is_masked) as unit:
            with a.loop("0", step.count, carried=sums) as row:
                _back_row(a, form, step, row.index, unit.index, following, row)
            for k, total in enumerate(row.values):
                at = a.sum(a.times("%size", str(k)), unit.index)
                a.store(a.load("%DBias", at) + total, "%DBias", at)
    return whole_text(a, [product_text(form.lanes, form.vectors, intrinsics)], intrinsics)


def _back_row(
    a: Routine, form: LstmForm, step: StepCode, row: str, unit: str, following: str, loop: CodeLoop
) -> None:
    place = step.row(row)
    own = a.times(place, "%size")
    stored = step.stored(row)
    gates = a.at("%Gates", a.times(stored, step.four))
    here = [a.sum(gate, unit) for gate in step.gates]
    candidate, entry, forget, output = (a.load(gates, at) for at in here)
    shown = a.load("%Active", a.sum(a.times(stored, "%size"), unit))
    before = step.earlier(row, "%Cells", "%FirstCells")
    earlier = a.load(before, unit)
    cell = a.load("%Cells", a.sum(own, unit))
    passed = a.load("%Scratch", a.sum(a.times(row, "%stride"), unit))
    d = a.load("%D", a.sum(own, unit)) + a.chosen(a.is_less(row, following), passed)
    carry = a.sum(a.times(row, "%size"), unit)
    share = slope(form.state, shown) * output * d + a.load("%Carry", carry)
    if form.has_dcells:
        share = share + a.load("%DCells", a.sum(own, unit))
    doutput = slope(form.gate, output) * shown * d
    peepholes = [a.load("%Peepholes", at) for at in here[:3]] if form.has_peepholes else []
    if peepholes:
        share = share + doutput * peepholes[2]
    if form.clip > 0:
        bound = cell.code.call("fabs", cell).compare("olt", form.clip)
        share = share * cell.code.select(bound, cell.like(1.0), cell.like(0.0))
    dcandidate = slope(form.candidate, candidate) * entry * share
    dentry = slope(form.gate, entry) * candidate * share
    dforget = slope(form.gate, forget) * earlier * share
    found = (dcandidate, dentry, dforget, doutput)
    dx = a.at("%DX", a.times(place, step.four))
    for value, at in zip(found, here, strict=True):
        a.store(value, dx, at)
    out = share * forget
    if peepholes:
        out = out + dentry * peepholes[0] + dforget * peepholes[1]
    a.store(out, "%Carry", carry)
    a.store(a.load(step.earlier(row, "%Hidden", "%First"), unit), "%Earlier", a.sum(own, unit))
    extra = (dentry * earlier, dforget * earlier, doutput * cell) if peepholes else ()
    loop.next = [total + value for total, value in zip(loop.values, (*found, *extra), strict=True)]
