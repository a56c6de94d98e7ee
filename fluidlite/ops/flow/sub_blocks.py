"""Runs of sub-blocks, as the ops of loops, branches and recurrences need them.

A run of a sub-block is a frame (`fluidlite.executor.run.interpreter.Frame`). Where an op's gradient will be
taken, the frames are the value of its StepScopes (Scope, step_scopes); the gradient op runs the gradient
block once for each of them, in a frame of its own that sees the values of that one.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.gradient_names import variable_of
from fluidlite.base.registry import EMPTY_VAR, STRINGS, GradContext, Lod, WithLod, grad_name
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes
from fluidlite.ir.replaced import replaced_names, rewound_names
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, host

__all__ = [
    "SKIPPED",
    "SubBlockFacts",
    "added",
    "facts_of",
    "gradient",
    "gradient_frame",
    "has_elements",
    "is_array",
    "is_true",
    "own_copies",
    "replaced_unread",
    "snapshot",
    "wanted_gradients",
    "zeros_of",
]

# Paddle's memory planner keeps to it; here it only travels with the op
SKIPPED = {"skip_eager_deletion_vars": STRINGS()}


def is_true(value: Any) -> bool:
    """The truth of a tensor with one element."""
    return bool(host(value).reshape(-1)[0])


def has_elements(values: list[Any]) -> bool:
    """True if all values are there, and none is an array without elements."""
    return all(value is not None and not (is_array(value) and value.size == 0) for value in values)


def is_array(value: Any) -> bool:
    """True for an array or scalar of NumPy or CuPy, False for what else a variable may hold."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__cuda_array_interface__")


def added(xp: Any, a: Any, b: Any) -> Any:
    """The sum of two gradients of the same variable: dense, selected rows or arrays; None is zero."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, LoDTensorArray):
        return _added_arrays(a, b)
    if isinstance(a, SelectedRows) and isinstance(b, SelectedRows):
        return SelectedRows(xp.concatenate((a.ids, b.ids)), a.height(), xp.concatenate((a.array, b.array)))
    return (a.dense(xp) if isinstance(a, SelectedRows) else a) + (
        b.dense(xp) if isinstance(b, SelectedRows) else b
    )


def _added_arrays(a: LoDTensorArray, b: LoDTensorArray) -> LoDTensorArray:
    total = LoDTensorArray(a)
    total.extend(b[len(a) :])
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if right.array is not None:
            total[index] = right if left.array is None else LoDTensor(left.array + right.array, left._lod)
    return total


def zeros_of(xp: Any, value: Any) -> Any:
    """A gradient of zeros for `value`; None where it can have none."""
    if isinstance(value, LoDTensorArray):
        return LoDTensorArray(
            item if item.array is None else LoDTensor(xp.zeros_like(item.array), item._lod) for item in value
        )
    return xp.zeros_like(value) if is_array(value) else None


def gradient(xp: Any, made: Any, value: Any, lod: Lod) -> Any:
    """The gradient of `value`, zeros where none was made, with the level of detail of `value`."""
    made = made if made is not None else zeros_of(xp, value)
    return made if made is None or isinstance(made, (LoDTensorArray, SelectedRows)) else WithLod(made, lod)


# ---------------------------------------------------------------------- facts and frames
class SubBlockFacts(NamedTuple):
    """Writes of a control-flow op's sub-block, found once for each version of the program."""

    version: tuple[int, int]
    writes: frozenset[str]
    """Outer and inner variables that the sub-block's ops write."""
    carried: tuple[str, ...]
    """Inputs that hold something else by the time of the gradient than when a step began."""
    counted: tuple[str, ...]
    """Inputs that a step counts on, and its gradient counts back."""
    keeps: bool
    """True if a gradient op reads the frames."""


_facts: weakref.WeakKeyDictionary[Operator, SubBlockFacts] = weakref.WeakKeyDictionary()


def facts_of(op: Operator, inputs: str) -> SubBlockFacts:
    """The facts of a control-flow op; `inputs` is the slot of its outer variables."""
    program = op.block.program
    known = _facts.get(op)
    if known is not None and known.version == (program.serial, program.version):
        return known
    assert op.definition is not None
    body = op.attrs["sub_block"]
    written = frozenset(name for inner in body.ops for name in writes(inner))
    frames = set(op.output(op.definition.frames))
    keeps = any(
        not frames.isdisjoint(other.input_arg_names) for block in program.blocks for other in block.ops
    )
    keeps = keeps and not op.attrs.get("is_test")
    replaced = replaced_names(op) if keeps else set()
    names = dict.fromkeys(op.input(inputs))
    counted = rewound_names(body, op.definition.repeats) - replaced if keeps else set()
    _facts[op] = SubBlockFacts(
        (program.serial, program.version),
        written,
        tuple(name for name in names if name in replaced),
        tuple(name for name in names if name in counted),
        keeps,
    )
    return _facts[op]


def replaced_unread(context: GradContext, slot: str, made: Collection[str]) -> list[str]:
    """Variables that a loop or branch may write over, and does not read by `slot`: their old values have
    gradients too, among `made` by its gradient block.
    """
    written = dict.fromkeys(context.output("Out"))
    return [
        name
        for name in written
        if name in context.older and name not in context.input(slot) and context.has_gradient(name, made)
    ]


def _copied(value: Any) -> Any:
    return value.copy() if is_array(value) else value


def own_copies(ctx: Any, names: Iterable[str]) -> None:
    """Copy variables that the sub-block replaces: frames that are kept may show the memory of the old
    values.
    """
    for name in names:
        var = ctx.op.block._find_var_recursive(name)
        if var is None or not var.persistable:
            ctx.frame.set(name, _copied(ctx.frame.find(name)), ctx.frame.lod(name))


def snapshot(ctx: Any, names: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Value and level of detail of each variable; arrays are left out, their entries are not replaced."""
    found = {}
    for name in names:
        value = ctx.frame.find(name)
        var = ctx.op.block._find_var_recursive(name)
        if value is not None and not isinstance(value, LoDTensorArray):
            found[name] = (
                _copied(value) if var is not None and var.persistable else value,
                ctx.frame.lod(name),
            )
    return found


def gradient_frame(ctx: Any, step: Any, own: Iterable[str], values: Mapping[str, Any]) -> Any:
    """A frame for the gradient block of one step; `own` are gradients that stay in it, `values` those that
    it starts with.
    """
    frame = ctx.frame.child(ctx.op.attrs["sub_block"], step, frozenset(own) | frozenset(values))
    for name, value in values.items():
        if value is not None:
            # looked up before the value is there: what came in from outside may have a level of its own
            frame.lods[name] = ctx.frame.lod(name) or frame.lod(variable_of(name))
            frame.values[name] = value
    return frame


def wanted_gradients(op: Operator, slot: str) -> list[tuple[int, str]]:
    """Positions of the variables in `slot` whose gradient is wanted, with its name inside the sub-block."""
    return [
        (index, grad_name(name))
        for index, (name, gradient) in enumerate(
            zip(op.input(slot), op.output(grad_name(slot)), strict=False)
        )
        if gradient != EMPTY_VAR
    ]
