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
from fluidlite.executor.fast.loops.gated import PRODUCT, UnitForm
from fluidlite.executor.fast.loops.panels import Panels, as_argument
from fluidlite.executor.fast.loops.searches import Searches
from fluidlite.executor.fast.loops.units import unit_of
from fluidlite.executor.fast.machine import MachineCalls, share_once
from fluidlite.executor.fast.products import share_product
from fluidlite.ops.kernels.compiled_steps import CompiledSteps
from fluidlite.ops.kernels.recurrence import TimeSteps
from fluidlite.ops.kernels.recurrent_steps import RecurrentBack, RecurrentLayer, RecurrentRun
from fluidlite.values.tensor import rebinds

__all__ = ["Recurrences"]

Maybe: TypeAlias = "Array | None"

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


class _UnitCode(NamedTuple):
    """The code of a unit in one direction, and the names of its arguments."""

    code: LoopCode
    names: tuple[str, ...]


@cache
def _loop(form: UnitForm, is_back: bool) -> _UnitCode:
    unit = unit_of(form)
    return _UnitCode(loop_of(unit.text(is_back)), unit.arguments(is_back))


class _StepsFunction(NamedTuple):
    """The compiled function of a unit in one direction, and the weights of its products."""

    unit: _UnitCode
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
        layer: RecurrentLayer,
        is_back: bool,
        weights: Sequence[Array],
        own: Mapping[str, bool],
        fixed: Hashable = None,
    ) -> _StepsFunction | None:
        """The function for a layer; None until its code is there. `own` are fields of its form. `fixed`
        stands for weights that are laid out again only where persistable variables have changed.
        """
        lanes = widths()[1]
        cuts = [_CutWeight(_panels(weight.shape[1], lanes), weight) for weight in weights]
        vectors = tuple(panels.vectors for panels, _ in cuts)
        has_first = layer.first_states is not None or layer.first_cells is not None
        masks = layer.size % lanes != 0, layer.width % lanes != 0
        form = UnitForm(lanes, vectors, *masks, layer.form, layer.projection, has_first, **own)
        made = _loop(form, is_back)
        if not self._is_there(made.code, (form, is_back)):
            return None
        sizes = sum(weight.size for weight in weights)
        return _StepsFunction(made, self._packed(cuts, fixed), sizes)

    def _packed(self, cuts: Sequence[_CutWeight], fixed: Hashable) -> list[_Packed]:
        if fixed is None:
            return [_Packed.made(*cut) for cut in cuts]
        state = rebinds.state(), tuple(as_argument(weight) for _, weight in cuts)
        kept = self.kept.get(fixed)
        if kept is None or kept[0] != state:
            kept = self.kept[fixed] = state, [_Packed.made(*cut) for cut in cuts]
        return kept[1]

    def _is_there(self, code: LoopCode, key: Hashable) -> bool:
        """True if it is compiled; asks for that when it is clear that there will be more runs."""
        if code.function is None and self.wait:
            code.compile()
        if code.function is not None or self.wait:
            return True
        self.runs[key] = self.runs.get(key, 0) + 1
        if self.runs[key] == _ASKED_AT:
            code.ask()
        return False

    # ------------------------------------------------------------------ runs
    def recurrence(
        self, ctx: KernelContext, layer: RecurrentLayer, X: Array, bias: Maybe, saves: bool, fixed: Hashable
    ) -> RecurrentRun | None:
        """A call for each thread; see `CompiledSteps`."""
        if not _pays(layer) or not _fits(layer, X):
            return None
        kept = None if fixed is None else (ctx.op, fixed)
        saves = saves or layer.projection is not None or not layer.carries_cells
        function = self._function(layer, False, list(layer.weights), {"saves": saves}, kept)
        if function is None:
            return None
        made = _made(layer, len(X), saves)
        values = {
            **_firsts(layer),
            **_named(made),
            "X": np.ascontiguousarray(X),
            "Bias": _bias(layer, bias),
            "depth": 0 if layer.first_states is None else layer.width,
        }
        _Calls(function, layer, values).run(ctx.threads)
        return made

    def recurrence_back(
        self,
        ctx: KernelContext,
        layer: RecurrentLayer,
        run: RecurrentRun,
        d: Maybe,
        dcells: Maybe,
        last_cells: Maybe,
    ) -> RecurrentBack | None:
        """A call for each thread; see `CompiledSteps`."""
        present = [array for array in run if array is not None and array.shape[1]]
        if not _pays(layer) or not _fits(layer, *present, d, dcells, last_cells):
            return None
        weights = [weight.T for weight in layer.weights]
        function = self._function(layer, True, weights, {"has_dcells": dcells is not None})
        if function is None:
            return None
        values = _gradients(layer, run, np.zeros_like(run.hidden) if d is None else d)
        values["DCells"] = None if dcells is None else np.ascontiguousarray(dcells)
        peepholes = 0 if layer.peepholes is None else layer.peepholes.size
        calls = _Calls(function, layer, values, {"DBias": values["DX"].shape[1] + peepholes})
        if last_cells is not None:
            calls.carry[:] = last_cells
        calls.run(ctx.threads)
        return RecurrentBack(
            values["DX"],
            calls.sums["DBias"],
            values["Earlier"],
            first_states=_first_states(layer, values["DX"], calls.carry),
            first_cells=calls.carry if layer.carries_cells else None,
            second=values["DInner" if layer.projection is not None else "Passed"],
        )


