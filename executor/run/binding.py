"""The things that the source of a plan works on, in one scope, and the step that it makes of them."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import FluidError, KernelError, ShapeError
from fluidlite.base.process import without_collector
from fluidlite.executor.plan.objects import BindContext, FreshTable
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.sizes import Made
from fluidlite.executor.plan.steps import flat
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.executor.run import cuda
from fluidlite.executor.run.buffers import Buffers
from fluidlite.executor.run.capture import obstacles
from fluidlite.executor.run.held import HeldArrays
from fluidlite.executor.run.interpreter import Interpreter
from fluidlite.executor.run.located import locate
from fluidlite.executor.run.meanings import Meanings, ShownAs, renamed

__all__ = ["Binding"]

# Sizes whose step is kept as it is. Binding one anew costs 0.2 to 10 ms; keeping it 0.3 MB of scratch memory,
# for six convolutions beside 250 MB of the plan.
MAX_STEPS = 64


class Binding:
    """The names of a plan's source: its buffers, the arrays that a scope holds, objects of its own.

    Objects that run portable kernels get an `interpreter` each time.
    """

    def __init__(self, plan: CompiledPlan, held: HeldArrays, interpreter: Callable[[], Interpreter]) -> None:
        self.plan = plan
        self.held = held
        self.xp = held.xp
        self.interpreter = interpreter
        layout = plan.plan.layout
        assert layout is not None
        self.buffers = Buffers(layout, self.xp)
        self.placements = 0
        """How often the buffers were given places."""
        self._all = Meanings.of(plan.source)
        self._names: dict[str, Any] | None = None
        self._steps = _Steps()
        """Of the last few sizes, over one pool."""
        self._tables: dict[FreshTable, Any] = {}
        """The last objects that hold addresses in that pool."""

    @functools.cached_property
    def _varying(self) -> Meanings:
        """The names that differ between sizes: looked for when the second size comes."""
        return self._all.varying()

    def find(self, values: Sequence[Any] | None) -> Callable[..., Any] | None:
        """The step for such values of the plan's sizes, where there is one."""
        return self._steps.find(values)

    def release(self) -> None:
        """Let go of all steps."""
        self._steps.clear()
        self._tables.clear()
        self._names = None

    def make(self, values: Sequence[Any] | None) -> Callable[..., Any]:
        """A new step for such values of the plan's sizes."""
        # not for later sizes: what the program around has made since would be old each time, too
        with contextlib.nullcontext() if self._names is not None else without_collector():
            names = self._named(values)
            exec(self.plan.code, names)
            step: Callable[..., Any] = names["step"]
            if self.xp is not np:
                # what was captured before is worth nothing: a graph holds the addresses of the old arrays
                kind = cuda.LaunchedStep if obstacles(self.plan) else cuda.CapturedStep
                step = kind(self.xp, step)
            self._steps.keep(values, step, names)
        return step

    def _named(self, values: Sequence[Any] | None) -> dict[str, Any]:
        """All names with what they stand for."""
        # what was bound to other places would read and write what is no longer its own
        if not self._place(values) and self._names is not None:
            others = dict(self._names)
            self._add(others, self._varying, values or ())
            return others
        self._steps.clear()
        self._tables.clear()
        self.placements += 1
        names: dict[str, Any] = {"load": self.held.load, "store": self.held.store}
        names.update({name: getattr(self._module, name) for name in self.plan.source.functions})
        self._add(names, self._all, values or ())
        # of one size there will be no other step
        self._names = names if values is None else dict(names)
        return names

    def _place(self, values: Sequence[Any] | None) -> bool:
        """Make room for the buffers; KernelError, which names the op of the largest, where there is none."""
        try:
            return self.buffers.place(values)
        # NumPy says of far too much that it is no size
        except (MemoryError, ValueError, OverflowError) as error:
            value, size = self.buffers.largest()
            found = KernelError(
                f"there is no memory for the values of this run: {value.name or 'a temporary'} alone, the "
                f"largest, takes {size} bytes ({error})"
            )
            raise self._located(found, value) from error

    @functools.cached_property
    def _module(self) -> Any:
        return np if self.xp is np else cuda.Namespace(self.xp)

    def _add(self, names: dict[str, Any], meanings: Meanings, values: Sequence[Any]) -> None:
        """Add what some names in the source stand for."""
        context = BindContext(
            self._module, self.xp is np, self.interpreter(), values, self.buffers, self._tables
        )
        for name, thing in meanings.bound:
            names[name] = thing.bind(context)
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
        name = value.root.name or "a value"
        found = ShapeError(f"the sizes of {name} and of the values computed from it do not match ({error})")
        return self._located(found, value)

    def _located(self, found: FluidError, value: Value) -> FluidError:
        """An error with the op that writes a value."""
        steps = flat(self.plan.plan.steps)
        # a buffer may be written through views alone
        writers = (step.op for step in steps if any(value in (each, each.root) for each in step.writes))
        op = next((op for op in writers if op is not None), None)
        if op is not None:
            locate(found, op)
        return found


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
