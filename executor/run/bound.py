"""Compiled plans, bound to the arrays of one scope, as they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import EOFException, FluidError, KernelError, is_of_user
from fluidlite.base.place import Place, array_module
from fluidlite.base.process import blas_switch, keep_freed_memory
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.verify import PlanError
from fluidlite.executor.run.binding import Binding
from fluidlite.executor.run.held import HeldArrays
from fluidlite.executor.run.interpreter import Interpreter
from fluidlite.executor.run.located import failure, locate, specs_at
from fluidlite.executor.run.pending import settle
from fluidlite.profiler import recorder
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import rebinds

__all__ = ["BoundPlan"]

_SETTLED_AT = 4  # the first run that waits for compiled code


class BoundPlan:
    """`run(arguments)` is one step of the plan on the arrays of `scope`."""

    def __init__(
        self, plan: CompiledPlan, scope: Scope, place: Place, random: Any, switches: bool = True
    ) -> None:
        self.plan = plan
        # plans belong to their program, which may outlive the scope
        scope = scope.twin()
        self.scope = scope
        xp = array_module(place)
        if xp is np:
            keep_freed_memory()
        objects = plan.bound_objects()
        needs_threads = any(thing.needs_blas_threads for thing in objects)
        self.switch = blas_switch() if switches and not needs_threads and xp is np else None
        self.held = HeldArrays(plan, scope, xp)
        # with BLAS's own threads on, its products are not split once more
        threads = plan.plan.target.threads if self.switch is not None else 1
        self.binding = Binding(plan, self.held, lambda: Interpreter(place, scope, random, threads))
        # what other plans keep of parameters is made anew after such a run
        self.changes = bool(self.held.written) or any(thing.may_write for thing in objects)
        self.timer = plan.source.timer
        # buffers belong to one run at a time; `Executor` binds the plan once more for a second thread
        self.lock = threading.Lock()
        self._counted = 0
        """The placements of its buffers when the executor counted them."""
        self.values: Sequence[Any] | None = None
        """Of a plan for several sizes: the values of its sizes in the run at hand."""
        self.step: Callable[..., Any] | None = None
        self.runs = 0

    @property
    def nbytes(self) -> int:
        """The bytes of its buffers."""
        return self.binding.buffers.nbytes

    @property
    def is_counted(self) -> bool:
        """True if the bytes of its pool are among those that the executor has counted."""
        return self._counted == self.binding.placements

    def count(self) -> None:
        """Note that the executor counts them."""
        self._counted = self.binding.placements

    def is_of(self, scope: Scope) -> bool:
        """True if it works on the variables of this scope, by whichever of its twins."""
        return self.scope.variables is scope.variables

    def fit(self, values: Sequence[Any] | None) -> None:
        """Take other values of the plan's sizes."""
        if values is not self.values:
            self.values = values
            self.step = self.binding.find(values)

    def current(self) -> bool:
        """True if the scope still holds the arrays that this plan is bound to; binds anew where others of the
        same form are, or the sizes are others.
        """
        if self.held.may_be_old:
            are_others = self.held.look()
            if are_others is None:
                return False
            if are_others:
                self.release()
        if self.step is None:
            self.step = recorder.timed("planning", self.binding.make)(self.values)
        return True

    def release(self) -> None:
        """Let go of all steps, for who has taken the lock."""
        self.binding.release()
        self.step = None

    def run(self, arguments: Sequence[Any]) -> Any:
        """One step: (value, level of detail) for each fetch."""
        self.runs += 1
        # the 4th, 8th, 16th, ... run: nothing waits for a compiler before, and later ones are seldom due
        if self.runs >= _SETTLED_AT and not self.runs & (self.runs - 1):
            recorder.timed("waiting", settle)()
        if self.timer is not None:
            self.timer.start()
        if self.changes:
            rebinds.writes += 1
        switch = self.switch
        if switch is not None:
            switch.enter()
        assert self.step is not None, "a plan runs after `current`"
        try:
            return self.step(*arguments)
        except (EOFException, PlanError):
            raise
        except FluidError as error:
            op = self.plan.operator_at(error)
            if op is not None:
                locate(error, op)
            raise
        except Exception as error:
            # found by the line that raised: the plan keeps no account of where it is
            op = self.plan.operator_at(error)
            if op is None or is_of_user(error):
                raise
            found = specs_at(op, self._fed(arguments))
            raise KernelError.of(error, failure(error, op, found)) from error
        finally:
            if switch is not None:
                switch.leave()
            if self.timer is not None:
                self.timer.stop()

    def _fed(self, arguments: Sequence[Any]) -> dict[str, Any]:
        """The arrays of a run's feeds by name; behind some stands their level of detail."""
        rest = iter(arguments)
        found: dict[str, Any] = {}
        for name, value in self.plan.plan.feeds.items():
            found[name] = next(rest, None)
            if value.has_lod:
                next(rest, None)
        return found
