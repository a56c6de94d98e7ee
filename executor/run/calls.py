"""Callables that generated plans use for ops without a lowering rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence, Set
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from fluidlite.base.errors import EOFException, FluidError, KernelError, is_of_user
from fluidlite.base.plain_text import check_source
from fluidlite.base.registry import EMPTY_VAR, Lod, Op, WithLod
from fluidlite.executor.cuda.recurrences import fits_launch
from fluidlite.executor.plan.objects import BindContext, OpCall, PlanObject
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.executor.run.kernels import (
    NO_FACTS,
    CallFacts,
    Kernel,
    RunContext,
    detach,
    lod_sources,
    unpack,
)
from fluidlite.ir.operator import Operator
from fluidlite.ops.kernels.compiled_steps import CompiledSteps

__all__ = ["Absent", "BlockCall", "KernelCall"]


_MOST_CHECKS = 64  # of outputs against inputs, before they are left to a loop


@functools.lru_cache(maxsize=4096)
def _compiled(source: str) -> CodeType:
    """Code of a generated call: ops of one type and arity share theirs."""
    check_source(source.split("\n"))
    return compile(source, "<fluidlite call>", "exec")


class KernelCall(OpCall):
    """`call(values[, lods, likes])` runs an op's portable kernel: values by position in, values (then lods)
    by position out.

    `likes` are the levels of detail of the variables that the outputs are gradients of. The call itself is
    generated: it names each of the kernel's parameters, so that nothing is looked up by name when it runs.

    Kernels return arrays of any strides. Rules read what has a shape ahead of the run by its address, as an
    array in C order: such outputs, `ordered`, are put in that order here, where they enter the plan.
    """

    is_block = False

    def __init__(
        self,
        op: Operator,
        inputs: Sequence[str],
        outputs: Sequence[str],
        with_lod: bool = False,
        compiled: CompiledSteps | None = None,
        facts: CallFacts = NO_FACTS,
        ordered: Sequence[bool] = (),
    ) -> None:
        self.op = op
        self.ordered = ordered or [False] * len(outputs)
        """For each output whether the plan reads it as an array in C order."""
        self.compiled = compiled
        self.facts = facts
        self.kernel = Kernel(op)
        self.needs_blas_threads = self.kernel.definition.blas_threads
        self.may_write = bool(self.kernel.definition.updates)
        self.with_lod = with_lod
        position = {name: index for index, name in enumerate(inputs)}
        slots = {**op.inputs, **{slot: op.output(slot) for slot in self.kernel.definition.updates}}
        self.slots = {slot: [position.get(name, -1) for name in names] for slot, names in slots.items()}
        self.moving = [number for number in range(len(inputs)) if number not in facts.lasting]
        """Positions of the inputs whose memory may be used for something else."""
        self.outputs = list(outputs)
        self.before = {name: position[name] for name in outputs if name in position}
        self.first = next(iter(self.kernel.definition.outputs), None)
        self.sources = self._sources()
        """For each output the position of the value whose level of detail it takes: None without one, -1 if
        it is absent.
        """
        self.picks = self._picks()

    @staticmethod
    def passes_lod(op: Operator, name: str, with_lod: Set[str]) -> bool:
        """True if a call may give the output `name` a level of detail that it makes, or that of one of the
        inputs `with_lod`. The gradient of a parameter has none, although that of the layer's input has.
        """
        definition = op.definition
        if definition is None:
            return bool(with_lod)
        if definition.makes_lod:
            return True
        if not op.type.endswith("_grad"):
            # what reads one may have a function give it to an output, of which the code does not tell
            if _reads_lod(definition):
                return bool(with_lod)
            shared = op.inputs.get(op.lod_slot, ())
            first = op.outputs.get(next(iter(definition.outputs), ""), ())
            return lod_sources(first, shared).get(name) in with_lod
        sources = [name]
        if name in op.outputs.get(next(iter(definition.outputs), ""), ()):
            sources += op.inputs.get(op.lod_slot, ())
        return not with_lod.isdisjoint(sources)

    def is_alone(self) -> bool:
        """True if a graph of a device can hold it."""
        inputs = self.op.inputs
        # `lod_reset` by a variable reads that, and first states are picked by indices from the host
        if not self.kernel.definition.captured:
            return False
        if self.op.type.startswith("lod_reset") and inputs.get("Y"):
            return False
        if not self.op.type.startswith("lstm"):
            return True
        weight = self.op.block._find_var_recursive(inputs["Weight"][0])
        is_fit = weight is not None and fits_launch(weight.shape[0], weight.dtype)
        return is_fit and not inputs.get("H0") and not inputs.get("C0")

    def kernel_of(self, method: str) -> str:
        """The kind of kernel."""
        return "portable kernel"

    def bind(self, context: BindContext) -> Callable[..., Sequence[Any]]:
        """The call, with scope, place, random source and array module (the place's, or that of graphs)
        fixed.
        """
        interpreter = context.interpreter
        is_held = not context.on_host and self.is_alone()
        xp = context.module.for_kernels if is_held else interpreter.xp
        frame = Frame(self.op.block, interpreter.scope)
        run = RunContext(self.op, interpreter, frame, xp, self.compiled, self.facts)
        namespace: dict[str, Any] = {f"c_{name}": value for name, value in self.kernel.constants.items()}
        namespace.update(
            xp=xp,
            ctx=run,
            ndarray=np.ndarray,
            WithLod=WithLod,
            function=self.kernel.function,
            kernel=self.kernel,
            check=lambda values: self.kernel.check_types(self._by_slot(values)),
            failed=self._failed,
            finish=self._finisher(),
        )
        exec(_compiled(self._source()), namespace)
        # it must not be among the names that it knows: the scope would live until these are collected
        call: Callable[..., Sequence[Any]] = namespace.pop("call")
        return call

    def _finisher(self) -> Callable[..., Sequence[Any]]:
        """The method that takes what the kernel returns: the simplest that does for this op."""
        if self._has_one_output():
            return self._finish_one
        return self._finish_each if self.picks else self._finish

    # ------------------------------------------------------------------ on the way in
    def _source(self) -> str:
        """The generated call: `finish(function(X=values[0], ...), values, lods, likes)`."""
        arguments = ", ".join(
            f"{name}={self._text(name, kind, key)}" for name, kind, key in self.kernel.arguments
        )
        check = "        if kernel.unchecked:\n            check(values)\n" if self.kernel.unchecked else ""
        return (
            f"def call(values, lods=(), likes=()):\n    try:\n{check}"
            f"        returned = function({arguments})\n"
            f"    except Exception as error:\n        failed(error, values)\n{self._shortcut()}"
            "    return finish(returned, values, lods, likes)\n"
        )

    def _shortcut(self) -> str:
        """The short way for most ops, whose outputs are arrays of their own."""
        if self._has_one_output():
            returned, test = ["returned"], ""
            is_own = [self._is_own(0)]
        elif 0 < len(self.picks) * len(self.moving) <= _MOST_CHECKS:
            returned = [f"returned[{slot}]" for slot, _ in self.picks]
            test = f"type(returned) is tuple and len(returned) > {max(slot for slot, _ in self.picks)}"
            is_own = [self._is_own(number, before < 0) for number, (_, before) in enumerate(self.picks)]
        else:
            return ""
        lines = [line for number, text in enumerate(returned) for line in self._unpacked(number, text)]
        result = [
            f"{kind}{number}"
            for kind in ("value", "lod")[: 1 + self.with_lod]
            for number in range(len(returned))
        ]
        lines += [f"if {' and '.join(is_own)}:", f"    return ({', '.join(result)},)"]
        if test:
            lines = [f"if {test}:", *(f"    {line}" for line in lines)]
        return "".join(f"    {line}\n" for line in lines)

    def _unpacked(self, number: int, returned: str) -> list[str]:
        """Lines that take what the kernel returned for an output apart."""
        lines = [f"value{number} = {returned}"]
        if self.with_lod:
            lines.append(f"lod{number} = {self._lod_text(number)}")
            if self.kernel.definition.makes_lod:
                lines.append(f"if type(value{number}) is WithLod:")
                lines.append(f"    value{number}, lod{number} = value{number}")
        return lines

    def _is_own(self, number: int, may_lack: bool = False) -> str:
        """An array that has no base and is no input shares its memory with nobody, so it needs no copy."""
        name = f"value{number}"
        test = f"type({name}) is ndarray"
        if self.moving:
            test += f" and {name}.base is None"
        test += "".join(f" and {name} is not values[{index}]" for index in self.moving)
        if self.ordered[number]:
            test += f" and {name}.flags.c_contiguous"
        return f"({name} is None or {test})" if may_lack else test

    def _lod_text(self, number: int) -> str:
        """The level of detail of an output that the kernel gives none."""
        source = self.sources[number]
        if source is None:
            return f"likes[{number}] if likes else ()"
        return f"lods[{source}]" if source >= 0 else "()"

    def _text(self, name: str, kind: str, key: str) -> str:
        definition = self.kernel.definition
        if kind in ("xp", "ctx"):
            return kind
        if kind not in ("in", "out", "lod"):
            return f"c_{name}"
        source, absent = ("lods", "()") if kind == "lod" else ("values", "None")
        items = [
            absent if index < 0 or (kind == "lod" and not self.with_lod) else f"{source}[{index}]"
            for index in self.slots.get(key, ())
        ]
        if (definition.inputs.get(key) or definition.outputs[key]).many:
            # an empty slot has one empty level of detail, as in `Kernel.__call__`
            if kind == "lod" and not items:
                items = ["()"]
            return f"[{', '.join(items)}]"
        return items[0] if items else absent

    def _failed(self, error: Exception, values: Sequence[Any]) -> NoReturn:
        """The error of the kernel, with the op, the shapes it ran with and the user's line where it does
        not know them itself.
        """
        if isinstance(error, (FluidError, EOFException)) or is_of_user(error):
            raise error
        raise KernelError.of(error, self.kernel.failure(error, self._by_slot(values))) from error

    def _by_slot(self, values: Sequence[Any]) -> dict[str, list[Any]]:
        return {
            slot: [values[index] if index >= 0 else None for index in indices]
            for slot, indices in self.slots.items()
        }

    # ------------------------------------------------------------------ on the way out
    def _has_one_output(self) -> bool:
        """True if the op writes one variable, in its first slot."""
        definition = self.kernel.definition
        first = self.first
        named = [(slot, name) for slot, names in self.op.outputs.items() for name in names]
        return (
            len(named) == 1
            and named[0][0] == first
            and not definition.outputs[str(first)].many
            and named[0][1] != EMPTY_VAR
        )

    def _finish_one(
        self, returned: Any, values: Sequence[Any], lods: Sequence[Lod], likes: Sequence[Lod]
    ) -> Sequence[Any]:
        if returned is None or (isinstance(returned, (dict, tuple)) and type(returned) is not WithLod):
            return self._finish(returned, values, lods, likes)
        value, lod = self._unpack(returned, lods)
        value = self._own(0, value, values)
        if not self.with_lod:
            return (value,)
        return value, lod if lod is not None else self._inherited(0, lods, likes)

    def _unpack(self, returned: Any, lods: Sequence[Lod]) -> tuple[Any, Lod | None]:
        """A kernel's output as (value, level of detail or None)."""
        value, lod = unpack(returned)
        # plans pass no level on that nobody declared
        assert not lod or self.kernel.definition.makes_lod or any(lods), (
            f"the kernel of {self.op.type!r} makes a level of detail: its Op has to say makes_lod=True"
        )
        return value, lod

    def _own(self, number: int, value: Any, values: Sequence[Any]) -> Any:
        """The value of an output, in memory of its own and in C order where the plan counts on that."""
        if self.facts.lasting:
            values = [values[number] for number in self.moving]
        found = detach(value, values)
        # not `ascontiguousarray`, which gives an array of the shape [] a dimension
        if self.ordered[number] and found is not None and not found.flags.c_contiguous:
            return found.copy(order="C")
        return found

    def _sources(self) -> list[int | None]:
        shared = self.slots.get(self.op.lod_slot)
        sharing = lod_sources(self.op.outputs.get(str(self.first), ()), shared or ())
        return [sharing.get(name) for name in self.outputs]

    def _inherited(self, number: int, lods: Sequence[Lod], likes: Sequence[Lod]) -> Lod:
        """The level of detail of an output that the kernel gave none: the one that it shares with an input,
        or that of the variable whose gradient it is.
        """
        source = self.sources[number]
        if lods and source is not None:
            return lods[source] if source >= 0 else ()
        return likes[number] if likes else ()

    @staticmethod
    def _before(index: int, values: Sequence[Any], lods: Sequence[Lod]) -> tuple[Any, Lod]:
        """The value that a variable had before the op, and its level of detail; None for index -1."""
        if index < 0:
            return None, ()
        return values[index], lods[index] if lods else ()

    def _picks(self) -> list[tuple[int, int]]:
        """For each output the position of its slot and that of its old value (or -1).

        Nothing where a slot may hold many variables, or one variable is in two slots.
        """
        slots = list(self.kernel.definition.outputs)
        where = [
            (name, slots.index(slot))
            for slot, names in self.op.outputs.items()
            for name in names
            if name != EMPTY_VAR
        ]
        if sorted(name for name, _ in where) != sorted(self.outputs) or any(
            slot.many for slot in self.kernel.definition.outputs.values()
        ):
            return []
        position = dict(where)
        found = []
        for name in self.outputs:
            slot = position[name]
            found.append((slot, self.before.get(name, -1)))
        return found

    def _finish_each(
        self, returned: Any, values: Sequence[Any], lods: Sequence[Lod], likes: Sequence[Lod]
    ) -> Sequence[Any]:
        # a dict names its slots, and a single value is the first slot's: the general way sorts them out
        if type(returned) is not tuple:
            return self._finish(returned, values, lods, likes)
        found: list[Any] = []
        found_lods: list[Any] = []
        for number, (position, before) in enumerate(self.picks):
            value = returned[position] if position < len(returned) else None
            lod: Lod | None = None
            if type(value) is not np.ndarray:
                value, lod = self._unpack(value, lods)
            if value is None:
                value, lod = self._before(before, values, lods)
            elif lod is None:
                lod = self._inherited(number, lods, likes)
            found.append(self._own(number, value, values) if value is not None else None)
            found_lods.append(lod)
        return found + found_lods if self.with_lod else found

    def _finish(
        self, returned: Any, values: Sequence[Any], lods: Sequence[Lod], likes: Sequence[Lod]
    ) -> Sequence[Any]:
        by_slot = self.kernel.listed(returned)
        found: dict[str, Any] = {}
        found_lods: dict[str, Lod] = {}
        for slot, names in self.op.outputs.items():
            for name, item in zip(names, by_slot.get(slot, ()), strict=False):
                if name != EMPTY_VAR and item is not None:
                    value, lod = self._unpack(item, lods)
                    number = self.outputs.index(name)
                    found[name] = self._own(number, value, values)
                    if lod is None:
                        lod = self._inherited(number, lods, likes)
                    found_lods[name] = lod
        for name, index in self.before.items():
            if name not in found:
                found[name], found_lods[name] = self._before(index, values, lods)
        result = [found.get(name) for name in self.outputs]
        return result + [found_lods.get(name, ()) for name in self.outputs] if self.with_lod else result


class Absent(PlanObject):
    """Raises the error for a value that is needed but was not written."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self) -> None:
        # a new exception each time: a traceback would grow on one that is raised again and again
        raise type(self.error)(str(self.error))


class BlockCall(OpCall):
    """`call(values[, lods])` runs an op with sub-blocks in the interpreter, in a frame that holds
    `values`.
    """

    is_block = True
    may_write = True

    def __init__(
        self, op: Operator, inputs: Sequence[str], outputs: Sequence[str], with_lod: bool = False
    ) -> None:
        self.op = op
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.with_lod = with_lod

    def kernel_of(self, method: str) -> str:
        """The interpreter's."""
        return "interpreter"

    def bind(self, context: BindContext) -> Callable[..., Sequence[Any]]:
        """The call, with scope, place and random source fixed."""
        return functools.partial(self.call, context.interpreter)

    def call(self, interpreter: Interpreter, values: Sequence[Any], lods: Sequence[Lod] = ()) -> list[Any]:
        """Values, then lods, by position in and out."""
        frame = Frame(self.op.block, interpreter.scope)
        for index, (name, value) in enumerate(zip(self.inputs, values, strict=True)):
            var = self.op.block._find_var_recursive(name)
            # persistable variables are found in the scope, where the interpreter changes them
            if value is not None and (var is None or not var.persistable):
                frame.values[name] = value
                frame.lods[name] = lods[index] if lods else ()
        interpreter.run_op(self.op, frame)
        result = [detach(frame.find(name), values) for name in self.outputs]
        return result + [frame.lod(name) for name in self.outputs] if self.with_lod else result


def _reads_lod(definition: Op) -> bool:
    """True if a kernel reads levels of detail, or may find them by itself."""
    kinds = {kind for _, kind, _ in definition.arguments.get("kernel", ())}
    return definition.compute is None or not kinds.isdisjoint(("lod", "ctx"))
