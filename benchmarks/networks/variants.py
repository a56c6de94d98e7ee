"""Networks that nobody has tuned for: sizes, depths, activations drawn from a seed, odd ones among them."""

from __future__ import annotations

import random
from typing import Any

from networks.definitions import NETWORKS, Network, attention_block, conv_bn

__all__ = ["VARIANT", "find_network"]

VARIANT = "variant_"
_ACTS = ("relu", "tanh", "sigmoid", "leaky_relu", "gelu")
_OPTIMIZERS = ("sgd", "momentum", "adam")


def find_network(name: str) -> Network:
    """A published network, or the variant whose seed stands in the name: `variant_7`."""
    if not name.startswith(VARIANT):
        return NETWORKS[name]
    seed = int(name[len(VARIANT) :])
    return _KINDS[seed % len(_KINDS)](random.Random(seed))


def _dense(draw: random.Random) -> Network:
    """Layers of one width after another."""
    sizes = [draw.choice((17, 50, 100, 128, 256, 700, 1000)) for _ in range(draw.randint(1, 6))]
    act, inputs, classes = draw.choice(_ACTS), draw.choice((13, 64, 300, 784)), draw.choice((2, 10, 100))

    def build(f: Any, x: Any) -> Any:
        for size in sizes:
            x = f.act(f.fc(x, size), act)
        return f.fc(x, classes)

    return Network(build, draw.choice((1, 7, 32, 50, 128, 333)), (inputs,), 0, classes, _optimizer(draw))


def _images(draw: random.Random) -> Network:
    """Convolutions, with batch_norm or a bias, now and then in groups or around a shortcut."""
    side, channels = draw.choice((9, 17, 28, 32, 48)), draw.choice((1, 3, 6))
    layers = [
        (
            draw.choice((8, 12, 24, 40)),
            draw.choice((1, 3, 3, 5)),
            draw.choice(("plain", "bn", "depth", "skip")),
        )
        for _ in range(draw.randint(2, 6))
    ]
    act = draw.choice(_ACTS)

    def build(f: Any, x: Any) -> Any:
        size = side
        for out, kernel, kind in layers:
            if kind == "plain":
                x = f.act(f.bias(f.conv(x, out, kernel, 1, kernel // 2)), act)
            else:
                x = conv_bn(f, x, out, kernel, 1, act)
            if kind == "depth":
                x = conv_bn(f, x, out, 3, 1, act, out)
            if kind == "skip":
                x = f.act(f.add(x, conv_bn(f, x, out, 3, 1, None)), act)
            if size >= 8:
                x, size = f.max_pool(x, 2, 2, 0), size // 2
        return f.fc(f.global_mean(x), 10)

    return Network(build, draw.choice((1, 5, 16, 33)), (channels, side, side), 0, 10, _optimizer(draw))


def _attention(draw: random.Random) -> Network:
    """Encoder blocks over words."""
    heads, part = draw.choice((1, 2, 4, 6)), draw.choice((16, 24, 32, 64))
    words, depth, act = draw.choice((5, 17, 40, 64, 100)), draw.randint(1, 4), draw.choice(("relu", "gelu"))

    def build(f: Any, ids: Any) -> Any:
        x = f.embedding(ids, 3000, heads * part)
        for _ in range(depth):
            x = attention_block(f, x, None, words, heads * part, heads, act)
        return f.fc(f.mean(x, 1), 5)

    return Network(build, draw.choice((1, 3, 8, 20)), (words,), 3000, 5, _optimizer(draw))


def _recurrent(draw: random.Random) -> Network:
    """LSTM layers over words."""
    words, depth = draw.choice((6, 20, 50, 90)), draw.randint(1, 3)
    width, hidden = draw.choice((24, 64, 100)), draw.choice((20, 64, 100, 200))

    def build(f: Any, ids: Any) -> Any:
        x = f.embedding(ids, 3000, width)
        for _ in range(depth):
            x = f.lstm(x, words, hidden)
        return f.fc(f.max(x, 1), 3)

    return Network(build, draw.choice((1, 4, 16, 50)), (words,), 3000, 3, _optimizer(draw))


def _fields(draw: random.Random) -> Network:
    """Embeddings of some fields, their squares and layers above both."""
    fields, width = draw.choice((4, 11, 26, 40)), draw.choice((5, 10, 16, 33))
    sizes = [draw.choice((30, 64, 200, 400)) for _ in range(draw.randint(1, 4))]
    act = draw.choice(_ACTS)

    def build(f: Any, ids: Any) -> Any:
        rows = f.embedding(ids, 20000, width)
        total = f.sum(rows, 1)
        pairs = f.subtract(f.multiply(total, total), f.sum(f.multiply(rows, rows), 1))
        x = f.reshape(rows, [-1, fields * width])
        for size in sizes:
            x = f.act(f.fc(x, size), act)
        return f.fc(f.concat([pairs, x], 1), 2)

    return Network(build, draw.choice((1, 20, 100, 300)), (fields,), 20000, 2, _optimizer(draw))


def _optimizer(draw: random.Random) -> str:
    return draw.choice(_OPTIMIZERS)


_KINDS = (_dense, _images, _attention, _recurrent, _fields)
