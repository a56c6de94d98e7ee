"""Recurrences of plans by compiled code."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.gated import PRODUCT, GatedSteps, UnitForm
from fluidlite.executor.fast.loops.panels import Panels, as_argument
from fluidlite.executor.fast.loops.searches import Searches
from fluidlite.executor.fast.loops.units import (
    GruSteps,
    LstmSteps,
    ProjectedForm,
    ProjectedSteps,
    ResetAfterSteps,
    SimpleSteps,
)
from fluidlite.executor.fast.machine import MachineCalls, share_once
from fluidlite.executor.fast.products import share_product
from fluidlite.ops.kernels.compiled_steps import CompiledSteps
from fluidlite.ops.kernels.gru_steps import GruLayer, GruRun, GruUnit
from fluidlite.ops.kernels.lstm_steps import LstmLayer, LstmRun, ProjectedRun, Projection
from fluidlite.ops.kernels.recurrence import TimeSteps
from fluidlite.ops.kernels.rnn_steps import CellLayer, CellRun, CellUnit
from fluidlite.values.tensor import rebinds

__all__ = ["Recurrences"]

Maybe: TypeAlias = "Array | None"
Unit: TypeAlias = "type[GatedSteps[Any]]"

_ASKED_AT = 2  # the run at which code is compiled: what runs once is not worth it
_LEAST_ROWS = 64  # from which copying a weight into panels pays
_SMALL_WEIGHT = 1 << 15  # numbers in a weight for which it always does
_STEP_WEIGHT = 1 << 13  # and for each step: copying them takes less than the step's calls by NumPy
# multiplications of a single step from which it does: 64 units in a loop took 30 % more
_LEAST_STEP = 1 << 20
_SHARED = 1 << 23  # multiplications of a run, a quarter of a millisecond, from which a second thread pays


class _CutWeight(NamedTuple):
    """A weight, and how its columns are cut."""

    panels: Panels
    weight: Array


class _Packed(NamedTuple):
    """A weight in panels, as the function of a product takes it: see `PRODUCT`."""

    array: Array
    arguments: tuple[int, ...]

    @classmethod
    def made(cls, panels: Panels, weight: Array) -> _Packed:
        """A copy of a weight."""
        array = panels.packed(weight)
        return cls(array, (panels.stride, panels.count, as_argument(array), array[0].size))


class _StepsFunction(NamedTuple):
    """The compiled function of a unit in one direction, and the weights of its products."""

    code: LoopCode
    names: tuple[str, ...]
    weights: list[_Packed]
    multiplications: int
    """Of a row."""


class Recurrences(CompiledSteps):
    """The compiled recurrences of a plan, and its searches; None for what has no code, or not yet."""

    def __init__(self, wait: bool) -> None:
        self.wait = wait
        self.searches = Searches(wait)
        self.runs: dict[Any, int] = {}
        self.kept: dict[Hashable, tuple[Any, list[_Packed]]] = {}
        """Weights in panels, with the state of the persistable variables that they were made in."""

    def share_product(self, ctx: KernelContext, left: Array, right: Array, out: Array, axis: int) -> bool:
        """See `CompiledSteps`."""
        return share_product(ctx.threads, left, right, out, axis)

    def _function(
        self,
        unit: Unit,
        is_back: bool,
        form: type[UnitForm],
        size: int,
        weights: Sequence[Array],
        own: tuple[Any, ...],
        fixed: Hashable = None,
    ) -> _StepsFunction | None:
        """The function for a form, which begins with what all units have; None until its code is there.
        `fixed` stands for weights that are laid out again only where persistable variables have changed.
        """
        lanes = widths()[1]
        cuts = [_CutWeight(_panels(weight.shape[1], lanes), weight) for weight in weights]
        made = form(lanes, tuple(panels.vectors for panels, _ in cuts), size % lanes != 0, *own)
        code = self._code(unit, made, is_back)
        if code is None:
            return None
        sizes = sum(weight.size for weight in weights)
        return _StepsFunction(code, unit.arguments(is_back), self._packed(cuts, fixed), sizes)

    def _packed(self, cuts: Sequence[_CutWeight], fixed: Hashable) -> list[_Packed]:
        if fixed is None:
            return [_Packed.made(*cut) for cut in cuts]
        state = rebinds.state(), tuple(as_argument(weight) for _, weight in cuts)
        kept = self.kept.get(fixed)
        if kept is None or kept[0] != state:
            kept = self.kept[fixed] = state, [_Packed.made(*cut) for cut in cuts]
        return kept[1]

    def _code(self, unit: Unit, form: UnitForm, is_back: bool) -> LoopCode | None:
        """The code of a form, once it is there; asks for it when it is clear that there will be more runs."""
        code = _loop(unit, form, is_back)
        if code.function is not None:
            return code
        if self.wait:
            code.compile()
            return code
        key = unit, form, is_back
        self.runs[key] = self.runs.get(key, 0) + 1
        if self.runs[key] == _ASKED_AT:
            code.ask()
        return None

    # ------------------------------------------------------------------ long short-term memory
    def lstm(
        self, ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, saves: bool, fixed: Hashable
    ) -> LstmRun | None:
        """A call for each thread; see `CompiledSteps`."""
        if not _fits(layer.steps, layer.weight, X, *_initial(layer)):
            return None
        size, kept = layer.cell.size, _kept_as(ctx, fixed)
        own = (*_lstm_own(layer), saves)
        function = self._function(LstmSteps, False, UnitForm, size, [layer.weight], own, kept)
        if function is None:
            return None
        sizes = (1, 1, 4, 1) if saves else (1, 1, 0, 0)
        run = LstmRun(*(np.empty((len(X), count * size), np.float32) for count in sizes))
        values = {**_entry(X, bias, layer.first_states, size), **_cells(layer), **_named(run)}
        _Calls(function, layer.steps, size, values).run(ctx.threads)
        return run

    def lstm_back(
        self, ctx: KernelContext, layer: LstmLayer, run: LstmRun, d: Maybe, dcells: Maybe, last_cells: Maybe
    ) -> tuple[Array, ...] | None:
        """A call for each thread; see `CompiledSteps`."""
        if not _fits(layer.steps, layer.weight, *run, *_initial(layer), d, dcells, last_cells):
            return None
        size, own = layer.cell.size, _lstm_own(layer, dcells is not None)
        function = self._function(LstmSteps, True, UnitForm, size, [layer.weight.T], own)
        if function is None:
            return None
        given = np.zeros_like(run.hidden) if d is None else d
        values = {
            **_gradients(given, 4 * size),
            **_cells(layer),
            **_named(run),
            "DCells": None if dcells is None else np.ascontiguousarray(dcells),
        }
        calls = _Calls(function, layer.steps, size, values, {"DBias": _biases(layer)})
        if last_cells is not None:
            calls.carry[:] = last_cells
        calls.run(ctx.threads)
        return values["DX"], values["Earlier"], calls.sums["DBias"], calls.carry

    # ------------------------------------------------------------------ with a projection
    def lstmp(
        self, ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, fixed: Hashable
    ) -> ProjectedRun | None:
        """A call for each thread; see `CompiledSteps`."""
        assert layer.projection is not None
        weights = [layer.weight, layer.projection.weight]
        if not _fits(layer.steps, layer.weight, X, *_initial(layer), layer.projection.weight):
            return None
        size, width, kept = layer.cell.size, len(layer.weight), _kept_as(ctx, fixed)
        own = (*_lstm_own(layer), True, *_projected_own(layer.projection, width))
        function = self._function(ProjectedSteps, False, ProjectedForm, size, weights, own, kept)
        if function is None:
            return None
        columns = width, size, 4 * size, size, size
        run = ProjectedRun(*(np.empty((len(X), count), np.float32) for count in columns))
        values = {**_entry(X, bias, layer.first_states, width), **_projected(layer, run)}
        _Calls(function, layer.steps, size, values).run(ctx.threads)
        return run

    def lstmp_back(
        self, ctx: KernelContext, layer: LstmLayer, run: ProjectedRun, d: Array, dcells: Maybe
    ) -> tuple[Array, ...] | None:
        """A call for each thread; see `CompiledSteps`."""
        projection, size = layer.projection, layer.cell.size
        assert projection is not None
        if not _fits(layer.steps, layer.weight, *run, *_initial(layer), d, dcells, projection.weight):
            return None
        own = (*_lstm_own(layer, dcells is not None), True, *_projected_own(projection, len(layer.weight)))
        weights = [layer.weight.T, projection.weight.T]
        function = self._function(ProjectedSteps, True, ProjectedForm, size, weights, own)
        if function is None:
            return None
        values = {
            **_gradients(d, 4 * size),
            **_projected(layer, run),
            "DCells": None if dcells is None else np.ascontiguousarray(dcells),
            "DInner": np.empty(d.shape, np.float32),
        }
        calls = _Calls(function, layer.steps, size, values, {"DBias": _biases(layer)})
        calls.run(ctx.threads)
        return values["DX"], values["Earlier"], values["DInner"], calls.sums["DBias"], calls.carry

    # ------------------------------------------------------------------ gated recurrent unit
    def gru(
        self, ctx: KernelContext, layer: GruLayer, X: Array, bias: Maybe, fixed: Hashable
    ) -> GruRun | None:
        """A call for each thread; see `CompiledSteps`."""
        unit, steps, first_states = layer
        if not _pays(steps, unit) or not _fits(steps, unit.gate_weight, X, first_states):
            return None
        weights = [unit.gate_weight, unit.candidate_weight]
        own, kept = _gru_own(layer), _kept_as(ctx, fixed)
        function = self._function(GruSteps, False, UnitForm, unit.size, weights, own, kept)
        if function is None:
            return None
        run = GruRun(*(np.empty((len(X), count * unit.size), np.float32) for count in (1, 3, 1)))
        values = {**_entry(X, bias, first_states, unit.size), **_named(run)}
        _Calls(function, steps, unit.size, values).run(ctx.threads)
        return run

    def gru_back(
        self, ctx: KernelContext, layer: GruLayer, run: GruRun, d: Array
    ) -> tuple[Array, ...] | None:
        """A call for each thread; see `CompiledSteps`."""
        unit, steps, first_states = layer
        given = run.hidden, run.gates, first_states, d
        if not _pays(steps, unit) or not _fits(steps, unit.gate_weight, *given):
            return None
        weights = [unit.gate_weight.T, unit.candidate_weight.T]
        function = self._function(GruSteps, True, UnitForm, unit.size, weights, _gru_own(layer))
        if function is None:
            return None
        values = {
            **_gradients(d, 3 * unit.size),
            "First": _first(first_states, unit.size),
            "Hidden": np.ascontiguousarray(run.hidden),
            "Gates": np.ascontiguousarray(run.gates),
            "Passed": np.empty_like(d, order="C"),
        }
        calls = _Calls(function, steps, unit.size, values, {"DBias": 3 * unit.size})
        calls.run(ctx.threads)
        return values["DX"], values["Earlier"], values["Passed"], calls.sums["DBias"], calls.carry

    # ------------------------------------------------------------------ one product of the whole state
    def cells(
        self, ctx: KernelContext, layer: CellLayer, X: Array, bias: Array, fixed: Hashable
    ) -> CellRun | None:
        """A call for each thread; see `CompiledSteps`."""
        unit, steps, first_states = layer
        if not _fits(steps, unit.weight, X, first_states):
            return None
        kind, own = _cell_kind(unit)
        function = self._function(kind, False, UnitForm, unit.size, [unit.weight], own, _kept_as(ctx, fixed))
        if function is None:
            return None
        run = CellRun(*(np.empty((len(X), count * unit.size), np.float32) for count in (1, unit.kept)))
        values = {**_entry(X, bias, first_states, unit.size), "Hidden": run.hidden, "Gates": run.kept}
        _Calls(function, steps, unit.size, values).run(ctx.threads)
        return run

    def cells_back(
        self, ctx: KernelContext, layer: CellLayer, run: CellRun, d: Array
    ) -> tuple[Array, ...] | None:
        """A call for each thread; see `CompiledSteps`."""
        unit, steps, first_states = layer
        if not _fits(steps, unit.weight, run.hidden, first_states, d):
            return None
        kind, own = _cell_kind(unit)
        function = self._function(kind, True, UnitForm, unit.size, [unit.weight.T], own)
        if function is None:
            return None
        values = {
            **_gradients(d, unit.made * unit.size),
            "First": _first(first_states, unit.size),
            "Hidden": np.ascontiguousarray(run.hidden),
            "Gates": np.ascontiguousarray(run.kept),
        }
        calls = _Calls(function, steps, unit.size, values, {"DBias": unit.made * unit.size})
        calls.run(ctx.threads)
        behind = values["DX"][steps.rows[: steps.running], -unit.products * unit.size :]
        first = behind @ unit.weight.T
        if unit.form.known:
            first += calls.carry
        return values["DX"], values["Earlier"], calls.sums["DBias"], first


def _cell_kind(unit: CellUnit) -> tuple[Unit, tuple[Any, ...]]:
    """The functions for a unit, and the fields of their form beyond those that the weights give."""
    return ResetAfterSteps if unit.kept else SimpleSteps, (unit.form, True)


@cache
def _loop(unit: Unit, form: UnitForm, is_back: bool) -> LoopCode:
    return loop_of(unit(form).text(is_back))


@cache
def _panels(columns: int, lanes: int) -> Panels:
    return Panels(columns, lanes)


@lru_cache(maxsize=32)
def _places(steps: TimeSteps) -> tuple[int, int]:
    """The addresses of `Rows` and `Starts`."""
    return as_argument(steps.rows), as_argument(steps.starts)


def _kept_as(ctx: KernelContext, fixed: Hashable) -> Hashable:
    return None if fixed is None else (ctx.op, fixed)


def _fits(steps: TimeSteps, weight: Array, *arrays: Maybe) -> bool:
    """True if all are of float32, with rows or steps enough."""
    most = max(_SMALL_WEIGHT, len(steps.steps) * _STEP_WEIGHT)
    if weight.dtype != np.float32 or (len(steps.rows) < _LEAST_ROWS and weight.size > most):
        return False
    return all(array is None or (array.dtype == np.float32 and array.size > 0) for array in arrays)


def _pays(steps: TimeSteps, unit: GruUnit) -> bool:
    """True for more than a single small step, for which NumPy's calls take less than a weight in panels."""
    return len(steps.steps) > 1 or len(steps.rows) * unit.gate_weight.size >= _LEAST_STEP


