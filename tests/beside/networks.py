"""Random networks that train: layers in a chain with forks, a loss, an optimizer.

A network is a case like any other (`beside.language`), made with a `Draw` by its seed alone. Besides losses
and state over three steps, `beside.observe` loads its programs from the bytes that the other system wrote,
and runs it on two devices.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beside.draw import OMIT, Draw, Value
from beside.language import Case

__all__ = ["ANY", "FLAT", "IMAGE", "INPUTS", "L", "Layer", "Node", "calm", "joined", "make_network"]

BATCH = 4  # even, so that two devices get half of it each
L = "fluid.layers"


@dataclass(frozen=True)
class Node:
    """A Variable in a network: `shape` without the batch; `sequence` if its rows are steps of sequences."""

    value: Value
    shape: tuple[int, ...]
    sequence: bool = False

    @property
    def image(self) -> bool:
        """True for channels, rows and columns."""
        return len(self.shape) == 3


Layer = Callable[[Draw, Node], Node]


def _fc(draw: Draw, node: Node) -> Node:
    size = draw.int(2, 6)
    options: dict[str, Any] = {"size": size, "act": draw.act()}
    if not node.sequence and len(node.shape) > 1:
        options["num_flatten_dims"] = 1
    if draw.flag(0.15):
        options["bias_attr"] = False
    elif draw.flag(0.2):
        options["param_attr"] = draw.made("fluid.ParamAttr", regularizer=_regularizer(draw))
    return Node(draw.call(f"{L}.fc", node.value, **options), (size,), node.sequence)


def _regularizer(draw: Draw) -> Case:
    kind = draw.choice("L1Decay", "L2Decay")
    return draw.made(f"fluid.regularizer.{kind}", regularization_coeff=draw.choice(0.01, 0.1))


def _conv(draw: Draw, node: Node) -> Node:
    channels, rows, columns = node.shape
    kernel, stride = draw.int(1, min(3, rows, columns)), draw.choice(1, 1, 2)
    padding = draw.int(0, 1)
    filters = channels if draw.flag(0.2) else draw.int(1, 4)
    depthwise = filters == channels and draw.flag(0.5)
    made = draw.call(
        f"{L}.conv2d",
        node.value,
        filters,
        kernel,
        stride=stride,
        padding=padding,
        groups=channels if depthwise else OMIT,
        act=draw.act("relu", "tanh", "leaky_relu"),
        bias_attr=False if draw.flag(0.3) else OMIT,
    )
    sizes = tuple((size + 2 * padding - kernel) // stride + 1 for size in (rows, columns))
    return Node(made, (filters, *sizes))


def _conv_transpose(draw: Draw, node: Node) -> Node:
    _, rows, columns = node.shape
    filters, kernel = draw.int(1, 3), draw.int(1, 3)
    made = draw.call(f"{L}.conv2d_transpose", node.value, filters, filter_size=kernel)
    return Node(made, (filters, rows + kernel - 1, columns + kernel - 1))


def _pool(draw: Draw, node: Node) -> Node:
    channels, rows, columns = node.shape
    kind = draw.choice("max", "avg")
    if draw.flag(0.25):
        made = draw.call(f"{L}.pool2d", node.value, pool_type=kind, global_pooling=True)
        return Node(made, (channels, 1, 1))
    if draw.flag(0.2):
        made = draw.call(f"{L}.adaptive_pool2d", node.value, [1, 1], pool_type=kind)
        return Node(made, (channels, 1, 1))
    size = draw.int(1, min(2, rows, columns))
    made = draw.call(f"{L}.pool2d", node.value, pool_size=size, pool_type=kind, pool_stride=size)
    return Node(made, (channels, rows // size, columns // size))


def _same(path: str, **options: Any) -> Layer:
    """A layer that keeps the shape; options that are lists are choices."""

    def layer(draw: Draw, node: Node) -> Node:
        drawn = {
            key: draw.choice(*value) if isinstance(value, list) else value for key, value in options.items()
        }
        return Node(draw.call(f"{L}.{path}", node.value, **drawn), node.shape, node.sequence)

    return layer


def _flatten(draw: Draw, node: Node) -> Node:
    size = int(np.prod(node.shape))
    return Node(draw.call(f"{L}.reshape", node.value, [-1, size]), (size,))


def _transpose(draw: Draw, node: Node) -> Node:
    order = draw.rng.sample(range(1, len(node.shape) + 1), len(node.shape))
    shape = tuple(node.shape[at - 1] for at in order)
    return Node(draw.call(f"{L}.transpose", node.value, [0, *order]), shape)


def _fork(draw: Draw, node: Node) -> Node:
    """The sum, product or concatenation of a node and a function of it."""
    other = draw.choice(_same("tanh"), _same("sigmoid"), _same("scale", scale=0.5))(draw, node)
    if draw.flag(0.4):
        axis = len(node.shape)
        made = draw.call(f"{L}.concat", [node.value, other.value], axis=axis)
        return Node(made, (*node.shape[:-1], 2 * node.shape[-1]), node.sequence)
    kind = draw.choice("add", "sub", "mul", "max", "min")
    made = draw.call(f"{L}.elementwise_{kind}", node.value, other.value)
    return Node(made, node.shape, node.sequence)


def _lstm(draw: Draw, node: Node) -> Node:
    size = draw.int(1, 3)
    gates = draw.call(f"{L}.fc", node.value, size=4 * size, bias_attr=False)
    made = draw.call(
        f"{L}.dynamic_lstm", gates, size=4 * size, is_reverse=draw.flag(0.3), use_peepholes=draw.flag()
    )
    return Node(made[0], (size,), True)


def _gru(draw: Draw, node: Node) -> Node:
    size = draw.int(1, 3)
    gates = draw.call(f"{L}.fc", node.value, size=3 * size, bias_attr=False)
    made = draw.call(f"{L}.dynamic_gru", gates, size=size, is_reverse=draw.flag(0.3))
    return Node(made, (size,), True)


def _sequence_conv(draw: Draw, node: Node) -> Node:
    filters = draw.int(1, 4)
    made = draw.call(
        f"{L}.sequence_conv", node.value, filters, filter_size=draw.choice(1, 3), act=draw.act("tanh", "relu")
    )
    return Node(made, (filters,), True)


def _sequence_pool(draw: Draw, node: Node) -> Node:
    kind = draw.choice("sum", "average", "sqrt", "max", "first", "last")
    return Node(draw.call(f"{L}.sequence_pool", node.value, kind), node.shape)


def _bilinear(draw: Draw, node: Node) -> Node:
    size = draw.int(1, 4)
    other = draw.call(f"{L}.fc", node.value, size=2)
    return Node(draw.call(f"{L}.bilinear_tensor_product", node.value, other, size=size), (size,))


ANY: list[Layer] = [
    _fork,
    _same("relu"),
    _same("tanh"),
    _same("sigmoid"),
    _same("leaky_relu", alpha=[0.02, 0.2]),
    _same("elu"),
    _same("softsign"),
    _same("square"),
    _same("hard_sigmoid"),
    _same("swish"),
    _same("scale", scale=[0.5, -1.0], bias=[0.0, 0.3]),
    _same(
        "dropout", dropout_prob=[0.0, 0.3], dropout_implementation=["downgrade_in_infer", "upscale_in_train"]
    ),
    _same("clip", min=-1.0, max=1.0),
]
FLAT: list[Layer] = [
    _fc,
    _fc,
    _fc,
    _bilinear,
    _same("softmax"),
    _same("batch_norm", act=[None, "relu"], momentum=[0.9, 0.5]),
    _same("layer_norm"),
    _same("l2_normalize", axis=1),
    _same("prelu", mode="all"),
]
IMAGE: list[Layer] = [
    _conv,
    _conv,
    _conv,
    _conv_transpose,
    _pool,
    _pool,
    _transpose,
    _flatten,
    _fc,
    _same("batch_norm", act=[None, "relu"]),
    _same("group_norm", groups=1),
    _same("instance_norm"),
    _same("prelu", mode=["all", "channel"]),
    _same("lrn", n=[3, 5]),
    _same("layer_norm"),
]
SEQUENCE: list[Layer] = [
    _fc,
    _fc,
    _lstm,
    _gru,
    _sequence_conv,
    _sequence_pool,
    _same("sequence_reverse"),
    _same("layer_norm"),
]


def _layers_of(node: Node) -> list[Layer]:
    if node.sequence:
        return [*SEQUENCE, *ANY]
    if node.image:
        return [*IMAGE, *ANY]
    return [*FLAT, *ANY]


# ---------------------------------------------------------------------- inputs, losses, optimizers
def _flat_input(draw: Draw) -> Node:
    width = draw.int(1, 6)
    return Node(draw.tensor((BATCH, width), "float32"), (width,))


def _image_input(draw: Draw) -> Node:
    shape = (draw.int(1, 3), draw.int(3, 6), draw.int(3, 6))
    return Node(draw.tensor((BATCH, *shape), "float32"), shape)


def _ids_input(draw: Draw) -> Node:
    vocabulary, width = draw.int(3, 8), draw.int(1, 5)
    ids = draw.tensor((BATCH, 1), "int64", 0, vocabulary - 1)
    return Node(_embedding(draw, ids, vocabulary, width), (width,))


def _sequence_input(draw: Draw) -> Node:
    vocabulary, width = draw.int(3, 8), draw.int(1, 5)
    lengths = [draw.int(1, 4) for _ in range(BATCH)]
    ids = draw.tensor((sum(lengths), 1), "int64", 0, vocabulary - 1, lengths=[lengths])
    return Node(_embedding(draw, ids, vocabulary, width), (width,), True)


def _embedding(draw: Draw, ids: Value, vocabulary: int, width: int) -> Value:
    return draw.call(
        f"{L}.embedding",
        ids,
        [vocabulary, width],
        is_sparse=draw.flag(0.3),
        padding_idx=0 if draw.flag(0.2) else OMIT,
    )


def _mean(draw: Draw, value: Value) -> Value:
    return draw.call(f"{L}.mean", value)


def _classes(draw: Draw, node: Node) -> Value:
    count = draw.int(2, 5)
    label = draw.tensor((BATCH, 1), "int64", 0, count - 1)
    if draw.flag():
        made = draw.call(f"{L}.fc", node.value, size=count, act="softmax")
        return _mean(draw, draw.call(f"{L}.cross_entropy", made, label))
    made = draw.call(f"{L}.fc", node.value, size=count)
    return _mean(draw, draw.call(f"{L}.softmax_with_cross_entropy", made, label))


def _regression(draw: Draw, node: Node) -> Value:
    target = draw.tensor((BATCH, 1), "float32")
    made = draw.call(f"{L}.fc", node.value, size=1)
    kind = draw.choice("square_error_cost", "mse_loss", "smooth_l1", "huber_loss", "log_loss")
    if kind == "huber_loss":
        return _mean(draw, draw.call(f"{L}.huber_loss", made, target, delta=0.7))
    if kind == "log_loss":
        return _mean(draw, draw.call(f"{L}.log_loss", draw.call(f"{L}.sigmoid", made), target))
    found = draw.call(f"{L}.{kind}", made, target)
    return found if kind == "mse_loss" else _mean(draw, found)


def _similarity(draw: Draw, node: Node) -> Value:
    other = draw.call(f"{L}.fc", node.value, size=3)
    return _mean(draw, draw.call(f"{L}.cos_sim", draw.call(f"{L}.fc", node.value, size=3), other))


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {},
    "Momentum": {"momentum": 0.9},
    "Adam": {},
    "Adagrad": {},
    "Adamax": {},
    "DecayedAdagrad": {},
    "RMSProp": {},
    "Adadelta": {},
    "Ftrl": {},
    "Lamb": {},
    "LarsMomentum": {"momentum": 0.9},
    "Dpsgd": {},
}
SCHEDULES = {
    "exponential_decay": [0.1, 2, 0.5],
    "natural_exp_decay": [0.1, 2, 0.5],
    "inverse_time_decay": [0.1, 2, 0.5],
    "polynomial_decay": [0.1, 4],
    "piecewise_decay": [[1, 3], [0.1, 0.05, 0.01]],
    "cosine_decay": [0.1, 2, 4],
    "noam_decay": [16, 4],
}


def _rate(draw: Draw) -> Any:
    if draw.flag(0.7):
        return draw.choice(0.1, 0.01)
    name = draw.choice(*SCHEDULES)
    return draw.call(f"{L}.{name}", *SCHEDULES[name])


def _clip(draw: Draw) -> Any:
    if draw.flag(0.7):
        return OMIT
    kind = draw.choice("GradientClipByValue", "GradientClipByNorm", "GradientClipByGlobalNorm")
    return draw.made(f"fluid.clip.{kind}", draw.choice(0.05, 1.0))


def _optimizer(draw: Draw) -> Value:
    name = draw.choice(*(one for one in OPTIMIZERS if one != "Dpsgd"))
    return draw.call(
        f"fluid.optimizer.{name}",
        _rate(draw),
        **OPTIMIZERS[name],
        regularization=_regularizer(draw) if draw.flag(0.25) else OMIT,
        grad_clip=_clip(draw),
    )


INPUTS = (_flat_input, _image_input, _ids_input, _sequence_input)


def make_network(seed: int) -> Case:
    """The network of a seed, as a case."""
    draw = Draw(random.Random(f"network {seed}"), "18")
    node = draw.choice(*INPUTS)(draw)
    for _ in range(draw.int(1, 8)):
        node = draw.choice(*_layers_of(node))(draw, node)
    if node.sequence:
        node = _sequence_pool(draw, node)
    if draw.flag(0.2):
        node = joined(draw, node)
    loss = draw.choice(_classes, _regression, _regression, _similarity)(draw, node)
    optimizer = _optimizer(draw)
    draw.call(f"{optimizer.name}.minimize", loss)
    for feed in draw.feeds.values():
        feed["declared"][0] = -1
    return {
        "door": "18",
        "seed": seed,
        "function": "network",
        "feeds": draw.feeds,
        "calls": draw.calls,
        "outputs": [loss.name, *([node.value.name] if not node.value.index else [])],
        "wrt": [],
        "random": False,
        "sums": False,
        "second": False,
    }


def calm(case: Case) -> Case:
    """The same network with steps that follow the gradient: signs, and roots of its square, make noise
    large.
    """
    calls = [
        {**call, "call": "fluid.optimizer.SGD", "args": [0.1], "kwargs": {}}
        if call["call"].startswith("fluid.optimizer.")
        else call
        for call in case["calls"]
    ]
    return {**case, "calls": calls}


def joined(draw: Draw, node: Node) -> Node:
    """The node beside another input's features."""
    other = draw.choice(_flat_input, _ids_input)(draw)
    first = node if len(node.shape) == 1 else _flatten(draw, node)
    made = draw.call(f"{L}.concat", [first.value, other.value], axis=1)
    return Node(made, (first.shape[0] + other.shape[0],))
