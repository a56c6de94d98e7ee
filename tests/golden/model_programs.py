"""The small models that are saved: training programs, and the part of each that is kept for inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .cases import Feed, floats, ids, sequences


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


MODEL_PROGRAMS: dict[str, Callable[[Any], Model]] = {"mlp": mlp, "convnet": convnet, "tagger": tagger}
