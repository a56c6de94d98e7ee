"""The functions of `definitions` in PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from networks.definitions import Network, batches, parameter
from networks.variants import find_network

ACTIVATIONS = {"gelu": F.gelu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": F.relu, "relu6": F.relu6}


class Functions:
    """Functions whose parameters are made at the first pass and found again by their number."""

    def __init__(self, training: bool) -> None:
        self.training = training
        self.values: list[Any] = []
        self.next = 0

    def parameter(self, shape: Sequence[int], scale: float) -> Any:
        """The next parameter."""
        if self.next == len(self.values):
            value = torch.tensor(parameter(self.next, shape, scale), requires_grad=self.training)
            self.values.append(value)
        self.next += 1
        return self.values[self.next - 1]

    def conv(self, x: Any, out: int, k: int, stride: int, pad: int, groups: int = 1) -> Any:
        inner = x.shape[1] // groups
        w = self.parameter((out, inner, k, k), (2.0 / (inner * k * k)) ** 0.5)
        return F.conv2d(x, w, None, stride, pad, 1, groups)

    def conv_transpose(self, x: Any, out: int) -> Any:
        w = self.parameter((x.shape[1], out, 2, 2), (1.0 / x.shape[1]) ** 0.5)
        return F.conv_transpose2d(x, w, None, 2)

    def bias(self, x: Any) -> Any:
        return x + self.parameter((x.shape[1],), 0)[:, None, None]

    def batch_norm(self, x: Any, act: str | None) -> Any:
        c = x.shape[1]
        gain, bias = self.parameter((c,), 1), self.parameter((c,), 0)
        h = F.batch_norm(x, torch.zeros(c), torch.ones(c), gain, bias, training=self.training)
        return h if act is None else self.act(h, act)

    def act(self, x: Any, name: str) -> Any:
        return F.leaky_relu(x, 0.1) if name == "leaky_relu" else ACTIVATIONS[name](x)

    def max_pool(self, x: Any, k: Any, stride: Any, pad: int) -> Any:
        return F.max_pool2d(x, k, stride, pad)

    def global_mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def upsample(self, x: Any) -> Any:
        return F.interpolate(x, scale_factor=2.0, mode="nearest")

    def fc(self, x: Any, out: int, flatten: int = 1) -> Any:
        x = x.flatten(flatten)
        w = self.parameter((x.shape[-1], out), x.shape[-1] ** -0.5)
        return x @ w + self.parameter((out,), 0)

    def embedding(self, ids: Any, rows: int, size: int) -> Any:
        return F.embedding(ids, self.parameter((rows, size), size**-0.5))

    def layer_norm(self, x: Any) -> Any:
        c = x.shape[-1]
        return F.layer_norm(x, (c,), self.parameter((c,), 1), self.parameter((c,), 0))

    def lstm(self, x: Any, seq: int, size: int) -> Any:
        w = self.parameter((x.shape[-1], 4 * size), x.shape[-1] ** -0.5)
        recurrent = self.parameter((size, 4 * size), size**-0.5)
        bias = self.parameter((1, 4 * size), 0)[0]
        # candidate, i, f, o become i, f, candidate, o
        order = [*range(size, 3 * size), *range(size), *range(3 * size, 4 * size)]
        weights = [w.t()[order].contiguous(), recurrent.t()[order].contiguous(), bias[order], bias * 0]
        zeros = torch.zeros(1, len(x), size)
        return torch._VF.lstm(x, (zeros, zeros), weights, True, 1, 0.0, self.training, False, True)[0]

    def softmax(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def matmul(self, x: Any, y: Any, transposed: bool, scale: float) -> Any:
        return x @ (y.transpose(-1, -2) if transposed else y) * scale

    def reshape(self, x: Any, shape: list[int]) -> Any:
        return x.reshape(shape)

    def flat(self, x: Any) -> Any:
        return x.flatten(1)

    def transpose(self, x: Any, axes: list[int]) -> Any:
        return x.permute(axes)

    def concat(self, parts: list[Any], axis: int) -> Any:
        return torch.cat(parts, axis)

    def piece(self, x: Any, start: int, stop: int) -> Any:
        return x[:, start:stop]

    def repeat(self, x: Any, count: int) -> Any:
        return x.expand(-1, count, -1)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def subtract(self, x: Any, y: Any) -> Any:
        return x - y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def mean(self, x: Any, axis: int) -> Any:
        return x.mean(axis)

    def max(self, x: Any, axis: int) -> Any:
        return x.amax(axis)

    def sum(self, x: Any, axis: int) -> Any:
        return x.sum(axis)

    def sum_kept(self, x: Any, axis: int) -> Any:
        return x.sum(axis, keepdim=True)


def _optimizer(name: str, values: list[Any]) -> Any:
    if name == "momentum":
        return torch.optim.SGD(values, lr=0.001, momentum=0.9)
    return torch.optim.Adam(values, lr=0.001) if name == "adam" else torch.optim.SGD(values, lr=0.001)


def _loss(network: Network, logits: Any, label: Any) -> Any:
    return F.cross_entropy(logits, label[:, 0]) if network.classes else logits.square().mean()


def step_of(name: str, infer: bool, compiled: bool) -> Callable[[], float]:
    """A training step of a network, or an inference of one sample."""
    network = find_network(name)
    f = Functions(not infer)
    feeds = itertools.cycle(batches(network, 1 if infer else network.batch))

    def forward(x: Any) -> Any:
        f.next = 0
        return network.build(f, x)

    with torch.no_grad():  # makes the parameters
        forward(torch.from_numpy(next(feeds)["x"][:2]))
    feeds = itertools.cycle(batches(network, 1 if infer else network.batch))
    run = torch.compile(forward) if compiled else forward
    if infer:

        def inference() -> float:
            with torch.inference_mode():
                return float(np.asarray(run(torch.from_numpy(next(feeds)["x"]))).reshape(-1)[0])

        return inference
    optimizer = _optimizer(network.optimizer, f.values)

    def step() -> float:
        batch = {key: torch.from_numpy(value) for key, value in next(feeds).items()}
        optimizer.zero_grad(set_to_none=True)
        loss = _loss(network, run(batch["x"]), batch["y"])
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step
