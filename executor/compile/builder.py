"""The first half of compiling: a block's ops become steps over values, each op by its lowering rule or by its
kernel.

`PlanBuilder` is written to through its public methods alone: lowering rules reach it through `Emitter`, the
writers of loops and branches through `fluidlite.executor.compile.blocks.Body`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from fluidlite.base.dtypes import VarType, to_numpy, to_vartype
from fluidlite.base.errors import EnforceNotMet, FluidError
from fluidlite.base.gradient_names import variable_of
from fluidlite.base.registry import EMPTY_VAR, Spec
from fluidlite.executor.compile.call_facts import facts_of
from fluidlite.executor.compile.dynamic_shapes import as_planned, data_dependent
from fluidlite.executor.compile.emitter import CannotLower, Emitter
from fluidlite.executor.compile.frozen import changed_by
from fluidlite.executor.compile.level import Level
from fluidlite.executor.compile.lowering import rule_for
from fluidlite.executor.compile.saved import SavedForBackward
from fluidlite.executor.cuda.recurrences import DeviceRecurrences
from fluidlite.executor.fast.loops.halves import converts_halves
from fluidlite.executor.fast.loops.recurrences import Recurrences
from fluidlite.executor.plan.actions import (
    Action,
    Assign,
    Bound,
    Call,
    Function,
    LodOf,
    Operand,
    Out,
    ScopeFunction,
    When,
)
from fluidlite.executor.plan.plan import FeedSpec, Plan, Remark, Target
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value, ValueFactory
from fluidlite.executor.run.calls import Absent, BlockCall, KernelCall
from fluidlite.executor.run.complexes import has_complex, is_complex
from fluidlite.executor.run.half import computes_in_single, has_half
from fluidlite.executor.run.interpreter import missing, not_fetched
from fluidlite.executor.run.kernels import check_slots
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import reads, writes
from fluidlite.ops.kernels.compiled_steps import CompiledSteps
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["CannotInline", "PlanBuilder", "Writer"]

# beside EnforceNotMet, which a rule raises where it can tell
_TRIPPED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class CannotInline(Exception):
    """A sub-block is left to the interpreter; the message says why."""


Writer: TypeAlias = "Callable[[PlanBuilder, Operator], bool]"
"""Writes an op with a sub-block into the plan; False if it has to be left to the interpreter."""


def _recurrences(target: Target) -> CompiledSteps | None:
    """The kernels that run all steps of a recurrence at once, where there are some."""
    if not target.on_host:
        return DeviceRecurrences()
    return None if target.loops == "off" else Recurrences(target.loops == "wait")


class PlanBuilder:
    """Lowers `ops` of a block for what a scope holds, and gives the plan.

    `writers` write ops with sub-blocks into the plan, by op type. `outside` are ops with sub-blocks that
    earlier attempts had to leave to the interpreter, with the reason.
    """

    def __init__(
        self,
        block: Block,
        ops: Sequence[Operator],
        feeds: Mapping[str, FeedSpec],
        fetches: Sequence[str],
        scope: Scope,
        target: Target,
        writers: Mapping[str, Writer],
        outside: Mapping[Operator, str],
    ) -> None:
        self.target = target
        self.recurrences = _recurrences(target)
        self._asks_for_half = converts_halves(target.on_host and has_half(block.program))
        self._asks_for_complex = has_complex(block.program)
        self.scope = scope
        self.writers = writers
        self.values = ValueFactory()
        self.outside = dict(outside)
        self._unstable: dict[tuple[Operator, str], bool] = {}
        """(loop, variable) -> True if a step of the loop may leave it without a value, for variables whose
        shape a loop changes.
        """
        self.level = Level(block, needed=set(fetches))
        self.depth = 0
        self.feeds = {name: self._feed(name, spec) for name, spec in feeds.items()}
        self.level.env.update(self.feeds)
        self._ops, self._fetches = list(ops), list(fetches)
        # by later ops, too: a view that is made now must not show what they will write
        self._written = changed_by(ops)
        self._absent: set[str] = set()
        self._made_by_kernels: set[Value] = set()
        self._stored: set[str] = set()  # persistable variables that a step has given other arrays

    def _feed(self, name: str, spec: FeedSpec) -> Value:
        return self.values.make(spec.shape, spec.dtype, Storage.FEED, name=name, has_lod=spec.has_lod)

    def build(self) -> Plan | None:
        """The plan; None where a gradient could not follow its loop into it, of which `outside` now knows."""
        if not self.lower(self._ops):
            return None
        fetches = tuple(map(self._fetched, self._fetches))
        remarks = tuple(
            Remark("sub-block left to the interpreter", f"{op.type} at {op.where}: {reason}")
            for op, reason in self.outside.items()
        )
        return Plan(
            tuple(self.level.steps),
            self.feeds,
            fetches,
            self.values,
            self.target,
            frozenset(self._absent),
            remarks,
        )

    def lower(self, ops: Sequence[Operator]) -> bool:
        """Lower the ops of the current block; False as soon as the plan has to be made again."""
        level = self.level
        level.begin(ops)
        for index, op in enumerate(ops):
            level.index = index
            made = op if level.instead is None else level.instead(op)
            # arguments and result of the step function do what these ops of saved models did
            if made is not None and not op.is_boundary and not self._lower(made):
                return False
        return True

    def _lower(self, op: Operator) -> bool:
        check_slots(op)
        if op.sub_blocks():
            return self._lower_blocks(op)
        emitter = Emitter(self, op)
        emitter.check_types()
        emitter.check_ranks()
        kernel_alone = (self._asks_for_half and computes_in_single(op)) or (
            self._asks_for_complex and is_complex(op)
        )
        rule = None if kernel_alone else rule_for(op)
        if rule is not None:
            # steps are published only when the whole rule has succeeded: a rule may give up half way
            with contextlib.suppress(CannotLower):
                emitter.apply(rule)
                self.level.steps.extend(emitter.steps)
                self.level.memory.update(emitter.learned)
                for name, value in emitter.finals:
                    self.publish(op, name, value)
                return True
        self._call(op)
        return True

    # ------------------------------------------------------------------ ops with sub-blocks
    def _lower_blocks(self, op: Operator) -> bool:
        """Write an op with a sub-block into the plan, or call the interpreter for it.

        A writer that meets a reason against it raises CannotInline, most of them before it has written
        anything, and what it wrote is taken back. A gradient cannot be left out alone: its loop was written
        before, and keeps no frames for the interpreter, so the plan is made again with that loop outside.
        """
        writer = self.writers.get(op.type)
        # the interpreter cannot run a part of a loop that is otherwise source: all of it, or nothing
        if self.depth:
            if writer is None or not writer(self, op):
                raise CannotInline(f"op {op.type!r} in it runs in the interpreter")
            return True
        if writer is None or op in self.outside:
            self._call(op)
            return True
        # what writing the block may change before it fails; symbols that it made are only names
        level = self.level
        for name in reads(op):
            if name in level.env:
                level.env[name] = self._plain(op, level.env[name])
        mark = len(self.level.steps)
        env = dict(self.level.env)
        try:
            if not writer(self, op):
                self._call(op)
        # FluidError: a mistake in a branch that is never taken must not stop the rest
        except (CannotInline, FluidError) as reason:
            forward = self.forward_of(op)
            self.outside[forward] = str(reason).split("\n", 1)[0]
            # the loop has been written without frames, which is what the interpreter's gradient would read
            if forward is not op:
                return False
            self.level = level
            level.env = env
            del level.steps[mark:]
            self._call(op)
        return True

    def forward_of(self, op: Operator) -> Operator:
        """The op whose frames the gradient `op` reads; `op` itself where it is no gradient."""
        names = [name for slot in ("StepScopes", "Scope", "step_scopes") for name in op.inputs.get(slot, ())]
        return next((self.level.saved[name].op for name in names if name in self.level.saved), op)

    def save_for_backward(self, name: str, saved: SavedForBackward) -> None:
        """Keep what a loop or branch saved, by the variable of its frames, for its gradient to find."""
        self.level.saved[name] = saved

    def changes_shape(self, op: Operator, name: str) -> bool | None:
        """None for a variable that keeps its shape from step to step of a loop; else True if a step may leave
        it without a value.
        """
        return self._unstable.get((op, name))

    def note_change_of_shape(self, op: Operator, name: str, is_lost: bool) -> None:
        """Note that a step of a loop leaves a variable in another shape, or (`is_lost`) perhaps without a
        value.
        """
        self._unstable[op, name] = self._unstable.get((op, name), False) or is_lost

    @contextlib.contextmanager
    def inside(self, level: Level) -> Iterator[None]:
        """Lower into the block of `level`."""
        outer = self.level
        self.level = level
        self.depth += 1
        try:
            yield
        finally:
            self.level = outer
            self.depth -= 1

    def add(self, op: Operator | None, action: Any, **fields: Any) -> None:
        """Append a step."""
        self.level.steps.append(Step(op, action, **fields))

    # ------------------------------------------------------------------ variables
    @property
    def block(self) -> Block:
        """The block that is lowered."""
        return self.level.block

    def newest(self, name: str) -> Value | None:
        """The newest value of a variable that something has written, or read, in this plan."""
        return self.level.env.get(name)

    def visible(self) -> Iterable[tuple[str, Value]]:
        """Variable -> newest value, of all that is written or read so far."""
        return self.level.env.items()

    def later_ops(self) -> Sequence[Operator]:
        """The ops of the block that come after the one that is lowered."""
        return self.level.sequence[self.level.index + 1 :]

    def recall(self, key: Any) -> Any:
        """The thing that an earlier op's rule remembered, or None."""
        return self.level.memory.get(key)

    def remember(self, key: Any, thing: Any) -> None:
        """Let later ops' rules find `thing` under `key`."""
        self.level.memory[key] = thing

    def changes(self, name: str) -> bool:
        """True if the program writes a variable."""
        return name in self._written

    @functools.cached_property
    def changes_nothing(self) -> bool:
        """True if the program writes no persistable variable."""
        return not any(map(self.is_persistable, self._written))

    def is_read(self, value: Value) -> bool:
        """True if a step so far reads a value that a step has written."""
        return self.level.is_read(value)

    def is_persistable(self, name: str) -> bool:
        """True if a variable outlives the run, and is written where it lies."""
        var = self.block._find_var_recursive(name)
        return var is not None and var.persistable and name not in self.level.detached

    def is_needed(self, name: str, op: Operator) -> bool:
        """True if a variable that `op` writes is read later, fetched, or outlives the run."""
        return self.is_persistable(name) or self.level.is_needed(name)

    def later_readers(self, name: str) -> list[Operator] | None:
        """The ops that read a variable later; None where it is fetched, or outlives the run or the block."""
        if name in self.level.needed or self.is_persistable(name):
            return None
        return [op for op in self.later_ops() if name in reads(op)]

    def value(self, op: Operator, slot: str, name: str) -> Value:
        """The newest value of a variable; the error for one that nothing has written."""
        found = self._newest_or_held(name)
        if found is not None:
            return found
        if self._holds_other(name) or _optional(op, name):
            # rules know arrays alone: lists, rows, and what is absent are for the portable kernel
            raise CannotLower(name)
        raise missing(op, slot, name, self.block)

    def _newest_or_held(self, name: str) -> Value | None:
        """The newest value of a variable, or else the array that the scope holds."""
        found = self.newest(name)
        held = self.held(name) if found is None else None
        if held is not None:
            # kept in the level: ops that read the same version get the same value, by which rules remember
            found = self.level.env[name] = self.param(name, held)
        return found

    def argument(self, op: Operator, name: str) -> Value | None:
        """The newest value of a variable of any kind; None for one that the op can do without."""
        found = self._newest_or_held(name)
        if found is not None:
            return self._plain(op, found)
        if self._holds_other(name):
            return self._loaded(op, name)
        if op.sub_blocks() or _optional(op, name):
            if self.is_persistable(name):
                # the op behaves as if it had no such input; once somebody gives it a value, this plan is
                # wrong
                self._absent.add(name)
            return None
        slot = next(slot for slot, names in op.inputs.items() if name in names)
        raise missing(op, slot, name, self.block)

    def _plain(self, op: Operator | None, value: Value) -> Value:
        """A value with its dimensions as the program has them: kernels and bodies of loops know no other
        layout.
        """
        if value.order is None:
            return value
        # an op is only what the copy is shown under
        emitter = Emitter(self, op or self._ops[-1])
        found = emitter.plain(value)
        self.level.steps.extend(emitter.steps)
        self.level.memory.update(emitter.learned)
        return found

    def held(self, name: str) -> Any:
        """The array that the scope holds for `name`, or its form; None where it holds none, another one by
        then, or one that falls into sequences.
        """
        held = self.scope.find_var(name)
        if held is None or not isinstance(held.value, LoDTensor) or name in self._stored:
            return None
        # the lengths of sequences differ from run to run, so what falls into some is no part of a plan
        return None if self._in_sequences(name, held.value) else held.value.form

    def _in_sequences(self, name: str, tensor: LoDTensor) -> bool:
        """True if a tensor of the scope has, or by its declaration may have, a level of detail: such ones are
        looked up at each run.
        """
        var = self.block._find_var_recursive(name)
        return bool(tensor._lod) or (var is not None and var.lod_level > 0)

    def _holds_other(self, name: str) -> bool:
        """True if the scope holds something for `name` that a plan cannot be bound to."""
        held = self.scope.find_var(name)
        return held is not None and held.is_initialized() and self.held(name) is None

    def param(self, name: str, array: Any) -> Value:
        """A new version of a persistable variable in its own array."""
        # a new value each time, over the same array: passes tell versions apart by the numbers of the values
        return self.values.make(array.shape, array.dtype, Storage.PARAM, name=name)

    def _loaded(self, op: Operator | None, name: str) -> Value:
        """A value of the scope that is not a tensor, looked up each time."""
        held = self.scope.find_var(name)
        has_lod = held is not None and isinstance(held.value, LoDTensor)
        value = self.values.local(name=name, has_lod=has_lod)
        targets = (value, LodOf(value) if has_lod else None)
        self.add(op, Assign(targets, (Call(ScopeFunction("load"), (name,)),), unpack=True))
        return value

    def _fetched(self, name: str) -> Value:
        """The value that a fetch of `name` copies."""
        found = self.newest(name)
        if found is not None:
            return self._plain(None, found)
        held = self.held(name)
        if held is not None:
            return self.param(name, held)
        if self._holds_other(name):
            return self._loaded(None, name)
        raise not_fetched(self.block, name)

    # ------------------------------------------------------------------ results
    def output(
        self, op: Operator, name: str, shape: Sequence[int] | None, dtype: Any, inplace: bool
    ) -> Value:
        """The value that an output is written to; see `Emitter.out`."""
        if shape is None or dtype is None:
            spec = self._specs_of_outputs(op).get(name)
            if spec is None or not spec.static:
                raise CannotLower(name)
            shape = shape or spec.shape
            dtype = dtype or to_numpy(spec.dtype)
        held = self.held(name) if self.is_persistable(name) else None
        # in place only where the op does not read the variable, or says that it may write over what it reads
        fits = held is not None and held.shape == tuple(shape) and held.dtype == dtype
        if fits and (inplace or name not in op.input_arg_names):
            return self.param(name, held)
        return self.values.make(shape, dtype, Storage.BUFFER, name=name)

    def publish(self, op: Operator, name: str, value: Value) -> None:
        """Make `value` the newest version of variable `name`; a persistable variable gets it in its own
        array.
        """
        value.named(name)
        env = self.level.env
        if not self.is_persistable(name) or (value.storage is Storage.PARAM and value.name == name):
            env[name] = value
            return
        held = self.held(name)
        if held is not None and value.known and held.shape == value.shape and held.dtype == value.dtype:
            target = env[name] = self.param(name, held)
            # the number itself, where all elements are one: the array that held it then has no reader and is
            # dropped
            source = value if value.uniform is None else value.uniform
            self.add(op, Call(Function("copyto"), (Out(target), source)), effect=True)
            return
        if self.depth:
            # the arrays of a body are bound before its loop starts
            raise CannotInline(f"it gives the persistable variable {name!r} another shape")
        lod = (LodOf(value),) if value.has_lod else ()
        self.add(op, Call(ScopeFunction("store"), (name, value, *lod)), effect=True)
        self._stored.add(name)
        env[name] = value

    # ------------------------------------------------------------------ shapes
    def _spec(self, name: str) -> Spec | None:
        """Facts of a variable's newest value, or of its declaration."""
        var = self.block._find_var_recursive(name)
        value = self.newest(name)
        if value is None and var is not None and var.persistable:
            held = self.held(name)
            if held is not None:
                return Spec(held.shape, to_vartype(held.dtype))
        if value is not None and value.known:
            assert value.shape is not None and value.dtype is not None
            return Spec(value.shape, to_vartype(value.dtype), 1 if value.has_lod else None)
        if var is None or (value is not None and not var.shape):
            return None  # fluid declares no shape of some outputs, which are no numbers
        # the declaration may say other than what came
        return var.spec if value is None else var.spec._replace(shape=(-1,) * len(var.shape))

    def inferred(self, op: Operator) -> dict[str, list[Spec]]:
        """Output specs of `op` from what is known of its inputs; nothing where the rule cannot tell."""
        if op.definition is None:
            return {}
        specs = {slot: [self._spec(name) for name in names] for slot, names in op.inputs.items()}
        try:
            return as_planned(op, specs, op.definition.infer(specs, op.attrs))
        except EnforceNotMet as error:
            if any(spec is None or -1 in spec.shape for found in specs.values() for spec in found):
                return {}  # the kernel knows the shapes, and says what is wrong with them
            raise type(error)(f"{error}\n  {op.call_text()}\n  built at {op.where}") from None
        # a shape rule may trip over a shape that is not known, or that has more dimensions than it takes
        # apart; the kernel knows it, and says what is wrong with it
        except _TRIPPED:
            return {}

    def _specs_of_outputs(self, op: Operator) -> dict[str, Spec]:
        """Specs by variable; of one in several slots that of the first."""
        specs = self.inferred(op)
        found: dict[str, Spec] = {}
        for slot, names in op.outputs.items():
            for name, spec in zip(names, specs.get(slot, ()), strict=False):
                found.setdefault(name, spec)
        return found

    # ------------------------------------------------------------------ ops without a rule
    def _call(self, op: Operator) -> None:
        """A call of the op's portable kernel (or, for an op with sub-blocks, of the interpreter)."""
        is_block = bool(op.sub_blocks())
        known = self._inputs_of(op, is_block)
        # once for all outputs: a split into 26 would infer its 26 shapes 26 times
        specs = {} if is_block else self._specs_of_outputs(op)
        outputs = {
            name: self._call_output(op, name, known, specs.get(name))
            for name in self._outputs_of(op, is_block)
        }
        self._check_given(op, known)
        # most calls have no level of detail anywhere: those are not even passed an argument for them
        has_lod = any(value.has_lod for value in (*known.values(), *outputs.values()))
        call: KernelCall | BlockCall
        if is_block:
            call = BlockCall(op, list(known), list(outputs), has_lod)
        else:
            facts = facts_of(self, op, known, self._made_by_kernels)
            ordered = [value.known for value in outputs.values()]
            call = KernelCall(op, list(known), list(outputs), has_lod, self.recurrences, facts, ordered)
            self._made_by_kernels.update(outputs.values())
        likes = {} if is_block else {name: self._forward_value(name) for name in outputs}
        operands: list[Operand] = [list(known.values())]
        if has_lod:
            operands.append([LodOf(value) for value in known.values()])
        if any(like is not None for like in likes.values()):
            operands.append([() if like is None else LodOf(like) for like in likes.values()])
        bound = Bound("block" if is_block else "kernel", call)
        made: Action = Call(bound, tuple(operands))
        targets: list[Any] = [*outputs.values()]
        if has_lod:
            targets += [LodOf(value) if value.has_lod else None for value in outputs.values()]
        if targets:
            made = Assign(tuple(targets), (made,), unpack=True)
        self.add(op, made, effect=_has_effect(op))
        for name, value in outputs.items():
            if is_block and self.is_persistable(name):
                self.level.env[name] = value  # the interpreter has written the scope itself
            else:
                self.publish(op, name, value)

    def _inputs_of(self, op: Operator, is_block: bool) -> dict[str, Value]:
        if is_block:
            # sorted: sets of names come in another order in every process, and plans are compared as text
            names: Iterable[str] = sorted(reads(op))
        else:
            # a kernel that does not compute an output leaves its variable as it was, so it is given the old
            # value
            replaced = [
                name for name in op.output_arg_names if self.newest(name) or self.held(name) is not None
            ]
            names = dict.fromkeys([*op.input_arg_names, *replaced])
        arguments = {name: self.argument(op, name) for name in names if name != EMPTY_VAR}
        return {name: value for name, value in arguments.items() if value is not None}

    def _outputs_of(self, op: Operator, is_block: bool) -> list[str]:
        if is_block:
            return [name for name in sorted(writes(op)) if self.block._find_var_recursive(name) is not None]
        return list(dict.fromkeys(name for name in op.output_arg_names if name != EMPTY_VAR))

    def _check_given(self, op: Operator, arguments: Mapping[str, Value]) -> None:
        """The interpreter's error where a value that the op needs was written in a branch that did not
        run.
        """
        for name, value in arguments.items():
            if value.maybe and not _optional(op, name):
                slot = next(slot for slot, names in op.inputs.items() if name in names)
                error = missing(op, slot, name, self.block)
                refuse = Call(Bound("absent", Absent(error)))
                self.add(op, When(value, refuse, absent=True), effect=True)

    def _forward_value(self, name: str) -> Value | None:
        """The value that `name` is the gradient of, where that has a level of detail, which then is the
        gradient's too.
        """
        value = self.newest(variable_of(name))
        return value if variable_of(name) != name and value is not None and value.has_lod else None

    def _call_output(
        self, op: Operator, name: str, arguments: Mapping[str, Value], spec: Spec | None
    ) -> Value:
        var = self.block._find_var_recursive(name)
        # the shape rule of a list or of rows describes the dense array that they stand for
        is_dense = var is None or var.type == VarType.LOD_TENSOR
        is_known = spec is not None and spec.static and is_dense and not data_dependent(op)
        has_lod = (
            (var is not None and var.lod_level > 0)
            or self._forward_value(name) is not None
            or KernelCall.passes_lod(op, name, {key for key, item in arguments.items() if item.has_lod})
        )
        tells = op.definition is not None and op.definition.tells_lod
        if spec is not None and tells and all(item.known for item in arguments.values()):
            has_lod = has_lod and bool(spec.lod_level)
        # the plan finds out when the kernel returns: a rule that takes such a value has to be left out
        if not is_known or spec is None:
            return self.values.local(name=name, has_lod=has_lod)
        return self.values.local(shape=spec.shape, dtype=to_numpy(spec.dtype), name=name, has_lod=has_lod)


def _has_effect(op: Operator) -> bool:
    definition = op.definition
    if bool(op.sub_blocks()) or definition is None or definition.effect or not op.output_arg_names:
        return True
    return any(op.inputs.get(slot) for slot in definition.takes.values())


def _optional(op: Operator, name: str) -> bool:
    """True if an op can do without a value for one of its variables."""
    definition = op.definition
    if definition is None or name in op.output_arg_names:
        return True
    slots = [slot for slot, names in op.inputs.items() if name in names]
    return all(map(definition.may_lack, slots))