# ---------------------------------------------------------------------- arguments
def _initial(layer: LstmLayer) -> tuple[Maybe, Maybe]:
    """The first states and cells, of which either may be missing."""
    return layer.first_states, layer.first_cells


def _biases(layer: LstmLayer) -> int:
    """Numbers of the gates' biases and of the peephole weights."""
    return (4 if layer.cell.peepholes is None else 7) * layer.cell.size


def _lstm_own(layer: LstmLayer, has_dcells: bool = False) -> tuple[Any, ...]:
    """The fields of a form beyond those that the weights give."""
    return layer.cell.form(), any(each is not None for each in _initial(layer)), has_dcells


def _projected_own(projection: Projection, width: int) -> tuple[Any, ...]:
    """The fields of a form that a projection to so many units adds."""
    return projection.form, width % widths()[1] != 0


def _projected(layer: LstmLayer, run: ProjectedRun) -> dict[str, Any]:
    """The arrays of a run with a projection, and its initial values."""
    return {**_cells(layer), **_named(run), "state": run.hidden.shape[1]}


def _gru_own(layer: GruLayer) -> tuple[Any, ...]:
    """The same for a gated recurrent unit."""
    return layer.unit.form(), layer.first_states is not None


def _named(run: LstmRun | ProjectedRun | GruRun) -> dict[str, Array]:
    """The arrays of a run by the names of the arguments."""
    return {name.capitalize(): np.ascontiguousarray(value) for name, value in run._asdict().items()}


