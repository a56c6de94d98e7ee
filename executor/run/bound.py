"""A compiled plan with its buffers, and with the arrays of one scope."""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import EOFException, FluidError, KernelError, ShapeError
from fluidlite.base.place import Place, array_module
from fluidlite.executor.cuda.elementwise import FusedKernel
from fluidlite.executor.plan.actions import Fresh, FreshDraws
from fluidlite.executor.plan.declared import HostCheck
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.sizes import Made
from fluidlite.executor.plan.steps import flat
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.executor.run import cuda
from fluidlite.executor.run.blas import blas_switch
from fluidlite.executor.run.buffers import Buffers
from fluidlite.executor.run.calls import BlockCall, KernelCall
from fluidlite.executor.run.capture import is_alone, obstacles
from fluidlite.executor.run.held import HeldArrays
from fluidlite.executor.run.interpreter import Interpreter
from fluidlite.executor.run.located import locate
from fluidlite.executor.run.meanings import Meanings, ShownAs, renamed
from fluidlite.executor.run.memory import keep_freed_memory, without_collector
from fluidlite.executor.run.pending import settle
from fluidlite.executor.run.timing import OpTimer
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, rebinds

__all__ = ["BoundPlan"]

_SETTLED_AT = 4  # the first run that waits for compiled code
# Sizes whose step is kept as it is. Binding one anew costs 0.2 to 10 ms; keeping it 0.3 MB of scratch memory,
# for six convolutions beside 250 MB of the plan.
MAX_STEPS = 64


class BoundPlan:
    """`run(arguments)` is one step of the plan on the arrays of `scope`."""

    def __init__(
        self, plan: CompiledPlan, scope: Scope, place: Place, random: Any, switches: bool = True
    ) -> None:
        self.plan = plan
        self.scope = scope
        self.place = place
        self.random = random
        self.xp = array_module(place)
        if self.xp is np:
            keep_freed_memory()
        objects = plan.bound_objects()
        calls = [thing for thing in objects if isinstance(thing, KernelCall)]
        needs_threads = any(call.kernel.definition.blas_threads for call in calls)
        self.switch = blas_switch() if switches and not needs_threads and self.xp is np else None
        self.held = HeldArrays(plan, scope, self.xp)
        # what other plans keep of parameters is made anew after such a run
        self.changes = bool(self.held.written) or any(map(_may_write, objects))
        self.timer = next((thing for thing in objects if isinstance(thing, OpTimer)), None)
        # buffers belong to one run at a time; `Executor` binds the plan once more for a second thread
        self.lock = threading.Lock()
        layout = plan.plan.layout
        assert layout is not None
        self.buffers = Buffers(layout, self.xp)
        self.is_counted = False
        """True if the bytes of its pool are among those that the executor has counted."""
        self.values: Sequence[Any] | None = None
        """Of a plan for several sizes: the values of its sizes in the run at hand."""
        self.step: Callable[..., Any] | None = None
        self.runs = 0
        source = plan.source
        self._all = Meanings.of(source)
        self._names: dict[str, Any] | None = None
        self._steps = _Steps()
        """Of the last few sizes, over one pool."""

    @functools.cached_property
    def _varying(self) -> Meanings:
        """The names that differ between sizes: looked for when the second size comes."""
        return self._all.varying()

    @property
    def nbytes(self) -> int:
        """The bytes of its buffers."""
        return self.buffers.nbytes

    def fit(self, values: Sequence[Any] | None) -> None:
        """Take other values of the plan's sizes."""
        if values is not self.values:
            self.values = values
            self.step = self._steps.find(values)

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
            # not for later sizes: what the program around has made since would be old each time, too
            with contextlib.nullcontext() if self._names is not None else without_collector():
                self._bind()
        return True

    def release(self) -> None:
        """Let go of all steps, for who has taken the lock."""
        self._steps.clear()
        self._names = None
        self.step = None

    def _bind(self) -> None:
        # what was bound to other places would read and write what is no longer its own
        if self.buffers.place(self.values) or self._names is None:
            self._steps.clear()
            self.is_counted = False
            names: dict[str, Any] = {"load": self._load, "store": self._store}
            names.update({name: getattr(self._module, name) for name in self.plan.source.functions})
            self._add(names, self._all)
            # of one size there will be no other step
            self._names = names if self.values is None else dict(names)
        else:
            names = dict(self._names)
            self._add(names, self._varying)
        exec(self.plan.code, names)
        step = names["step"]
        if self.xp is np:
            self.step = step
        else:
            # what was captured before is worth nothing: a graph holds the addresses of the old arrays
            kind = cuda.LaunchedStep if obstacles(self.plan) else cuda.CapturedStep
            self.step = kind(self.xp, step)
        self._steps.keep(self.values, self.step, names)

    @functools.cached_property
    def _module(self) -> Any:
        return np if self.xp is np else cuda.Namespace(self.xp)

    def _add(self, names: dict[str, Any], meanings: Meanings) -> None:
        """Add what some names in the source stand for."""
        values = self.values or ()
        # with BLAS's own threads on, its products are not split once more
        threads = self.plan.plan.target.threads if self.switch is not None else 1
        interpreter = Interpreter(self.place, self.scope, self.random, threads)
        for name, thing in meanings.bound:
            names[name] = _own(thing, interpreter, self._module, values)
        for name, size in meanings.sizes:
            names[name] = size.given(values)
        for name, number, kind in meanings.numbers:
            shape, known = number.given(values)
            names[name] = self._module.full(shape, known, kind)
        forms = [form.given(values) for form in meanings.forms]
        for name, value, form in meanings.held:
            names[name] = self._held(value, forms[form])
        names.update(self.buffers.arrays(meanings.buffers))
        self._show(names, meanings.views, forms)
        for name, group in meanings.groups:
            names[name] = renamed(group, names)

    def _show(self, names: dict[str, Any], views: Iterable[ShownAs], forms: Sequence[Any]) -> None:
        """Add views of what has a name."""
        try:
            for name, base, show, form in views:
                names[name] = show(names[base], forms[form])
        except ValueError as error:
            # sizes of these feeds contradict each other: names that are half made serve no other feeds
            self._names = None
            raise self._misfit(dict(self.plan.source.values)[name], error) from error

    def _held(self, value: Value, arguments: Any) -> Any:
        """The object for a persistable variable or a constant; `arguments` are those of the function that
        makes one.
        """
        if value.storage is Storage.PARAM:
            return self.held.arrays[value.name]
        if value.storage is Storage.TENSOR:
            return self.held.tensors[value.name]
        if isinstance(value.constant, Made):
            return self.xp.asarray(value.constant.function(*arguments))
        return self.xp.asarray(value.constant)

    def _misfit(self, value: Value, error: ValueError) -> FluidError:
        """The error for a view that sizes of the feeds at hand do not allow, with its op."""
        steps = (step for step in flat(self.plan.plan.steps) if value in step.writes)
        op = next((step.op for step in steps if step.op is not None), None)
        name = value.root.name or "a value"
        found = ShapeError(f"the sizes of {name} and of what is computed with it do not fit ({error})")
        if op is not None:
            locate(found, op)
        return found

    def _load(self, name: str) -> tuple[Any, Any]:
        """The value in the scope of a persistable variable that is no plain array, with its level of
        detail.
        """
        held = self.scope.find_var(name)
        if held is None:
            return None, ()
        if isinstance(held.value, LoDTensor):
            return held.value.array, held.value._lod
        return held.value, ()

    def _store(self, name: str, value: Any, lod: Any = None) -> None:
        """Give a persistable variable another array (or a list, or SelectedRows)."""
        held = self.scope.find_var(name) or self.scope.var(name)
        rebinds.writes += 1
        bound = self.held.arrays.get(name)  # a later step may write to it in place
        if bound is not None and getattr(value, "shape", None) == bound.shape and value.dtype == bound.dtype:
            bound[...] = value
        elif isinstance(value, (list, SelectedRows)) or not hasattr(value, "copy"):
            held.set(value)
        else:
            held.set(value.copy())
        if lod is not None and isinstance(held.value, LoDTensor):
            held.value._lod = lod

    def run(self, arguments: Sequence[Any]) -> Any:
        """One step: (value, level of detail) for each fetch."""
        self.runs += 1
        # the 4th, 8th, 16th, ... run: nothing waits for a compiler before, and later ones are seldom due
        if self.runs >= _SETTLED_AT and not self.runs & (self.runs - 1):
            settle()
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
        except EOFException:
            raise
        except FluidError as error:
            op = self.plan.operator_at(error)
            if op is not None:
                locate(error, op)
            raise
        except Exception as error:
            # found by the line that raised: the plan keeps no account of where it is
            op = self.plan.operator_at(error)
            if op is None:
                raise
            raise KernelError(
                f"op {op.type!r}: {error} ({type(error).__name__})\n  {op.call_text()}\n  built at {op.where}"
            ) from error
        finally:
            if switch is not None:
                switch.leave()


