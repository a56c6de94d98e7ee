"""Gradients of outputs that an op's gradient op does not read, such as the Softmax of a loss.

PaddlePaddle leaves them out. An op of their own is derived from the op's kernel (`Op.derivative`). In the
gradient of a gradient op they stand for what the op saved, as the mean and variance of `layer_norm`: it
depends on the op's inputs, also where its variable, by itself, is to have no gradient.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from fluidlite.backward.rules import GradientContext
from fluidlite.base.derived import derived_slots
from fluidlite.base.dtypes import is_float
from fluidlite.base.errors import UnsupportedError
from fluidlite.base.gradient_names import OUTPUTS_GRAD, grad_name
from fluidlite.base.registry import EMPTY_VAR, Op
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator

__all__ = ["add_left_outputs", "add_saved_outputs"]

Slots = Mapping[str, list[str]]


# ---------------------------------------------------------------------- outputs that are read
def add_left_outputs(context: GradientContext, arriving: Container[str]) -> None:
    """Add the op for gradients of outputs, those of the variables `arriving`, that none of the gradient ops
    reads. UnsupportedError, with the op, where it cannot be derived.
    """
    op = context.forward
    known = op.definition
    if known is None or not context.ops or op.sub_blocks():
        return
    read = {name for gradient in context.ops for name in gradient.input_arg_names}
    changing = [slot for slot in known.outputs if slot not in known.constants]
    left = [slot for slot in changing if _is_left(context, slot, read, arriving)]
    slots = [slot for slot in known.grad_slots or known.inputs if context.may_vary(slot)]
    outputs = {grad_name(slot): context.in_grad(slot) for slot in slots}
    if left and _is_wanted(outputs):
        inputs = {slot: context.input(slot) for slot in known.inputs}
        _emit(context, op, inputs, {slot: context.out_grad(slot) for slot in left}, outputs)


def _is_left(context: GradientContext, slot: str, read: Container[str], arriving: Container[str]) -> bool:
    """True if a gradient comes to the output `slot` that no gradient op reads."""
    op = context.forward
    for name, seen in zip(op.output(slot), context.output(slot), strict=True):
        is_new = name in arriving and name not in op.input_arg_names
        if is_new and _is_real(op, name) and grad_name(seen) not in read:
            return True
    return False


def _is_real(op: Operator, name: str) -> bool:
    """True for a variable with elements that are real numbers."""
    var = op.block._find_var_recursive(name)
    return var is not None and var._dtype is not None and is_float(var._dtype) and 0 not in var.shape


def _is_wanted(outputs: Slots) -> bool:
    return any(name != EMPTY_VAR for names in outputs.values() for name in names)


def _emit(context: GradientContext, op: Operator, inputs: Slots, gradients: Slots, outputs: Slots) -> None:
    """Emit the op that takes `gradients`, by output slot, of the op `op`."""
    known = op.definition
    assert known is not None
    is_drawn = known.random and bool(op.attrs.get(known.drawn_by, True))
    if known.compute is None or known.opaque or is_drawn:
        slot = next(iter(gradients))
        raise UnsupportedError(
            f"op {op.type!r}: a gradient arrives at its output {slot} {op.output(slot)}, but the op "
            f"has no gradient for it ({known.opaque or 'its values are drawn at random'})\n"
            f"  {op.call_text()}\n  built at {op.where}"
        )
    _, incoming = derived_slots(known)
    read = {slot: names for slot, names in inputs.items() if names}
    read |= {incoming[slot]: names for slot, names in gradients.items()}
    attrs = {name: value for name, value in op.attrs.items() if name in known.attr_defs}
    context.emit(op.type + OUTPUTS_GRAD, read, outputs, attrs)


# ---------------------------------------------------------------------- outputs that were saved
def add_saved_outputs(context: GradientContext) -> None:
    """Let the derived gradient op of a gradient op go on through what the forward op saved for it, where the
    saved variable is to have no gradient by itself: it has one by way of the op's inputs.
    """
    op = context.forward
    root = _root(op.definition)
    if root is None or op.definition is None:
        return
    derived = [each for each in context.ops if each.definition and each.definition.forward is op.definition]
    for slot in root.outputs:
        is_saved = slot in op.definition.inputs and slot not in root.constants and context.may_vary(slot)
        if is_saved and all(name == EMPTY_VAR for name in context.in_grad(slot)):
            for gradient_op in derived:
                _go_on(context, root, slot, gradient_op)


def _root(known: Op | None) -> Op | None:
    """The op whose gradient, or whose gradient's gradient, `known` is; None for one that is none."""
    if known is None or known.forward is None:
        return None
    while known.forward is not None:
        known = known.forward
    return known


def _go_on(context: GradientContext, root: Op, slot: str, derived: Operator) -> None:
    op = context.forward
    forward = _writer(op, root, slot)
    inputs = {name: context.input(name) or forward.input(name) for name in root.inputs}
    outputs = {grad_name(name): _wanted(context, name, forward) for name in root.grad_slots or root.inputs}
    outputs = {name: names for name, names in outputs.items() if names}
    if not _is_wanted(outputs):
        return
    _check_values(op, [name for slot in root.inputs if not context.input(slot) for name in inputs[slot]])
    # each gradient op has a share of its own in the gradient of what was saved
    mark = next(name for name in op.output_arg_names if name != EMPTY_VAR)
    shares = [f"{grad_name(name)}@OF@{mark}" for name in context.input(slot)]
    derived.outputs[grad_name(slot)] = shares
    _emit(context, forward, inputs, {slot: shares}, outputs)


def _writer(op: Operator, root: Op, slot: str) -> Operator:
    """The op of the type `root` that saved what `op` reads by `slot`."""
    block: Block | None = op.block
    while block is not None:
        for other in block.ops:
            if other.type == root.type and other.output(slot) == op.input(slot):
                return other
        block = block.parent
    raise UnsupportedError(
        f"op {op.type!r} has no gradient here: no op {root.type!r} of the program writes its {slot} "
        f"{op.input(slot)}\n  {op.call_text()}\n  built at {op.where}"
    )


def _wanted(context: GradientContext, slot: str, forward: Operator) -> list[str]:
    """The gradients to make for an input slot of the forward op."""
    if context.input(slot):
        return context.in_grad(slot) if context.may_vary(slot) else []
    names = forward.input(slot)
    if not all(_is_real(forward, name) for name in names):
        return []
    return [context.gradient_of(name) for name in names]


def _check_values(op: Operator, names: Iterable[str]) -> None:
    """UnsupportedError where a variable that the forward op read has another value since."""
    for name in names:
        var = op.block._find_var_recursive(name)
        writers = [] if var is None else [each for each in var.block.ops if name in each.output_arg_names]
        if len(writers) > 1:
            raise UnsupportedError(
                f"op {op.type!r} has no gradient here: {name!r}, which its forward op read, was overwritten\n"
                f"  {op.call_text()}\n  built at {op.where}"
            )