def _first(state: Maybe, size: int, rows: int = 1) -> Array:
    """Initial values; zeros where none are given."""
    return np.zeros((rows, size), np.float32) if state is None else np.ascontiguousarray(state)


def _entry(X: Array, bias: Maybe, H0: Maybe, size: int) -> dict[str, Any]:
    """The arguments that a run forward reads."""
    return {
        "X": np.ascontiguousarray(X),
        "Bias": np.zeros(X.shape[1], np.float32) if bias is None else np.ascontiguousarray(bias),
        "First": _first(H0, size),
        "depth": 0 if H0 is None else size,
    }


def _gradients(d: Array, width: int) -> dict[str, Any]:
    """The gradient that comes, and places for those that a run back writes."""
    return {
        "D": np.ascontiguousarray(d),
        "DX": np.empty((len(d), width), np.float32),
        "Earlier": np.empty_like(d, order="C"),
    }


def _cells(layer: LstmLayer) -> dict[str, Any]:
    """The initial values, and the peephole weights."""
    peepholes = layer.cell.peepholes
    states, cells = _initial(layer)
    rows = next((len(each) for each in (cells, states) if each is not None), 1)
    return {
        "First": _first(states, len(layer.weight), rows),
        "FirstCells": _first(cells, layer.cell.size, rows),
        "Peepholes": None if peepholes is None else np.concatenate(peepholes),
    }


