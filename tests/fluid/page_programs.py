"""Programs that pages are made of in tests: networks as people write them, with functions and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fluidlite as fluid
from fluidlite import layers

Programs = tuple[fluid.Program, fluid.Program]


def built(build: Callable[[], Any]) -> Programs:
    """The main and the startup program that a function builds."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        build()
    return main, startup


def lenet() -> None:
    image = fluid.data("image", [None, 1, 28, 28])
    label = fluid.data("label", [None, 1], "int64")
    hidden = fluid.nets.simple_img_conv_pool(image, 20, 5, 2, 2, act="relu")
    hidden = fluid.nets.simple_img_conv_pool(hidden, 50, 5, 2, 2, act="relu")
    guess = layers.fc(hidden, 10, act="softmax")
    loss = layers.mean(layers.cross_entropy(guess, label))
    fluid.optimizer.Adam(0.001).minimize(loss)


# ---------------------------------------------------------------------- ResNet-50
def conv_bn(x: Any, filters: int, size: int, stride: int = 1, act: str | None = None) -> Any:
    x = layers.conv2d(x, filters, size, stride, (size - 1) // 2, bias_attr=False)
    return layers.batch_norm(x, act=act)


def shortcut(x: Any, filters: int, stride: int) -> Any:
    return x if x.shape[1] == filters and stride == 1 else conv_bn(x, filters, 1, stride)


def bottleneck(x: Any, filters: int, stride: int) -> Any:
    inner = conv_bn(x, filters, 1, act="relu")
    inner = conv_bn(inner, filters, 3, stride, act="relu")
    inner = conv_bn(inner, 4 * filters, 1)
    return layers.elementwise_add(shortcut(x, 4 * filters, stride), inner, act="relu")


def resnet(x: Any) -> Any:
    x = conv_bn(x, 64, 7, 2, "relu")
    x = layers.pool2d(x, 3, "max", 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            x = bottleneck(x, 64 << stage, 2 if stage and not block else 1)
    x = layers.pool2d(x, 7, "avg", global_pooling=True)
    return layers.fc(x, 1000)


def resnet50() -> None:
    image = fluid.data("image", [None, 3, 224, 224])
    label = fluid.data("label", [None, 1], "int64")
    loss = layers.mean(layers.softmax_with_cross_entropy(resnet(image), label))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)


# ---------------------------------------------------------------------- sentences
def sentiment() -> None:
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    label = fluid.data("label", [None, 1], "int64")
    inputs = layers.fc(layers.embedding(words, [5000, 64]), 128, act="tanh")
    cells = layers.DynamicRNN()
    with cells.block():
        word = cells.step_input(inputs)
        hidden = cells.memory(shape=[64], value=0.0)
        memory = cells.memory(shape=[64], value=0.0)
        gates = layers.fc([word, hidden], 256)
        enter, forget, leave, candidate = layers.split(gates, 4, dim=1)
        kept = layers.elementwise_mul(layers.sigmoid(forget), memory)
        new = layers.elementwise_mul(layers.sigmoid(enter), layers.tanh(candidate))
        cell = layers.elementwise_add(kept, new)
        out = layers.elementwise_mul(layers.sigmoid(leave), layers.tanh(cell))
        cells.update_memory(hidden, out)
        cells.update_memory(memory, cell)
        cells.output(out)
    guess = layers.fc(layers.sequence_last_step(cells()), 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(guess, label))
    fluid.optimizer.Adagrad(0.002).minimize(loss)


def attention(x: Any, size: int, heads: int) -> Any:
    def split(y: Any) -> Any:
        return layers.transpose(layers.reshape(y, [0, 0, heads, size // heads]), [0, 2, 1, 3])

    query = layers.fc(x, size, num_flatten_dims=2)
    key = layers.fc(x, size, num_flatten_dims=2)
    value = layers.fc(x, size, num_flatten_dims=2)
    scores = layers.matmul(split(query), split(key), transpose_y=True, alpha=(size // heads) ** -0.5)
    mixed = layers.matmul(layers.softmax(scores), split(value))
    joined = layers.reshape(layers.transpose(mixed, [0, 2, 1, 3]), [0, 0, size])
    return layers.fc(joined, size, num_flatten_dims=2)


def encoder_layer(x: Any, size: int, heads: int) -> Any:
    x = layers.layer_norm(x + attention(x, size, heads), begin_norm_axis=2)
    hidden = layers.fc(x, 4 * size, num_flatten_dims=2, act="relu")
    return layers.layer_norm(x + layers.fc(hidden, size, num_flatten_dims=2), begin_norm_axis=2)


def transformer() -> None:
    words = fluid.data("words", [None, 64], "int64")
    label = fluid.data("label", [None, 64, 1], "int64")
    with fluid.name_scope("embed"):
        x = layers.dropout(fluid.embedding(words, [8000, 256]), 0.1)
    with fluid.name_scope("encoder"):
        for _ in range(6):
            x = encoder_layer(x, 256, 8)
    with fluid.name_scope("head"):
        logits = layers.fc(x, 8000, num_flatten_dims=2)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    fluid.optimizer.Adam(1e-3).minimize(loss)
