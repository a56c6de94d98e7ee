"""softmax, its loss, layer_norm and their gradients over float32 rows by compiled code, behind the objects of
`fluidlite.executor.run.rows`.

The same calls with the same arrays: until the code is there, and for other dtypes, NumPy's object computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import is_not
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.executor.fast.loops import functions
from fluidlite.executor.fast.loops.compiler import LoopCode, RunCount, loop_of, widths
from fluidlite.executor.fast.loops.sweeps import Point, RowLanes, Sweep, sweeps_text
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls
from fluidlite.executor.run import rows

__all__ = ["KINDS", "CompiledRows", "compiled_rows"]

After: TypeAlias = Callable[[Point, Sequence[Vector]], Mapping[str, Vector]]

_ASKED_AT = 2
_SUMS_FROM = 6  # the arrays from here on take sums over all rows


def _nothing(point: Point, reduced: Sequence[Vector] = ()) -> Mapping[str, Vector]:
    return {}


def _softmax_sweeps(lowest: float, last: After, has_bias: bool = False) -> list[Sweep]:
    """exp(x - largest) over its sum."""

    def largest(lanes: RowLanes) -> None:
        if not has_bias:
            lanes.largest(lanes["x"])
            return
        score = lanes["x"] + lanes["bias"]
        lanes.store("out", score)
        lanes.largest(score)

    def powers(lanes: RowLanes) -> None:
        score = lanes["out" if has_bias else "x"] - lanes["top"]
        # NaN is not less than anything, and stays
        raised = functions.exp(lanes.code.select(score.compare("olt", lowest), score.like(lowest), score))
        lanes.store("out", raised)
        lanes.total(raised)

    return [
        Sweep(largest, lambda point, found: {"top": found[0]}),
        Sweep(powers, lambda point, found: {"share": 1.0 / found[0]}),
        Sweep(lambda lanes: lanes.store("out", lanes["out"] * lanes["share"]), last),
    ]


@cache
def _softmax(is_narrow: bool, lowest: float) -> LoopCode:
    sweeps = _softmax_sweeps(lowest, _nothing)
    return _code({"x": "full", "out": "full"}, _nothing, *sweeps, is_narrow=is_narrow)


@cache
def _softmax_loss(is_narrow: bool, lowest: float, ignored: int, has_bias: bool) -> LoopCode:
    """softmax, and the negative logarithm of its element at each row's label."""

    def begin(point: Point) -> Mapping[str, Vector]:
        return {"kept": point.choose("labels", "flag", ignored)}

    def loss(point: Point, found: Sequence[Vector]) -> Mapping[str, Vector]:
        point.store("loss", point.where(point["kept"], -functions.log(point.picked("out", "labels"))))
        return {}

    arrays = {"x": "full", "labels": "labels", "out": "full", "loss": "column", "bias": "row", "flag": "flag"}
    kept = _without(arrays, bias=has_bias)
    return _code(kept, begin, *_softmax_sweeps(lowest, loss, has_bias), is_narrow=is_narrow)


@cache
def _softmax_loss_grad(is_narrow: bool, ignored: int, incoming: str) -> LoopCode:
    """(softmax - one at the label) * incoming."""

    def begin(point: Point) -> Mapping[str, Vector]:
        return {"kept": point.choose("labels", "flag", ignored), "d": point.load("d")}

    def scale(lanes: RowLanes) -> None:
        # what a row without a label holds may be NaN
        is_kept = lanes["kept"].compare("une", 0.0)
        scaled = lanes["y"] * lanes["d"]
        lanes.store("out", lanes.code.select(is_kept, scaled, scaled.like(0.0)))

    def less(point: Point, found: Sequence[Vector]) -> Mapping[str, Vector]:
        at_label = point.picked("out", "labels") - point["d"]
        point.set_picked("out", "labels", point.where(point["kept"], at_label))
        return {}

    arrays = {"y": "full", "labels": "labels", "d": incoming, "out": "full", "flag": "flag"}
    return _code(arrays, begin, Sweep(scale, less), is_narrow=is_narrow)


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


def _code(
    arrays: Mapping[str, str], begin: Callable[[Point], Any], *sweeps: Sweep, is_narrow: bool = False
) -> LoopCode:
    return loop_of(sweeps_text(arrays, begin, sweeps, widths(), is_narrow))


def _is_there(array: Any) -> bool:
    return array is not None


def _is_narrow(rows: Any) -> bool:
    """True if a row fits into a register."""
    return bool(rows.shape[-1] <= widths()[1])


