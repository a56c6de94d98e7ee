"""A plan: the generated Python for one program, feed signature, set of fetches and place, and its binding
to a scope.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fluidlite.base.errors import EOFException, FluidError, KernelError, UninitializedError
from fluidlite.base.place import Place, array_module
from fluidlite.executor.compile.blocks import BuildAgain, Choices
from fluidlite.executor.compile.builder import FeedSpec, PlanBuilder
from fluidlite.executor.compile.emitter import Fresh, HostCheck
from fluidlite.executor.compile.plan_ir import Step, Storage, Value, flat, in_bodies
from fluidlite.executor.compile.render import Scalars, Source, render
from fluidlite.executor.passes import passes, tiles
from fluidlite.executor.passes.memory import Layout, assign
from fluidlite.executor.passes.overlap import wait_where_needed
from fluidlite.executor.run import cuda
from fluidlite.executor.run.blas import thread_switch
from fluidlite.executor.run.calls import BlockCall, KernelCall
from fluidlite.executor.run.interpreter import Interpreter
from fluidlite.executor.run.team import share_products
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ops.kernels import scalar
from fluidlite.profiler import recorder
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, on, rebinds

__all__ = ["BoundPlan", "Plan", "compile_plan"]

_numbers = itertools.count()


@dataclass(eq=False)
class Plan:
    """What compiling gives: steps, memory layout and source, none of it tied to a scope."""

    steps: list[Step]
    feeds: dict[str, Value]
    fetches: list[Value]
    layout: Layout
    source: Source
    bound: dict[str, Any]
    dropped: int
    lowered: set[str]
    absent: set[str]
    choices: Choices
    filename: str = field(default_factory=lambda: f"<fluidlite plan {next(_numbers)}>")

    def __post_init__(self) -> None:
        self.text = self.source.text()
        self.code = compile(self.text, self.filename, "exec")
        linecache.cache[self.filename] = (
            len(self.text),
            None,
            self.text.splitlines(keepends=True),
            self.filename,
        )
        self.values = {
            value for step in flat(self.steps) for value in (*step.reads, *step.writes, *step.temps)
        } | set(self.fetches)
        self.values |= {value.root for value in self.values}
        self.capturable = (
            not any(isinstance(thing, (KernelCall, BlockCall)) for thing in self.bound.values())
            and all(value.storage not in (Storage.LOCAL, Storage.FRESH) for value in self.values)
            and all(step.body is None for step in self.steps)
        )
        self.single_thread = not any(
            isinstance(thing, KernelCall) and "conv" in thing.op.type for thing in self.bound.values()
        )
        self.params = sorted({value.name for value in self.values if value.storage == Storage.PARAM})

    def operator_at(self, error: BaseException) -> Operator | None:
        """The op whose generated line raised."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == self.filename and line in self.source.ops:
                return self.source.ops[line]
        return None


def compile_plan(
    block: Block,
    ops: Sequence[Operator],
    feeds: Mapping[str, FeedSpec],
    fetches: Sequence[str],
    scope: Scope,
    threads: int = 1,
    timed: bool = False,
    on_host: bool = True,
) -> Plan:
    """Lower the ops, run the passes, lay out the memory, write the source."""
    choices = Choices()
    for copy_params in (False, True):
        builder, steps = lowered(
            lambda copies=copy_params: PlanBuilder(  # type: ignore[misc]
                block, ops, feeds, fetches, scope, copies, threads if on_host else 0, choices
            )
        )
        kept = [builder.fetched(name) for name in fetches]
        if not passes.stale_aliases(steps, kept):
            break
    live = passes.drop_dead(steps, kept)
    bound = {"erf": Fresh(Erf, ()), **builder.bound}
    passes.settle(live, bound)
    live = wait_where_needed(live)
    scalars = Scalars()

    def fused(some: Sequence[Step], wanted: Sequence[Value]) -> list[Step]:
        grouped = (
            tiles.group(some, wanted, builder.values, scalars, threads, bound)
            if on_host
            else cuda.group(some, wanted, bound)
        )
        return share_products(grouped, threads if on_host else 1, bound)

    live = in_bodies(live, kept, fused)
    layout = assign(live, kept)
    if timed:
        bound["tick"] = Ticker(live)
    source = render(live, builder.feeds, kept, scalars, bound, timed)
    return Plan(
        live,
        builder.feeds,
        kept,
        layout,
        source,
        bound,
        len([*flat(steps)]) - len([*flat(live)]),
        builder.used_rules,
        builder.absent,
        choices,
    )


def lowered(make: Callable[[], PlanBuilder]) -> tuple[PlanBuilder, list[Step]]:
    """A builder and its steps; made again when a gradient finds that its loop cannot be written into the
    plan.
    """
    while True:
        builder = make()
        try:
            return builder, builder.build()
        except BuildAgain:
            continue


