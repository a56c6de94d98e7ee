"""The small models that are saved: training programs, and the part of each that is kept for inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .cases import Fed, Feed, floats, ids, sequences


class Model(NamedTuple):
    """A training program, what feeds it, and the part of it that is saved for inference."""

    program: Any
    feeds: dict[str, Feed]
    inputs: list[str]
    outputs: list[Any]


def mlp(fluid: Any) -> Model:
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    y = fluid.data(name="y", shape=[None, 1], dtype="float32")
    hidden = fluid.layers.dropout(fluid.layers.fc(x, size=5, act="tanh"), dropout_prob=0.1)
    predicted = fluid.layers.fc(hidden, size=1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    return Model(fluid.default_main_program(), {"x": floats(3, 4), "y": floats(3, 1)}, ["x"], [predicted])


def convnet(fluid: Any) -> Model:
    image = fluid.layers.data(name="image", shape=[1, 6, 6], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    conv = fluid.layers.conv2d(image, num_filters=3, filter_size=3, bias_attr=False)
    norm = fluid.layers.batch_norm(
        conv, act="relu", moving_mean_name="running_mean", moving_variance_name="running_variance"
    )
    pooled = fluid.layers.pool2d(norm, pool_size=2, pool_stride=2)
    predicted = fluid.layers.fc(fluid.layers.dropout(pooled, 0.2), size=3, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predicted, label))
    fluid.optimizer.Momentum(
        learning_rate=fluid.layers.exponential_decay(0.1, 2, 0.5), momentum=0.9
    ).minimize(loss)
    feeds = {"image": floats(2, 1, 6, 6), "label": ids(2, 1, below=3)}
    return Model(fluid.default_main_program(), feeds, ["image"], [predicted, pooled])


def tagger(fluid: Any) -> Model:
    words = fluid.data(name="words", shape=[None, 1], dtype="int64", lod_level=1)
    extra = fluid.data(name="extra", shape=[None, 2], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    vectors = fluid.layers.embedding(words, size=[9, 3], is_sparse=True)
    hidden, _ = fluid.layers.dynamic_lstm(fluid.layers.fc(vectors, size=8), size=8)
    pooled = fluid.layers.sequence_pool(hidden, "max")
    predicted = fluid.layers.fc([pooled, extra], size=2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predicted, label))
    fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss)
    feeds = {"words": sequences(3, 4, 1, below=9), "extra": floats(3, 2), "label": ids(3, 1, below=2)}
    return Model(fluid.default_main_program(), feeds, ["extra", "words"], [predicted])


def boxes(rng: Any, step: int, others: dict[str, Fed]) -> Fed:
    """Three boxes of two images, as parts of these."""
    low = rng.uniform(0, 0.5, (3, 2))
    return np.concatenate((low, low + rng.uniform(0.2, 0.5, (3, 2))), axis=1).astype("float32"), [[1, 2]]


def kinds(rng: Any, step: int, others: dict[str, Fed]) -> Fed:
    """Their classes."""
    return rng.randint(1, 3, (3, 1)).astype("int32"), [[1, 2]]


def detector(fluid: Any) -> Model:
    image = fluid.data(name="image", shape=[None, 3, 16, 16], dtype="float32")
    box = fluid.data(name="box", shape=[None, 4], dtype="float32", lod_level=1)
    label = fluid.data(name="label", shape=[None, 1], dtype="int32", lod_level=1)
    small = fluid.layers.conv2d(image, num_filters=4, filter_size=3, stride=2, padding=1, act="relu")
    maps = [small, fluid.layers.conv2d(small, num_filters=4, filter_size=3, stride=2, padding=1, act="relu")]
    codes, scores, priors, variances = fluid.layers.multi_box_head(
        maps, image, 16, 3, [[2.0], [2.0]], min_sizes=[4.0, 8.0], max_sizes=[8.0, 12.0], clip=True
    )
    found = fluid.layers.detection_output(codes, scores, priors, variances, nms_threshold=0.45)
    loss = fluid.layers.reduce_sum(fluid.layers.ssd_loss(codes, scores, box, label, priors, variances))
    fluid.optimizer.Momentum(learning_rate=0.02, momentum=0.9).minimize(loss)
    feeds = {"image": floats(2, 3, 16, 16), "box": boxes, "label": kinds}
    return Model(fluid.default_main_program(), feeds, ["image"], [found])


MODEL_PROGRAMS: dict[str, Callable[[Any], Model]] = {
    "mlp": mlp,
    "convnet": convnet,
    "tagger": tagger,
    "detector": detector,
}
