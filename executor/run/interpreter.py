"""The naive interpreter: one op at a time, a fresh array per result. It defines what a program means."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import NotFoundError, UninitializedError, did_you_mean
from fluidlite.base.gradient_names import variable_of
from fluidlite.base.place import Place, array_module
from fluidlite.base.registry import EMPTY_VAR, Lod
from fluidlite.executor.run.finite import FiniteCheck
from fluidlite.executor.run.kernels import Kernel, RunContext, detach, lod_sources, unpack
from fluidlite.ir.block import Block
from fluidlite.ir.buffer_order import ops_to_run
from fluidlite.ir.operator import Operator
from fluidlite.profiler import recorder
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, on

__all__ = ["Frame", "Interpreter", "missing", "not_fetched"]


class Frame:
    """The values of one run of a block: persistable variables live in the scope, others here, outer ones in
    the parent.

    `forward` is the frame of the run whose gradient this one computes: its values are seen before the
    parent's. `own` are names that belong here although the block does not declare them.
    """

    def __init__(
        self,
        block: Block,
        scope: Scope,
        parent: Frame | None = None,
        forward: Frame | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.block = block
        self.scope = scope
        self.parent = parent
        self.forward = forward
        self.own = own
        self.values: dict[str, Any] = {}
        self.lods: dict[str, Lod] = {}

    def _owner(self, name: str) -> Frame:
        """The frame whose block declares `name`; this one where none does."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values or name in frame.own or name in frame.block.vars:
                return frame
            # a gradient block that writes to variables of the step that it belongs to (a counter that it
            # counts back) neither changes the outer ones nor the step, which another gradient may read
            past = frame.forward
            if past is not None and (name in past.values or name in past.block.vars):
                return frame
            frame = frame.parent
        return self

    def _persistable(self, name: str) -> bool:
        var = self.block._find_var_recursive(name)
        return var is not None and var.persistable

    def find(self, name: str) -> Any:
        """The value of `name`, or None where nothing has written it."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            if frame.forward is not None and name in frame.forward.values:
                return frame.forward.values[name]
            if name in frame.own or (name in frame.block.vars and not frame.block.vars[name].persistable):
                break
            frame = frame.parent
        held = self.scope.find_var(name)
        if held is None or held.value is None:
            return None
        return held.value.array if isinstance(held.value, LoDTensor) else held.value

    def lod(self, name: str) -> Lod:
        """The level of detail of `name`."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.lods.get(name, ())
            if frame.forward is not None and name in frame.forward.values:
                return frame.forward.lods.get(name, ())
            frame = frame.parent
        held = self.scope.find_var(name)
        return held.value._lod if held is not None and isinstance(held.value, LoDTensor) else ()

    def set(self, name: str, value: Any, lod: Lod | None = None) -> None:
        """Write `name` where it is declared."""
        if self._persistable(name):
            held = self.scope.find_var(name) or self.scope.var(name)
            old = held.value.array if isinstance(held.value, LoDTensor) else None
            if old is None or not _fits_into(value, old):
                held.set(value)
            elif old is not value:
                # in place: plans are bound to the array
                old[...] = value
            if lod is not None and isinstance(held.value, LoDTensor):
                held.value._lod = lod
            return
        owner = self._owner(name)
        owner.values[name] = value
        if lod is not None:
            owner.lods[name] = lod

    def child(self, block: Block, forward: Frame | None = None, own: frozenset[str] = frozenset()) -> Frame:
        """A frame for a sub-block of this one."""
        return Frame(block, self.scope, self, forward, own)


def _fits_into(value: Any, array: Any) -> bool:
    """True if `value` can be written into an array of the same shape and dtype; what `fake_init` makes has
    no elements of its own.
    """
    if not hasattr(value, "shape") or array.shape != value.shape or array.dtype != value.dtype:
        return False
    return bool(getattr(array.flags, "writeable", True))


