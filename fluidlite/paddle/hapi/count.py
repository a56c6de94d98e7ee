"""`paddle.flops`: how many multiplications with an addition a network does for an input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.hapi.model_summary import declared, scratch_program, shapes
from fluidlite.paddle.nn.layer import activation, common, conv, norm, pooling
from fluidlite.paddle.nn.layer.base import Layer

__all__ = ["flops"]

Count = Callable[[Any, Any, Any], None]


def flops(
    net: Layer | Program, input_size: Sequence[int], custom_ops: Any = None, print_detail: bool = False
) -> int:
    """The number of operations of `net`, a Layer that is called with an input of `input_size`, or a Program
    for one sample; -1, with a warning, for something else.

    custom_ops: layer class -> function(layer, inputs, output) that adds to `layer.total_ops`.
    print_detail: print a table with a line for each layer, or each op that counts.
    """
    if isinstance(net, Program):
        return _of_program(net, print_detail)
    if isinstance(net, Layer):
        return _of_layer(net, list(input_size), dict(custom_ops or {}), print_detail)
    warn_user(
        "Your model must be an instance of paddle.nn.Layer or paddle.static.Program.", category=UserWarning
    )
    return -1


# ---------------------------------------------------------------------- layers
def _count_nothing(layer: Any, inputs: Any, output: Any) -> None:
    """Layers that only choose or copy."""


def _count_conv(layer: Any, inputs: Any, output: Variable) -> None:
    """A product for each weight of an output's window, and one addition for a bias."""
    weight = layer.weight
    window = math.prod(weight.shape[2:])
    incoming = inputs[0].shape[1] // layer._groups
    bias = 0 if layer.bias is None else 1
    layer.total_ops += math.prod(output.shape) * (incoming * window + bias)


def _count_linear(layer: Any, inputs: Any, output: Variable) -> None:
    layer.total_ops += layer.weight.shape[0] * math.prod(output.shape)


def _count_norm(layer: Any, inputs: Any, output: Variable) -> None:
    """Subtract the mean and divide: two a number where the figures are known."""
    if not layer.training:
        layer.total_ops += 2 * math.prod(inputs[0].shape)


def _count_elements(layer: Any, inputs: Any, output: Variable) -> None:
    layer.total_ops += math.prod(inputs[0].shape)


def _count_outputs(layer: Any, inputs: Any, output: Variable) -> None:
    layer.total_ops += math.prod(output.shape)


