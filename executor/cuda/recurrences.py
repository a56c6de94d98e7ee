"""Recurrences on a device by one launch for all steps."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import KernelContext
from fluidlite.executor.cuda.cell_text import cell_text
from fluidlite.executor.cuda.kernel import THREADS, WARP, CudaKernel
from fluidlite.ops.kernels.cells import CellForm, gradient, incoming
from fluidlite.ops.kernels.compiled_steps import CompiledSteps
from fluidlite.ops.kernels.recurrence import TimeSteps
from fluidlite.ops.kernels.recurrent_steps import RecurrentBack, RecurrentLayer, RecurrentRun, weight_sums

__all__ = ["DeviceRecurrences", "fits_launch"]

Maybe: TypeAlias = "Array | None"

_COMMON = ("blocks.cuh", "recurrence.cuh")
_LIMIT = 512  # units whose states lie in shared memory, and whose weights in the cache of a device


class DeviceRecurrences(CompiledSteps):
    """The recurrences that have kernels: long short-term memories and gated recurrent units."""

    def __init__(self) -> None:
        # a graph goes on reading them, whatever the cache drops
        self._last: weakref.WeakKeyDictionary[KernelContext, Any] = weakref.WeakKeyDictionary()

    def recurrence(
        self, ctx: KernelContext, layer: RecurrentLayer, X: Array, bias: Maybe, saves: bool, fixed: Hashable
    ) -> RecurrentRun | None:
        """One launch; see `CompiledSteps`."""
        if not _fits(layer, X, bias):
            return None
        xp, size, layout = layer.xp, layer.size, layer.form.cell.layout
        saves = saves or not layer.carries_cells
        columns = {"hidden": size, "gates": len(layout.saved) * size * saves}
        for name in layout.alone:
            columns[name] = size if saves or name == "cells" else 0
        run = RecurrentRun(**{name: xp.empty((len(X), count), X.dtype) for name, count in columns.items()})
        given = [X, *layer.weights, bias, *_firsts(layer)]
        first, last = layout.state
        has = {"SAVES": saves, "BIASED": bias is not None}
        self._launch(ctx, layer, "", (last - first) * size, [given, _present(layer, run)], has)
        return run

    def recurrence_back(
        self,
        ctx: KernelContext,
        layer: RecurrentLayer,
        run: RecurrentRun,
        d: Maybe,
        dcells: Maybe,
        last_cells: Maybe,
    ) -> RecurrentBack | None:
        """One launch, and sums over rows for the bias; see `CompiledSteps`."""
        if not _fits(layer, *run, d, dcells, last_cells):
            return None
        xp, size = layer.xp, layer.size
        given = xp.zeros_like(run.hidden) if d is None else d
        widths = len(layer.form.cell.once), 1, 1
        sums, earlier, second = (xp.empty((len(given), count * size), given.dtype) for count in widths)
        first = xp.empty((layer.steps.running, size), given.dtype)
        of_cells = [dcells, last_cells] if layer.carries_cells else []
        weights = [weight.T for weight in layer.weights]
        read = _present(layer, run) if layer.carries_cells else [run.hidden, run.gates]
        ends = [given, *of_cells, *weights, *_firsts(layer)], [*read, sums, earlier, second, first]
        has = {"HAS_DCELLS": dcells is not None, "HAS_LAST": last_cells is not None}
        self._launch(ctx, layer, "_grad", size, ends, has)
        bias = sums.sum(axis=0)
        if not layer.carries_cells:
            return RecurrentBack(sums, bias, earlier, first_states=first, second=second)
        if layer.peepholes is not None:
            assert run.cells is not None
            bias = weight_sums(layer, bias, sums, {"cell": run.cells, "before": second})
        return RecurrentBack(sums, bias, earlier, first_cells=first)

    def _launch(
        self,
        ctx: KernelContext,
        layer: RecurrentLayer,
        suffix: str,
        columns: int,
        arrays: Sequence[Sequence[Maybe]],
        has: dict[str, bool],
    ) -> None:
        """A block for each sequence, with a thread for each column, or several. The places of steps stand
        between what is given and what a run writes; they live as long as the call that used them last.
        """
        xp, steps = layer.xp, layer.steps
        name = "lstm" if layer.carries_cells else "gru"
        places = self._last[ctx] = _places(xp, steps)
        given, made = (
            [None if one is None else xp.ascontiguousarray(one) for one in part] for part in arrays
        )
        switches: dict[str, int | str] = {
            "HAS_STATES": int(layer.first_states is not None),
            "HAS_CELLS": int(layer.first_cells is not None),
            **dict.fromkeys(("SAVES", "BIASED", "HAS_DCELLS", "HAS_LAST"), 0),
            **{key: int(value) for key, value in has.items()},
            **_texts(layer.form),
        }
        dtype = layer.weights[0].dtype
        files = (*_COMMON, f"{name}.cu")
        kernel = CudaKernel(xp, name + suffix, files, dtype, tuple(switches.items()))
        threads = min(THREADS, -(-columns // WARP) * WARP)
        kernel((steps.running,), (threads,), [*given, *places, *made], (len(steps.steps), layer.size))


def fits_launch(size: int, dtype: Any) -> bool:
    """True if the kernels take so many units, whose weights are variables of a type."""
    return size <= _LIMIT and dtype in (VarType.FP32, VarType.FP64)


def _fits(layer: RecurrentLayer, *arrays: Maybe) -> bool:
    """True if the kernels take a layer and arrays: of one type of floats, with rows."""
    second = layer.form.cell.layout.second
    has_kernel = second is not None or layer.carries_cells
    if layer.projection is not None or not has_kernel or layer.size > _LIMIT or not layer.steps.running:
        return False
    dtype = layer.weights[0].dtype
    given = (*arrays, *layer.weights, layer.first_states, layer.first_cells)
    return dtype in (np.float32, np.float64) and all(one is None or one.dtype == dtype for one in given)


def _contiguous(xp: Any, array: Maybe) -> Maybe:
    return None if array is None else xp.ascontiguousarray(array)


def _firsts(layer: RecurrentLayer) -> list[Maybe]:
    """Values that the cell reads in all rows, and the first values."""
    if not layer.carries_cells:
        return [layer.first_states]
    return [layer.peepholes, layer.first_states, layer.first_cells]


def _present(layer: RecurrentLayer, run: RecurrentRun) -> list[Maybe]:
    """The arrays of a run that the kernels have."""
    return [run.hidden, run.gates, *(getattr(run, name) for name in layer.form.cell.layout.alone)]


@functools.lru_cache(maxsize=32)
def _places(xp: Any, steps: TimeSteps) -> tuple[Array, Array]:
    """The rows of each step in what is given, and where each step starts, on the device."""
    return xp.asarray(steps.rows), xp.asarray(steps.starts)


@functools.cache
def _texts(form: CellForm) -> dict[str, str]:
    """The statements of one step; those between two products by the values that are there."""
    if form.cell.layout.second is not None:
        return _kept_texts(form)
    once, outputs = form.cell.once, form.cell.outputs
    weights = [name for name in form.known if name != "before"]
    loads = [f"const S {name} = peepholes[{at} * size + j];" for at, name in enumerate(weights)]
    given = [*outputs, *form.known, *map(incoming, form.cell.layout.sources)]
    wanted = list(map(gradient, [*once, "before"]))
    return {
        "PEEPHOLE_WEIGHTS": " ".join(loads),
        "STEP": cell_text(form.forward, [*once, *form.known], outputs, True),
        "STEP_BACK": cell_text(form.back().whole(), given, wanted, False),
    }


def _kept_texts(form: CellForm) -> dict[str, str]:
    opened, made = form.stages
    back = form.back()
    of_state = list(map(gradient, ("x_update", "x_candidate", "before")))
    of_reset = list(map(gradient, ("x_reset", "before")))
    state_known = ["update", "candidate", "before", incoming("hidden")]
    reset_known = ["reset", "before", incoming("kept")]
    return {
        "OPEN_GATES": cell_text(form.forward, [*opened.sums, "before"], opened.outputs, True),
        "NEW_STATE": cell_text(form.forward, [*made.sums, "before", "update"], made.outputs, True),
        "STATE_BACK": cell_text(back.whole("hidden"), state_known, of_state, False),
        "LET_THROUGH": cell_text(form.forward, ["reset", "before"], ["kept"], True, "w"),
        "RESET_BACK": cell_text(back.whole("kept"), reset_known, of_reset, False),
    }
