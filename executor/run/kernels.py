"""Calling one op's kernel on arrays: what the interpreter does for every op, and a plan for those it
cannot lower.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from fluidlite.base.errors import EOFException, FluidError, KernelError, SlotError, UnknownOpError, is_of_user
from fluidlite.base.place import is_device_array
from fluidlite.base.registry import EMPTY_VAR, ZERO_DIM_ATTR, Lod, Op, WithLod
from fluidlite.executor.comm.ops import arguments_of, carry_out
from fluidlite.executor.comm.transports import find_session
from fluidlite.executor.run.complexes import with_conjugates
from fluidlite.executor.run.half import in_single
from fluidlite.executor.run.located import failure, locate
from fluidlite.executor.run.operand_types import check_attributes, check_operand_types, checked_slots
from fluidlite.executor.run.team import pieces, team_of
from fluidlite.ir.operator import Operator
from fluidlite.ops.kernels.compiled_steps import CompiledSteps

__all__ = ["NO_FACTS", "CallFacts", "RunContext", "Kernel", "check_slots", "detach", "lod_sources", "unpack"]

Source = TypeVar("Source")


class CallFacts(NamedTuple):
    """Facts of a call that only the whole program tells: output slots that nobody reads, input slots of
    parameters that stay as they are, positions of inputs that are arrays of kernels' own, which nothing
    overwrites while an output may show their memory, and input slots whose arrays nobody reads any more.
    """

    unread: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    lasting: frozenset[int] = frozenset()
    spare: frozenset[str] = frozenset()


NO_FACTS = CallFacts()


class RunsBlocks(Protocol):
    """The interpreter of a run, as contexts and kernels with sub-blocks see it."""

    place: Any
    scope: Any
    random: Any
    threads: int

    def run_block(self, block: Any, frame: Any) -> None:
        """Run every op of a block in a frame."""


class RunContext:
    """Services of a run that a kernel may ask for (`fluidlite.base.registry.KernelContext`), plus the frame
    that sub-blocks run in.
    """

    def __init__(
        self,
        op: Operator,
        interpreter: RunsBlocks,
        frame: Any,
        xp: Any,
        compiled: CompiledSteps | None = None,
        facts: CallFacts = NO_FACTS,
    ) -> None:
        self.op = op
        self.xp = xp
        self.interpreter = interpreter
        self.scope = interpreter.scope
        self.place = interpreter.place
        self.random = interpreter.random
        self.threads = interpreter.threads
        self.frame = frame
        self.compiled = compiled
        self.searches = None if compiled is None else compiled.searches
        self.unread = facts.unread
        self.fixed = facts.fixed
        self.spare = facts.spare

    def share(self, count: int, task: Callable[[slice], None]) -> None:
        """Run `task` on slices that together are `count` rows, each on a thread of its own."""
        if self.threads == 1 or count < self.threads:
            task(slice(0, count))
            return
        parts = pieces(count, self.threads)
        team_of(self.threads)(lambda t: task(parts[t]))

    def rng(self, seed: int = 0) -> Any:
        """A random source: fresh and reproducible for a seed other than 0, else the run's own."""
        # in fluid a seed of 0 asks for other numbers in every run
        return np.random.default_rng(seed) if seed else self.random

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks on ring 0, in order; the value alone where this process has no such
        ring.
        """
        session = find_session(needs_servers=False)
        if session is None or 0 not in session.rings:
            return [value]
        with session.running(self.op):
            return session.ring(0).all_gather(value)


def check_slots(op: Operator) -> None:
    """SlotError where an op of a file writes by a slot that is not known here, or one of 2.x reads by one:
    what it means is lost otherwise.

    Gradient ops may be handed more than theirs read.
    """
    if op.definition is None:
        return
    if op.block.program.is_of_2x and not op.type.endswith("_grad"):
        _check_names(op, "reads", op.inputs, op.definition.inputs)
    _check_names(op, "writes", op.outputs, op.definition.outputs)


def _check_names(op: Operator, does: str, given: Mapping[str, Sequence[str]], known: Collection[str]) -> None:
    for slot, names in given.items():
        if slot not in known and any(name != EMPTY_VAR for name in names):
            raise SlotError(
                f"op {op.type!r} {does} {names} by the slot {slot!r}, which FluidLite's op does not have; it "
                f"has {sorted(known)}\n  {op.call_text()}\n  built at {op.where}"
            )


class Kernel:
    """The kernel of one Operator with its attributes bound: `kernel(context, values, lods)` by slot."""

    def __init__(self, op: Operator) -> None:
        definition = op.definition
        if definition is None:
            raise UnknownOpError(f'Operator "{op.type}" has not been registered.\n  built at {op.where}')
        if definition.compute is None and not definition.communicates:
            raise UnknownOpError(f"Operator {op.type!r} has no kernel\n  built at {op.where}")
        check_slots(op)
        self.op = op
        self.definition = definition
        check_attributes(op)
        self.unchecked = checked_slots(op)
        """The input slots of certain types, until the first call has found the types right."""
        self.function: Callable[..., Any] = carry_out
        if definition.compute is not None:
            self.function = with_conjugates(op, in_single(op, definition.compute))
        if op.attrs.get(ZERO_DIM_ATTR):
            self.function = self._without_dims(self.function, op.attrs[ZERO_DIM_ATTR])
        self.arguments = definition.arguments["kernel"] if definition.compute else arguments_of(definition)
        # attributes are looked up once, not at each call
        self.constants = {
            name: op.value_for_kernels(key) for name, kind, key in self.arguments if kind == "attr"
        }
        self.constants.update({name: self.wants() for name, kind, _ in self.arguments if kind == "wants"})

    def _without_dims(self, function: Callable[..., Any], slots: Sequence[str]) -> Callable[..., Any]:
        """`function`, with the one number in each of the output slots in the shape []."""

        def call(**arguments: Any) -> dict[str, Any]:
            returned = self.definition.by_slot(function(**arguments))
            for slot in slots:
                value, _ = unpack(returned.get(slot))
                if value is not None:
                    returned[slot] = value.reshape(())
            return returned

        return call

    def wants(self) -> frozenset[str]:
        """Output slots that name a variable."""
        return frozenset(
            slot for slot, names in self.op.outputs.items() if any(name != EMPTY_VAR for name in names)
        )

    def __call__(
        self, context: RunContext, values: Mapping[str, list[Any]], lods: Mapping[str, list[Lod]]
    ) -> dict[str, list[Any]]:
        """Values (or `WithLod`s) of the outputs by slot, one for each name; None where a value was not
        computed.
        """
        arguments = dict(self.constants)
        for name, kind, key in self.arguments:
            if kind in ("in", "out"):  # an output slot gives the value that it will replace
                arguments[name] = _slot_value(self.definition, key, values)
            elif kind == "lod":
                # one for each value of the slot, and at least one, which an empty slot hands to the kernel
                found = lods.get(key) or [()] * max(1, len(values.get(key) or ()))
                arguments[name] = found if self.definition.inputs[key].many else found[0]
            elif kind == "xp":
                arguments[name] = context.xp
            elif kind == "ctx":
                arguments[name] = context
        try:
            if self.unchecked:
                self.check_types(values)
            returned = self.function(**arguments)
        except EOFException:
            raise
        except FluidError as error:
            locate(error, self.op)
            raise
        except Exception as error:
            if is_of_user(error):
                raise
            raise KernelError.of(error, self.failure(error, values)) from error
        return self.listed(returned)

    def check_types(self, values: Mapping[str, list[Any]]) -> None:
        """KernelError where values, by slot, have data types that the op does not take."""
        found = [
            (slot, name, getattr(value, "dtype", None))
            for slot, names in self.op.inputs.items()
            for name, value in zip(names, values.get(slot, ()), strict=False)
            if slot in self.unchecked
        ]
        check_operand_types(self.op, found)
        self.unchecked = ()

    def listed(self, returned: Any) -> dict[str, list[Any]]:
        """The values that the kernel returned, as a list for each output slot."""
        definition = self.definition
        return {
            slot: list(value) if definition.outputs[slot].many else [value]
            for slot, value in definition.by_slot(returned).items()
            if value is not None
        }

    def failure(self, error: Exception, values: Mapping[str, list[Any]]) -> str:
        """The message for an exception inside the kernel: op, shapes found, the user's line."""
        return failure(error, self.op, values)


