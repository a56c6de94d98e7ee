"""Recurrences on a device by one launch for all steps."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import KernelContext
from fluidlite.executor.cuda.cell_text import cell_text
from fluidlite.executor.cuda.kernel import THREADS, WARP, CudaKernel
from fluidlite.ops.kernels import lstm_steps
from fluidlite.ops.kernels.cells import CellForm, gradient, incoming
from fluidlite.ops.kernels.compiled_steps import CompiledSteps
from fluidlite.ops.kernels.gru_steps import GruLayer, GruRun
from fluidlite.ops.kernels.lstm_steps import GATES, LstmLayer, LstmRun
from fluidlite.ops.kernels.recurrence import TimeSteps

__all__ = ["DeviceRecurrences", "fits_launch"]

Maybe: TypeAlias = "Array | None"

_COMMON = ("blocks.cuh", "recurrence.cuh")
_LIMIT = 512  # units whose states lie in shared memory, and whose weights in the cache of a device


class _LaunchForm(NamedTuple):
    """Facts that a launch depends on: steps, elements, columns that threads share, switches of the text, and
    the statements that it has of a cell.
    """

    steps: TimeSteps
    dtype: Any
    columns: int
    has: Mapping[str, bool]
    texts: Mapping[str, str]


class DeviceRecurrences(CompiledSteps):
    """The recurrences that have kernels: long short-term memories and gated recurrent units."""

    def __init__(self) -> None:
        # a graph goes on reading them, whatever the cache drops
        self._last: weakref.WeakKeyDictionary[KernelContext, Any] = weakref.WeakKeyDictionary()

    def _kept(self, ctx: KernelContext, xp: Any, steps: TimeSteps) -> tuple[Array, Array]:
        """The places of steps, which live as long as the call that has used them last."""
        found = self._last[ctx] = _places(xp, steps)
        return found

    def lstm(
        self, ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, saves: bool, fixed: Hashable
    ) -> LstmRun | None:
        """One launch; see `CompiledSteps`."""
        if not _fits_lstm(layer, X, bias):
            return None
        xp, size = layer.cell.xp, layer.cell.size
        widths = (1, 1, 4, 1) if saves else (1, 1, 0, 0)
        run = LstmRun(*(xp.empty((len(X), count * size), X.dtype) for count in widths))
        given = (X, layer.weight, bias, _peepholes(layer), layer.first_states, layer.first_cells)
        arrays = [*map(functools.partial(_whole, xp), given), *self._kept(ctx, xp, layer.steps), *run]
        _launch_lstm(layer, "lstm", 4 * size, arrays, {"SAVES": saves})
        return run

    def lstm_back(
        self, ctx: KernelContext, layer: LstmLayer, run: LstmRun, d: Maybe, dcells: Maybe, last_cells: Maybe
    ) -> tuple[Array, ...] | None:
        """One launch, and sums over rows for the bias; see `CompiledSteps`."""
        if not _fits_lstm(layer, *run, d, dcells, last_cells):
            return None
        xp, size, steps = layer.cell.xp, layer.cell.size, layer.steps
        rows = len(run.hidden)
        dx, earlier, before = (xp.empty((rows, count * size), run.hidden.dtype) for count in (4, 1, 1))
        first_cells = xp.empty((steps.running, size), run.hidden.dtype)
        incoming = xp.zeros_like(run.hidden) if d is None else d
        initial = layer.first_states, layer.first_cells
        given = (incoming, dcells, last_cells, layer.weight.T, _peepholes(layer), *initial)
        arrays = [*map(functools.partial(_whole, xp), given), *self._kept(ctx, xp, steps)]
        arrays += [*map(functools.partial(_whole, xp), run), dx, earlier, before, first_cells]
        has = {"HAS_DCELLS": dcells is not None, "HAS_LAST": last_cells is not None}
        _launch_lstm(layer, "lstm_grad", size, arrays, has)
        return dx, earlier, lstm_steps.joined_bias_gradient(layer.cell, run.cells, before, dx), first_cells

    def gru(
        self, ctx: KernelContext, layer: GruLayer, X: Array, bias: Maybe, fixed: Hashable
    ) -> GruRun | None:
        """One launch; see `CompiledSteps`."""
        unit, steps, first_states = layer
        if not _fits(unit.size, steps, unit.gate_weight, X, unit.candidate_weight, bias, first_states):
            return None
        xp, size = unit.xp, unit.size
        run = GruRun(*(xp.empty((len(X), count * size), X.dtype) for count in (1, 3, 1)))
        given = (X, unit.gate_weight, unit.candidate_weight, bias, first_states)
        arrays = [*map(functools.partial(_whole, xp), given), *self._kept(ctx, xp, steps), *run]
        _launch_gru(layer, "gru", 2 * size, arrays, bias is not None)
        return run

    def gru_back(
        self, ctx: KernelContext, layer: GruLayer, run: GruRun, d: Array
    ) -> tuple[Array, ...] | None:
        """One launch, and a sum over rows for the bias; see `CompiledSteps`."""
        unit, steps, first_states = layer
        weights = unit.gate_weight.T, unit.candidate_weight.T
        if not _fits(unit.size, steps, *weights, run.hidden, run.gates, first_states, d):
            return None
        xp, size = unit.xp, unit.size
        dx, earlier, reset = (xp.empty((len(d), count * size), d.dtype) for count in (3, 1, 1))
        first = xp.empty((steps.running, size), d.dtype)
        given = (d, *weights, first_states)
        arrays = [*map(functools.partial(_whole, xp), given), *self._kept(ctx, xp, steps)]
        arrays += [*map(functools.partial(_whole, xp), (run.hidden, run.gates)), dx, earlier, reset, first]
        _launch_gru(layer, "gru_grad", size, arrays, False)
        return dx, earlier, reset, dx.sum(axis=0), first


def fits_launch(size: int, dtype: Any) -> bool:
    """True if the kernels take so many units, whose weights are variables of a type."""
    return size <= _LIMIT and dtype in (VarType.FP32, VarType.FP64)


def _fits(size: int, steps: TimeSteps, weight: Array, *arrays: Maybe) -> bool:
    """True if the kernels take units, steps and arrays: of one type of floats, with rows."""
    if size > _LIMIT or not steps.running or weight.dtype not in (np.float32, np.float64):
        return False
    return all(array is None or array.dtype == weight.dtype for array in arrays)


def _fits_lstm(layer: LstmLayer, *arrays: Maybe) -> bool:
    given = (*arrays, layer.first_states, layer.first_cells)
    return layer.projection is None and _fits(layer.cell.size, layer.steps, layer.weight, *given)


def _whole(xp: Any, array: Maybe) -> Maybe:
    """An array whose elements lie without gaps."""
    return None if array is None else xp.ascontiguousarray(array)


def _peepholes(layer: LstmLayer) -> Maybe:
    found = layer.cell.peepholes
    return None if found is None else layer.cell.xp.concatenate(found)


@functools.lru_cache(maxsize=32)
def _places(xp: Any, steps: TimeSteps) -> tuple[Array, Array]:
    """The rows of each step in what is given, and where each step starts, on the device."""
    return xp.asarray(steps.rows), xp.asarray(steps.starts)


def _launch(
    xp: Any, file: str, name: str, form: _LaunchForm, arrays: Sequence[Any], numbers: Sequence[Any]
) -> None:
    """A block for each sequence, with a thread for each of the form's columns, or several."""
    switches: list[tuple[str, int | str]] = [(key, int(value)) for key, value in form.has.items()]
    switches += form.texts.items()
    kernel = CudaKernel(xp, name, (*_COMMON, file), form.dtype, tuple(switches))
    threads = min(THREADS, -(-form.columns // WARP) * WARP)
    kernel((form.steps.running,), (threads,), arrays, (len(form.steps.steps), *numbers))


def _launch_lstm(
    layer: LstmLayer, name: str, columns: int, arrays: Sequence[Any], has: Mapping[str, bool]
) -> None:
    cell = layer.cell
    known = {
        "HAS_STATES": layer.first_states is not None,
        "HAS_CELLS": layer.first_cells is not None,
        "PEEPHOLES": cell.peepholes is not None,
        "SAVES": True,
        "HAS_DCELLS": False,
        "HAS_LAST": False,
        **has,
    }
    form = _LaunchForm(layer.steps, layer.weight.dtype, columns, known, _lstm_texts(cell.form()))
    _launch(cell.xp, "lstm.cu", name, form, arrays, (cell.size,))


@functools.cache
def _lstm_texts(form: CellForm) -> dict[str, str]:
    """The statements of one step."""
    raw = [f"x_{name}" for name in GATES]
    known = form.known
    made = ["cell", "shown", "hidden"]
    weights = [name for name in known if name != "before"]
    loads = [f"const S {name} = peepholes[{at} * size + j];" for at, name in enumerate(weights)]
    back = form.back().whole()
    given = [*GATES, *made, *known, incoming("hidden"), incoming("cell")]
    return {
        "PEEPHOLE_WEIGHTS": " ".join(loads),
        "STEP": cell_text(form.forward, [*raw, *known], [*GATES, *made], True),
        "STEP_BACK": cell_text(back, given, list(map(gradient, [*raw, "before"])), False),
    }


def _launch_gru(layer: GruLayer, name: str, columns: int, arrays: Sequence[Any], biased: bool) -> None:
    unit = layer.unit
    known = {"HAS_STATES": layer.first_states is not None, "BIASED": biased}
    form = _LaunchForm(layer.steps, unit.gate_weight.dtype, columns, known, _gru_texts(unit.form()))
    _launch(unit.xp, "gru.cu", name, form, arrays, (unit.size,))


@functools.cache
def _gru_texts(form: CellForm) -> dict[str, str]:
    """The statements of one step."""
    back = form.back()
    gates = ["x_update", "x_reset", "x_candidate"]
    of_state = list(map(gradient, ("x_update", "x_candidate", "before")))
    of_reset = list(map(gradient, ("x_reset", "before")))
    state_known = ["update", "candidate", "before", incoming("hidden")]
    reset_known = ["reset", "before", incoming("kept")]
    return {
        "OPEN_GATES": cell_text(form.forward, [*gates, "before"], ["update", "reset", "kept"], True),
        "NEW_STATE": cell_text(form.forward, [*gates, "before", "update"], ["candidate", "hidden"], True),
        "STATE_BACK": cell_text(back.whole("hidden"), state_known, of_state, False),
        "LET_THROUGH": cell_text(form.forward, ["reset", "before"], ["kept"], True, "w"),
        "RESET_BACK": cell_text(back.whole("kept"), reset_known, of_reset, False),
    }
