"""Small static-graph programs. `fluid` is `paddle.base` here; the layers come from `paddle.static.nn`."""

from typing import Any

import paddle
from paddle.nn import functional as F

from ..cases import Built, case, floats, ids, sequences, train


@case
def v2_fit_a_line(fluid: Any) -> Built:
    """A loss without dimensions: shape [] all the way."""
    x = paddle.static.data("x", [None, 13])
    y = paddle.static.data("y", [None, 1])
    predicted = paddle.static.nn.fc(x, 1)
    loss = paddle.mean(F.square_error_cost(predicted, y))
    paddle.optimizer.SGD(0.05).minimize(loss)
    return train(fluid, {"x": floats(8, 13), "y": floats(8, 1)}, loss, predicted)


@case
def v2_lenet(fluid: Any) -> Built:
    image = paddle.static.data("image", [None, 1, 8, 8])
    label = paddle.static.data("label", [None, 1], "int64")
    hidden = paddle.static.nn.conv2d(image, num_filters=4, filter_size=3, act="relu")
    hidden = F.max_pool2d(hidden, 2, 2)
    hidden = paddle.static.nn.conv2d(hidden, num_filters=6, filter_size=2, act="relu")
    logits = paddle.nn.Linear(24, 10)(paddle.flatten(hidden, 1))
    loss = paddle.mean(F.softmax_with_cross_entropy(logits, label))
    accuracy = paddle.static.accuracy(F.softmax(logits), label)
    paddle.optimizer.Adam(0.01).minimize(loss)
    return train(fluid, {"image": floats(4, 1, 8, 8), "label": ids(4, 1, below=10)}, loss, accuracy)


@case
def v2_resnet(fluid: Any) -> Built:
    image = paddle.static.data("image", [None, 2, 6, 6])
    label = paddle.static.data("label", [None, 1], "int64")

    def conv_bn(x: Any, act: Any) -> Any:
        conv = paddle.static.nn.conv2d(x, num_filters=4, filter_size=3, padding=1, bias_attr=False)
        return paddle.static.nn.batch_norm(conv, act=act)

    stem = conv_bn(image, "relu")
    hidden = F.relu(stem + conv_bn(conv_bn(stem, "relu"), None))
    pooled = F.adaptive_avg_pool2d(hidden, 1)
    logits = paddle.static.nn.fc(pooled, 3)
    loss = F.cross_entropy(logits, label)
    paddle.optimizer.Momentum(0.1, 0.9, weight_decay=paddle.regularizer.L2Decay(1e-2)).minimize(loss)
    return train(fluid, {"image": floats(3, 2, 6, 6), "label": ids(3, 1, below=3)}, loss)


@case
def v2_words(fluid: Any) -> Built:
    words = paddle.static.data("words", [None, 4], "int64")
    label = paddle.static.data("label", [None, 1], "int64")
    vectors = paddle.static.nn.embedding(words, size=[12, 6], is_sparse=True)
    normal = paddle.static.nn.layer_norm(vectors, begin_norm_axis=2)
    scores = F.softmax(paddle.matmul(normal, normal, transpose_y=True))
    mixed = paddle.mean(paddle.matmul(scores, vectors), axis=1)
    logits = paddle.nn.Linear(6, 3)(F.gelu(mixed))
    loss = F.cross_entropy(logits, label)
    clip = paddle.nn.ClipGradByGlobalNorm(0.5)
    paddle.optimizer.SGD(0.5, grad_clip=clip).minimize(loss)
    return train(fluid, {"words": ids(3, 4, below=12), "label": ids(3, 1, below=3)}, loss)


@case
def v2_sequences(fluid: Any) -> Built:
    words = paddle.static.data("words", [None, 1], "int64", lod_level=1)
    label = paddle.static.data("label", [None, 1], "int64")
    vectors = paddle.static.nn.embedding(words, size=[12, 4])
    pooled = paddle.static.nn.sequence_lod.sequence_pool(vectors, "sum")
    logits = paddle.static.nn.fc(paddle.tanh(pooled), 2)
    loss = paddle.mean(F.softmax_with_cross_entropy(logits, label))
    paddle.optimizer.Adagrad(0.1).minimize(loss)
    return train(fluid, {"words": sequences(4, 4, 1, below=12), "label": ids(4, 1, below=2)}, loss)
