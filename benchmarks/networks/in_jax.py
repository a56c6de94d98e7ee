"""The functions of `definitions` in JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from networks.definitions import Network, batches, parameter
from networks.variants import find_network

ACTIVATIONS = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "leaky_relu": lambda x: jax.nn.leaky_relu(x, 0.1),
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
}
DIMS = ("NCHW", "OIHW", "NCHW")


def _pair(k: Any) -> tuple[int, int]:
    return k if isinstance(k, tuple) else (k, k)


class Functions:
    """Functions whose parameters are made at the first pass and found again by their number."""

    def __init__(self, training: bool, values: list[Any] | None = None) -> None:
        self.training = training
        self.is_first = values is None
        self.values = values or []
        self.next = 0

    def parameter(self, shape: Sequence[int], scale: float) -> Any:
        """The next parameter."""
        if self.is_first:
            self.values.append(jnp.asarray(parameter(self.next, shape, scale)))
        self.next += 1
        return self.values[self.next - 1]

    def conv(self, x: Any, out: int, k: int, stride: int, pad: int, groups: int = 1) -> Any:
        inner = x.shape[1] // groups
        w = self.parameter((out, inner, k, k), (2.0 / (inner * k * k)) ** 0.5)
        return lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=DIMS, feature_group_count=groups
        )

    def conv_transpose(self, x: Any, out: int) -> Any:
        w = self.parameter((x.shape[1], out, 2, 2), (1.0 / x.shape[1]) ** 0.5)
        n, _, rows, columns = x.shape
        return jnp.einsum("nchw,cokl->nohkwl", x, w).reshape(n, out, 2 * rows, 2 * columns)

    def bias(self, x: Any) -> Any:
        return x + self.parameter((x.shape[1],), 0)[:, None, None]

    def batch_norm(self, x: Any, act: str | None) -> Any:
        c = x.shape[1]
        gain, bias = self.parameter((c,), 1), self.parameter((c,), 0)
        if self.training:
            mean = x.mean((0, 2, 3), keepdims=True)
            variance = jnp.square(x).mean((0, 2, 3), keepdims=True) - jnp.square(mean)
            x = (x - mean) * lax.rsqrt(variance + 1e-5)
        h = x * gain[:, None, None] + bias[:, None, None]
        return h if act is None else self.act(h, act)

    def act(self, x: Any, name: str) -> Any:
        return ACTIVATIONS[name](x)

    def max_pool(self, x: Any, k: Any, stride: Any, pad: int) -> Any:
        pads = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *_pair(k)), (1, 1, *_pair(stride)), pads)

    def global_mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def upsample(self, x: Any) -> Any:
        return x.repeat(2, 2).repeat(2, 3)

    def fc(self, x: Any, out: int, flatten: int = 1) -> Any:
        x = x.reshape(*x.shape[:flatten], -1)
        w = self.parameter((x.shape[-1], out), x.shape[-1] ** -0.5)
        return x @ w + self.parameter((out,), 0)

    def embedding(self, ids: Any, rows: int, size: int) -> Any:
        return self.parameter((rows, size), size**-0.5)[ids]

    def layer_norm(self, x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)
        return x * self.parameter(x.shape[-1:], 1) + self.parameter(x.shape[-1:], 0)

    def lstm(self, x: Any, seq: int, size: int) -> Any:
        w = self.parameter((x.shape[-1], 4 * size), x.shape[-1] ** -0.5)
        recurrent = self.parameter((size, 4 * size), size**-0.5)
        inputs = jnp.swapaxes(x @ w + self.parameter((1, 4 * size), 0), 0, 1)

        def cell(state: Any, row: Any) -> Any:
            h, c = state
            new, i, f, o = jnp.split(row + h @ recurrent, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(new)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((len(x), size))
        return jnp.swapaxes(lax.scan(cell, (zeros, zeros), inputs)[1], 0, 1)

    def softmax(self, x: Any) -> Any:
        return jax.nn.softmax(x)

    def matmul(self, x: Any, y: Any, transposed: bool, scale: float) -> Any:
        return x @ (jnp.swapaxes(y, -1, -2) if transposed else y) * scale

    def reshape(self, x: Any, shape: list[int]) -> Any:
        return x.reshape(shape)

    def flat(self, x: Any) -> Any:
        return x.reshape(len(x), -1)

    def transpose(self, x: Any, axes: list[int]) -> Any:
        return x.transpose(axes)

    def concat(self, parts: list[Any], axis: int) -> Any:
        return jnp.concatenate(parts, axis)

    def piece(self, x: Any, start: int, stop: int) -> Any:
        return x[:, start:stop]

    def repeat(self, x: Any, count: int) -> Any:
        return jnp.broadcast_to(x, (len(x), count, x.shape[-1]))

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def subtract(self, x: Any, y: Any) -> Any:
        return x - y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def mean(self, x: Any, axis: int) -> Any:
        return x.mean(axis)

    def max(self, x: Any, axis: int) -> Any:
        return x.max(axis)

    def sum(self, x: Any, axis: int) -> Any:
        return x.sum(axis)

    def sum_kept(self, x: Any, axis: int) -> Any:
        return x.sum(axis, keepdims=True)


def _loss(network: Network, logits: Any, label: Any) -> Any:
    if not network.classes:
        return jnp.square(logits).mean()
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), label, 1))


def _updated(name: str, state: Any, grads: Any) -> Any:
    """The state after an update: parameters and what the optimizer keeps."""
    p, m, v, t = state
    if name == "sgd":
        return jax.tree.map(lambda a, g: a - 0.001 * g, p, grads), m, v, t
    if name == "momentum":
        m = jax.tree.map(lambda a, g: 0.9 * a + g, m, grads)
        return jax.tree.map(lambda a, c: a - 0.001 * c, p, m), m, v, t
    t = t + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    rate = 0.001 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return jax.tree.map(lambda a, c, d: a - rate * c / (jnp.sqrt(d) + 1e-8), p, m, v), m, v, t


def _state(name: str, values: list[Any]) -> Any:
    empty: list[Any] = []
    m = empty if name == "sgd" else [jnp.zeros_like(value) for value in values]
    v = [jnp.zeros_like(value) for value in values] if name == "adam" else empty
    return values, m, v, jnp.float32(0)


def step_of(name: str, infer: bool) -> Callable[[], float]:
    """A training step of a network, or an inference of one sample."""
    network = find_network(name)
    feeds = itertools.cycle(batches(network, 1 if infer else network.batch))
    first = Functions(not infer)
    network.build(first, jnp.asarray(batches(network, 1)[0]["x"]))  # makes the parameters

    def loss(p: Any, b: Any) -> Any:
        return _loss(network, network.build(Functions(True, p), b["x"]), b["y"])

    def train(state: Any, b: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(state[0], b)
        return value, _updated(network.optimizer, state, grads)

    if infer:
        forward = jax.jit(lambda p, x: network.build(Functions(False, p), x).reshape(-1)[0])
        return lambda: float(forward(first.values, next(feeds)["x"]))
    state = _state(network.optimizer, first.values)
    jitted = jax.jit(train, donate_argnums=0)

    def step() -> float:
        nonlocal state
        value, state = jitted(state, next(feeds))
        return float(value)

    return step