def _count_adaptive(layer: Any, inputs: Any, output: Variable) -> None:
    """A sum over the window, and a division."""
    sizes = zip(inputs[0].shape[2:], output.shape[2:], strict=True)
    layer.total_ops += (math.prod(size // made for size, made in sizes) + 1) * math.prod(output.shape)


COUNTS: dict[type, Count] = {
    **dict.fromkeys([conv.Conv1D, conv.Conv2D, conv.Conv3D], _count_conv),
    **dict.fromkeys([conv.Conv1DTranspose, conv.Conv2DTranspose, conv.Conv3DTranspose], _count_conv),
    **dict.fromkeys([norm.BatchNorm, norm.BatchNorm2D], _count_norm),
    **dict.fromkeys([activation.ReLU, activation.ReLU6, common.Dropout], _count_nothing),
    activation.LeakyReLU: _count_elements,
    common.Linear: _count_linear,
    **dict.fromkeys([pooling.AvgPool1D, pooling.AvgPool2D, pooling.AvgPool3D], _count_outputs),
    **dict.fromkeys(
        [pooling.AdaptiveAvgPool1D, pooling.AdaptiveAvgPool2D, pooling.AdaptiveAvgPool3D], _count_adaptive
    ),
}


@dataclass
class _Line:
    """A layer of the table."""

    name: str
    inputs: Any
    outputs: Any
    params: int
    count: int


def _of_layer(net: Layer, size: list[int], own: Mapping[type, Count], detail: bool) -> int:
    """Count the leaves of a network."""
    leaves = [layer for layer in net.sublayers(include_self=True) if not layer.sublayers()]
    _say_what_counts(leaves, own)
    lines: dict[int, _Line] = {}
    was_training = net.training
    hooks = [leaf.register_forward_post_hook(_recorder(lines, own)) for leaf in leaves]
    net.eval()
    try:
        with scratch_program(net):
            for leaf in leaves:
                leaf.__dict__["total_ops"] = 0
            net(*declared([size], None))
    finally:
        for hook in hooks:
            hook.remove()
        for leaf in leaves:
            leaf.__dict__.pop("total_ops", None)
        net._set_training(was_training)
    # in the order in which the network holds them
    found = [lines[id(leaf)] for leaf in leaves if id(leaf) in lines]
    total = sum(line.count for line in found)
    params = sum(line.params for line in found)
    if detail:
        rows = [(line.name, line.inputs, line.outputs, line.params, line.count) for line in found]
        print(_table(("Layer Name", "Input Shape", "Output Shape", "Params", "Flops"), rows))
    print(f"Total Flops: {total}     Total Params: {params}")
    return total


def _recorder(lines: dict[int, _Line], own: Mapping[type, Count]) -> Callable[..., None]:
    def note(layer: Any, inputs: Any, output: Any) -> None:
        count = own.get(type(layer), COUNTS.get(type(layer), _count_nothing))
        count(layer, inputs, output)
        held = [var for var in (*layer._parameters.values(), *layer._buffers.values()) if var is not None]
        params = sum(math.prod(var.shape) for var in held)
        lines[id(layer)] = _Line(
            layer.full_name(), shapes(inputs[0]), shapes(output), params, layer.total_ops
        )

    return note


def _say_what_counts(leaves: Sequence[Layer], own: Mapping[type, Count]) -> None:
    for kind in dict.fromkeys(type(leaf) for leaf in leaves):
        if kind in own:
            print(f"Customize Function has been applied to {kind}")
        elif kind in COUNTS:
            print(f"{kind}'s flops has been counted")
        else:
            print(f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs.")


# ---------------------------------------------------------------------- programs
def _of_program(program: Program, detail: bool) -> int:
    """Count the ops of a program for one sample."""
    rows = []
    for block in program.blocks:
        for op in block.ops:
            if op.type in _OP_COUNTS:
                rows.append((op.type, _parameter(op), _OP_COUNTS[op.type](op)))
    if detail:
        print(_table(("OP Type", "Param name", "Flops"), rows))
    return sum(count for _, _, count in rows)


def _shape(op: Operator, name: str) -> tuple[int, ...]:
    return tuple(op.block._var_recursive(name).shape)


def _parameter(op: Operator) -> str:
    """The weight of an op; "" where it has none."""
    slot = {"mul": "Y"}.get(op.type, "Filter")
    return op.input(slot)[0] if slot in op.input_names else ""


def _count_conv_op(op: Operator) -> int:
    filters = _shape(op, op.input("Filter")[0])
    outputs = _shape(op, op.output("Output")[0])
    bias = 1 if "Bias" in op.input_names and op.input("Bias") else 0
    return math.prod(outputs[1:]) * (math.prod(filters[1:]) + bias)


def _count_pool_op(op: Operator) -> int:
    """A window is taken to be as large as the input is larger than the output."""
    inputs = _shape(op, op.input("X")[0])
    outputs = _shape(op, op.output("Out")[0])
    window = math.prod(size // made for size, made in zip(inputs[2:], outputs[2:], strict=True))
    return math.prod(outputs[1:]) * (window + 1)


def _count_mul_op(op: Operator) -> int:
    rows, columns = _shape(op, op.input("Y")[0])
    kept = _shape(op, op.input("X")[0])[1 : op.attr("x_num_col_dims")]
    return rows * columns * math.prod(kept)


def _count_elementwise_op(op: Operator) -> int:
    return math.prod(_shape(op, op.output("Out")[0])[1:])


def _count_batch_norm_op(op: Operator) -> int:
    return 2 * math.prod(_shape(op, op.output("Y")[0])[1:])


_OP_COUNTS: dict[str, Callable[[Operator], int]] = {
    **dict.fromkeys(["conv2d", "depthwise_conv2d"], _count_conv_op),
    "pool2d": _count_pool_op,
    "mul": _count_mul_op,
    "batch_norm": _count_batch_norm_op,
    **{
        f"elementwise_{kind}": _count_elementwise_op
        for kind in ("add", "sub", "mul", "div", "max", "min", "pow", "mod", "floordiv")
    },
}


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows in a frame of +, - and |."""
    cells = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(heads))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [
        "|" + "|".join(f" {c.center(w)} " for c, w in zip(line, widths, strict=True)) + "|" for line in cells
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
