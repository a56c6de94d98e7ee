"""The first half of compiling: a block's ops become steps over values, each op by its lowering rule or by
its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX, Spec
from fluidlite.executor.compile.blocks import CannotInline, Choices, Record, inlined
from fluidlite.executor.compile.emitter import CannotLower, Emitter, rule_for
from fluidlite.executor.compile.plan_ir import Step, Storage, Value, ValueFactory
from fluidlite.executor.run.calls import Absent, BlockCall, KernelCall
from fluidlite.executor.run.interpreter import missing, not_fetched
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import reads, writes
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["FeedSpec", "PlanBuilder"]


@dataclass(frozen=True)
class FeedSpec:
    """What is known of a fed value when the plan is made: its shape, unless it has a level of detail."""

    shape: tuple[int, ...] | None
    dtype: Any
    has_lod: bool = False


class _NoFrame:
    """Stands in for an interpreter frame in error messages."""

    def __init__(self, block: Block) -> None:
        self.block = block


class PlanBuilder:
    """Turns `ops` into `steps`. `env` maps each variable to its newest value; `bound` collects Python
    objects by name.
    """

    def __init__(
        self,
        block: Block,
        ops: Sequence[Operator],
        feeds: Mapping[str, FeedSpec],
        fetches: Sequence[str],
        scope: Scope,
        copy_params: bool = False,
        threads: int = 1,
        choices: Choices | None = None,
    ) -> None:
        self.block, self.ops, self.scope, self.needed = block, list(ops), scope, set(fetches)
        self.values = ValueFactory()
        self.steps: list[Step] = []
        self.env: dict[str, Value] = {}
        self.bound: dict[str, Any] = {}
        self.feeds: dict[str, Value] = {}
        self.copy_params, self.threads = copy_params, threads  # no threads: on a device
        self.written = {name for op in self.ops for name in writes(op)}
        self.last_read: dict[str, int] = {}
        self.index, self.depth = 0, 0  # of the op being lowered, and how many sub-blocks it is in
        self.choices = choices or Choices()
        self.in_gradient = False  # whether one of those is a gradient's
        self.records: dict[
            str, Record
        ] = {}  # by the variable of a loop's or branch's frames: what its gradient reads
        self.memory: dict[Any, Any] = {}
        self.absent: set[str] = (
            set()
        )  # persistable inputs that held nothing: with a value the plan would differ
        self.used_rules: set[str] = set()
        for name, spec in feeds.items():
            self.feeds[name] = self.env[name] = self._feed(name, spec)

    def _feed(self, name: str, spec: FeedSpec) -> Value:
        value = self.values.make(spec.shape, spec.dtype, Storage.FEED, name=name)
        value.lod = f"l{value.number}" if spec.has_lod else None
        return value

    def build(self) -> list[Step]:
        """Lower every op."""
        self.lower(self.ops)
        return self.steps

    def lower(self, ops: Sequence[Operator]) -> None:
        """Lower the ops of a block."""
        for index, op in enumerate(ops):
            self.last_read.update(dict.fromkeys(reads(op), index))
        for index, op in enumerate(ops):
            self.index = index
            if op.type not in ("feed", "fetch"):
                self._lower(op)

    def _lower(self, op: Operator) -> None:
        if op.sub_blocks():
            if not inlined(self, op):
                self._call(op)
            return
        rule = rule_for(op)
        if rule is not None:
            emitter = Emitter(self, op)
            try:
                rule(emitter)
            except CannotLower:
                pass
            else:
                self.used_rules.add(op.type)
                self._publish(emitter)
                return
        self._call(op)

    def _publish(self, emitter: Emitter) -> None:
        self.steps.extend(emitter.steps)
        for name, value in emitter.finals:
            self._assign(emitter.op, name, value)

    def _assign(self, op: Operator, name: str, value: Value) -> None:
        """Make `value` the newest version of variable `name`; a persistable variable gets it in its own
        array.
        """
        if not value.name:
            value.name = name
        if not self._persistable(name) or (value.storage == Storage.PARAM and value.name == name):
            self.env[name] = value
            return
        held = self._held(name)
        if held is not None and value.known and held.shape == value.shape and held.dtype == value.dtype:
            target = self._param(name, held)
            text = (
                f"copyto({target}, {value})" if value.uniform is None else f"{target}.fill({value.uniform!r})"
            )
            self.steps.append(
                Step(op, [] if value.uniform is not None else [value], [target], [text], effect=True)
            )
            self.env[name] = target
            return
        if self.depth:
            raise CannotInline(f"it gives the persistable variable {name!r} another shape")
        store = self.bind("store", name)
        lod = f", {value.lod}" if value.lod else ""
        self.steps.append(Step(op, [value], [], [f"store({store}, {value}{lod})"], effect=True))
        self.env[name] = value

    def fetched(self, name: str) -> Value:
        """The value that a fetch of `name` copies."""
        found = self.env.get(name)
        if found is not None:
            return found
        held = self._held(name)
        if held is not None:
            return self._param(name, held)
        if self._holds_other(name):
            return self._loaded(None, name)
        raise not_fetched(self.block, name)

    # ---------- what lowering rules ask for (through Emitter)
    def is_needed(self, name: str, op: Operator) -> bool:
        """Whether a variable that `op` writes is read later, fetched, or outlives the run."""
        return name in self.needed or self._persistable(name) or self.last_read.get(name, -1) > self.index

    def value(self, op: Operator, slot: str, name: str) -> Value:
        """The newest value of a variable; the error for one that nothing has written."""
        found = self.env.get(name)
        if found is None:
            held = self._held(name)
            if held is None:
                if self._holds_other(name) or self._optional(op, name):
                    raise CannotLower(name)
                raise missing(op, slot, name, _NoFrame(self.block))  # type: ignore[arg-type]
            found = self.env[name] = self._param(name, held)
        return found

    def _held(self, name: str) -> Any:
        """The array that the scope holds for `name`; None where it holds none, or one that falls into
        sequences.
        """
        held = self.scope.find_var(name)
        tensor = held.value if held is not None and isinstance(held.value, LoDTensor) else None
        return None if tensor is None or self._in_sequences(name, tensor) else tensor.array

    def _in_sequences(self, name: str, tensor: LoDTensor) -> bool:
        """Whether a tensor of the scope has, or by its declaration may have, a level of detail: such ones
        are looked up each time.
        """
        var = self.block._find_var_recursive(name)
        return bool(tensor._lod) or (var is not None and var.lod_level > 0)

    def _holds_other(self, name: str) -> bool:
        """Whether the scope holds something for `name` that a plan cannot be bound to."""
        held = self.scope.find_var(name)
        return held is not None and held.is_initialized() and self._held(name) is None

    def _param(self, name: str, array: Any) -> Value:
        return self.values.make(array.shape, array.dtype, Storage.PARAM, name=name)

    def _persistable(self, name: str) -> bool:
        var = self.block._find_var_recursive(name)
        return var is not None and var.persistable

    def output(
        self, emitter: Emitter, name: str, shape: Sequence[int] | None, dtype: Any, inplace: bool
    ) -> Value:
        """The value that an output is written to; see `Emitter.out`."""
        if shape is None or dtype is None:
            spec = self._inferred(emitter.op, name)
            shape, dtype = shape or spec.shape, dtype or to_numpy(spec.dtype)
        held = self._held(name) if self._persistable(name) else None
        if (
            held is not None
            and held.shape == tuple(shape)
            and held.dtype == dtype
            and (inplace or name not in emitter.op.input_arg_names)
        ):
            value = self._param(name, held)
        else:
            value = self.values.make(shape, dtype, Storage.BUFFER, name=name)
        emitter.finals.append((name, value))
        return value

    def alias(self, emitter: Emitter, name: str, value: Value) -> None:
        """Let `name` be `value` itself, or a copy where the memory is a parameter that this program
        changes.
        """
        root = value.root
        if self.copy_params and root.storage == Storage.PARAM and root.name in self.written:
            copy = self.values.make(value.shape, value.dtype, Storage.BUFFER, name=name)
            emitter.line(f"copyto({copy}, {value})", [value], [copy])
            value = copy
        emitter.finals.append((name, value))

    def constant(self, array: Any) -> Value:
        """A CONST value."""
        value = self.values.make(array.shape, array.dtype, Storage.CONST)
        value.constant = array
        return value

    def bind(self, hint: str, thing: Any) -> str:
        """A name for `thing` in the generated source."""
        name = f"{hint}_{len(self.bound)}"
        self.bound[name] = thing
        return name

    # ------------------------------------------------------------------ shapes
    def _spec(self, name: str) -> Spec | None:
        """What is known of a variable's newest value, or what its declaration says."""
        var = self.block._find_var_recursive(name)
        value = self.env.get(name)
        if value is None and var is not None and var.persistable:
            held = self._held(name)
            if held is not None:
                return Spec(held.shape, _vartype(held.dtype))
        if value is not None and value.known:
            return Spec(value.shape, _vartype(value.dtype))  # type: ignore[arg-type]
        if var is None or value is None:
            return None if var is None else var.spec
        return var.spec._replace(
            shape=(-1,) * len(var.shape)
        )  # what the declaration says may not be what came

    def inferred(self, op: Operator) -> dict[str, list[Spec]]:
        """Output specs of `op` from what is known of its inputs; nothing where the rule cannot tell."""
        if op.definition is None:
            return {}
        specs = {slot: [self._spec(name) for name in names] for slot, names in op.inputs.items()}
        try:
            return op.definition.infer(specs, op.attrs)
        except EnforceNotMet as error:
            if any(spec is None or -1 in spec.shape for found in specs.values() for spec in found):
                return {}  # the kernel knows the shapes, and says what is wrong with them
            raise type(error)(f"{error}\n  {op.call_text()}\n  built at {op.where}") from None
        except (IndexError, TypeError, ZeroDivisionError, AttributeError):
            return {}

    def _inferred(self, op: Operator, name: str) -> Spec:
        specs = self.inferred(op)
        for slot, names in op.outputs.items():
            for candidate, spec in zip(names, specs.get(slot, ()), strict=False):
                if candidate == name and spec.static:
                    return spec
        raise CannotLower(name)

    # ------------------------------------------------------------------ ops without a rule
    def _call(self, op: Operator) -> None:
        """A call of the op's portable kernel (or, for an op with sub-blocks, of the interpreter)."""
        # a kernel that does not compute an output leaves its variable as it was, so it is given the old value
        replaced = [name for name in op.output_arg_names if name in self.env or self._held(name) is not None]
        inputs = (
            sorted(reads(op)) if op.sub_blocks() else list(dict.fromkeys([*op.input_arg_names, *replaced]))
        )
        arguments = {name: self._argument(op, name) for name in inputs if name != EMPTY_VAR}
        names = (
            [name for name in sorted(writes(op)) if self._visible(name)]
            if op.sub_blocks()
            else [name for name in op.output_arg_names if name != EMPTY_VAR]
        )
        outputs = {name: self._call_output(op, name, arguments) for name in dict.fromkeys(names)}
        known = {name: value for name, value in arguments.items() if value is not None}
        self._check_given(op, known)
        call = (
            BlockCall(op, list(known), list(outputs))
            if op.sub_blocks()
            else KernelCall(op, list(known), list(outputs))
        )
        likes = (
            {}
            if op.sub_blocks()
            else {name: like for name in outputs if (like := self._forward_of(name)) is not None}
        )
        has_lod = any(value.lod for value in (*known.values(), *outputs.values()))
        symbol = self.bind("block" if op.sub_blocks() else "kernel", call)
        text = f"{symbol}([{', '.join(map(str, known.values()))}]"
        if has_lod:
            text += f", [{', '.join(value.lod or '()' for value in known.values())}]"
        if likes:
            text += f", [{', '.join(likes[name].lod or '()' if name in likes else '()' for name in outputs)}]"
        targets = [str(value) for value in outputs.values()] + [
            value.lod or "_" for value in outputs.values()
        ] * has_lod
        left = f"{', '.join(targets)}, = " if targets else ""
        call.with_lod = has_lod
        read = list(dict.fromkeys([*known.values(), *likes.values()]))
        self.steps.append(
            Step(op, read, list(outputs.values()), [f"{left}{text})"], effect=self._has_effect(op))
        )
        for name, value in outputs.items():
            self._assign_called(op, name, value)

    def _check_given(self, op: Operator, arguments: Mapping[str, Value]) -> None:
        """The interpreter's error where a value that the op needs was written in a branch that did not
        run.
        """
        for name, value in arguments.items():
            if value.maybe and not self._optional(op, name):
                slot = next(slot for slot, names in op.inputs.items() if name in names)
                error = missing(op, slot, name, _NoFrame(self.block))  # type: ignore[arg-type]
                self.steps.append(
                    Step(
                        op,
                        [value],
                        [],
                        [f"if {value} is None: {self.bind('absent', Absent(error))}()"],
                        effect=True,
                    )
                )

    def _forward_of(self, name: str) -> Value | None:
        """What `name` is the gradient of, where that has a level of detail, which then is the gradient's
        too.
        """
        forward, gradient, _ = name.partition(GRAD_SUFFIX)
        value = self.env.get(forward) if gradient else None
        return value if value is not None and value.lod else None

    def _assign_called(self, op: Operator, name: str, value: Value) -> None:
        if op.sub_blocks() and self._persistable(name):
            self.env[name] = value  # the interpreter has written the scope itself
        else:
            self._assign(op, name, value)

    def _visible(self, name: str) -> bool:
        return self.block._find_var_recursive(name) is not None

    @staticmethod
    def _has_effect(op: Operator) -> bool:
        definition = op.definition
        return bool(op.sub_blocks()) or definition is None or definition.effect or not op.output_arg_names

    def _argument(self, op: Operator, name: str) -> Value | None:
        found = self.env.get(name)
        if found is not None:
            return found
        held = self._held(name)
        if held is not None:
            self.env[name] = self._param(name, held)
            return self.env[name]
        if self._holds_other(name):
            return self._loaded(op, name)
        if op.sub_blocks() or self._optional(op, name):
            if self._persistable(name):
                self.absent.add(name)
            return None
        slot = next(slot for slot, names in op.inputs.items() if name in names)
        raise missing(op, slot, name, _NoFrame(self.block))  # type: ignore[arg-type]

    def _loaded(self, op: Operator | None, name: str) -> Value:
        """A value of the scope that is no tensor, looked up each time."""
        value = self.values.make(None, None, Storage.LOCAL, name=name)
        held = self.scope.find_var(name)
        if held is not None and isinstance(held.value, LoDTensor):
            value.lod = f"l{value.number}"
        self.steps.append(
            Step(op, [], [value], [f"{value}, {value.lod or '_'} = load({self.bind('name', name)})"])
        )
        return value

    @staticmethod
    def _optional(op: Operator, name: str) -> bool:
        definition = op.definition
        slots = [slot for slot, names in op.inputs.items() if name in names]
        return (
            definition is None
            or name in op.output_arg_names
            or all(slot not in definition.inputs or definition.inputs[slot].optional for slot in slots)
        )

    def _call_output(self, op: Operator, name: str, arguments: Mapping[str, Value | None]) -> Value:
        spec = None
        if not op.sub_blocks():
            specs = self.inferred(op)
            pairs = [
                (candidate, item)
                for slot, names in op.outputs.items()
                for candidate, item in zip(names, specs.get(slot, ()), strict=False)
            ]
            spec = next((item for candidate, item in pairs if candidate == name), None)
        var = self.block._find_var_recursive(name)
        dense = var is None or var.type == VarType.LOD_TENSOR
        known = spec is not None and spec.static and dense and not _data_dependent(op)
        value = self.values.make(
            spec.shape if known and spec else None,
            to_numpy(spec.dtype) if known and spec else None,
            Storage.LOCAL,
            name=name,
        )
        if (
            any(item is not None and item.lod for item in arguments.values())
            or KernelCall.may_make_lod(op)
            or (var is not None and var.lod_level > 0)
            or self._forward_of(name) is not None
        ):
            value.lod = f"l{value.number}"
        return value


def _data_dependent(op: Operator) -> bool:
    """Whether an op's outputs may have another shape than its rule says, because they depend on the data."""
    if op.definition is not None and op.definition.dynamic:
        return True
    return any(len(op.inputs.get(slot, ())) > 0 for slot in ("ShapeTensor", "ShapeTensorList", "Shape"))


def _vartype(dtype: Any) -> VarType:
    from fluidlite.base.dtypes import to_vartype

    return to_vartype(np.dtype(dtype))
