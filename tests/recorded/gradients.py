"""Gradients of single layers, and their gradients: the ops that are added and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .facts import Case, Cases, declare


def _weighted(fluid: Any, y: Any) -> Any:
    """y times other numbers for each element, so that no two gradients are the same."""
    return y * fluid.layers.assign(np.arange(1, 1 + int(np.prod(y.shape))).reshape(y.shape).astype("float32"))


def _input(fluid: Any) -> Any:
    x = declare(fluid)("x", (4, 3))
    x.stop_gradient = False
    return x


def gradients(fluid: Any) -> Cases:
    layers = fluid.layers

    def ids(*values: Any) -> Any:
        return layers.assign(np.array(values, "int64"))

    def grids(x: Any) -> Any:
        first, second = layers.meshgrid([layers.reshape(x, [-1]), layers.reshape(x * x, [-1])])
        return _weighted(fluid, first) + _weighted(fluid, second) * 2

    weighted = {
        "gather": lambda x: layers.gather(x, ids(3, 0, 3)),
        "gather_add": lambda x: layers.gather(x, ids(3, 0, 3), overwrite=False),
        "gather_nd": lambda x: layers.gather_nd(x, ids([3], [0], [3])),
        "clip": lambda x: layers.clip(x, 0.7, 1.0),
        "max_tie": lambda x: layers.elementwise_max(x, x),
        "min_tie": lambda x: layers.elementwise_min(x, x * 1.0),
        "topk": lambda x: layers.topk(x, 2)[0],
        "cumsum": lambda x: layers.cumsum(x, 1, exclusive=True),
        "flip": lambda x: layers.flip(x, [0]),
        "roll": lambda x: layers.roll(x, 1),
        "tril": lambda x: layers.tril(x),
        "index_select": lambda x: layers.index_select(x, ids(2, 0, 2), 1),
        "index_sample": lambda x: layers.index_sample(x, ids([0, 0], [1, 2], [1, 0], [2, 2])),
        "kron": lambda x: layers.kron(x, x),
        "addmm": lambda x: layers.addmm(x, layers.matmul(x, x, transpose_y=True), x),
        "addmm_row": lambda x: layers.addmm(
            layers.slice(x, [0], [0], [1]), layers.matmul(x, x, transpose_y=True), x
        ),
        "cross": lambda x: layers.cross(x, x * x, dim=1),
        "trace": lambda x: layers.trace(x),
        "crop_tensor": lambda x: layers.crop_tensor(x, [2, 2], [1, 1]),
        "positions": lambda x: layers.add_position_encoding(layers.reshape(x, [2, 3, 2]), 0.7, 0.3),
        "multiplex": lambda x: layers.multiplex(
            [x, x * x], layers.assign(np.array([[0], [1], [1], [0]], "int32"))
        ),
        "assign": lambda x: layers.assign(x),
        "sums": lambda x: layers.sums([x, x, x * 2]),
        "concat": lambda x: layers.concat([x, x * 2], 1),
        "split": lambda x: layers.concat(layers.split(x, 3, 1), 1),
        "stack": lambda x: layers.stack([x, x * 2], 1),
        "expand": lambda x: layers.expand(x, [2, 3]),
        "pow": lambda x: layers.elementwise_pow(x, x),
        "scatter": lambda x: layers.scatter(x, ids(3, 1), layers.slice(x, [0], [0], [2])),
        "scatter_nd_add": lambda x: layers.scatter_nd_add(x, ids([1], [1]), layers.slice(x, [0], [0], [2])),
        "reverse": lambda x: layers.reverse(x, [0, 1]),
        "strided_slice": lambda x: layers.strided_slice(x, [0, 1], [3, 0], [0, 3], [-1, 2]),
        "row": lambda x: x[1],
        "transpose": lambda x: layers.transpose(x, [1, 0]),
        "squeeze": lambda x: layers.squeeze(layers.unsqueeze(x, [1]), [1]),
        "flatten": lambda x: layers.flatten(layers.unsqueeze(x, [1])),
        "scale_variable": lambda x: layers.scale(x, layers.fill_constant([1], "float32", 3.0), 1.0),
        "clamp": lambda x: layers.clamp(x, 0.7, 1.0),
    }

    def gradient(layer: Callable[[Any], Any]) -> Case:
        def build() -> Any:
            x = _input(fluid)
            y = layer(x)
            return [y, *fluid.gradients([y], [x])]

        return build

    cases = {
        name: gradient(lambda x, layer=layer: _weighted(fluid, layer(x))) for name, layer in weighted.items()
    }
    return {**cases, "meshgrid": gradient(grids), "dist": gradient(lambda x: layers.dist(x, x * x, 3))}


def second(fluid: Any) -> Cases:
    layers = fluid.layers
    square = layers.square

    def row(x: Any) -> Any:
        return layers.reshape(layers.slice(x, [0], [0], [1]), [3])

    made = {
        "square": square,
        "relu": layers.relu,
        "leaky_relu": lambda x: layers.leaky_relu(x - 1, 0.1),
        "sqrt": layers.sqrt,
        "elu": lambda x: layers.elu(x - 1.0, 0.5),
        "add": lambda x: layers.elementwise_add(x * x, layers.slice(x, [0], [0], [1])),
        "sub": lambda x: layers.elementwise_sub(x * x, square(x)),
        "mul": lambda x: x * x * x,
        "div": lambda x: x / (x * x + 1.0),
        "add_row": lambda x: layers.elementwise_add(square(x), square(row(x))),
        "sub_row": lambda x: layers.elementwise_sub(square(x), square(row(x))),
        "mul_row": lambda x: layers.elementwise_mul(square(x), row(x)),
        "div_row": lambda x: layers.elementwise_div(square(x), row(x)),
        "reshape": lambda x: square(layers.reshape(x, [-1])),
        "reduce_mean": lambda x: layers.reduce_mean(square(x)),
        "reduce_sum": lambda x: square(layers.reduce_sum(square(x), dim=1)),
        "scale": lambda x: square(x) * 3 + 1,
        "sums": lambda x: layers.sums([square(x), x]),
        "expand": lambda x: square(layers.expand(x, [2, 1])),
        "slice": lambda x: square(layers.slice(x, [0], [0], [2])),
        "assign": lambda x: square(layers.assign(x)),
        "cumsum": lambda x: square(layers.cumsum(x, 1)),
        "reverse": lambda x: square(layers.reverse(x, [0])),
        "flip": lambda x: square(layers.flip(x, [0])),
        "neg": lambda x: square(-x),
        # these have no second derivative in Paddle, which leaves out what comes before them
        "tanh": layers.tanh,
        "transpose": lambda x: square(layers.transpose(x, [1, 0])),
        "concat": lambda x: square(layers.concat([x, x])),
        "stack": lambda x: square(layers.stack([x, square(x)])),
        "softmax": lambda x: square(layers.softmax(x)),
    }

    def twice(layer: Callable[[Any], Any]) -> Case:
        def build() -> Any:
            x = _input(fluid)
            (first,) = fluid.gradients([layer(x)], [x])
            found = fluid.gradients([layers.reduce_sum(first * first)], [x])
            return [first, *(gradient for gradient in found if gradient is not None)]

        return build

    return {name: twice(layer) for name, layer in made.items()}