def _first_states(layer: RecurrentLayer, sums: Array, carry: Array) -> Maybe:
    """The gradient of the first states, where a part of it goes back without a product."""
    layout = layer.form.cell.layout
    if layer.carries_cells:
        return None
    if layout.second is not None:
        return carry
    behind = sums[layer.steps.rows[: layer.steps.running], layer.columns(layout.state)]
    found: Array = behind @ layer.weights[0].T
    return found + carry if layer.form.known else found


@cache
def _panels(columns: int, lanes: int) -> Panels:
    return Panels(columns, lanes)


@lru_cache(maxsize=32)
def _places(steps: TimeSteps) -> tuple[int, int]:
    """The addresses of `Rows` and `Starts`."""
    return as_argument(steps.rows), as_argument(steps.starts)


def _fits(layer: RecurrentLayer, *arrays: Maybe) -> bool:
    """True if all are of float32, with rows or steps enough."""
    steps, weight = layer.steps, layer.weights[0]
    most = max(_SMALL_WEIGHT, len(steps.steps) * _STEP_WEIGHT)
    if len(steps.rows) < _LEAST_ROWS and weight.size > most:
        return False
    given = (*arrays, *layer.weights, layer.first_states, layer.first_cells)
    return all(array is None or (array.dtype == np.float32 and array.size > 0) for array in given)


def _pays(layer: RecurrentLayer) -> bool:
    """True but for a single small step of two products, for which NumPy's calls take less than a weight in
    panels.
    """
    if layer.form.cell.layout.second is None or len(layer.steps.steps) > 1:
        return True
    return len(layer.steps.rows) * layer.weights[0].size >= _LEAST_STEP


# ---------------------------------------------------------------------- arguments
def _made(layer: RecurrentLayer, rows: int, saves: bool) -> RecurrentRun:
    """The arrays of a run; those of what is not saved are empty."""
    layout = layer.form.cell.layout
    size = layer.size
    columns = {"hidden": layer.width, "gates": len(layout.saved) * size * saves}
    for name in layout.alone:
        columns[name] = size if saves or name == "cells" else 0
    if layer.projection is not None:
        columns["inner"] = size
    return RecurrentRun(**{name: np.empty((rows, count), np.float32) for name, count in columns.items()})


def _named(run: RecurrentRun) -> dict[str, Array]:
    """The arrays of a run by the names of the arguments."""
    present = {name: array for name, array in run._asdict().items() if array is not None}
    return {name.capitalize(): np.ascontiguousarray(array) for name, array in present.items()}


def _firsts(layer: RecurrentLayer) -> dict[str, Any]:
    """The first values, zeros where they are not given, and what the cell reads in all rows."""
    states, cells = layer.first_states, layer.first_cells
    rows = next((len(each) for each in (cells, states) if each is not None), 1)
    return {
        "First": _first(states, rows, layer.width),
        "FirstCells": _first(cells, rows, layer.size),
        "Peepholes": None if layer.peepholes is None else np.ascontiguousarray(layer.peepholes),
        "state": layer.width,
    }


def _gradients(layer: RecurrentLayer, run: RecurrentRun, d: Array) -> dict[str, Any]:
    """The arguments that a run back reads, and places for what it writes."""
    given = np.ascontiguousarray(d)
    second = np.empty_like(given) if len(layer.weights) > 1 else None
    return {
        **_firsts(layer),
        **_named(run),
        "D": given,
        "DX": np.empty((len(given), len(layer.form.cell.once) * layer.size), np.float32),
        "Earlier": np.empty_like(given),
        "DInner": second,
        "Passed": second,
    }


def _first(values: Maybe, rows: int, size: int) -> Array:
    return np.zeros((rows, size), np.float32) if values is None else np.ascontiguousarray(values)


def _bias(layer: RecurrentLayer, bias: Maybe) -> Array:
    if bias is None:
        return np.zeros(len(layer.form.cell.once) * layer.size, np.float32)
    return np.ascontiguousarray(bias)


class _Calls:
    """The calls of a function, one for each thread: some of the sequences each, with scratch of their own."""

    def __init__(
        self,
        function: _StepsFunction,
        layer: RecurrentLayer,
        values: Mapping[str, Any],
        wanted: Mapping[str, int] | None = None,
    ) -> None:
        self.function, self.steps = function, layer.steps
        steps, size = layer.steps, layer.size
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
        table = np.array([as_argument(values[name]) for name in self.function.unit.names], np.int64)
        calls.keep(values, table)
        calls.code(self.function.unit.code.function, first, last, address_of(table))
