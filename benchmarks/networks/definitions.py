"""The networks. `f` gives the functions of one framework; activations are (N, C, H, W) or (N, T, D), ids are
whole numbers; each network returns its logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["NETWORKS", "Network", "attention_block", "batches", "conv_bn", "parameter"]


def parameter(number: int, shape: Sequence[int], scale: float) -> Any:
    """The initial value of a network's n-th parameter: ones for a scale of 1, zeros for 0, else random."""
    if scale in (0, 1):
        return np.full(shape, scale, "float32")
    return (np.random.RandomState(number).standard_normal(shape) * scale).astype("float32")


# ---------------------------------------------------------------------- images
def conv_bn(
    f: Any, x: Any, out: int, k: int, stride: int = 1, act: str | None = "relu", groups: int = 1
) -> Any:
    return f.batch_norm(f.conv(x, out, k, stride, k // 2, groups), act)


def resnet18(f: Any, x: Any) -> Any:
    """Two convolutions a block."""
    x = f.max_pool(conv_bn(f, x, 64, 7, 2), 3, 2, 1)
    channels = 64
    for out, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        h = conv_bn(f, conv_bn(f, x, out, 3, stride), out, 3, 1, None)
        x = x if channels == out else conv_bn(f, x, out, 1, stride, None)
        x = f.act(f.add(h, x), "relu")
        channels = out
    return f.fc(f.global_mean(x), 1000)


def resnet50(f: Any, x: Any) -> Any:
    """Bottlenecks of three convolutions."""
    x = f.max_pool(conv_bn(f, x, 64, 7, 2), 3, 2, 1)
    for stage, (count, out) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for index in range(count):
            stride = 2 if stage and index == 0 else 1
            h = conv_bn(f, conv_bn(f, x, out, 1), out, 3, stride)
            h = conv_bn(f, h, 4 * out, 1, 1, None)
            x = x if index else conv_bn(f, x, 4 * out, 1, stride, None)
            x = f.act(f.add(h, x), "relu")
    return f.fc(f.global_mean(x), 1000)


def vgg11(f: Any, x: Any) -> Any:
    """Eight convolutions, three wide layers."""
    for counts in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for out in counts:
            x = f.act(f.bias(f.conv(x, out, 3, 1, 1)), "relu")
        x = f.max_pool(x, 2, 2, 0)
    for size in (1024, 1024):
        x = f.act(f.fc(x, size), "relu")
    return f.fc(x, 100)


def mobilenet_v2(f: Any, x: Any) -> Any:
    """Inverted residuals around depthwise convolutions."""
    x = conv_bn(f, x, 32, 3, 2, "relu6")
    channels = 32
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, out, count, first in settings:
        for index in range(count):
            stride = first if index == 0 else 1
            wide = channels * expansion
            h = x if expansion == 1 else conv_bn(f, x, wide, 1, 1, "relu6")
            h = conv_bn(f, h, wide, 3, stride, "relu6", wide)
            h = conv_bn(f, h, out, 1, 1, None)
            x = f.add(h, x) if stride == 1 and channels == out else h
            channels = out
    return f.fc(f.global_mean(conv_bn(f, x, 1280, 1, 1, "relu6")), 1000)


def _darknet(f: Any, x: Any) -> list[Any]:
    """The last three stages of DarkNet-53."""
    x = conv_bn(f, x, 32, 3, 1, "leaky_relu")
    stages = []
    for out, count in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = conv_bn(f, x, out, 3, 2, "leaky_relu")
        for _ in range(count):
            h = conv_bn(f, x, out // 2, 1, 1, "leaky_relu")
            x = f.add(x, conv_bn(f, h, out, 3, 1, "leaky_relu"))
        stages.append(x)
    return stages[2:]


def darknet53(f: Any, x: Any) -> Any:
    """The classifier of YOLOv3's authors."""
    return f.fc(f.global_mean(_darknet(f, x)[-1]), 1000)


def yolov3(f: Any, x: Any) -> Any:
    """Three heads on DarkNet-53; their outputs side by side."""
    route: Any = None
    outputs = []
    for stage, out in zip(reversed(_darknet(f, x)), (512, 256, 128)):
        h = stage if route is None else f.concat([route, stage], 1)
        for _ in range(2):
            h = conv_bn(f, conv_bn(f, h, out, 1, 1, "leaky_relu"), 2 * out, 3, 1, "leaky_relu")
        h = conv_bn(f, h, out, 1, 1, "leaky_relu")
        tip = conv_bn(f, h, 2 * out, 3, 1, "leaky_relu")
        outputs.append(f.flat(f.bias(f.conv(tip, 75, 1, 1, 0))))
        route = f.upsample(conv_bn(f, h, out // 2, 1, 1, "leaky_relu"))
    return f.concat(outputs, 1)


def unet(f: Any, x: Any) -> Any:
    """Four levels down, four up, with concatenated skips."""
    skips = []
    for out in (32, 64, 128, 256):
        x = conv_bn(f, conv_bn(f, x, out, 3), out, 3)
        skips.append(x)
        x = f.max_pool(x, 2, 2, 0)
    x = conv_bn(f, conv_bn(f, x, 512, 3), 512, 3)
    for out, skip in zip((256, 128, 64, 32), reversed(skips)):
        x = f.concat([skip, f.conv_transpose(x, out)], 1)
        x = conv_bn(f, conv_bn(f, x, out, 3), out, 3)
    return f.flat(f.bias(f.conv(x, 2, 1, 1, 0)))


# ---------------------------------------------------------------------- words
def _attention(f: Any, x: Any, memory: Any, seq: int, size: int, heads: int) -> Any:
    part = size // heads

    def split(h: Any) -> Any:
        return f.transpose(f.reshape(h, [-1, seq, heads, part]), [0, 2, 1, 3])

    q, k, v = (split(f.fc(source, size, 2)) for source in (x, memory, memory))
    weights = f.softmax(f.matmul(q, k, True, part**-0.5))
    mixed = f.transpose(f.matmul(weights, v, False, 1.0), [0, 2, 1, 3])
    return f.fc(f.reshape(mixed, [-1, seq, size]), size, 2)


def attention_block(f: Any, x: Any, memory: Any, seq: int, size: int, heads: int, act: str) -> Any:
    x = f.layer_norm(f.add(x, _attention(f, x, x, seq, size, heads)))
    if memory is not None:
        x = f.layer_norm(f.add(x, _attention(f, x, memory, seq, size, heads)))
    wide = f.act(f.fc(x, 4 * size, 2), act)
    return f.layer_norm(f.add(x, f.fc(wide, size, 2)))


def transformer_base(f: Any, ids: Any) -> Any:
    """Six encoder and six decoder layers of 512; the words are source and target alike."""
    words = f.embedding(ids, 4000, 512)
    memory = words
    for _ in range(6):
        memory = attention_block(f, memory, None, 32, 512, 8, "relu")
    x = words
    for _ in range(6):
        x = attention_block(f, x, memory, 32, 512, 8, "relu")
    return f.fc(f.mean(x, 1), 4000)


def bert_small(f: Any, ids: Any) -> Any:
    """Four layers of 512 with gelu over 128 words."""
    x = f.layer_norm(f.embedding(ids, 8000, 512))
    for _ in range(4):
        x = attention_block(f, x, None, 128, 512, 8, "gelu")
    return f.fc(f.act(f.fc(f.mean(x, 1), 512), "tanh"), 2)


def stacked_lstm(f: Any, ids: Any) -> Any:
    """Three LSTM layers, the maximum over time."""
    x = f.embedding(ids, 5000, 128)
    for _ in range(3):
        x = f.lstm(x, 80, 128)
    return f.fc(f.max(x, 1), 2)


def crnn(f: Any, x: Any) -> Any:
    """Convolutions over a line of text, then two LSTM layers, and classes for each column."""
    for out, pool in ((32, (2, 2)), (64, (2, 2)), (128, (2, 1)), (128, (2, 1))):
        x = f.max_pool(conv_bn(f, x, out, 3), pool, pool, 0)
    x = f.reshape(f.transpose(x, [0, 3, 1, 2]), [-1, 25, 256])
    for _ in range(2):
        x = f.lstm(x, 25, 96)
    return f.flat(f.fc(x, 95, 2))


# ---------------------------------------------------------------------- clicks
def deepfm(f: Any, ids: Any) -> Any:
    """Factorization machine and three layers over the same 39 embeddings."""
    first = f.sum(f.embedding(ids, 100000, 1), 1)
    rows = f.embedding(ids, 100000, 10)
    total = f.sum(rows, 1)
    squares = f.sum(f.multiply(rows, rows), 1)
    second = f.sum_kept(f.subtract(f.multiply(total, total), squares), 1)
    deep = f.reshape(rows, [-1, 390])
    for size in (400, 400, 400):
        deep = f.act(f.fc(deep, size), "relu")
    return f.fc(f.concat([first, second, deep], 1), 2)


def din(f: Any, ids: Any) -> Any:
    """Attention of a candidate, the first word, over 50 items of a history."""
    rows = f.embedding(ids, 60000, 64)
    candidate = f.repeat(f.piece(rows, 0, 1), 50)
    history = f.piece(rows, 1, 51)
    pair = f.concat([candidate, history, f.subtract(candidate, history), f.multiply(candidate, history)], 2)
    hidden = f.act(f.fc(f.act(f.fc(pair, 80, 2), "sigmoid"), 40, 2), "sigmoid")
    weights = f.softmax(f.reshape(f.fc(hidden, 1, 2), [-1, 1, 50]))
    interest = f.reshape(f.matmul(weights, history, False, 1.0), [-1, 64])
    x = f.concat([interest, f.reshape(f.piece(rows, 0, 1), [-1, 64])], 1)
    for size in (80, 40):
        x = f.act(f.fc(x, size), "sigmoid")
    return f.fc(x, 2)


@dataclass(frozen=True)
class Network:
    """A network with the batches that train it. `vocabulary` is 0 for images; `classes` is 0 where the loss
    is the mean square of the logits.
    """

    build: Callable[[Any, Any], Any]
    batch: int
    shape: tuple[int, ...]
    vocabulary: int
    classes: int
    optimizer: str


NETWORKS = {
    "resnet18": Network(resnet18, 4, (3, 224, 224), 0, 1000, "momentum"),
    "resnet50": Network(resnet50, 2, (3, 224, 224), 0, 1000, "momentum"),
    "vgg11": Network(vgg11, 4, (3, 96, 96), 0, 100, "momentum"),
    "mobilenet_v2": Network(mobilenet_v2, 4, (3, 160, 160), 0, 1000, "momentum"),
    "darknet53": Network(darknet53, 2, (3, 160, 160), 0, 1000, "momentum"),
    "unet": Network(unet, 2, (3, 128, 128), 0, 0, "adam"),
    "yolov3": Network(yolov3, 1, (3, 224, 224), 0, 0, "momentum"),
    "transformer_base": Network(transformer_base, 4, (32,), 4000, 4000, "adam"),
    "bert_small": Network(bert_small, 4, (128,), 8000, 2, "adam"),
    "stacked_lstm": Network(stacked_lstm, 16, (80,), 5000, 2, "adam"),
    "crnn": Network(crnn, 8, (1, 32, 100), 0, 0, "adam"),
    "deepfm": Network(deepfm, 256, (39,), 100000, 2, "adam"),
    "din": Network(din, 128, (51,), 60000, 2, "sgd"),
}


def batches(network: Network, size: int, count: int = 3) -> list[dict[str, Any]]:
    """Batches of `size` samples."""
    random = np.random.RandomState(5)
    shape = (size, *network.shape)
    found = []
    for _ in range(count):
        if network.vocabulary:
            x = random.randint(network.vocabulary, size=shape).astype("int64")
        else:
            x = random.rand(*shape).astype("float32")
        found.append({"x": x, "y": random.randint(max(network.classes, 1), size=(size, 1)).astype("int64")})
    return found