class _Steps:
    """The steps for the sizes that came last, each with the names that it knows.

    A step and its names hold each other, and Python's collector looks at old objects so seldom that batches
    of ever new sizes would fill the memory. So the names of a step that is dropped are forgotten at once.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], tuple[Callable[..., Any], dict[str, Any]]] = OrderedDict()

    def find(self, values: Sequence[Any] | None) -> Callable[..., Any] | None:
        """The step for such values of the sizes, where there is one."""
        key = tuple(values or ())
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def keep(self, values: Sequence[Any] | None, step: Callable[..., Any], names: dict[str, Any]) -> None:
        """Take a step, and drop the one that was not asked for longest."""
        self._kept[tuple(values or ())] = step, names
        if len(self._kept) > MAX_STEPS:
            _, (_, dropped) = self._kept.popitem(last=False)
            dropped.clear()

    def clear(self) -> None:
        """Drop all steps."""
        for _, names in self._kept.values():
            names.clear()
        self._kept.clear()


def _may_write(thing: Any) -> bool:
    """True if a bound object may write to persistable variables by itself."""
    if isinstance(thing, KernelCall):
        return bool(thing.kernel.definition.updates)
    return isinstance(thing, BlockCall)


def _own(thing: Any, interpreter: Interpreter, xp: Any, values: Sequence[Any]) -> Any:
    """The object that one binding uses for a bound one: calls get its scope, objects with scratch state are
    made for it, of the array module `xp`, with such values of sizes.
    """
    if isinstance(thing, FreshDraws):
        return thing.factory(xp, interpreter.random, *thing.given(values))
    if isinstance(thing, Fresh):
        return thing.factory(xp, *thing.given(values))
    if isinstance(thing, HostCheck) and xp is not np:
        return _no_check
    if isinstance(thing, FusedKernel):
        thing.compile(xp)
    # a copy for each binding: the bound object belongs to the plan, which several scopes may share
    if isinstance(thing, KernelCall) and xp is not np and is_alone(thing):
        return copy.copy(thing).bind(interpreter, xp.for_kernels)
    if isinstance(thing, (KernelCall, BlockCall)):
        return copy.copy(thing).bind(interpreter)
    return thing


def _no_check(values: Any) -> None:
    """Checks that need values on the host are left out on a device."""
