"""softmax, layer_norm and their gradients over float32 rows by compiled code, behind the objects of
`fluidlite.executor.run.rows`.

The same calls with the same arrays: until the code is there, and for other dtypes, NumPy's object computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import is_not
from typing import Any

import numpy as np

from fluidlite.executor.fast.loops import functions
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.sweeps import Point, RowLanes, Sweep, sweeps_text
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.executor.run import rows
from fluidlite.executor.run.team import on_team

__all__ = ["KINDS", "CompiledRows"]

_ASKED_AT = 2
_SUMS_FROM = 6  # the arrays from here on take sums over all rows


def _nothing(point: Point, reduced: Sequence[Vector] = ()) -> Mapping[str, Vector]:
    return {}


@cache
def _softmax(lowest: float) -> LoopCode:
    """exp(x - largest) over its sum."""

    def powers(lanes: RowLanes) -> None:
        score = lanes["x"] - lanes["top"]
        # NaN is not less than anything, and stays
        raised = functions.exp(lanes.code.select(score.compare("olt", lowest), score.like(lowest), score))
        lanes.store("out", raised)
        lanes.total(raised)

    return _code(
        {"x": "full", "out": "full"},
        _nothing,
        Sweep(lambda lanes: lanes.largest(lanes["x"]), lambda point, found: {"top": found[0]}),
        Sweep(powers, lambda point, found: {"share": 1.0 / found[0]}),
        Sweep(lambda lanes: lanes.store("out", lanes["out"] * lanes["share"]), _nothing),
    )


@cache
def _softmax_grad() -> LoopCode:
    """(incoming - sum of softmax * incoming) * softmax."""
    return _code(
        {"y": "full", "d": "full", "out": "full"},
        _nothing,
        Sweep(lambda lanes: lanes.total(lanes["y"] * lanes["d"]), lambda point, found: {"dot": found[0]}),
        Sweep(lambda lanes: lanes.store("out", (lanes["d"] - lanes["dot"]) * lanes["y"]), _nothing),
    )


@cache
def _layer_norm(epsilon: float, has_scale: bool, has_bias: bool) -> LoopCode:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias."""

    def squares(lanes: RowLanes) -> None:
        centred = lanes["x"] - lanes["mean"]
        lanes.total(centred * centred)

    def spread(point: Point, found: Sequence[Vector]) -> Mapping[str, Vector]:
        variance = found[0] / point.columns()
        point.store("variance", variance)
        return {"inverse": 1.0 / point.root(variance + epsilon)}

    def middle(point: Point, found: Sequence[Vector]) -> Mapping[str, Vector]:
        mean = found[0] / point.columns()
        point.store("means", mean)
        return {"mean": mean}

    def normal(lanes: RowLanes) -> None:
        y = (lanes["x"] - lanes["mean"]) * lanes["inverse"]
        y = y * lanes["scale"] if has_scale else y
        lanes.store("y", y + lanes["bias"] if has_bias else y)

    arrays = {
        "x": "full",
        "scale": "row",
        "bias": "row",
        "y": "full",
        "means": "column",
        "variance": "column",
    }
    return _code(
        _without(arrays, scale=has_scale, bias=has_bias),
        _nothing,
        Sweep(lambda lanes: lanes.total(lanes["x"]), middle),
        Sweep(squares, spread),
        Sweep(normal, _nothing),
    )


@cache
def _layer_norm_grad(epsilon: float, has_scale: bool, wanted: tuple[bool, bool, bool]) -> LoopCode:
    """The gradients of x, and each thread's share of those of scale and bias."""
    has_dx, has_dscale, has_dbias = wanted

    def begin(point: Point) -> Mapping[str, Vector]:
        inverse = 1.0 / point.root(point.load("variance") + epsilon)
        return {"mean": point.load("means"), "inverse": inverse}

    def unit(lanes: RowLanes) -> Vector:
        return (lanes["x"] - lanes["mean"]) * lanes["inverse"]

    def scaled(lanes: RowLanes) -> Vector:
        return lanes["d"] * lanes["scale"] if has_scale else lanes["d"]

    def sums(lanes: RowLanes) -> None:
        lanes.total(scaled(lanes) * unit(lanes))
        lanes.total(scaled(lanes))
        if has_dscale:
            lanes.store("dscale", lanes["dscale"] + lanes["d"] * unit(lanes))
        if has_dbias:
            lanes.store("dbias", lanes["dbias"] + lanes["d"])

    def means(point: Point, found: Sequence[Vector]) -> Mapping[str, Vector]:
        return {"along": found[0] / point.columns(), "level": found[1] / point.columns()}

    def back(lanes: RowLanes) -> None:
        moved = scaled(lanes) - unit(lanes) * lanes["along"] - lanes["level"]
        lanes.store("dx", moved * lanes["inverse"])

    arrays = {"x": "full", "scale": "row", "means": "column", "variance": "column", "d": "full"}
    arrays |= {"dx": "full", "dscale": "row", "dbias": "row"}
    sweeps = [Sweep(sums, means), *([Sweep(back, _nothing)] if has_dx else [])]
    kept = _without(arrays, scale=has_scale, dx=has_dx, dscale=has_dscale, dbias=has_dbias)
    return _code(kept, begin, *sweeps)