class Ticker:
    """Tells the profiler, after each step of a timed plan, which op ran since the last tick."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.names = [
            (step.op.type if step.op else "view", str(step.op.where) if step.op else "")
            for step in flat(steps)
        ]
        self.last = 0.0

    def start(self) -> None:
        """A run begins."""
        self.last = time.perf_counter()

    def __call__(self, number: int) -> None:
        now = time.perf_counter()
        recorder.record(*self.names[number], self.last, now)
        self.last = time.perf_counter()


class BoundPlan:
    """A plan with its buffers, and with the arrays of one scope: `run(arguments)` is one step."""

    def __init__(self, plan: Plan, scope: Scope, place: Place, random: Any, switches: bool = True) -> None:
        self.plan, self.scope, self.place, self.random = plan, scope, place, random
        self.xp = array_module(place)
        self.switch = (
            thread_switch() if switches and plan.single_thread and self.xp is np else None
        )  # of BLAS's threads
        self.lock = threading.Lock()
        self.buffers = self._buffers()
        self.arrays: dict[str, Any] = {}
        self.seen = -1
        self.step: Callable[..., Any] = lambda: ()

    def _buffers(self) -> dict[int, Any]:
        """The views of the pool that the prelude names; zeroed so that a first in-place read is no NaN by
        chance.
        """
        pool = self.xp.zeros(self.plan.layout.pool_bytes + 64, dtype=np.uint8)
        start = (-pool.ctypes.data) % 64 if self.xp is np else 0
        views = {}
        for value, offset in self.plan.layout.offsets.items():
            piece = pool[start + offset : start + offset + value.nbytes]
            views[value.number] = piece.view(value.dtype).reshape(value.shape)
        return views

    def current(self) -> bool:
        """Whether the scope still holds the arrays that this plan is bound to; binds anew where others of
        the same form are.
        """
        if self.seen == rebinds.count:
            return True
        if any(
            held is not None and held.is_initialized() for held in map(self.scope.find_var, self.plan.absent)
        ):
            return False
        arrays = {}
        for name in self.plan.params:
            held = self.scope.find_var(name)
            if held is None or not isinstance(held.value, LoDTensor) or held.value.array is None:
                raise UninitializedError(
                    f"variable {name!r} holds no value any more; run the startup program or load it"
                )
            array = on(self.xp, held.value.array)
            if array is not held.value.array:
                held.value.array = array  # set from the host: moves to where this plan runs
            arrays[name] = array
        if any(arrays[name] is not self.arrays.get(name) for name in arrays) or self.seen < 0:
            if not self._fits(arrays):
                return False
            self._bind(arrays)
        self.seen = rebinds.count
        return True

    def _fits(self, arrays: Mapping[str, Any]) -> bool:
        return all(
            arrays[value.name].shape == value.shape and arrays[value.name].dtype == value.dtype
            for value in self.plan.values
            if value.storage == Storage.PARAM
        )

    def _bind(self, arrays: dict[str, Any]) -> None:
        interpreter = Interpreter(self.place, self.scope, self.random)
        bound = {name: _own(thing, interpreter) for name, thing in self.plan.bound.items()}
        namespace: dict[str, Any] = {}
        exec(self.plan.code, namespace)
        constants = {
            value.number: self.xp.asarray(value.constant)
            for value in self.plan.values
            if value.storage == Storage.CONST
        }
        module = np if self.xp is np else cuda.Namespace(self.xp)
        step = namespace["make"](module, self.buffers, arrays, constants, bound, self._load, self._store)
        self.step = cuda.Graph(self.xp, step) if self.xp is not np and self.plan.capturable else step
        self.arrays = arrays

    def _load(self, name: str) -> tuple[Any, Any]:
        """What the scope holds for a persistable variable that is no plain array, with its level of
        detail.
        """
        held = self.scope.find_var(name)
        if held is None:
            return None, ()
        return (held.value.array, held.value._lod) if isinstance(held.value, LoDTensor) else (held.value, ())

    def _store(self, name: str, value: Any, lod: Any = None) -> None:
        """Give a persistable variable another array (or a list, or SelectedRows)."""
        held = self.scope.find_var(name) or self.scope.var(name)
        bound = self.arrays.get(name)  # a later step may write to it in place
        if bound is not None and getattr(value, "shape", None) == bound.shape and value.dtype == bound.dtype:
            bound[...] = value
        else:
            held.set(
                value.copy()
                if hasattr(value, "copy") and not isinstance(value, (list, SelectedRows))
                else value
            )
        if lod is not None and isinstance(held.value, LoDTensor):
            held.value._lod = lod

    def run(self, arguments: Sequence[Any]) -> Any:
        """One step: (value, level of detail) for each fetch."""
        ticker = self.plan.bound.get("tick")
        if ticker is not None:
            ticker.start()
        switch = self.switch
        if switch is not None:
            switch[0](1)
        try:
            return self.step(*arguments)
        except (FluidError, EOFException):
            raise
        except Exception as error:
            op = self.plan.operator_at(error)
            if op is None:
                raise
            raise KernelError(
                f"op {op.type!r}: {error} ({type(error).__name__})\n  {op.call_text()}\n  built at {op.where}"
            ) from error
        finally:
            if switch is not None:
                switch[0](switch[1])


def _own(thing: Any, interpreter: Interpreter) -> Any:
    """What one binding uses for a bound object: calls get its scope, objects with scratch state are made
    for it.
    """
    if isinstance(thing, Fresh):
        return thing.make(interpreter.xp)
    if isinstance(thing, HostCheck) and interpreter.xp is not np:
        return _no_check
    if isinstance(thing, cuda.FusedKernel):
        thing.compile(interpreter.xp)
    if isinstance(thing, (KernelCall, BlockCall)):
        thing = copy.copy(thing)
        thing.bind(interpreter)
        return thing.call
    return thing


def _no_check(values: Any) -> None:
    """Checks that need values on the host are left out on a device."""


class Erf:
    """The error function into a given buffer; neither NumPy nor CuPy has it among their own functions."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __call__(self, x: Any, out: Any) -> None:
        out[...] = scalar.erf(self.xp, x)
