"""Recurrences of plans by compiled code: `fluidlite.ops.kernels.recurrence.CompiledSteps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.loops import gru, lstm
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.gru import GruForm
from fluidlite.executor.fast.loops.lstm import LstmForm
from fluidlite.executor.fast.loops.panels import Panels, address
from fluidlite.executor.run.team import on_team
from fluidlite.ops.kernels.gru_steps import GruRun, GruUnit
from fluidlite.ops.kernels.lstm_steps import LstmCell, LstmRun
from fluidlite.ops.kernels.recurrence import TimeSteps

__all__ = ["Recurrences"]

_ASKED_AT = 2  # the run at which code is compiled: what runs once is not worth it
_LEAST_ROWS = 64  # from which copying a weight into panels pays
_SMALL_WEIGHT = 1 << 15  # numbers in a weight for which it always does
_SHARED = 1 << 20  # multiplications of a run from which waking a second thread pays


class Recurrences:
    """The compiled recurrences of a plan; None for what has no code, or not yet."""

    def __init__(self, wait: bool) -> None:
        self.wait = wait
        self.runs: dict[Any, int] = {}

    def _code(self, made: Any, form: Any) -> LoopCode | None:
        """The code of a form, once it is there; asks for it when it is clear that there will be more runs."""
        code: LoopCode = made(form)
        if code.function is not None:
            return code
        if self.wait:
            code.compile()
            return code
        key = made, form
        self.runs[key] = self.runs.get(key, 0) + 1
        if self.runs[key] == _ASKED_AT:
            code.ask()
        return None

    def lstm(
        self,
        threads: int,
        cell: LstmCell,
        steps: TimeSteps,
        X: Array,
        bias: Array,
        Weight: Array,
        H0: Array | None,
        C0: Array | None,
    ) -> LstmRun | None:
        """All steps of a long short-term memory over rows X as they are given."""
        if not _fits(len(X), Weight, X, H0, C0):
            return None
        panels = Panels(4 * cell.size, widths()[1])
        code = self._code(_lstm_forward, _lstm_form(cell, panels, H0 is not None or C0 is not None))
        if code is None:
            return None
        made = [np.empty((len(X), width), np.float32) for width in (cell.size, cell.size, 4 * cell.size)]
        hidden, cells, gates = made
        active = np.empty_like(cells)
        values: dict[str, Any] = {
            **_first(cell, H0, C0),
            "X": np.ascontiguousarray(X),
            "Bias": np.ascontiguousarray(bias),
            "depth": 0 if H0 is None else cell.size,
            "Hidden": hidden,
            "Cells": cells,
            "Gates": gates,
            "Active": active,
        }
        calls = _Calls(code, lstm.FORWARD, steps, cell.size, [(panels, Weight)], values)
        calls.run(threads)
        return LstmRun(hidden, cells, gates, active)

    def lstm_back(
        self,
        threads: int,
        cell: LstmCell,
        steps: TimeSteps,
        run: LstmRun,
        Weight: Array,
        H0: Array | None,
        C0: Array | None,
        d: Array | None,
        dcells: Array | None = None,
        last_cells: Array | None = None,
    ) -> tuple[Array, ...] | None:
        """All steps back from `d`, the gradient of the states, and from those of the cells: the gradients of
        the gates, the state before each row, the gradients of bias and first cells.
        """
        if not _fits(len(run.hidden), Weight, *run, H0, C0, d, dcells, last_cells):
            return None
        panels = Panels(cell.size, widths()[1])
        has_first = H0 is not None or C0 is not None
        code = self._code(_lstm_back, _lstm_form(cell, panels, has_first, dcells is not None))
        if code is None:
            return None
        values: dict[str, Any] = {
            **_first(cell, H0, C0),
            **{name: np.ascontiguousarray(part) for name, part in zip(_RUN, run, strict=True)},
            "D": np.zeros_like(run.hidden) if d is None else np.ascontiguousarray(d),
            "DCells": None if dcells is None else np.ascontiguousarray(dcells),
            "DX": np.empty(run.gates.shape, np.float32),
            "Earlier": np.empty_like(run.hidden),
        }
        wanted = {"DBias": (7 if cell.peepholes is not None else 4) * cell.size}
        calls = _Calls(code, lstm.BACK, steps, cell.size, [(panels, Weight.T)], values, wanted)
        if last_cells is not None:
            calls.carry[:] = last_cells
        calls.run(threads)
        return values["DX"], values["Earlier"], calls.sums["DBias"], calls.carry

    def gru(
        self, threads: int, unit: GruUnit, steps: TimeSteps, X: Array, bias: Array | None, H0: Array | None
    ) -> GruRun | None:
        """All steps of a gated recurrent unit over rows X as they are given."""
        if not _fits(len(X), unit.gate_weight, X, H0):
            return None
        lanes = widths()[1]
        pair = Panels(2 * unit.size, lanes), Panels(unit.size, lanes)
        code = self._code(_gru_forward, _gru_form(unit, pair, H0 is not None))
        if code is None:
            return None
        hidden, reset = (np.empty((len(X), unit.size), np.float32) for _ in range(2))
        gates = np.empty((len(X), 3 * unit.size), np.float32)
        values: dict[str, Any] = {
            "X": np.ascontiguousarray(X),
            "Bias": np.zeros(3 * unit.size, np.float32) if bias is None else np.ascontiguousarray(bias),
            "First": _first_states(unit, H0),
            "depth": 0 if H0 is None else unit.size,
            "Hidden": hidden,
            "Gates": gates,
            "Reset": reset,
        }
        weights = list(zip(pair, (unit.gate_weight, unit.candidate_weight), strict=True))
        _Calls(code, gru.FORWARD, steps, unit.size, weights, values).run(threads)
        return GruRun(hidden, gates, reset)

    def gru_back(
        self,
        threads: int,
        unit: GruUnit,
        steps: TimeSteps,
        hidden: Array | None,
        gates: Array,
        H0: Array | None,
        d: Array,
    ) -> tuple[Array, ...] | None:
        """All steps back from `d`, the gradient of the states: the gradients of the gates, the state before
        each row and what the reset gate let through of it, the gradients of bias and first states.
        """
        if not _fits(len(d), unit.gate_weight, hidden, gates, H0, d):
            return None
        lanes = widths()[1]
        pair = Panels(unit.size, lanes), Panels(unit.size, lanes)
        code = self._code(_gru_back, _gru_form(unit, pair, H0 is not None))
        if code is None:
            return None
        values: dict[str, Any] = {
            "First": _first_states(unit, H0),
            "Hidden": np.ascontiguousarray(hidden),
            "Gates": np.ascontiguousarray(gates),
            "D": np.ascontiguousarray(d),
            "DX": np.empty(gates.shape, np.float32),
            "Earlier": np.empty_like(d, order="C"),
            "Passed": np.empty_like(d, order="C"),
        }
        weights = list(zip(pair, (unit.gate_weight.T, unit.candidate_weight.T), strict=True))
        calls = _Calls(code, gru.BACK, steps, unit.size, weights, values, {"DBias": 3 * unit.size})
        calls.run(threads)
        return values["DX"], values["Earlier"], values["Passed"], calls.sums["DBias"], calls.carry


_RUN = ("Hidden", "Cells", "Gates", "Active")


def _fits(rows: int, weight: Array, *arrays: Array | None) -> bool:
    """True if all are of float32, with rows enough."""
    if weight.dtype != np.float32 or (rows < _LEAST_ROWS and weight.size > _SMALL_WEIGHT):
        return False
    return all(array is None or (array.dtype == np.float32 and array.size > 0) for array in arrays)


def _first(cell: LstmCell, H0: Array | None, C0: Array | None) -> dict[str, Any]:
    """The initial values, of which either may be missing, and the peephole weights."""
    given = H0 if C0 is None else C0
    zeros = np.zeros((1 if given is None else len(given), cell.size), np.float32)
    return {
        "First": zeros if H0 is None else np.ascontiguousarray(H0),
        "FirstCells": zeros if C0 is None else np.ascontiguousarray(C0),
        "Peepholes": None if cell.peepholes is None else np.concatenate(cell.peepholes),
    }


def _lstm_form(cell: LstmCell, panels: Panels, has_first: bool, has_dcells: bool = False) -> LstmForm:
    lanes = widths()[1]
    names = (cell.gate.name, cell.state.name, cell.candidate.name)
    is_masked = cell.size % lanes != 0
    has_peepholes = cell.peepholes is not None
    return LstmForm(lanes, panels.vectors, *names, is_masked, has_peepholes, has_first, has_dcells, cell.clip)


def _first_states(unit: GruUnit, H0: Array | None) -> Array:
    return np.zeros((1, unit.size), np.float32) if H0 is None else np.ascontiguousarray(H0)


def _gru_form(unit: GruUnit, pair: tuple[Panels, Panels], has_first: bool) -> GruForm:
    lanes = widths()[1]
    vectors = pair[0].vectors, pair[1].vectors
    is_masked = unit.size % lanes != 0
    names = unit.gate.name, unit.candidate.name
    return GruForm(lanes, vectors, *names, is_masked, unit.origin_mode, has_first)


@cache
def _gru_forward(form: GruForm) -> LoopCode:
    return loop_of(gru.forward_text(form))


@cache
def _gru_back(form: GruForm) -> LoopCode:
    return loop_of(gru.back_text(form))


@cache
def _lstm_forward(form: LstmForm) -> LoopCode:
    return loop_of(lstm.forward_text(form))


@cache
def _lstm_back(form: LstmForm) -> LoopCode:
    return loop_of(lstm.back_text(form))


class _Calls:
    """The calls of a function, one for each thread: some of the sequences each, with scratch of their own."""

    def __init__(
        self,
        code: LoopCode,
        names: Sequence[str],
        steps: TimeSteps,
        size: int,
        products: Sequence[tuple[Panels, Array]],
        values: Mapping[str, Any],
        wanted: Mapping[str, int] | None = None,
    ) -> None:
        self.code, self.names, self.steps = code, names, steps
        self.wanted = dict(wanted or {})
        self.work = len(steps.rows) * sum(weight.size for _, weight in products)
        self.width = max(panels.stride for panels, _ in products)
        self.carry: Array = np.zeros((steps.running, size), np.float32)
        self.sums: dict[str, Array] = {}
        """Sums over all rows, by name."""
        self.values: dict[str, Any] = {
            **values,
            "Rows": steps.rows,
            "Starts": steps.starts,
            "steps": len(steps.steps),
            "size": size,
        }
        for behind, (panels, weight) in zip(("", "2"), products, strict=False):
            packed = panels.packed(weight)
            found = {
                "stride": panels.stride,
                "panels": panels.count,
                "Weight": packed,
                "whole": packed[0].size,
            }
            self.values.update({f"{name}{behind}": value for name, value in found.items()})

    def run(self, threads: int) -> None:
        """Run them all."""
        bounds = self.steps.shares(threads if self.work >= _SHARED else 1)
        parts = [{name: np.zeros(size, np.float32) for name, size in self.wanted.items()} for _ in bounds[1:]]
        on_team(len(parts), lambda member: self._run(bounds[member], bounds[member + 1], parts[member]))
        for name in self.wanted:
            self.sums[name] = (
                parts[0][name] if len(parts) == 1 else np.sum([one[name] for one in parts], axis=0)
            )

    def _run(self, first: int, last: int, own: dict[str, Array]) -> None:
        count = last - first
        values = {
            **self.values,
            **own,
            "Scratch": np.empty((count, self.width), np.float32),
            "Table": np.empty(count, np.int64),
            "Carry": self.carry[first:last],
        }
        given = [values[name] for name in self.names]
        table = [one if isinstance(one, int) else address(one) for one in given]
        arguments = np.array(table, np.int64)
        self.code.function(first, last, arguments.ctypes.data)