class CompiledRows:
    """A kernel over rows: compiled code as soon as it is there, the object of `kind` until then."""

    shared: int | None = None
    """The arrays before this position are the same for all threads; None where all are."""

    def __init__(self, xp: Any, kind: Any, arguments: Sequence[Any], wait: bool, count: RunCount) -> None:
        # made where it is needed: compiled code takes no scratch
        self.make_plain = partial(kind, xp, *arguments)
        self.rows, self.columns, _, self.threads = arguments[:4]
        self.choose = KINDS[kind]
        self.options = tuple(arguments[4:])
        self.asked_at = 0 if wait else _ASKED_AT
        self.count = count
        self.wait = wait
        self.code: LoopCode | None = None
        self.held: Sequence[Any] = ()
        self.tables: list[Any] = []
        self.calls: list[tuple[int, int, int]] = []

    @cached_property
    def plain(self) -> Any:
        """The object of `kind`."""
        return self.make_plain()

    def __call__(self, *arrays: Any) -> None:
        # a plan calls with the same arrays at each run, but for what is fed
        is_known = len(self.held) == len(arrays) and not any(map(is_not, self.held, arrays))
        if not is_known and not self._take(arrays):
            self.plain(*arrays)
            return
        self._before()
        if len(self.calls) == 1:
            assert self.code is not None
            self.code.function(*self.calls[0])
        else:
            self.sharing.run(None, len(self.calls), self._run)
        self._after(arrays)

    def _before(self) -> None:
        """Make ready what the compiled code adds to."""

    def _after(self, arrays: Sequence[Any]) -> None:
        """Finish what it leaves."""

    def _own(self, arrays: Sequence[Any], member: int) -> list[Any]:
        """The arrays that a member of the team is called with, each at its position."""
        return list(arrays)

    def _dtype(self, position: int) -> Any:
        """The dtype that the compiled code takes an array in."""
        return np.float32

    def _run(self, calls: MachineCalls, member: int) -> None:
        assert self.code is not None
        calls.code(self.code.function, *self.calls[member])

    def _take(self, arrays: Sequence[Any]) -> bool:
        """Write down the addresses of the arrays that are other ones; False where the compiled code cannot
        compute them, or is not there yet.
        """
        if not self._has_code(arrays):
            return False
        held = self.held or [None] * len(arrays)
        others = [position for position, array in enumerate(arrays) if array is not held[position]]
        for position in others:
            array = arrays[position]
            if array.dtype != self._dtype(position) or not array.flags.c_contiguous:
                self.held = ()
                return False
        if not self.held:
            self._begin(arrays)
        else:
            self._replace(others, arrays)
        self.held = arrays
        return True

    def _begin(self, arrays: Sequence[Any]) -> None:
        """Make the tables of addresses, and share out the rows."""
        members = rows.members_of(self.rows, self.columns, self.threads)
        self.tables, self.calls = [], []
        self.sharing = SharedCalls(members)
        for member in range(members):
            own = self._own(arrays, member)
            table = np.array([*map(address_of, filter(_is_there, own)), self.columns], np.int64)
            self.tables.append(table)
            first, last = self.rows * member // members, self.rows * (member + 1) // members
            self.calls.append((first, last, address_of(table)))

    def _replace(self, positions: Sequence[int], arrays: Sequence[Any]) -> None:
        """Write down the addresses of some arrays."""
        common = arrays[: self.shared]
        for position in positions:
            if position < len(common):
                place = sum(map(_is_there, arrays[:position]))
                for table in self.tables:
                    table[place] = address_of(arrays[position])

    def _has_code(self, arrays: Sequence[Any]) -> bool:
        """True once the code is there; asks for it when it is clear that there will be more runs."""
        if self.code is not None and self.code.function is not None:
            return True
        if self.count.next() < self.asked_at:
            return False
        if self.code is None:
            self.code = self.choose(self.options, arrays)
            if self.wait:
                self.code.compile()
            self.code.ask()
        return self.code.function is not None


class CompiledSums(CompiledRows):
    """One whose arrays from `_SUMS_FROM` on take sums over all rows."""

    shared = _SUMS_FROM

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sums = np.zeros((2, self.threads, max(self.columns, 1)), np.float32)

    def _own(self, arrays: Sequence[Any], member: int) -> list[Any]:
        # each thread adds up gradients of scale and bias by itself
        own = [*arrays[:_SUMS_FROM], *self.sums[:, member]]
        return [mine if array is not None else None for mine, array in zip(own, arrays, strict=False)]

    def _before(self) -> None:
        self.sums.fill(0)

    def _after(self, arrays: Sequence[Any]) -> None:
        for number, wanted in enumerate(arrays[_SUMS_FROM:]):
            if wanted is not None:
                np.add.reduce(self.sums[number, : len(self.calls)], axis=0, out=wanted)


class CompiledLabels(CompiledRows):
    """One whose second array are labels, which it looks at."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.flags = [np.zeros(1, np.int64) for _ in range(self.threads)]
        """For each thread whether it has met a label that is no class."""

    def _own(self, arrays: Sequence[Any], member: int) -> list[Any]:
        return [*arrays, self.flags[member]]

    def _dtype(self, position: int) -> Any:
        return np.int64 if position == 1 else np.float32

    def _after(self, arrays: Sequence[Any]) -> None:
        if any(map(bool, self.flags)):
            for flag in self.flags:
                flag.fill(0)
            self.plain.check(arrays[1])


def compiled_rows(xp: Any, kind: Any, arguments: Sequence[Any], wait: bool, count: RunCount) -> CompiledRows:
    """The compiled kernel that takes the place of one of `KINDS`."""
    return _CLASSES.get(kind, CompiledRows)(xp, kind, arguments, wait, count)


_CLASSES: Mapping[Any, type[CompiledRows]] = {
    rows.LayerNormGrad: CompiledSums,
    rows.SoftmaxLoss: CompiledLabels,
    rows.SoftmaxLossGrad: CompiledLabels,
}

KINDS: Mapping[Any, Callable[[Sequence[Any], Sequence[Any]], LoopCode]] = {
    rows.Softmax: lambda options, arrays: _softmax(_is_narrow(arrays[0]), *options),
    rows.SoftmaxGrad: lambda options, arrays: _softmax_grad(),
    rows.SoftmaxLoss: lambda options, arrays: _softmax_loss(_is_narrow(arrays[0]), *options, len(arrays) > 4),
    rows.SoftmaxLossGrad: lambda options, arrays: _softmax_loss_grad(
        _is_narrow(arrays[0]), *options, "column" if arrays[2].ndim else "number"
    ),
    rows.LayerNorm: lambda options, arrays: _layer_norm(
        options[0], arrays[1] is not None, arrays[2] is not None
    ),
    rows.LayerNormGrad: lambda options, arrays: _layer_norm_grad(
        options[0], arrays[1] is not None, tuple(array is not None for array in arrays[5:8])
    ),
}
