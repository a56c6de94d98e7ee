"""The workloads in JAX, one jitted function a step, parameters donated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax_networks import NETWORKS


def _cross_entropy(z: Any, y: Any) -> Any:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y, 1))


def _conv(x: Any, w: Any, b: Any) -> Any:
    h = (
        lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        + b[:, None, None]
    )
    return lax.reduce_window(jax.nn.relu(h), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _loss(kind: str, spec: Any) -> Callable[[Any, Any], Any]:
    def mlp(p: Any, b: Any) -> Any:
        h, count = b["x"], len(spec.sizes) - 1
        for i in range(1, count + 1):
            h = h @ p[f"W{i}"] + p[f"b{i}"]
            h = jnp.tanh(h) if i < count else h
        return _cross_entropy(h, b["y"])

    def lenet(p: Any, b: Any) -> Any:
        h = _conv(_conv(b["x"], p["W1"], p["b1"]), p["W2"], p["b2"])
        return _cross_entropy(h.reshape(h.shape[0], -1) @ p["W3"] + p["b3"], b["y"])

    def word2vec(p: Any, b: Any) -> Any:
        h = jax.nn.sigmoid(p["emb"][b["x"]].reshape(spec.batch, -1) @ p["W1"] + p["b1"])
        return _cross_entropy(h @ p["W2"] + p["b2"], b["y"])

    def ctr(p: Any, b: Any) -> Any:
        h = jnp.concatenate([p["emb"][b["ids"]].reshape(spec.batch, -1), b["d"]], 1)
        for i in range(1, len(spec.hidden) + 1):
            h = jax.nn.relu(h @ p[f"W{i}"] + p[f"b{i}"])
        return _cross_entropy(h @ p[f"W{len(spec.hidden) + 1}"] + p[f"b{len(spec.hidden) + 1}"], b["y"])

    def chain(p: Any, b: Any) -> Any:
        h = p["x"]
        for _ in range(spec.groups):
            h = jax.nn.relu(jnp.tanh((h + b["a"]) * b["b"])) * spec.scale
        return jnp.mean(h)

    if kind in NETWORKS:
        return lambda p, b: NETWORKS[kind](spec, p, b)
    return {"mlp": mlp, "lenet": lenet, "word2vec": word2vec, "ctr": ctr, "chain": chain, "loop": chain}[kind]


def _gathered(kind: str, loss: Any, lr: float) -> Any:
    """SGD in which the table's gradient is taken by gathered rows, so that no dense table is made."""
    ids_of = {"word2vec": "x", "ctr": "ids"}[kind]

    def step(p: Any, b: Any) -> Any:
        ids = b[ids_of]

        def of_rows(rows: Any, rest: Any) -> Any:
            return loss({**rest, "emb": rows}, {**b, ids_of: jnp.arange(ids.size).reshape(ids.shape)})

        rest = {name: value for name, value in p.items() if name != "emb"}
        value, (rows, grads) = jax.value_and_grad(of_rows, (0, 1))(p["emb"][ids.reshape(-1)], rest)
        new = {name: rest[name] - lr * grads[name] for name in rest}
        return value, {**new, "emb": p["emb"].at[ids.reshape(-1)].add(-lr * rows)}

    return step


def _adam(loss: Any, lr: float) -> Any:
    def step(state: Any, b: Any) -> Any:
        p, m, v, t = state
        value, g = jax.value_and_grad(loss)(p, b)
        t = t + 1
        m = jax.tree.map(lambda a, c: 0.9 * a + 0.1 * c, m, g)
        v = jax.tree.map(lambda a, c: 0.999 * a + 0.001 * c * c, v, g)
        rate = lr * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return value, (jax.tree.map(lambda a, c, d: a - rate * c / (jnp.sqrt(d) + 1e-8), p, m, v), m, v, t)

    return step


def _adagrad(loss: Any, spec: Any) -> Any:
    def step(state: Any, b: Any) -> Any:
        p, m = state
        value, g = jax.value_and_grad(loss)(p, b)
        m = jax.tree.map(lambda a, c: a + c * c, m, g)
        return value, (jax.tree.map(lambda a, c, d: a - spec.lr * c / (jnp.sqrt(d) + spec.eps), p, g, m), m)

    return step


def _momentum(loss: Any, spec: Any) -> Any:
    def step(state: Any, b: Any) -> Any:
        p, m = state
        value, g = jax.value_and_grad(loss)(p, b)
        m = jax.tree.map(lambda a, c, d: spec.mu * a + c + spec.wd * d, m, g, p)
        return value, (jax.tree.map(lambda a, c: a - spec.lr * c, p, m), m)

    return step


def _sgd(loss: Any, lr: float) -> Any:
    def step(p: Any, b: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, b)
        return value, jax.tree.map(lambda a, c: a - lr * c, p, g)

    return step


def _training(kind: str, spec: Any, params: Any) -> tuple[Any, Any]:
    """The state that the step of a workload carries on, and the step."""
    loss = _loss(kind, spec)

    def zeros() -> Any:
        return {name: jnp.zeros_like(value) for name, value in params.items()}

    if spec.cfg.get("infer"):
        return params, lambda p, b: (loss(p, b)[0, 0], p)
    if kind in ("lenet", "transformer"):
        return (params, zeros(), zeros(), jnp.float32(0)), _adam(loss, spec.lr)
    if kind in ("lstm", "lstm_layer"):
        return (params, zeros()), _adagrad(loss, spec)
    if kind in ("resnet", "resnet50"):
        return (params, zeros()), _momentum(loss, spec)
    return params, _gathered(kind, loss, spec.lr) if kind in ("word2vec", "ctr") else _sgd(loss, spec.lr)


def build(kind: str, spec: Any) -> Callable[[], float]:
    """One training step of a workload (one inference where the spec says so)."""
    params = {name: jnp.asarray(value) for name, value in spec.params.items()}
    state, function = _training(kind, spec, params)
    jitted = jax.jit(function, donate_argnums=0)

    def step() -> float:
        nonlocal state
        value, state = jitted(state, spec.next())
        return float(value)

    return step
