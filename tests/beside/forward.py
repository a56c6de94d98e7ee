"""Random networks that only compute: what `beside.networks` has but for sequences, losses and optimizers, and
more kinds of layers, those with sub-blocks among them.
"""

from __future__ import annotations

import random
from typing import Any

from beside.draw import Draw, Value
from beside.language import Case
from beside.networks import ANY, FLAT, IMAGE, INPUTS, Layer, Node, joined
from beside.networks import L as FLUID

__all__ = ["make_forward"]


def _same(path: str, **options: Any) -> Layer:
    """A layer that keeps the shape; options that are lists are choices."""

    def layer(draw: Draw, node: Node) -> Node:
        drawn = {
            key: draw.choice(*value) if isinstance(value, list) else value for key, value in options.items()
        }
        return Node(draw.call(f"{FLUID}.{path}", node.value, **drawn), node.shape)

    return layer


# ---------------------------------------------------------------------- pictures
def _pool(draw: Draw, node: Node) -> Node:
    """A pool of any kind; the shape is not told, so what follows looks at numbers alone."""
    channels, rows, columns = node.shape
    size = draw.int(1, min(3, rows, columns))
    made = draw.call(
        f"{FLUID}.pool2d",
        node.value,
        pool_size=size,
        pool_type=draw.choice("max", "avg"),
        pool_stride=draw.int(1, 3),
        pool_padding=draw.int(0, size // 2),
        ceil_mode=draw.flag(),
        exclusive=draw.flag(),
    )
    return _to_one(draw, made, channels)


def _to_one(draw: Draw, made: Value, channels: int) -> Node:
    """The means of channels, of pictures of any size."""
    whole = draw.call(f"{FLUID}.pool2d", made, pool_type="avg", global_pooling=True)
    flat = draw.call(f"{FLUID}.reshape", whole, [-1, channels])
    return Node(flat, (channels,))


def _adaptive(draw: Draw, node: Node) -> Node:
    channels, rows, columns = node.shape
    size = [draw.int(1, rows), draw.int(1, columns)]
    made = draw.call(f"{FLUID}.adaptive_pool2d", node.value, size, pool_type=draw.choice("max", "avg"))
    return Node(made, (channels, *size))


def _channels_last(draw: Draw, node: Node) -> Node:
    """A convolution or pool of NHWC, and back."""
    turned = draw.call(f"{FLUID}.transpose", node.value, [0, 2, 3, 1])
    channels = node.shape[0]
    if draw.flag():
        channels = draw.int(1, 3)
        made = draw.call(
            f"{FLUID}.conv2d",
            turned,
            channels,
            draw.int(1, 3),
            padding=draw.choice("SAME", 1, [[0, 0], [1, 0], [0, 1], [0, 0]]),
            stride=draw.int(1, 2),
            data_format="NHWC",
        )
    else:
        made = draw.call(
            f"{FLUID}.pool2d",
            turned,
            2,
            draw.choice("max", "avg"),
            draw.int(1, 2),
            draw.choice(1, "SAME", "VALID") if min(node.shape[1:]) > 1 else 1,
            exclusive=draw.flag(),
            data_format="NHWC",
        )
    return _to_one(draw, draw.call(f"{FLUID}.transpose", made, [0, 3, 1, 2]), channels)


def _padded_conv(draw: Draw, node: Node) -> Node:
    filters = draw.int(1, 3)
    made = draw.call(
        f"{FLUID}.conv2d",
        node.value,
        filters,
        draw.int(1, min(3, *node.shape[1:])),
        stride=draw.int(1, 2),
        padding=draw.choice("SAME", "VALID", [1, 0, 0, 2], [2, 1]),
        dilation=draw.choice(1, 1, 2),
    )
    return _to_one(draw, made, filters)


def _resize(draw: Draw, node: Node) -> Node:
    channels, rows, columns = node.shape
    kind = draw.choice("nearest", "bilinear")
    size = [draw.int(1, 2 * rows), draw.int(1, 2 * columns)]
    more = {"align_mode": draw.choice(0, 1)} if kind == "bilinear" else {}
    made = draw.call(f"{FLUID}.resize_{kind}", node.value, size, align_corners=draw.flag(), **more)
    return Node(made, (channels, *size))


def _pad2d(draw: Draw, node: Node) -> Node:
    channels, rows, columns = node.shape
    top, bottom, left, right = (draw.int(0, 1) for _ in range(4))
    made = draw.call(
        f"{FLUID}.pad2d",
        node.value,
        [top, bottom, left, right],
        mode=draw.choice("constant", "edge", "reflect") if min(rows, columns) > 1 else "constant",
    )
    return Node(made, (channels, rows + top + bottom, columns + left + right))


def _shuffle(draw: Draw, node: Node) -> Node:
    channels, rows, columns = node.shape
    whole = draw.call(f"{FLUID}.concat", [node.value, node.value], axis=1)
    if draw.flag():
        made = draw.call(f"{FLUID}.shuffle_channel", whole, 2)
        return Node(made, (2 * channels, rows, columns))
    return Node(draw.call(f"{FLUID}.maxout", whole, 2), (channels, rows, columns))


# ---------------------------------------------------------------------- rows
def _cosine(draw: Draw, node: Node) -> Node:
    other = draw.call(f"{FLUID}.fc", node.value, size=node.shape[0])
    return Node(draw.call(f"{FLUID}.cos_sim", node.value, other), (1,))


def _topk(draw: Draw, node: Node) -> Node:
    count = draw.int(1, node.shape[-1])
    made = draw.call(f"{FLUID}.topk", node.value, count)
    return Node(made[0], (*node.shape[:-1], count))


def _steps(draw: Draw, node: Node) -> Node:
    """A recurrence over steps of a padded batch."""
    size, steps = node.shape[0], draw.int(1, 4)
    parts = [draw.call(f"{FLUID}.scale", node.value, draw.real()) for _ in range(steps)]
    x = draw.call(f"{FLUID}.stack", parts, axis=0)
    first = draw.call(f"{FLUID}.scale", node.value, 0.5)
    rnn = draw.call(f"{FLUID}.StaticRNN")

    def body() -> None:
        word = draw.call(f"{rnn.name}.step_input", x)
        memory = draw.call(f"{rnn.name}.memory", init=first)
        both = draw.call(f"{FLUID}.concat", [word, memory], axis=1)
        hidden = draw.call(f"{FLUID}.fc", both, size=size, act=draw.choice("tanh", "relu"))
        draw.call(f"{rnn.name}.update_memory", memory, hidden)
        draw.call(f"{rnn.name}.step_output", hidden)

    draw.within(f"{rnn.name}.step", build=body)
    made = draw.call(f"{rnn.name}")
    return Node(draw.call(f"{FLUID}.reduce_sum", made, dim=0), (size,))


def _lstm_unit(draw: Draw, node: Node) -> Node:
    size = draw.int(1, 3)
    states = [draw.call(f"{FLUID}.fc", node.value, size=size) for _ in range(2)]
    made = draw.call(f"{FLUID}.lstm_unit", node.value, *states, forget_bias=draw.choice(0.0, 1.0))
    return Node(made[0], (size,))


def _gru_unit(draw: Draw, node: Node) -> Node:
    size = draw.int(1, 3)
    gates, state = (draw.call(f"{FLUID}.fc", node.value, size=count) for count in (3 * size, size))
    options = {"activation": draw.choice("tanh", "relu", "identity"), "origin_mode": draw.flag()}
    made = draw.call(f"{FLUID}.gru_unit", gates, state, 3 * size, **options)
    return Node(made[0], (size,))


def _mask(draw: Draw, node: Node) -> Value:
    """[rows, 1] truth values."""
    sums = draw.call(f"{FLUID}.reduce_sum", node.value, dim=list(range(1, len(node.shape) + 1)))
    column = draw.call(f"{FLUID}.reshape", sums, [-1, 1])
    zeros = draw.call(f"{FLUID}.scale", column, 0.0)
    return draw.call(f"{FLUID}.less_than", column, zeros)


def _choice(draw: Draw, node: Node) -> Node:
    """Rows that go one way, and those that go another."""
    branch = draw.call(f"{FLUID}.IfElse", _mask(draw, node))

    def side(scale: float) -> None:
        part = draw.call(f"{branch.name}.input", node.value)
        draw.call(f"{branch.name}.output", draw.call(f"{FLUID}.scale", part, scale))

    draw.within(f"{branch.name}.true_block", build=lambda: side(2.0))
    draw.within(f"{branch.name}.false_block", build=lambda: side(-0.5))
    return Node(draw.call(f"{branch.name}")[0], node.shape)


def _number(draw: Draw, node: Node) -> Value:
    return draw.call(f"{FLUID}.reshape", draw.call(f"{FLUID}.reduce_mean", node.value), [1])


def _cond(draw: Draw, node: Node) -> Node:
    limit = draw.call(f"{FLUID}.fill_constant", [1], "float32", draw.real())
    predicate = draw.call(f"{FLUID}.less_than", _number(draw, node), limit)
    kinds = draw.rng.sample(["tanh", "square", "relu", "abs"], 2)
    sides = [draw.block([], lambda kind=kind: draw.call(f"{FLUID}.{kind}", node.value)) for kind in kinds]
    return Node(draw.call(f"{FLUID}.cond", predicate, *sides), node.shape)


def _loop(draw: Draw, node: Node) -> Node:
    """A loop of a few steps."""
    steps = draw.call(f"{FLUID}.fill_constant", [1], "int64", draw.int(0, 3))
    start = draw.call(f"{FLUID}.fill_constant", [1], "int64", 0)
    goes_on = draw.block(["i", "x"], lambda i, x: draw.call(f"{FLUID}.less_than", i, steps))

    def body(i: Value, x: Value) -> list[Value]:
        made = draw.call(f"{FLUID}.{draw.choice('tanh', 'relu', 'softsign')}", x)
        return [draw.call(f"{FLUID}.increment", i), made]

    made = draw.call(f"{FLUID}.while_loop", goes_on, draw.block(["i", "x"], body), [start, node.value])
    return Node(made[1], node.shape)


def _array(draw: Draw, node: Node) -> Node:
    """An array that is written and read."""
    at = [draw.call(f"{FLUID}.fill_constant", [1], "int64", place) for place in (0, 1)]
    array = draw.call(f"{FLUID}.array_write", node.value, at[0])
    other = draw.call(f"{FLUID}.scale", node.value, 2.0)
    draw.call(f"{FLUID}.array_write", other, draw.choice(*at), array=array)
    return Node(draw.call(f"{FLUID}.array_read", array, at[0]), node.shape)


FUNCTIONS = (
    "softshrink hard_shrink tanh_shrink soft_relu thresholded_relu softplus logsigmoid brelu relu6 selu "
    "hard_swish stanh gelu sin cos abs ceil floor round sign exp"
)
MORE_ANY: list[Layer] = [*map(_same, FUNCTIONS.split()), _cond, _loop, _array, _choice, _topk]
MORE_FLAT: list[Layer] = [_cosine, _steps, _lstm_unit, _gru_unit, _same("data_norm")]
MORE_IMAGE: list[Layer] = [_pool, _adaptive, _channels_last, _padded_conv, _resize, _pad2d, _shuffle]


def _layers_of(node: Node) -> list[Layer]:
    own = [*IMAGE, *MORE_IMAGE, *MORE_IMAGE] if node.image else [*FLAT, *MORE_FLAT]
    return [*own, *ANY, *MORE_ANY] if node.image or len(node.shape) == 1 else [*ANY, *MORE_ANY]


def make_forward(seed: int) -> Case:
    """The network of a seed, as a case."""
    draw = Draw(random.Random(f"forward {seed}"), "18")
    node = draw.choice(*(make for make in INPUTS if make.__name__ != "_sequence_input"))(draw)
    for _ in range(draw.int(1, 7)):
        node = draw.choice(*_layers_of(node))(draw, node)
    if len(node.shape) in (1, 3) and draw.flag(0.3):
        node = joined(draw, node)
    # the result of a call has one name, whatever is taken of it
    made = draw.call(f"{FLUID}.scale", node.value, 1.0)
    for feed in draw.feeds.values():
        feed["declared"][0] = -1
    return {
        "door": "18",
        "seed": seed,
        "function": "forward",
        "feeds": draw.feeds,
        "calls": draw.calls,
        "outputs": [made.name],
        "wrt": [],
        "random": False,
        "sums": False,
        "second": False,
    }
