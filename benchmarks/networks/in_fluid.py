"""The functions of `definitions` as layers of fluid: for FluidLite and for PaddlePaddle 1.8.5."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from networks.definitions import Network, batches, parameter
from networks.variants import find_network


class Functions:
    """Layers whose parameters are numbered as they are made; `values` are their initial values."""

    def __init__(self, fluid: Any, batch: int) -> None:
        self.fluid = fluid
        self.batch = batch
        self.layers = fluid.layers
        self.values: dict[str, Any] = {}

    def parameter(self, shape: Sequence[int], scale: float) -> Any:
        """The attributes of the next parameter."""
        name = f"p{len(self.values)}"
        self.values[name] = parameter(len(self.values), shape, scale)
        return self.fluid.ParamAttr(name=name)

    def conv(self, x: Any, out: int, k: int, stride: int, pad: int, groups: int = 1) -> Any:
        inner = x.shape[1] // groups
        w = self.parameter((out, inner, k, k), (2.0 / (inner * k * k)) ** 0.5)
        return self.layers.conv2d(x, out, k, stride, pad, 1, groups, param_attr=w, bias_attr=False)

    def conv_transpose(self, x: Any, out: int) -> Any:
        w = self.parameter((x.shape[1], out, 2, 2), (1.0 / x.shape[1]) ** 0.5)
        return self.layers.conv2d_transpose(x, out, filter_size=2, stride=2, param_attr=w, bias_attr=False)

    def bias(self, x: Any) -> Any:
        name = self.parameter((x.shape[1],), 0)
        b = self.layers.create_parameter([x.shape[1]], "float32", attr=name)
        return self.layers.elementwise_add(x, b, axis=1)

    def batch_norm(self, x: Any, act: str | None) -> Any:
        c = x.shape[1]
        h = self.layers.batch_norm(x, param_attr=self.parameter((c,), 1), bias_attr=self.parameter((c,), 0))
        return h if act is None else self.act(h, act)

    def act(self, x: Any, name: str) -> Any:
        if name == "leaky_relu":
            return self.layers.leaky_relu(x, 0.1)
        return getattr(self.layers, name)(x)

    def max_pool(self, x: Any, k: Any, stride: Any, pad: int) -> Any:
        return self.layers.pool2d(x, k, "max", stride, pad)

    def global_mean(self, x: Any) -> Any:
        return self.layers.pool2d(x, pool_type="avg", global_pooling=True)

    def upsample(self, x: Any) -> Any:
        return self.layers.resize_nearest(x, scale=2.0, align_corners=False)

    def fc(self, x: Any, out: int, flatten: int = 1) -> Any:
        inner = int(np.prod(x.shape[flatten:]))
        w = self.parameter((inner, out), inner**-0.5)
        b = self.parameter((out,), 0)
        return self.layers.fc(x, out, num_flatten_dims=flatten, param_attr=w, bias_attr=b)

    def embedding(self, ids: Any, rows: int, size: int) -> Any:
        w = self.parameter((rows, size), size**-0.5)
        return self.fluid.embedding(ids, [rows, size], is_sparse=True, param_attr=w)

    def layer_norm(self, x: Any) -> Any:
        c = x.shape[-1]
        gain, bias = self.parameter((c,), 1), self.parameter((c,), 0)
        return self.layers.layer_norm(x, begin_norm_axis=2, param_attr=gain, bias_attr=bias)

    def lstm(self, x: Any, seq: int, size: int) -> Any:
        inner = x.shape[-1]
        w = self.parameter((inner, 4 * size), inner**-0.5)
        recurrent = self.parameter((size, 4 * size), size**-0.5)
        bias = self.parameter((1, 4 * size), 0)
        flat = self.layers.fc(self.layers.reshape(x, [-1, inner]), 4 * size, param_attr=w, bias_attr=False)
        offsets = list(range(0, self.batch * seq + 1, seq))
        hidden, _ = self.layers.dynamic_lstm(
            self.layers.lod_reset(flat, target_lod=offsets),
            4 * size,
            use_peepholes=False,
            param_attr=recurrent,
            bias_attr=bias,
        )
        return self.layers.reshape(hidden, [-1, seq, size])

    def softmax(self, x: Any) -> Any:
        return self.layers.softmax(x)

    def matmul(self, x: Any, y: Any, transposed: bool, scale: float) -> Any:
        return self.layers.matmul(x, y, transpose_y=transposed, alpha=scale)

    def reshape(self, x: Any, shape: list[int]) -> Any:
        return self.layers.reshape(x, shape)

    def flat(self, x: Any) -> Any:
        return self.layers.flatten(x)

    def transpose(self, x: Any, axes: list[int]) -> Any:
        return self.layers.transpose(x, axes)

    def concat(self, parts: list[Any], axis: int) -> Any:
        return self.layers.concat(parts, axis)

    def piece(self, x: Any, start: int, stop: int) -> Any:
        return self.layers.slice(x, [1], [start], [stop])

    def repeat(self, x: Any, count: int) -> Any:
        return self.layers.expand(x, [1, count, 1])

    def add(self, x: Any, y: Any) -> Any:
        return self.layers.elementwise_add(x, y)

    def subtract(self, x: Any, y: Any) -> Any:
        return self.layers.elementwise_sub(x, y)

    def multiply(self, x: Any, y: Any) -> Any:
        return self.layers.elementwise_mul(x, y)

    def mean(self, x: Any, axis: int) -> Any:
        return self.layers.reduce_mean(x, dim=axis)

    def max(self, x: Any, axis: int) -> Any:
        return self.layers.reduce_max(x, dim=axis)

    def sum(self, x: Any, axis: int) -> Any:
        return self.layers.reduce_sum(x, dim=axis)

    def sum_kept(self, x: Any, axis: int) -> Any:
        return self.layers.reduce_sum(x, dim=axis, keep_dim=True)


def _loss(fluid: Any, network: Network, logits: Any) -> Any:
    if not network.classes:
        return fluid.layers.mean(fluid.layers.square(logits))
    label = fluid.data("y", [-1, 1], "int64")
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))


def _optimizer(fluid: Any, name: str) -> Any:
    if name == "momentum":
        return fluid.optimizer.Momentum(0.001, 0.9)
    return fluid.optimizer.Adam(0.001) if name == "adam" else fluid.optimizer.SGD(0.001)


def step_of(fluid: Any, name: str, infer: bool, naive: bool = False) -> Callable[[], float]:
    """A training step of a network, or an inference of one sample; `naive` is FluidLite's interpreter."""
    network = find_network(name)
    size = 1 if infer else network.batch
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        f = Functions(fluid, size)
        x = fluid.data("x", [-1, *network.shape], "int64" if network.vocabulary else "float32")
        logits = network.build(f, x)
        fetches = [logits]
        if not infer:
            fetches = [_loss(fluid, network, logits)]
            _optimizer(fluid, network.optimizer).minimize(fetches[0])
    exe = fluid.Executor(fluid.CPUPlace())
    if naive:
        exe.naive = True
    exe.run(startup)
    for key, value in f.values.items():
        fluid.global_scope().find_var(key).get_tensor().set(value, fluid.CPUPlace())
    fed = ["x"] if infer or not network.classes else ["x", "y"]
    feeds = itertools.cycle([{key: batch[key] for key in fed} for batch in batches(network, size)])
    if infer:
        # as people serve a model: saved, loaded
        with tempfile.TemporaryDirectory() as folder:
            fluid.io.save_inference_model(folder, ["x"], fetches, exe, main)
            main, _, fetches = fluid.io.load_inference_model(folder, exe)

    def step() -> float:
        (value,) = exe.run(main, feed=next(feeds), fetch_list=fetches)
        return float(np.asarray(value).reshape(-1)[0])

    return step