class Interpreter:
    """Runs blocks op by op on one place."""

    def __init__(self, place: Place, scope: Scope, random: Any, threads: int = 1) -> None:
        self.place = place
        self.scope = scope
        self.random = random
        self.threads = threads
        self.xp = array_module(place)
        self.kernels: dict[int, Kernel] = {}
        self.check: FiniteCheck | None = None

    def run_block(self, block: Block, frame: Frame, ops: Sequence[Operator] | None = None) -> None:
        """Run every op of `block` in `frame`, or those of its ops that are given."""
        for op in ops_to_run(block) if ops is None else ops:
            if not recorder.active:
                self.run_op(op, frame)
                continue
            # ops of sub-blocks record themselves while this one runs
            before, start = recorder.recorded, time.perf_counter()
            self.run_op(op, frame)
            recorder.record(op.type, str(op.where), start, time.perf_counter(), before)

    def kernel(self, op: Operator) -> Kernel:
        """The op's kernel, made once."""
        found = self.kernels.get(id(op))
        # an id comes back after its op was collected
        if found is None or found.op is not op:
            found = self.kernels[id(op)] = Kernel(op)
        return found

    def run_op(self, op: Operator, frame: Frame) -> None:
        """Run one op: read its inputs from the frame, write its outputs back."""
        kernel = self.kernel(op)
        values = {
            slot: [self._read(op, slot, name, frame) for name in names] for slot, names in op.inputs.items()
        }
        # ops that write one entry of an array read the array that they are about to change
        values.update(
            (slot, [frame.find(name) for name in op.output(slot)]) for slot in kernel.definition.updates
        )
        lods = {slot: [frame.lod(name) for name in names] for slot, names in op.inputs.items()}
        returned = kernel(RunContext(op, self, frame, self.xp), values, lods)
        first = op.outputs.get(next(iter(kernel.definition.outputs), ""), ())
        shared = lod_sources(first, lods.get(op.lod_slot, ()))
        in_place = [
            value
            for slot, names in op.inputs.items()
            for name, value in zip(names, values[slot], strict=True)
            if name != EMPTY_VAR and frame._persistable(name)
        ]
        for slot, names in op.outputs.items():
            for name, item in zip(names, returned.get(slot, ()), strict=False):
                value, lod = unpack(item)
                value = detach(value, in_place)  # a later op changes the array of a persistable variable
                if value is not None and name != EMPTY_VAR:
                    if self.check is not None:
                        self.check(op, name, value)
                    if lod is None:
                        lod = shared[name] if name in shared else _like_variable(name, frame)
                    frame.set(name, value, lod)

    def _read(self, op: Operator, slot: str, name: str, frame: Frame) -> Any:
        if name == EMPTY_VAR:
            return None
        value = frame.find(name)
        if value is None and not self._may_be_missing(op, slot, name):
            raise missing(op, slot, name, frame.block)
        return on(self.xp, value)

    @staticmethod
    def _may_be_missing(op: Operator, slot: str, name: str) -> bool:
        definition = op.definition
        assert definition is not None
        return definition.may_lack(slot) or name in op.output_arg_names


def _like_variable(name: str, frame: Frame) -> Lod:
    """The level of detail of a gradient is that of its variable."""
    forward = variable_of(name)
    return frame.lod(forward) if forward != name else ()


def missing(op: Operator, slot: str, name: str, block: Block) -> UninitializedError | NotFoundError:
    """The error for a variable that nobody wrote: it says what to do, and where the op was built."""
    var = block._find_var_recursive(name)
    where = f"\n  {op.call_text()}\n  built at {op.where}"
    if var is None:
        known = list(block.visible_names())
        return NotFoundError(
            f"op {op.type!r}: the program has no variable {name!r} (slot {slot}){did_you_mean(name, known)}"
            f"{where}"
        )
    if var.persistable:
        return UninitializedError(
            f"op {op.type!r}: variable {name!r} holds no value; run the startup program "
            f"(exe.run(fluid.default_startup_program())) or load it first{where}"
        )
    hint = "feed it" if var.is_data else "no op before this one writes it"
    return UninitializedError(f"op {op.type!r}: variable {name!r} holds no value: {hint}{where}")


def not_fetched(block: Block, name: str) -> UninitializedError | NotFoundError:
    """The error for a fetch of what no op writes."""
    var = block._find_var_recursive(name)
    if var is None:
        hint = did_you_mean(name, list(block.visible_names()))
        return NotFoundError(f"cannot fetch {name!r}: the program has no such variable{hint}")
    return UninitializedError(
        f"cannot fetch {name!r}: no op of the program writes it and the scope holds no value for it"
    )
