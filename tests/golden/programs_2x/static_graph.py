"""Small static-graph programs. `fluid` is `paddle.base` here; the layers come from `paddle.static.nn`."""

from typing import Any

import numpy as np
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


@case
def v2_mlp_lamb(fluid: Any) -> Built:
    """Lamb writes its beta powers by slots that 1.8 lacks."""
    x = paddle.static.data("x", [None, 5])
    label = paddle.static.data("label", [None, 1], "int64")
    hidden = F.gelu(paddle.nn.Linear(5, 6)(x))
    logits = paddle.nn.Linear(6, 3)(F.relu6(hidden) + paddle.tile(x[:, :1], [1, 6]))
    loss = F.cross_entropy(logits, label)
    paddle.optimizer.Lamb(0.01, lamb_weight_decay=0.02).minimize(loss)
    return train(fluid, {"x": floats(4, 5), "label": ids(4, 1, below=3)}, loss, logits)


@case
def v2_mlp_adamw(fluid: Any) -> Built:
    x = paddle.static.data("x", [None, 5])
    y = paddle.static.data("y", [None, 1])
    hidden = F.silu(paddle.nn.Linear(5, 6)(x))
    normal = F.layer_norm(hidden, [6])
    predicted = paddle.nn.Linear(6, 1)(F.leaky_relu(normal))
    loss = F.mse_loss(predicted, y)
    clip = paddle.nn.ClipGradByNorm(0.5)
    paddle.optimizer.AdamW(0.02, weight_decay=0.05, epsilon=1e-3, grad_clip=clip).minimize(loss)
    return train(fluid, {"x": floats(4, 5), "y": floats(4, 1)}, loss, predicted)


@case
def v2_mlp_rmsprop(fluid: Any) -> Built:
    x = paddle.static.data("x", [None, 5])
    y = paddle.static.data("y", [None, 3])
    hidden = F.elu(paddle.nn.Linear(5, 6)(x)) * F.sigmoid(paddle.nn.Linear(5, 6)(x))
    predicted = F.softplus(paddle.nn.Linear(6, 3)(hidden))
    loss = F.smooth_l1_loss(predicted, y) + F.l1_loss(predicted, y) + paddle.norm(predicted) * 0.01
    rate = paddle.optimizer.lr.ExponentialDecay(0.05, 0.9)
    paddle.optimizer.RMSProp(rate, momentum=0.5, centered=True).minimize(loss)
    return train(fluid, {"x": floats(4, 5), "y": floats(4, 3)}, loss, predicted)


@case
def v2_adam_epsilon(fluid: Any) -> Built:
    """2.x scales epsilon by the second bias correction: a large one shows it."""
    x = paddle.static.data("x", [None, 5])
    loss = paddle.nn.Linear(5, 2)(x).square().mean()
    paddle.optimizer.Adam(0.1, epsilon=1e-2).minimize(loss)
    return train(fluid, {"x": floats(4, 5)}, loss)


@case
def v2_other_optimizers(fluid: Any) -> Built:
    """Adamax, Adadelta and Adagrad, a loss each."""
    x = paddle.static.data("x", [None, 5])
    losses = []
    for optimizer in (
        paddle.optimizer.Adamax(0.01),
        paddle.optimizer.Adadelta(0.1),
        paddle.optimizer.Adagrad(0.1),
        paddle.optimizer.Momentum(0.1, use_nesterov=True),
    ):
        layer = paddle.nn.Linear(5, 2)
        loss = paddle.mean(paddle.square(layer(x)))
        optimizer.minimize(loss, parameters=[layer.weight, layer.bias])
        losses.append(loss)
    return train(fluid, {"x": floats(4, 5)}, *losses)


@case
def v2_lstm(fluid: Any) -> Built:
    x = paddle.static.data("x", [3, 4, 5])
    label = paddle.static.data("label", [3, 1], "int64")
    outputs, (hidden, _) = paddle.nn.LSTM(5, 6)(x)
    back, _ = paddle.nn.GRU(6, 4, direction="bidirect")(outputs)
    logits = paddle.nn.Linear(14, 2)(paddle.concat([hidden[0], back[:, -1]], axis=1))
    loss = F.cross_entropy(logits, label)
    paddle.optimizer.SGD(0.2).minimize(loss)
    return train(fluid, {"x": floats(3, 4, 5), "label": ids(3, 1, below=2)}, loss, logits)


