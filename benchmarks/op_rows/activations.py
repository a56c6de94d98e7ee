"""Functions of each element, with their gradients."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, layers, sized, uniform

SHAPES = ((4, 6),), ((128, 256),), ((1024, 1024),)
NAMES = """
abs acos asin atan ceil cos elu erf exp floor gelu hard_shrink hard_sigmoid hard_swish leaky_relu
log log1p logsigmoid mish pow reciprocal relu relu6 round rsqrt selu sigmoid sign sin soft_relu
softplus softshrink softsign sqrt square stanh swish tanh tanh_shrink thresholded_relu brelu
"""


def function(name: str) -> Any:
    def row(shape: Any) -> Row:
        return layers(lambda fluid, x: getattr(fluid.layers, name)(x), x=uniform(*shape) * 0.9)

    return row


def prelu(mode: str) -> Any:
    def row(*shape: int) -> Row:
        return layers(lambda fluid, x: fluid.layers.prelu(x, mode), x=uniform(*shape) - 0.5)

    return row


ROWS = {name: sized(function(name), *SHAPES) for name in NAMES.split()}
for mode in ("all", "channel", "element"):
    ROWS["prelu " + mode] = sized(prelu(mode), (2, 3, 4, 4), (16, 16, 16, 16), (32, 64, 28, 28))
ROWS["maxout"] = sized(
    lambda *shape: layers(lambda fluid, x: fluid.layers.maxout(x, 2), x=uniform(*shape)),
    (2, 4, 4, 4),
    (16, 16, 16, 16),
    (32, 64, 28, 28),
)
