"""A plan on its way through the pipeline, and the source that it becomes in the end."""

from __future__ import annotations

import itertools
import linecache
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from fluidlite.base.plain_text import check_source
from fluidlite.base.records import dataclass
from fluidlite.executor.plan.objects import OpCall, PlanObject
from fluidlite.executor.plan.sizes import SizeTable
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Storage, Value, ValueFactory
from fluidlite.ir.operator import Operator

__all__ = ["BufferLayout", "CompiledPlan", "FeedSpec", "Move", "Plan", "Remark", "Source", "Target"]

# linecache and tracebacks know a plan by its file name alone, so no two plans may share one
_numbers = itertools.count()


@dataclass(frozen=True)
class FeedSpec:
    """Facts of a fed value when a plan is made: its shape, unless it has a level of detail."""

    shape: tuple[int, ...] | None
    dtype: Any
    has_lod: bool = False


@dataclass(frozen=True)
class Target:
    """The machine that a plan is for: threads of the host, or a device that its steps are launched on."""

    threads: int = 1
    on_host: bool = True
    timed: bool = False
    loops: str = "off"
    """How loops over arrays are compiled: "off" (not at all), "background" or "wait"."""
    checked: bool = False
    """True if each step is followed by a check of the arrays that it wrote."""

    @property
    def asked(self) -> int:
        """The run of a size that has kernels of libraries made for it: what takes as long to make as to do
        without is not worth it for sizes that never come again.
        """
        return 2 if self.loops == "background" else 1


@dataclass(frozen=True)
class Remark:
    """Something that a pass did, and why."""

    kind: str
    """"dropped", "fused", "copied", "shared" or "interpreted"."""
    text: str


@dataclass(frozen=True)
class Move:
    """A buffer takes a place in the pool (that of `donor` if there is one); without a taker one is freed."""

    taker: Value | None
    donor: Value | None = None


@dataclass(frozen=True)
class BufferLayout:
    """Byte offset of each buffer in the pool, the pool's size, the bytes that buffers would take without
    sharing, and the most that are in use at once, which no placement falls below.
    """

    offsets: Mapping[Value, int]
    pool_bytes: int
    total_bytes: int
    moves: tuple[Move, ...] = ()
    """The way to it, for buffers of other sizes."""
    live_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """A block's ops as steps over values, with what the passes have decided so far."""

    steps: tuple[Step, ...]
    feeds: Mapping[str, Value]
    fetches: tuple[Value, ...]
    values: ValueFactory
    target: Target
    absent: frozenset[str] = frozenset()
    """Persistable inputs that held nothing: with a value the plan would differ."""
    remarks: tuple[Remark, ...] = ()
    layout: BufferLayout | None = None
    sizes: SizeTable | None = None
    """Of a plan for feeds of several sizes: what differs between them."""

    def all_values(self) -> set[Value]:
        """Every value that a step or a fetch touches, and the values that those show."""
        found = set(self.fetches)
        for step in flat(self.steps):
            found.update(step.reads, step.writes, step.temps)
        # a buffer may be touched through views alone, and needs a place all the same
        return found | {value.root for value in found}


class RunTimer(Protocol):
    """A clock of the runs of a plan."""

    def start(self) -> None:
        """A run begins."""

    def stop(self) -> None:
        """The run has ended."""


class Source:
    """The step as lines of generated Python, which op each line (counted from 1) belongs to, and what the
    names in it stand for.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.common: list[str] = []
        """Functions that several of the lines call."""
        self.op_at: dict[int, Operator] = {}
        self.bound: dict[str, PlanObject] = {}
        """Name -> object that the source refers to."""
        self.functions: list[str] = []
        """Functions of the array module."""
        self.sizes: list[tuple[str, Any]] = []
        """Numbers that follow from the sizes of the feeds."""
        self.numbers: list[tuple[str, Any, str, tuple[int, ...]]] = []
        """Name, number, dtype and shape of arrays of one number."""
        self.values: list[tuple[str, Value]] = []
        """Names of the values that are the same arrays at every step, bases before their views."""
        self.groups: dict[str, Sequence[Any]] = {}
        """Name -> the values, or the rows of values, of `values` that it stands for."""
        self.timer: RunTimer | None = None
        """The profiler's clock, of a timed plan."""
        self.definitions: Callable[[], list[str]] = list
        """Lines that show all of these to a person."""

    def add(self, text: str, indent: int = 0, op: Operator | None = None) -> None:
        """Append a line."""
        self.lines.append(f"{'    ' * indent}{text}" if text else "")
        if op is not None:
            # counted from 1, as tracebacks count: the length just after the line was added
            self.op_at[len(self.lines)] = op

    def step_text(self) -> str:
        """The step alone, which is what gets compiled; ValueError where a line could be more than one."""
        lines = [*self.lines, *self.common]
        check_source(lines)
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """The step, and behind it what its names stand for: the order in which a plan is read."""
        return "\n".join([*self.lines, *self.common, *self.definitions()]) + "\n"


@dataclass(eq=False)
class CompiledPlan:
    """A plan with its source; not tied to a scope."""

    plan: Plan
    source: Source
    filename: str = field(default_factory=lambda: f"<fluidlite plan {next(_numbers)}>")

    def __post_init__(self) -> None:
        text = self.source.step_text()
        # compiled once; each binding executes it anew, when a tensor was given another array
        self.code = compile(text, self.filename, "exec")
        # tracebacks through a plan show its lines
        linecache.cache[self.filename] = (len(text), None, text.splitlines(keepends=True), self.filename)
        # plans come and go with feed shapes: their sources must not pile up in linecache
        weakref.finalize(self, linecache.cache.pop, self.filename, None)
        self.values = self.plan.all_values()
        self.params = self._names(Storage.PARAM)
        self.tensors = self._names(Storage.TENSOR)

    def _names(self, storage: Storage) -> list[str]:
        return sorted({value.name for value in self.values if value.storage is storage})

    @property
    def text(self) -> str:
        """The whole source."""
        return self.source.text()

    def bound_objects(self) -> list[PlanObject]:
        """The objects that the source refers to."""
        return list(self.source.bound.values())

    def op_calls(self) -> list[OpCall]:
        """Those of them that run ops without a lowering rule."""
        return [thing for thing in self.bound_objects() if isinstance(thing, OpCall)]

    def operator_at(self, error: BaseException) -> Operator | None:
        """The op whose generated line raised."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == self.filename and line in self.source.op_at:
                return self.source.op_at[line]
        return None