class _Calls:
    """The calls of a function, one for each thread: some of the sequences each, with scratch of their own."""

    def __init__(
        self,
        function: _StepsFunction,
        steps: TimeSteps,
        size: int,
        values: Mapping[str, Any],
        wanted: Mapping[str, int] | None = None,
    ) -> None:
        self.function, self.steps = function, steps
        self.wanted = dict(wanted or {})
        self.work = len(steps.rows) * function.multiplications
        self.width = max(packed.arguments[0] for packed in function.weights)
        self.carry: Array = np.zeros((steps.running, size), np.float32)
        self.sums: dict[str, Array] = {}
        """Sums over all rows, by name."""
        self.values: dict[str, Any] = {**values, "steps": len(steps.steps), "size": size}
        self.values["Rows"], self.values["Starts"] = _places(steps)
        for number, packed in enumerate(function.weights):
            self.values.update(zip([f"{name}{number}" for name in PRODUCT], packed.arguments, strict=True))

    def run(self, threads: int) -> None:
        """Run them all."""
        bounds = self.steps.shares(threads if self.work >= _SHARED else 1)
        parts = [{name: np.zeros(size, np.float32) for name, size in self.wanted.items()} for _ in bounds[1:]]

        def work(calls: MachineCalls, member: int) -> None:
            self._run(calls, bounds[member], bounds[member + 1], parts[member])

        share_once(len(parts), len(parts), work)
        for name in self.wanted:
            self.sums[name] = (
                parts[0][name] if len(parts) == 1 else np.sum([one[name] for one in parts], axis=0)
            )

    def _run(self, calls: MachineCalls, first: int, last: int, own: dict[str, Array]) -> None:
        count = last - first
        values = {
            **self.values,
            **own,
            "Scratch": np.empty((count, self.width), np.float32),
            "Table": np.empty(count, np.int64),
            "Carry": self.carry[first:last],
        }
        table = np.array([as_argument(values[name]) for name in self.function.names], np.int64)
        calls.keep(values, table)
        calls.code(self.function.code.function, first, last, address_of(table))
