"""Callables that generated plans use for ops without a lowering rule."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.interpreter import Frame, Interpreter
from fluidlite.executor.kernels import Context, Kernel, unpack
from fluidlite.ir.operator import Operator
from fluidlite.registry import EMPTY_VAR, Lod

__all__ = ["Absent", "BlockCall", "KernelCall"]


class KernelCall:
    """`call(values[, lods, likes])` runs an op's portable kernel: values by position in, values (then lods) by position out.

    `likes` are the levels of detail of the variables that the outputs are gradients of.
    """

    def __init__(self, op: Operator, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.op, self.kernel = op, Kernel(op)
        self.with_lod = False
        position = {name: index for index, name in enumerate(inputs)}
        slots = {**op.inputs, **{slot: op.output(slot) for slot in self.kernel.definition.updates}}
        self.slots = {slot: [position.get(name, -1) for name in names] for slot, names in slots.items()}
        self.outputs = list(outputs)
        self.before = {name: position[name] for name in outputs if name in position}
        self.context: Any = None
        self.shared = (self.kernel.definition.lod, next(iter(self.kernel.definition.outputs), None))

    @staticmethod
    def may_make_lod(op: Operator) -> bool:
        """Whether the op's kernel sets a level of detail by itself."""
        code = getattr(getattr(op.definition, "compute", None), "__code__", None)
        return code is not None and "WithLod" in code.co_names

    def bind(self, interpreter: Interpreter) -> None:
        """Fix scope, place and random source."""
        self.context = Context(self.op, interpreter.xp, interpreter.scope, interpreter.place, interpreter.random,
                               Frame(self.op.block, interpreter.scope))
        self.context.interpreter = interpreter

    def __call__(self, values: Sequence[Any], lods: Sequence[Lod] = (), likes: Sequence[Lod] = ()) -> list[Any]:
        inherited = dict(zip(self.outputs, likes, strict=False))
        by_slot = {slot: [values[index] if index >= 0 else None for index in indices] for slot, indices in self.slots.items()}
        lods_by_slot = {slot: [lods[index] if index >= 0 else () for index in indices]
                        for slot, indices in self.slots.items()} if lods else {}
        returned = self.kernel(self.context, by_slot, lods_by_slot)
        found: dict[str, Any] = {}
        found_lods: dict[str, Lod] = {}
        shared_from, first = self.shared
        for slot, names in self.op.outputs.items():
            for name, item in zip(names, returned.get(slot, ()), strict=False):
                if name != EMPTY_VAR and item is not None:
                    value, lod = unpack(item)
                    found[name] = detach(value, values)
                    shared = lods_by_slot.get(shared_from or "") if slot == first else None
                    if lod is None:              # a gradient has the level of detail of its variable
                        lod = shared[0] if shared else inherited.get(name, ())
                    found_lods[name] = lod
        for name, index in self.before.items():
            if name not in found:
                found[name], found_lods[name] = values[index], lods[index] if lods else ()
        result = [found.get(name) for name in self.outputs]
        return result + [found_lods.get(name, ()) for name in self.outputs] if self.with_lod else result


def detach(value: Any, inputs: Sequence[Any]) -> Any:
    """`value`, copied where it shows the memory of an input, which the plan may reuse or change later."""
    if not isinstance(value, np.ndarray) or (value.base is None and not any(value is item for item in inputs)):
        return value
    if any(isinstance(item, np.ndarray) and np.may_share_memory(value, item) for item in inputs):
        return value.copy()
    return value


class Absent:
    """Raises the error for a value that is needed but was not written."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self) -> None:
        raise type(self.error)(str(self.error))


class BlockCall:
    """`call(values[, lods])` runs an op with sub-blocks in the interpreter, in a frame that holds `values`."""

    def __init__(self, op: Operator, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.op, self.inputs, self.outputs = op, list(inputs), list(outputs)
        self.with_lod = False
        self.interpreter: Any = None

    def bind(self, interpreter: Interpreter) -> None:
        """Fix scope, place and random source."""
        self.interpreter = interpreter

    def __call__(self, values: Sequence[Any], lods: Sequence[Lod] = ()) -> list[Any]:
        frame = Frame(self.op.block, self.interpreter.scope)
        for index, (name, value) in enumerate(zip(self.inputs, values, strict=True)):
            var = self.op.block._find_var_recursive(name)
            if value is not None and (var is None or not var.persistable):
                frame.values[name] = value
                frame.lods[name] = lods[index] if lods else ()
        self.interpreter.run_op(self.op, frame)
        result = [detach(frame.find(name), values) for name in self.outputs]
        return result + [frame.lod(name) for name in self.outputs] if self.with_lod else result
