"""Recurrences on a device by one launch for all steps, for `lstm_steps` of `fluidlite.ops.kernels`."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.executor.cuda.kernel import THREADS, WARP, CudaKernel
from fluidlite.ops.kernels.lstm_steps import LstmLayer, LstmRun
from fluidlite.ops.kernels.recurrence import TimeSteps

__all__ = ["DeviceRecurrences"]

Maybe: TypeAlias = "Array | None"

_FILES = ("blocks.cuh", "recurrence.cuh", "lstm.cu")
_LIMIT = 512  # units whose states lie in shared memory, and whose weights in the cache of a device
_NAMES = {
    "identity": "Identity",
    "sigmoid": "Sigmoid",
    "clamped_sigmoid": "ClampedSigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
}


class DeviceRecurrences:
    """The recurrences that have kernels; None for others, which array functions run step by step."""

    def lstm(
        self, ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, saves: bool, fixed: Hashable
    ) -> LstmRun | None:
        """All steps of a long short-term memory over rows X as they are given; without what only a gradient
        reads, unless it `saves` that.
        """
        if not _fits(layer, X, bias):
            return None
        xp, size = layer.cell.xp, layer.cell.size
        widths = (1, 1, 4, 1) if saves else (1, 1, 0, 0)
        run = LstmRun(*(xp.empty((len(X), count * size), X.dtype) for count in widths))
        given = (X, layer.weight, bias, _peepholes(layer), layer.first_states, layer.first_cells)
        arrays = [*map(functools.partial(_whole, xp), given), *_places(xp, layer.steps), *run]
        _launch(layer, "lstm", X.dtype, 4 * size, arrays, {"SAVES": saves})
        return run

    def lstm_back(
        self, ctx: KernelContext, layer: LstmLayer, run: LstmRun, d: Maybe, dcells: Maybe, last_cells: Maybe
    ) -> tuple[Array, ...] | None:
        """All steps back from `d`, the gradient of the states, and from those of the cells: the gradients of
        the gates, the state before each row, the gradients of bias and first cells.
        """
        if not _fits(layer, *run, d, dcells, last_cells):
            return None
        xp, size, steps = layer.cell.xp, layer.cell.size, layer.steps
        rows = len(run.hidden)
        dx, earlier, before = (xp.empty((rows, count * size), run.hidden.dtype) for count in (4, 1, 1))
        first_cells = xp.empty((steps.running, size), run.hidden.dtype)
        incoming = xp.zeros_like(run.hidden) if d is None else d
        initial = layer.first_states, layer.first_cells
        given = (incoming, dcells, last_cells, layer.weight.T, _peepholes(layer), *initial)
        arrays = [*map(functools.partial(_whole, xp), given), *_places(xp, steps)]
        arrays += [*map(functools.partial(_whole, xp), run), dx, earlier, before, first_cells]
        has = {"HAS_DCELLS": dcells is not None, "HAS_LAST": last_cells is not None}
        _launch(layer, "lstm_grad", run.hidden.dtype, size, arrays, has)
        return dx, earlier, _bias_gradient(layer, run, dx, before), first_cells

    def _none(self, *_: Any) -> None:
        """No kernel: array functions run these."""
        return None

    lstmp = lstmp_back = gru = gru_back = cells = cells_back = _none


def _fits(layer: LstmLayer, *arrays: Maybe) -> bool:
    """True if the kernels take a layer and arrays: of one type of floats, with rows."""
    given = [*arrays, layer.weight, layer.first_states, layer.first_cells]
    dtype = layer.weight.dtype
    if layer.cell.size > _LIMIT or not layer.steps.running or dtype not in (np.float32, np.float64):
        return False
    return layer.projection is None and all(array is None or array.dtype == dtype for array in given)


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
    layer: LstmLayer, name: str, dtype: Any, width: int, arrays: Sequence[Any], has: Mapping[str, bool]
) -> None:
    """A block for each sequence, with a thread for each of `width` columns, or several."""
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
    activations = (("GATE", cell.gate), ("STATE", cell.state), ("CANDIDATE", cell.candidate))
    switches: list[tuple[str, int | str]] = [(key, int(value)) for key, value in known.items()]
    switches += [(key, _NAMES[each.name]) for key, each in activations]
    kernel = CudaKernel(cell.xp, name, _FILES, dtype, tuple(switches))
    threads = min(THREADS, -(-width // WARP) * WARP)
    numbers = (len(layer.steps.steps), cell.size, float(cell.clip))
    kernel((layer.steps.running,), (threads,), arrays, numbers)


def _bias_gradient(layer: LstmLayer, run: LstmRun, dx: Array, before: Array) -> Array:
    """[4 size], or [7 size] with the peephole weights'."""
    parts = [dx.sum(axis=0)]
    if layer.cell.peepholes is not None:
        size = layer.cell.size
        for values, gate in ((before, 1), (before, 2), (run.cells, 3)):
            parts.append((values * dx[:, gate * size : (gate + 1) * size]).sum(axis=0))
    total: Array = layer.cell.xp.concatenate(parts)
    return total
