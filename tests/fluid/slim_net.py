"""A network to be made smaller, and its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.contrib.slim.core import Context
from fluidlite.contrib.slim.graph import GraphWrapper, SlimGraphExecutor

PLACE = fluid.CPUPlace()
IN = [("image", "image"), ("label", "label")]


class Net:
    """Four convolutions, one of them depthwise, with or without a residual sum."""

    def __init__(self, residual: bool = False) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.startup.random_seed = 3
        with fluid.unique_name.guard(), fluid.program_guard(self.main, self.startup):
            self._build(residual)
            test = self.main.clone(for_test=True)
        outs = [("loss", self.loss.name), ("acc", self.accuracy.name)]
        self.graph, self.eval_graph = GraphWrapper(self.main, IN, outs), GraphWrapper(test, IN, outs)
        fluid.Executor(PLACE).run(self.startup, scope=self.scope)

    def _build(self, residual: bool) -> None:
        layers = fluid.layers
        image, label = fluid.data("image", [None, 1, 12, 12]), fluid.data("label", [None, 1], "int64")
        first = layers.conv2d(image, 8, 3, padding=1, param_attr="conv1_weights", bias_attr=False)
        first = layers.batch_norm(first, act="relu")
        second = layers.conv2d(first, 8, 3, padding=1, param_attr="conv2_weights", bias_attr=False)
        second = layers.batch_norm(second)
        both = layers.relu(second + first if residual else second)
        third = layers.conv2d(both, 8, 3, groups=8, use_cudnn=False, param_attr="conv3_weights")
        fourth = layers.conv2d(third, 6, 3, param_attr="conv4_weights", act="relu")
        prediction = layers.fc(fourth, 10, act="softmax", param_attr="product")
        self.loss = layers.mean(layers.cross_entropy(prediction, label))
        self.accuracy = layers.accuracy(prediction, label)

    def context(self, **options: Any) -> Context:
        context = Context(PLACE, self.scope, self.graph, None, self.eval_graph, reader, **options)
        context.executor = SlimGraphExecutor(PLACE)
        optimizer = fluid.optimizer.Momentum(0.05, 0.9)
        with fluid.unique_name.guard():
            context.optimize_graph = self.graph.get_optimize_graph(optimizer, PLACE, self.scope)
        return context

    def shape(self, name: str) -> list[int]:
        return list(self.scope.find_var(name).get_tensor().shape())


def reader(count: int = 4) -> Iterator[list[Any]]:
    """Batches of two samples whose label is where they are bright."""
    rng = np.random.RandomState(4)
    for _ in range(count):
        labels = rng.randint(0, 10, 8)
        images = rng.uniform(0, 0.1, (8, 1, 12, 12)).astype("float32")
        images[np.arange(8), 0, labels] += 1
        yield [(image, np.array([label])) for image, label in zip(images, labels, strict=True)]
