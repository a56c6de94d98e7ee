"""The workloads as fluid programs: the same source runs under FluidLite and under PaddlePaddle."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable
from typing import Any

import fluid_networks
import numpy as np


def _attr(fluid: Any, name: str) -> Any:
    return fluid.ParamAttr(name=name)


def _fc(fluid: Any, x: Any, size: int, index: int, act: str | None = None, flatten: int = 1) -> Any:
    return fluid.layers.fc(
        x,
        size,
        num_flatten_dims=flatten,
        act=act,
        param_attr=_attr(fluid, f"W{index}"),
        bias_attr=_attr(fluid, f"b{index}"),
    )


def _data(fluid: Any, name: str, shape: list[int], dtype: str) -> Any:
    return fluid.data(name, [-1, *shape], dtype)


def _loss(fluid: Any, logits: Any) -> Any:
    label = _data(fluid, "y", [1], "int64")
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))


def mlp(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """tanh layers, softmax, SGD."""
    h = _data(fluid, "x", [spec.sizes[0]], "float32")
    count = len(spec.sizes) - 1
    for i in range(1, count + 1):
        h = _fc(fluid, h, spec.sizes[i], i, "tanh" if i < count else None)
    return _loss(fluid, h), fluid.optimizer.SGD(learning_rate=spec.lr)


def lenet(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """Two convolutions with relu and max-pooling, one layer, Adam."""
    x = _data(fluid, "x", [1, 28, 28], "float32")
    for i, filters in ((1, 20), (2, 50)):
        x = fluid.layers.conv2d(
            x, filters, 5, act="relu", param_attr=_attr(fluid, f"W{i}"), bias_attr=_attr(fluid, f"b{i}")
        )
        x = fluid.layers.pool2d(x, 2, "max", 2)
    return _loss(fluid, _fc(fluid, x, 10, 3)), fluid.optimizer.Adam(learning_rate=spec.lr)


def word2vec(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """Four words, one shared embedding, a sigmoid layer, softmax over the vocabulary, SGD."""
    x = _data(fluid, "x", [4], "int64")
    words = fluid.embedding(x, [spec.vocab, spec.emb], is_sparse=True, param_attr=_attr(fluid, "emb"))
    joined = fluid.layers.reshape(words, [-1, 4 * spec.emb])
    hidden = _fc(fluid, joined, spec.hidden, 1, "sigmoid")
    return _loss(fluid, _fc(fluid, hidden, spec.vocab, 2)), fluid.optimizer.SGD(learning_rate=spec.lr)


def ctr(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """26 sparse slots and 13 numbers into three relu layers, SGD."""
    ids = _data(fluid, "ids", [spec.slots], "int64")
    dense = _data(fluid, "d", [spec.dense], "float32")
    rows = fluid.embedding(ids, [spec.rows, spec.emb], is_sparse=True, param_attr=_attr(fluid, "emb"))
    h = fluid.layers.concat([fluid.layers.reshape(rows, [-1, spec.slots * spec.emb]), dense], axis=1)
    for i, size in enumerate(spec.hidden, 1):
        h = _fc(fluid, h, size, i, "relu")
    return _loss(fluid, _fc(fluid, h, 2, len(spec.hidden) + 1)), fluid.optimizer.SGD(learning_rate=spec.lr)


def chain(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """200 element-wise ops; only the input is trained."""
    layers = fluid.layers
    x = layers.create_parameter([spec.n, spec.n], "float32", name="x")
    a = fluid.data("a", [spec.n, spec.n], "float32")
    b = fluid.data("b", [spec.n, spec.n], "float32")
    h = x
    for _ in range(spec.groups):
        h = layers.scale(
            layers.relu(layers.tanh(layers.elementwise_mul(layers.elementwise_add(h, a), b))), spec.scale
        )
    return layers.mean(h), fluid.optimizer.SGD(learning_rate=spec.lr)


def loop(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """The chain's ops, five in each of the steps of a While."""
    layers = fluid.layers
    x = layers.create_parameter([spec.n, spec.n], "float32", name="x")
    a = fluid.data("a", [spec.n, spec.n], "float32")
    b = fluid.data("b", [spec.n, spec.n], "float32")
    count, limit = (layers.fill_constant([1], "int64", number) for number in (0, spec.groups))

    def step(i: Any, h: Any) -> list[Any]:
        h = layers.scale(
            layers.relu(layers.tanh(layers.elementwise_mul(layers.elementwise_add(h, a), b))), spec.scale
        )
        return [layers.increment(i), h]

    _, h = layers.while_loop(lambda i, h: layers.less_than(i, limit), step, [count, layers.assign(x)])
    return layers.mean(h), fluid.optimizer.SGD(learning_rate=spec.lr)


PROGRAMS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "mlp": mlp,
    "lenet": lenet,
    "word2vec": word2vec,
    "ctr": ctr,
    "chain": chain,
    "loop": loop,
    "lstm": fluid_networks.lstm,
    "lstm_layer": fluid_networks.lstm_layer,
    "transformer": fluid_networks.transformer,
    "resnet": fluid_networks.resnet,
    "resnet50": fluid_networks.resnet,
}


def _saved_and_loaded(fluid: Any, exe: Any, main: Any) -> Any:
    """The program as people serve it: pruned to its logits, saved, loaded."""
    with tempfile.TemporaryDirectory() as folder:
        logits = main.global_block().var("logits.tmp_1")
        fluid.io.save_inference_model(folder, ["x"], [logits], exe, main)
        return fluid.io.load_inference_model(folder, exe)


def build(fluid: Any, kind: str, spec: Any) -> Callable[[], float]:
    """One training step of a workload (one inference where the spec says so), from its initial values."""
    infer = spec.cfg.get("infer", False)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        loss, optimizer = PROGRAMS[kind](fluid, spec)
        if not infer:
            optimizer.minimize(loss)
    place = fluid.CUDAPlace(0) if os.environ.get("BENCH_DEVICE") == "cuda" else fluid.CPUPlace()
    exe = fluid.Executor(place)
    scope = fluid.Scope() if hasattr(fluid, "Scope") else fluid.core.Scope()
    exe.run(startup, scope=scope)
    for name, value in fluid_networks.parameters(kind, spec).items():
        var = scope.find_var(name)
        var.get_tensor().set(np.ascontiguousarray(value), fluid.CPUPlace())
    batches = itertools.cycle(fluid_networks.as_fed(fluid, kind, spec))
    fetches: list[Any] = [loss]
    if infer:
        with fluid.scope_guard(scope):
            main, _, fetches = _saved_and_loaded(fluid, exe, main)
            batches = itertools.cycle([{"x": batch["x"]} for batch in spec.batches])

    def step() -> float:
        (value,) = exe.run(main, feed=next(batches), fetch_list=fetches, scope=scope)
        return float(np.asarray(value).reshape(-1)[0])

    return step
