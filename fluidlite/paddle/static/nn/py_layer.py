"""`static_pylayer`: a part of a program with a gradient of its author's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.registry import EMPTY_VAR, GradContext, grad_name
from fluidlite.ir.block import Block
from fluidlite.ir.program import program_guard
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.utils import flatten, pack_sequence_as
from fluidlite.ops.flow.debug import remember
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.creation import assign

__all__ = ["static_pylayer"]


def static_pylayer(
    forward_fn: Callable[..., Any],
    inputs: Sequence[Variable],
    backward_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """forward_fn(*inputs), whose gradients are backward_fn(*gradients of the results): one for each input.
    None for a function that has no gradients, of inputs that need none.

    The ops of `forward_fn` stand in the program as they are. ValueError for inputs that need gradients which
    nothing makes.
    """
    begin()
    needing = [var.name for var in inputs if not var.stop_gradient]
    if backward_fn is None and needing:
        raise ValueError(f"static_pylayer: backward_fn is None, but gradients are needed of {needing}")
    found = forward_fn(*inputs)
    if found is None:
        return None
    number = -1 if backward_fn is None else remember(_OwnBackward(backward_fn).emit)
    return pack_sequence_as(found, _results(list(inputs), flatten(found), number))


def _results(inputs: list[Variable], values: list[Any], number: int) -> list[Variable]:
    """The op's outputs: the values, behind which gradients go the way of the op of that number."""
    helper = LayerHelper("static_pylayer")
    kept = [assign(value) for value in values]
    for value in kept:
        value.stop_gradient = True
    outs = [helper.create_variable_for_type_inference(value.dtype) for value in kept]
    slots = {"Input": inputs, "Value": kept}
    helper.append_op(type="pylayer", inputs=slots, outputs={"Out": outs}, attrs={"backward": number})
    return outs


class _OwnBackward:
    """The ops of a backward function, emitted where the gradients of an op `pylayer` are written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def emit(self, context: GradContext) -> None:
        """Emit what the function appends to a block of its own: results under the names of the inputs'
        gradients, the rest under new names of gradients.
        """
        block = context.forward.block
        program = block.program
        with program_guard(program):
            scratch = program._create_block(block.idx)
            given = [_gradient_like(scratch, name, context) for name in context.forward.output("Out")]
            made = flatten(self.function(*given))
            program.current_block_idx = block.idx
            program.blocks.pop()
        names = dict(zip((var.name for var in given), context.out_grad("Out"), strict=True))
        wanted = context.in_grad("Input")
        if len(made) != len(wanted):
            raise ValueError(
                f"static_pylayer: backward_fn gave {len(made)} gradients for {len(wanted)} inputs\n"
                f"  built at {context.op.where}"
            )
        for var in scratch.vars.values():
            if var.name not in names:
                names[var.name] = unique_name.generate(grad_name(var.name))
                block.create_var(name=names[var.name], shape=var.shape, dtype=var.dtype, type=var.type)
        for op in scratch.ops:
            inputs, outputs = (
                {slot: [names.get(name, name) for name in found] for slot, found in slots.items()}
                for slots in (op.inputs, op.outputs)
            )
            context.emit(op.type, inputs, outputs, dict(op.attrs))
        for var, name in zip(made, wanted, strict=True):
            if name != EMPTY_VAR and var is not None:
                context.emit("assign", {"X": [names.get(var.name, var.name)]}, {"Out": [name]}, {})


def _gradient_like(scratch: Block, name: str, context: GradContext) -> Variable:
    """A variable in the place of the gradient of `name`."""
    var = context.forward.block._find_var_recursive(name)
    made = unique_name.generate(grad_name(name))
    return scratch.create_var(name=made, shape=var.shape, dtype=var.dtype)