@case
def v2_transformer(fluid: Any) -> Built:
    x = paddle.static.data("x", [2, 4, 8])
    mask = paddle.static.data("mask", [2, 1, 4, 4])
    layer = paddle.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu")
    hidden = layer(x, mask)
    loss = paddle.mean(paddle.square(hidden - paddle.flip(x, [1])))
    paddle.optimizer.SGD(0.1).minimize(loss)
    return train(fluid, {"x": floats(2, 4, 8), "mask": floats(2, 1, 4, 4)}, loss, hidden)


@case
def v2_images(fluid: Any) -> Built:
    image = paddle.static.data("image", [2, 3, 8, 8])
    hidden = paddle.nn.Conv2D(3, 4, 3, padding=1)(image)
    hidden = paddle.nn.BatchNorm2D(4)(hidden)
    hidden = F.avg_pool2d(F.hardswish(hidden), 2, 2) + F.max_pool2d(hidden, 2, 2)
    hidden = F.interpolate(hidden, scale_factor=2, mode="bilinear")
    hidden = F.pad(paddle.nn.Conv2DTranspose(4, 2, 2)(hidden), [1, 1, 0, 0])
    pooled = paddle.flatten(F.adaptive_max_pool2d(paddle.nn.GroupNorm(1, 2)(hidden), 2), 1)
    loss = paddle.sum(paddle.multiply(pooled, pooled)) / 10
    paddle.optimizer.Momentum(0.01).minimize(loss)
    return train(fluid, {"image": floats(2, 3, 8, 8)}, loss)


def number(rng: Any, step: int, others: Any) -> Any:
    """A single number, of the shape []."""
    return np.asarray(rng.uniform(-1, 1), "float32"), []


@case
def v2_branches(fluid: Any) -> Built:
    """A branch and a loop that a single number steers."""
    x = paddle.static.data("x", [None, 3])
    flag = paddle.static.data("flag", [], "float32")
    hidden = paddle.nn.Linear(3, 3)(x)
    hidden = paddle.static.nn.cond(flag > 0.0, lambda: hidden * 2.0, lambda: hidden - 1.0)
    step = paddle.full([], 0, "int64")
    step, total = paddle.static.nn.while_loop(
        lambda step, total: step < 3, lambda step, total: [step + 1, total + F.tanh(total)], [step, hidden]
    )
    loss = paddle.mean(total)
    paddle.optimizer.SGD(0.1).minimize(loss)
    return train(fluid, {"x": floats(2, 3), "flag": number}, loss, total, step)


@case
def v2_half_precision(fluid: Any) -> Built:
    """A loss that is scaled so much that the first step overflows; without a GPU 2.6.2 keeps float32."""
    x = paddle.static.data("x", [None, 1, 6, 6])
    label = paddle.static.data("label", [None, 1], "int64")
    hidden = paddle.static.nn.batch_norm(paddle.static.nn.conv2d(x, 3, 3, padding=1), act="relu")
    logits = paddle.static.nn.fc(F.max_pool2d(hidden, 2), 3)
    loss = F.cross_entropy(logits, label) * 4.0  # times the scale, no float32: whatever the order of sums
    optimizer = paddle.static.amp.decorate(
        paddle.optimizer.Momentum(0.1),
        level="O1",
        init_loss_scaling=float(2**127),
        incr_every_n_steps=3,
        # so small that no step after the first overflows by the order of its sums
        decr_ratio=2.0**-30,
        use_dynamic_loss_scaling=True,
    )
    optimizer.minimize(loss)
    return train(fluid, {"x": floats(3, 1, 6, 6), "label": ids(3, 1, below=3)}, loss, "loss_scaling_0")


@case
def v2_pure_half_precision(fluid: Any) -> Built:
    """An overflow of any gradient is found by concat and reduce_any."""
    x = paddle.static.data("x", [None, 4])
    loss = paddle.mean(paddle.square(paddle.nn.Linear(4, 2)(x)))
    optimizer = paddle.static.amp.decorate(
        paddle.optimizer.AdamW(0.05), level="O2", use_dynamic_loss_scaling=True, incr_every_n_steps=2
    )
    optimizer.minimize(loss)
    return train(fluid, {"x": floats(3, 4)}, loss, "loss_scaling_0")
