"""The larger workloads in JAX: functions of sizes, parameters and a batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def _cross_entropy(z: Any, y: Any) -> Any:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y, 1))


def lstm(spec: Any, p: Any, b: Any) -> Any:
    """One LSTM layer as a scan over time, the maximum over time."""
    words = jnp.swapaxes(p["emb"][b["x"]].reshape(spec.batch, spec.seq, -1), 0, 1)
    inputs = words @ p["wih"].T + p["bih"] + p["bhh"]

    def cell(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row + h @ p["whh"].T, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((spec.batch, spec.hidden))
    _, hidden = lax.scan(cell, (zeros, zeros), inputs)
    return _cross_entropy(hidden.max(0) @ p["W"] + p["b"], b["y"])


def _layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * gain + bias


def transformer(spec: Any, p: Any, b: Any) -> Any:
    """Post-norm encoder layers, the mean over the words."""
    x = b["x"]
    batch, seq, d = x.shape
    for number in range(spec.layers):
        w = {name[3:]: value for name, value in p.items() if name.startswith(f"l{number}_")}
        qkv = (x @ w["wqkv"] + w["bqkv"]).reshape(batch, seq, 3, spec.heads, d // spec.heads)
        q, k, v = jnp.transpose(qkv, (2, 0, 3, 1, 4))
        weights = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) * (d // spec.heads) ** -0.5)
        mixed = jnp.swapaxes(weights @ v, 1, 2).reshape(batch, seq, d)
        x = _layer_norm(mixed @ w["wo"] + w["bo"] + x, w["g1"], w["c1"])
        wide = jax.nn.gelu(x @ w["w1"] + w["b1"], approximate=False)
        x = _layer_norm(wide @ w["w2"] + w["b2"] + x, w["g2"], w["c2"])
    return _cross_entropy(x.mean(1) @ p["W"] + p["b"], b["y"])


def resnet(spec: Any, p: Any, b: Any) -> Any:
    """Convolutions with batch_norm in residual blocks; the logits where `spec` infers."""

    def conv(x: Any, shape: tuple[Any, ...]) -> Any:
        name, _, _, k, stride = shape
        pads = [(k // 2, k // 2)] * 2
        dims = ("NCHW", "OIHW", "NCHW")
        h = lax.conv_general_dilated(x, p[name + "_w"], (stride, stride), pads, dimension_numbers=dims)
        if not spec.infer:
            mean = h.mean((0, 2, 3), keepdims=True)
            variance = jnp.square(h).mean((0, 2, 3), keepdims=True) - jnp.square(mean)
            h = (h - mean) * lax.rsqrt(variance + 1e-5)
        return h * p[name + "_g"][:, None, None] + p[name + "_b"][:, None, None]

    convs, blocks = spec.layout()
    x = jax.nn.relu(conv(b["x"], convs[0]))
    if spec.pool:
        pads = ((0, 0), (0, 0), (1, 1), (1, 1))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)
    for *main, shortcut in blocks:
        h = x
        for number, shape in enumerate(main, 1):
            h = conv(h, shape)
            h = jax.nn.relu(h) if number < len(main) else h
        x = jax.nn.relu(h + (x if shortcut is None else conv(x, shortcut)))
    logits = x.mean((2, 3)) @ p["fc_w"] + p["fc_b"]
    return logits if spec.infer else _cross_entropy(logits, b["y"])


NETWORKS = {
    "lstm": lstm,
    "lstm_layer": lstm,
    "transformer": transformer,
    "resnet": resnet,
    "resnet50": resnet,
}