def _slot_value(definition: Op, slot: str, values: Mapping[str, list[Any]]) -> Any:
    found = values.get(slot)
    if (definition.inputs.get(slot) or definition.outputs[slot]).many:
        return found or []
    return found[0] if found else None


def lod_sources(outputs: Sequence[str], sources: Sequence[Source]) -> dict[str, Source]:
    """Of each output of an op's first slot, the member of `sources` (one for each variable of the input slot
    that the op's `lod` names) whose level of detail it takes: its partner's where both slots hold equally
    many, as in a request for the rows of several lookups, else the first's. Empty without sources.
    """
    if not sources:
        return {}
    pairs = sources if len(outputs) == len(sources) else [sources[0]] * len(outputs)
    return dict(zip(outputs, pairs, strict=True))


def unpack(value: Any) -> tuple[Any, Lod | None]:
    """A kernel's output as (value, level of detail or None)."""
    value, lod = (value.value, value.lod) if isinstance(value, WithLod) else (value, None)
    # arithmetic on arrays of the shape [] gives NumPy's scalars, which cannot be written to
    return (np.asarray(value) if isinstance(value, np.generic) else value), lod


def detach(value: Any, inputs: Sequence[Any]) -> Any:
    """`value`, copied where it shows the memory of an input, which may be used for something else or change
    later.

    Views of one array have it as their base, however they were made, so that comparing identities finds all
    candidates.
    """
    if type(value) is np.ndarray:
        shared: Callable[[Any, Any], bool] = np.may_share_memory
    elif is_device_array(value):
        shared = _may_share_device_memory
    else:
        return value
    owner = value.base if value.base is not None else value
    for item in inputs:
        if (item is owner or getattr(item, "base", None) is owner) and (item is value or shared(value, item)):
            return value.copy()
    return value


def _may_share_device_memory(first: Any, second: Any) -> bool:
    """True if the bytes between the first and the last element of two arrays on a device overlap."""
    if not first.size or not second.size:
        return False
    (low, high), (start, stop) = map(_device_bounds, (first, second))
    return low < stop and start < high


def _device_bounds(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the one behind its last."""
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    start = array.data.ptr
    return start + sum(step for step in steps if step < 0), start + array.itemsize + sum(
        step for step in steps if step > 0
    )