def _without(arrays: Mapping[str, str], **present: bool) -> dict[str, str]:
    return {name: kind for name, kind in arrays.items() if present.get(name, True)}


def _code(arrays: Mapping[str, str], begin: Callable[[Point], Any], *sweeps: Sweep) -> LoopCode:
    return loop_of(sweeps_text(arrays, begin, sweeps, widths()))


class CompiledRows:
    """A kernel over rows: compiled code as soon as it is there, the object of `kind` until then."""

    def __init__(self, xp: Any, kind: Any, arguments: Sequence[Any], wait: bool) -> None:
        self.plain = kind(xp, *arguments)
        self.count, self.columns, _, self.threads = arguments[:4]
        self.choose = KINDS[kind]
        self.options = tuple(arguments[4:])
        self.asked_at = 0 if wait else _ASKED_AT
        self.runs = 0
        self.wait = wait
        self.code: LoopCode | None = None
        self.sums = np.zeros((2, self.threads, max(self.columns, 1)), np.float32)
        self.held: Sequence[Any] = ()
        self.tables: list[Any] = []
        self.calls: list[tuple[int, int, int]] = []

    def __call__(self, *arrays: Any) -> None:
        if not self._is_ready(arrays):
            self.plain(*arrays)
            return
        # a plan calls with the same arrays at each run, but for what is fed
        if len(self.held) != len(arrays) or any(map(is_not, self.held, arrays)):
            self._take(arrays)
        self.sums.fill(0)
        on_team(len(self.calls), self._run)
        for number, wanted in enumerate(arrays[_SUMS_FROM:]):
            if wanted is not None:
                np.add.reduce(self.sums[number, : len(self.calls)], axis=0, out=wanted)

    def _run(self, member: int) -> None:
        assert self.code is not None
        self.code.function(*self.calls[member])

    def _take(self, arrays: Sequence[Any]) -> None:
        """Write down the addresses of the arrays, and the rows of each thread."""
        self.held = arrays
        self.tables = []
        self.calls = []
        members = self.plain.blocks.members
        for member in range(members):
            # each thread adds up gradients of scale and bias by itself
            own = (*arrays[:_SUMS_FROM], *self.sums[:, member])
            places = [mine.ctypes.data for mine, array in zip(own, arrays, strict=False) if array is not None]
            table = np.array([*places, self.columns], np.int64)
            first, last = (self.count * (member + step) // members for step in (0, 1))
            self.tables.append(table)
            self.calls.append((first, last, table.ctypes.data))

    def _is_ready(self, arrays: Sequence[Any]) -> bool:
        """True if the compiled code can compute these arrays."""
        self.runs += 1
        if self.runs < self.asked_at:
            return False
        if self.code is None:
            self.code = self.choose(self.options, arrays)
            if self.wait:
                self.code.compile()
            self.code.ask()
        if self.code.function is None:
            return False
        given = [array for array in arrays if array is not None]
        return all(array.dtype == np.float32 and array.flags.c_contiguous for array in given)


KINDS: Mapping[Any, Callable[[Sequence[Any], Sequence[Any]], LoopCode]] = {
    rows.Softmax: lambda options, arrays: _softmax(*options),
    rows.SoftmaxGrad: lambda options, arrays: _softmax_grad(),
    rows.LayerNorm: lambda options, arrays: _layer_norm(
        options[0], arrays[1] is not None, arrays[2] is not None
    ),
    rows.LayerNormGrad: lambda options, arrays: _layer_norm_grad(
        options[0], arrays[1] is not None, tuple(array is not None for array in arrays[5:8])
    ),
}
