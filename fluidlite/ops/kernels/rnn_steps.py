"""All steps of the units of PaddlePaddle 2.x's op `rnn` that read their whole state in one product: a gated
recurrent unit whose reset gate comes after the product, and a simple recurrence.

As in `lstm_steps` everything between the ops is stored step by step, and gates lie in planes inside a step.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.activations import Activation
from fluidlite.ops.kernels.cell_calls import ArrayPart, cell_calls, in_planes
from fluidlite.ops.kernels.cells import CellBack, CellForm, CellSteps, StepCell, gradient
from fluidlite.ops.kernels.products import gate_product, product, shared_product
from fluidlite.ops.kernels.recurrence import TimeSteps, chunks, planes

__all__ = [
    "CellGradients",
    "CellLayer",
    "CellRun",
    "CellUnit",
    "ResetAfterUnit",
    "SimpleUnit",
    "run_rows",
    "run_rows_back",
]

Maybe: TypeAlias = "Array | None"

RESET_AFTER = StepCell(
    "x_candidate x_reset x_update x_inner | before -> candidate reset update inner hidden",
    """
    reset = gate_activation(x_reset)
    update = gate_activation(x_update)
    inner = x_inner
    candidate = activation(x_candidate + reset * inner)
    hidden = (before - candidate) * update + candidate
    """,
)
"""The gates' sums have the product with the state, the candidate's has not: that is `inner`."""
SIMPLE = StepCell("x | -> hidden", "hidden = activation(x)")


@dataclass(frozen=True)
class CellUnit(abc.ABC):
    """A unit: numbers of planes, and what a step does between its products."""

    xp: Any
    size: int
    weight: Array
    """Of the state, [size, products x size]."""
    products: ClassVar[int]
    saved: ClassVar[tuple[str, ...]]
    """Planes that the gradient reads: the states alone, or values that are kept for it."""
    planes: ClassVar[tuple[str, ...]]
    """Planes of gradients: the first `products` are the input's, the last `products` the product's."""

    @functools.cached_property
    @abc.abstractmethod
    def form(self) -> CellForm:
        """The declared cell as it is here."""

    @property
    def kept(self) -> int:
        """Number of planes that only the gradient reads; 0 where the states are enough."""
        return 0 if self.saved == ("hidden",) else len(self.saved)

    @property
    def made(self) -> int:
        """Number of planes of gradients."""
        return len(self.planes)

    @property
    def back(self) -> CellBack:
        """The gradients of all that the unit reads."""
        return self.form.back(("hidden",), (*self.planes, "before"))

    @property
    def goes_straight(self) -> bool:
        """True if a part of the state goes on without a product."""
        return bool(self.back.factors_of("before"))

    @abc.abstractmethod
    def step(self, entry: Array, sums: Array, bias: Array, before: Array, kept: Array, out: Array) -> None:
        """Write the new states, and what is kept, from the inputs and the `sums` of the product, which are
        overwritten, as are the planes in front of them if more is kept. `bias` is what the entry's lacks of
        all `made` planes.
        """

    def factors(self, kept: Array, before: Array, out: Array, straight: Array) -> None:
        """Write the factors of the gradients [made, n, size], and what goes `straight` back."""
        _factor_calls(self.form, self.saved, self.planes)(self.xp, kept, before, out, straight)


@functools.cache
def _factor_calls(form: CellForm, saved: Sequence[str], names: Sequence[str]) -> Callable[..., Any]:
    back = form.back(("hidden",), (*names, "before"), is_flat=True)
    values = {gradient(name): back.only_factor(name)[1] for name in names}
    values |= {gradient("before"): factor for factor in back.factors_of("before").values()}
    reads = {**in_planes("kept", saved), "before": ArrayPart("before")}
    writes = {**in_planes("out", list(map(gradient, names))), gradient("before"): ArrayPart("straight")}
    present = {name: place for name, place in writes.items() if name in values}
    steps = CellSteps(back.steps, values)
    return cell_calls(steps, ("kept", "before", "out", "straight"), reads, present)


@dataclass(frozen=True)
class ResetAfterUnit(CellUnit):
    """A gated recurrent unit; the planes of its input are candidate, reset, update, those of the product
    reset, update, inner.
    """

    products: ClassVar[int] = 3
    saved: ClassVar[tuple[str, ...]] = ("candidate", "reset", "update", "inner")
    planes: ClassVar[tuple[str, ...]] = ("x_candidate", "x_reset", "x_update", "x_inner")

    @functools.cached_property
    def form(self) -> CellForm:
        """See `CellUnit`."""
        return RESET_AFTER.form(gate_activation="sigmoid", activation="tanh")

    def step(self, entry: Array, sums: Array, bias: Array, before: Array, kept: Array, out: Array) -> None:
        """One step; see `CellUnit`."""
        xp = self.xp
        xp.add(sums[1:3], entry[1:], out=sums[1:3])
        xp.add(sums[3], bias, out=sums[3])
        self.calls(xp, entry[0], sums, before, out)
        kept[...] = sums

    @functools.cached_property
    def calls(self) -> Callable[..., Any]:
        """The calls of a step between its sums and the states."""
        return _reset_after_calls(self.form)


@functools.cache
def _reset_after_calls(form: CellForm) -> Callable[..., Any]:
    saved = in_planes("sums", ResetAfterUnit.saved)
    raw = {f"x_{name}": place for name, place in saved.items()}
    reads = {**raw, "x_candidate": ArrayPart("entry"), "before": ArrayPart("before")}
    writes = {**saved, "hidden": ArrayPart("out")}
    return cell_calls(form.forward, ("entry", "sums", "before", "out"), reads, writes)


@dataclass(frozen=True)
class SimpleUnit(CellUnit):
    """A product and an activation."""

    activation: Activation
    products: ClassVar[int] = 1
    saved: ClassVar[tuple[str, ...]] = ("hidden",)
    planes: ClassVar[tuple[str, ...]] = ("x",)

    @functools.cached_property
    def form(self) -> CellForm:
        """See `CellUnit`."""
        return SIMPLE.form(activation=self.activation.name)

    def step(self, entry: Array, sums: Array, bias: Array, before: Array, kept: Array, out: Array) -> None:
        """One step; see `CellUnit`."""
        self.xp.add(sums[0], entry[0], out=out)
        self.calls(self.xp, out)

    @functools.cached_property
    def calls(self) -> Callable[..., Any]:
        """The calls of a step."""
        return _simple_calls(self.form)


@functools.cache
def _simple_calls(form: CellForm) -> Callable[..., Any]:
    return cell_calls(form.forward, ("hidden",), {"x": ArrayPart("hidden")}, {"hidden": ArrayPart("hidden")})


class CellLayer(NamedTuple):
    """Values that a run and its way back have in common: the unit and its steps, and the first states,
    longest sequence first.
    """

    unit: CellUnit
    steps: TimeSteps
    first_states: Array


class CellRun(NamedTuple):
    """Values of a run: states in the order of the rows that were given, what is kept step by step."""

    hidden: Array
    kept: Array


class CellGradients(NamedTuple):
    """Gradients of all `made` planes, in the order of the rows that were given; of their biases, of the first
    states, longest sequence first, and of the weight.
    """

    gates: Array
    bias: Array
    first: Array
    weight: Array


def run_rows(ctx: KernelContext, layer: CellLayer, X: Array, bias: Array, fixed: Hashable = None) -> CellRun:
    """All steps over rows as they are given, X [rows, products x size], by compiled code where the run has
    it; `bias` [made x size], `fixed` as in `lstm_steps.run_rows`.
    """
    if ctx.compiled is not None:
        done: CellRun | None = ctx.compiled.cells(ctx, layer, X, bias, fixed)
        if done is not None:
            return done
    hidden, kept = _run(layer, X, bias)
    return CellRun(layer.steps.by_sequence(hidden), kept)


def _run(layer: CellLayer, X: Array, bias: Array) -> tuple[Array, Array]:
    """States and what is kept, step by step."""
    unit, steps, first_states = layer
    xp, size, count = unit.xp, unit.size, unit.products
    entries = X + bias[: count * size]
    rest = bias[count * size :]
    hidden = xp.empty((len(X), size), X.dtype)
    kept = xp.empty((len(X), unit.kept * size), X.dtype)
    taken = xp.empty_like(entries[: steps.running])
    # in front of the sums there is room for what else is kept
    room = max(unit.kept, count)
    scratch = xp.empty(steps.running * room * size, X.dtype)
    kept_planes = planes(kept, unit.kept) if unit.kept else xp.empty((0, *hidden.shape), X.dtype)
    for step in steps:
        now = step.rows
        before = steps.one_before(step, hidden, first_states)
        assert before is not None  # the op has first states
        sums = scratch[: room * step.width * size].reshape(room, step.width, size)
        gate_product(xp, before, unit.weight, sums[room - count :])
        entry = planes(steps.taken(entries, step, taken), count)
        unit.step(entry, sums, rest, before, kept_planes[:, now], hidden[now])
    return hidden, kept


def run_rows_back(ctx: KernelContext, layer: CellLayer, made: CellRun, d: Array) -> CellGradients:
    """All steps back, from the gradient of the states; by compiled code where the run has it."""
    unit, steps, first_states = layer
    xp, inner = unit.xp, -unit.products * unit.size
    done: tuple[Array, ...] | None = None
    if ctx.compiled is not None:
        done = ctx.compiled.cells_back(ctx, layer, made, d)
    if done is not None:
        gates, earlier, bias, first = done
        return CellGradients(gates, bias, first, shared_product(ctx, xp, earlier.T, gates[:, inner:]))
    hidden = steps.by_step(made.hidden)
    found, first = _run_back(layer, made.kept if unit.kept else hidden, hidden, steps.by_step(d))
    weight = steps.weight_gradient(ctx, hidden, first_states, found[:, inner:])
    return CellGradients(steps.by_sequence(found), found.sum(axis=0), first, weight)


def _run_back(layer: CellLayer, kept: Array, hidden: Array, d: Array) -> tuple[Array, Array]:
    """Gradients of the planes and of the first states from `d`, which is overwritten; all step by step."""
    unit, steps, first_states = layer
    xp, size = unit.xp, unit.size
    found = xp.empty((len(d), unit.made * size), d.dtype)
    found_planes = planes(found, unit.made)
    scratch = xp.empty((steps.running, size), d.dtype)
    passed = scratch[:0]
    goes_straight = unit.goes_straight
    for chunk in chunks(steps, kept, max(unit.kept, 1), hidden, first_states):
        unit.factors(chunk.gates, chunk.earlier, chunk.factors, chunk.share)
        for step in chunk.steps:
            now, inner = step.rows, chunk.inner(step)
            first = d[step.start : step.start + len(passed)]
            xp.add(first, passed, out=first)
            xp.multiply(chunk.factors[:, inner], d[now], out=found_planes[:, now])
            behind = found[now, -unit.products * size :]
            passed = product(xp, behind, unit.weight.T, scratch[: step.width])
            if goes_straight:
                xp.add(passed, chunk.share[inner] * d[now], out=passed)
    return found, passed
