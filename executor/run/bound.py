"""A compiled plan with its buffers, and with the arrays of one scope."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import EOFException, FluidError, KernelError, UninitializedError
from fluidlite.base.place import Place, array_module
from fluidlite.executor.plan.actions import Fresh, FreshDraws, HostCheck
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.steps import flat
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.executor.run import cuda
from fluidlite.executor.run.blas import blas_switch
from fluidlite.executor.run.calls import BlockCall, KernelCall
from fluidlite.executor.run.interpreter import Interpreter
from fluidlite.executor.run.memory import keep_freed_memory
from fluidlite.executor.run.timing import OpTimer
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, on, rebinds

__all__ = ["BoundPlan"]

ALIGN = 64  # bytes: a line of the cache


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
        is_single = not any(isinstance(thing, KernelCall) and "conv" in thing.op.type for thing in objects)
        # BLAS's own threads are switched off, but for portable convolutions, which know no team
        self.switch = blas_switch() if switches and is_single and self.xp is np else None
        # what other plans keep of parameters is made anew after such a run
        self.changes = any(map(_may_write, objects)) or any(
            value.root.storage is Storage.PARAM for step in flat(plan.plan.steps) for value in step.writes
        )
        self.timer = next((thing for thing in objects if isinstance(thing, OpTimer)), None)
        # buffers belong to one run at a time; `Executor` binds the plan once more for a second thread
        self.lock = threading.Lock()
        self.buffers = self._buffers()
        self.arrays: dict[str, Any] = {}
        self.seen = -1
        self.step: Callable[..., Any] = lambda: ()

    def _buffers(self) -> dict[Value, Any]:
        """The views of the pool that the source names; zeroed so that a first in-place read is no NaN by
        chance.
        """
        layout = self.plan.plan.layout
        assert layout is not None
        # one line more than needed: NumPy promises no alignment of the first byte
        pool = self.xp.zeros(layout.pool_bytes + ALIGN, dtype=np.uint8)
        start = (-pool.ctypes.data) % ALIGN if self.xp is np else 0
        views = {}
        for value, offset in layout.offsets.items():
            piece = pool[start + offset : start + offset + value.nbytes]
            views[value] = piece.view(value.dtype).reshape(value.shape)
        return views

    def current(self) -> bool:
        """True if the scope still holds the arrays that this plan is bound to; binds anew where others of the
        same form are.
        """
        # one comparison a run: every tensor that gets another array counts up
        if self.seen == rebinds.count:
            return True
        # an input that the op did without when the plan was made is there now: the plan would leave it out
        absent = map(self.scope.find_var, self.plan.plan.absent)
        if any(held is not None and held.is_initialized() for held in absent):
            return False
        arrays = {name: self._array(name) for name in self.plan.params}
        if any(arrays[name] is not self.arrays.get(name) for name in arrays) or self.seen < 0:
            # another shape: the executor makes another plan
            if not self._fits(arrays):
                return False
            self._bind(arrays)
        self.seen = rebinds.count
        return True

    def _array(self, name: str) -> Any:
        """The array of a persistable variable."""
        held = self.scope.find_var(name)
        if held is None or not isinstance(held.value, LoDTensor) or held.value.array is None:
            raise UninitializedError(
                f"variable {name!r} holds no value any more; run the startup program or load it"
            )
        array = on(self.xp, held.value.array)
        if array is not held.value.array:
            held.value.array = array  # set from the host: moves to where this plan runs
        return array

    def _fits(self, arrays: Mapping[str, Any]) -> bool:
        return all(
            arrays[value.name].shape == value.shape and arrays[value.name].dtype == value.dtype
            for value in self.plan.values
            if value.storage is Storage.PARAM
        )

    def _bind(self, arrays: dict[str, Any]) -> None:
        namespace = self._namespace(arrays)
        exec(self.plan.code, namespace)
        step = namespace["step"]
        # what was captured before is worth nothing: a graph holds the addresses of the old arrays
        self.step = cuda.CapturedStep(self.xp, step) if self.xp is not np and self._capturable() else step
        self.arrays = arrays

    def _namespace(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The things that the names in the source stand for."""
        source = self.plan.source
        module = np if self.xp is np else cuda.Namespace(self.xp)
        # with BLAS's own threads on, its products are not split once more
        threads = self.plan.plan.target.threads if self.switch is not None else 1
        interpreter = Interpreter(self.place, self.scope, self.random, threads)
        names: dict[str, Any] = {"load": self._load, "store": self._store}
        names.update({name: getattr(module, name) for name in source.functions})
        names.update({name: _own(thing, interpreter) for name, thing in source.bound.items()})
        names.update({name: module.full(shape, number, kind) for name, number, kind, shape in source.numbers})
        arrays: dict[Value, Any] = {}
        for name, value in source.values:
            arrays[value] = names[name] = self._fixed(value, params, arrays)
        return names

    def _fixed(self, value: Value, params: Mapping[str, Any], arrays: Mapping[Value, Any]) -> Any:
        """The array of a value that is the same at every step; `arrays` holds what views show."""
        if value.base is not None:
            assert value.view is not None
            return value.view.of(arrays[value.base])
        if value.storage is Storage.PARAM:
            return params[value.name]
        return self.xp.asarray(value.constant) if value.storage is Storage.CONST else self.buffers[value]

    def _capturable(self) -> bool:
        """True if nothing in the plan needs the host, so that a graph can hold it."""
        if any(isinstance(thing, (KernelCall, BlockCall)) for thing in self.plan.bound_objects()):
            return False
        if any(value.storage in (Storage.LOCAL, Storage.FRESH) for value in self.plan.values):
            return False
        return all(step.body is None for step in flat(self.plan.plan.steps))

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
        bound = self.arrays.get(name)  # a later step may write to it in place
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
        if self.timer is not None:
            self.timer.start()
        if self.changes:
            rebinds.writes += 1
        switch = self.switch
        if switch is not None:
            switch.enter()
        try:
            return self.step(*arguments)
        # these name the op already
        except (FluidError, EOFException):
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


def _may_write(thing: Any) -> bool:
    """True if a bound object may write to persistable variables by itself."""
    if isinstance(thing, KernelCall):
        return bool(thing.kernel.definition.updates)
    return isinstance(thing, BlockCall)


def _own(thing: Any, interpreter: Interpreter) -> Any:
    """The object that one binding uses for a bound one: calls get its scope, objects with scratch state are
    made for it.
    """
    if isinstance(thing, FreshDraws):
        return thing.drawing(interpreter.xp, interpreter.random)
    if isinstance(thing, Fresh):
        return thing.make(interpreter.xp)
    if isinstance(thing, HostCheck) and interpreter.xp is not np:
        return _no_check
    if isinstance(thing, cuda.FusedKernel):
        thing.compile(interpreter.xp)
    if isinstance(thing, (KernelCall, BlockCall)):
        # a copy for each binding: the bound object belongs to the plan, which several scopes may share
        thing = copy.copy(thing)
        thing.bind(interpreter)
        return thing.call
    return thing


def _no_check(values: Any) -> None:
    """Checks that need values on the host are left out on a device."""
