"""Losses of the 2.x door: functions, and the layers that are called like them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import FLOATS, INTS, indices, reduction, word

FUNCTION = "paddle.nn.functional."


def _either(draw: Draw, name: str, inputs: list[Any], layer: dict[str, Any], function: dict[str, Any]) -> Any:
    """A layer with its attributes, called on inputs, or the function, which may take more by name."""
    if word(name)[0].isupper():
        return draw.call(draw.call(name, **layer).name, *inputs)
    return draw.call(name, *inputs, **function)


def _pair(
    draw: Draw, low: float = -2, high: float = 2, *, label: tuple[float, float] | None = None
) -> list[Any]:
    """Two tensors of a shape and a dtype."""
    shape, kind = draw.shape((0, 4)), draw.choice(*FLOATS)
    return [draw.tensor(shape, kind, low, high), draw.tensor(shape, kind, *(label or (low, high)))]


def _simple(*names: str) -> Callable[[Callable[..., Any]], Any]:
    return draws(*(f"{FUNCTION}{name}" if name[0].islower() else f"paddle.nn.{name}" for name in names))


@_simple(
    "l1_loss",
    "mse_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "L1Loss",
    "MSELoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
)
def _(draw: Draw, name: str) -> Any:
    inputs = _pair(draw)
    if "margin" in name.lower():
        inputs[1] = draw.feed(
            np.sign(draw.numbers(inputs[0].shape, "float64") + 0.01).astype(inputs[0].dtype)
        )
    given = {"reduction": reduction(draw)}
    if "smooth" in name.lower():
        given["delta"] = draw.maybe(draw.choice(0.5, 2.0, 1.0))
    return _either(draw, name, inputs, given, given)


@_simple("binary_cross_entropy", "BCELoss")
def _(draw: Draw, name: str) -> Any:
    inputs = _pair(draw, 0.05, 0.95, label=(0, 1))
    given = {"reduction": reduction(draw)}
    if draw.flag(0.3):
        given["weight"] = draw.tensor(inputs[0].shape, inputs[0].dtype, 0, 1)
    return _either(draw, name, inputs, given, given)


@_simple("binary_cross_entropy_with_logits", "BCEWithLogitsLoss")
def _(draw: Draw, name: str) -> Any:
    inputs = _pair(draw, label=(0, 1))
    given: dict[str, Any] = {"reduction": reduction(draw)}
    for key in ("weight", "pos_weight"):
        if draw.flag(0.3):
            given[key] = draw.tensor(inputs[0].shape, inputs[0].dtype, 0.1, 2)
    return _either(draw, name, inputs, given, given)


@_simple("kl_div", "KLDivLoss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = draw.shape((1, 4)), draw.choice(*FLOATS)
    inputs = [draw.tensor(shape, kind, -3, 0), draw.tensor(shape, kind, 0, 1)]
    given = {"reduction": draw.maybe(draw.choice("mean", "sum", "none", "batchmean"))}
    return _either(draw, name, inputs, given, given)


@_simple("log_loss", "square_error_cost", "dice_loss")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "square_error_cost":
        return draw.call(name, *_pair(draw))
    if word(name) == "log_loss":
        shape, kind = (draw.size(), 1), "float32"
        inputs = [draw.tensor(shape, kind, 0.05, 0.95), draw.tensor(shape, kind, 0, 1)]
        return draw.call(name, *inputs, epsilon=draw.maybe(1e-2, 0.3))
    x = draw.tensor(draw.shape((2, 4), low=1), FLOATS, 0.05, 0.95)
    assert x.shape is not None
    label = indices(draw, (*x.shape[:-1], 1), max(x.shape[-1], 1))
    return draw.call(name, x, label, epsilon=draw.maybe(0.1, 0.3))


@_simple("margin_ranking_loss", "MarginRankingLoss")
def _(draw: Draw, name: str) -> Any:
    inputs = _pair(draw)
    inputs.append(draw.feed(np.sign(draw.numbers(inputs[0].shape, "float64") + 0.01).astype(inputs[0].dtype)))
    given = {"margin": draw.maybe(draw.choice(0.0, 0.5)), "reduction": reduction(draw)}
    return _either(draw, name, inputs, given, given)


@_simple("hinge_embedding_loss", "HingeEmbeddingLoss", "cosine_embedding_loss", "CosineEmbeddingLoss")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*FLOATS)
    given = {"margin": draw.maybe(draw.choice(0.0, 0.5)), "reduction": reduction(draw)}
    if "osine" in name:
        shape = (draw.size(low=2), draw.size(low=2))
        inputs = [draw.tensor(shape, kind), draw.tensor(shape, kind)]
        signs = np.sign(draw.numbers(shape[:-1], "float64") + 0.01).astype(draw.choice(kind, "int64"))
        inputs.append(draw.feed(signs, fixed=True))
        return _either(draw, name, inputs, given, given)
    x = draw.tensor(draw.shape((1, 3)), kind)
    signs = np.sign(draw.numbers(x.shape or (), "float64") + 0.01).astype(kind)
    return _either(draw, name, [x, draw.feed(signs, fixed=True)], given, given)


@_simple("triplet_margin_loss", "TripletMarginLoss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = draw.shape((1, 2)), draw.choice(*FLOATS)
    inputs = [draw.tensor(shape, kind) for _ in range(3)]
    given = {
        "margin": draw.maybe(draw.choice(0.5, 2.0)),
        "p": draw.maybe(draw.choice(1.0, 2.0, 3.0)),
        "epsilon": draw.maybe(1e-3, 0.3),
        "swap": draw.maybe(draw.flag()),
        "reduction": reduction(draw),
    }
    return _either(draw, name, inputs, given, given)


@_simple("triplet_margin_with_distance_loss", "TripletMarginWithDistanceLoss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = draw.shape((1, 2)), draw.choice(*FLOATS)
    inputs = [draw.tensor(shape, kind) for _ in range(3)]
    given: dict[str, Any] = {
        "margin": draw.maybe(2.0),
        "swap": draw.maybe(draw.flag()),
        "reduction": reduction(draw),
    }
    if draw.flag(0.3):
        given["distance_function"] = draw.block(
            ["a", "b"], lambda a, b: draw.call("paddle.nn.functional.pairwise_distance", a, b, p=1.0)
        )
    return _either(draw, name, inputs, given, given)


@_simple("multi_label_soft_margin_loss", "MultiLabelSoftMarginLoss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = draw.shape((2, 3)), draw.choice(*FLOATS)
    inputs = [draw.tensor(shape, kind), draw.feed(draw.numbers(shape, "bool").astype(kind))]
    given: dict[str, Any] = {"reduction": reduction(draw)}
    if draw.flag(0.3):
        given["weight"] = draw.tensor(shape[-1:], kind, 0.1, 1)
    return _either(draw, name, inputs, given, given)


@_simple("multi_margin_loss", "MultiMarginLoss")
def _(draw: Draw, name: str) -> Any:
    rows, classes, kind = draw.size(), draw.int(2, 4), draw.choice(*FLOATS)
    inputs = [draw.tensor((rows, classes), kind), indices(draw, (rows,), classes)]
    given: dict[str, Any] = {"p": draw.maybe(draw.choice(1, 2)), "margin": draw.maybe(0.5)}
    given["reduction"] = reduction(draw)
    if draw.flag(0.3):
        given["weight"] = draw.tensor((classes,), kind, 0.1, 1)
    return _either(draw, name, inputs, given, given)


@_simple("poisson_nll_loss", "PoissonNLLLoss", "gaussian_nll_loss", "GaussianNLLLoss")
def _(draw: Draw, name: str) -> Any:
    inputs = _pair(draw, 0.2, 3)
    given: dict[str, Any] = {
        "full": draw.maybe(draw.flag()),
        "epsilon": draw.maybe(1e-3, 0.3),
        "reduction": reduction(draw),
    }
    if "oisson" in name:
        given["log_input"] = draw.maybe(draw.flag())
    else:
        inputs.append(draw.tensor(inputs[0].shape, inputs[0].dtype, 0.2, 2))
    return _either(draw, name, inputs, given, given)


@_simple("npair_loss")
def _(draw: Draw, name: str) -> Any:
    rows, width, kind = draw.size(low=1), draw.size(), "float32"
    inputs = [draw.tensor((rows, width), kind), draw.tensor((rows, width), kind)]
    return draw.call(name, *inputs, draw.tensor((rows,), kind, 0, 2), l2_reg=draw.maybe(0.1))


@_simple("sigmoid_focal_loss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = draw.shape((1, 3)), draw.choice(*FLOATS)
    inputs = [draw.tensor(shape, kind), draw.feed(draw.numbers(shape, "bool").astype(kind))]
    normalizer = draw.tensor((1,), kind, 1, 3, known=True) if draw.flag(0.3) else OMIT
    given = {
        "alpha": draw.maybe(0.5),
        "gamma": draw.maybe(draw.choice(0, 1.5, 2.0)),
        "reduction": reduction(draw),
    }
    return draw.call(name, *inputs, normalizer=normalizer, **given)


# ---------------------------------------------------------------------- of classes
def _classes(draw: Draw, soft: bool, axis: int, shape: list[int], kind: str) -> Any:
    if soft:
        label = draw.numbers(shape, "float64", 0.1, 1)
        label = (label / label.sum(axis, keepdims=True)).round(4)
        # labels that do not add up to 1 have no gradient that is their loss's
        np.moveaxis(label, axis, 0)[0] += 1 - label.sum(axis)
        return draw.feed(label.round(4).astype(kind), fixed=True)
    places = list(shape)
    places[axis] = 1
    if draw.flag():
        del places[axis % len(shape)]
    return indices(draw, places, shape[axis])


@_simple("cross_entropy", "CrossEntropyLoss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = list(draw.shape((2, 4), low=1)), draw.choice(*FLOATS)
    axis = draw.choice(-1, -1, 1)
    shape[axis] = max(shape[axis], 2)
    soft = draw.flag(0.3)
    label = _classes(draw, soft, axis, shape, kind)
    given: dict[str, Any] = {"axis": draw.maybe(axis) if axis == -1 else axis}
    given["soft_label"] = True if soft else draw.maybe(False)
    given["reduction"] = reduction(draw)
    given["label_smoothing"] = draw.maybe(0.2, 0.15)
    given["ignore_index"] = draw.maybe(draw.choice(0, 1, -1), 0.3) if not soft else OMIT
    low, high = -2.0, 2.0
    if draw.flag(0.15):
        given["use_softmax"], low, high = False, 0.1, 0.9
    if draw.flag(0.2):
        given["weight"] = draw.tensor((shape[axis],), kind, 0.2, 1, known=True)
    return _either(draw, name, [draw.tensor(shape, kind, low, high), label], given, given)


@_simple("softmax_with_cross_entropy")
def _(draw: Draw, name: str) -> Any:
    shape, kind = list(draw.shape((2, 4), low=1)), draw.choice(*FLOATS)
    axis, soft = draw.axis(len(shape)), draw.flag(0.3)
    shape[axis] = max(shape[axis], 2)
    places = list(shape)
    places[axis] = 1
    label = _classes(draw, True, axis, shape, kind) if soft else indices(draw, places, shape[axis])
    return draw.call(
        name,
        draw.tensor(shape, kind),
        label,
        soft_label=True if soft else draw.maybe(False),
        ignore_index=draw.maybe(draw.choice(0, 1), 0.3) if not soft else OMIT,
        numeric_stable_mode=draw.maybe(draw.flag(), 0.3),
        return_softmax=draw.maybe(draw.flag()),
        axis=axis,
    )


@_simple("nll_loss", "NLLLoss")
def _(draw: Draw, name: str) -> Any:
    shape, kind = list(draw.shape(draw.choice(2, 2, 4), low=1)), draw.choice(*FLOATS)
    shape[1] = max(shape[1], 2)
    x = draw.tensor(shape, kind, -3, 0)
    label = draw.tensor([shape[0], *shape[2:]], "int64", 0, shape[1] - 1)
    given: dict[str, Any] = {"ignore_index": draw.maybe(draw.choice(0, 1), 0.3), "reduction": reduction(draw)}
    if draw.flag(0.3):
        given["weight"] = draw.tensor((shape[1],), kind, 0.2, 1, known=True)
    return _either(draw, name, [x, label], given, given)


@_simple("hsigmoid_loss")
def _(draw: Draw, name: str) -> Any:
    rows, width, classes, kind = draw.size(low=1), draw.size(low=1), draw.int(3, 6), draw.choice(*FLOATS)
    x, label = draw.tensor((rows, width), kind), draw.tensor((rows, 1), "int64", 0, classes - 1)
    weight = draw.tensor((classes - 1, width), kind, known=True)
    bias = draw.tensor((classes - 1, 1), kind, known=True) if draw.flag() else OMIT
    return draw.call(name, x, label, classes, weight, bias=bias)


@draws("paddle.nn.HSigmoidLoss")
def _(draw: Draw, name: str) -> Any:
    rows, width, classes = draw.size(low=1), draw.size(low=1), draw.int(3, 6)
    layer = draw.call(name, width, classes, bias_attr=draw.maybe(False, 0.3))
    inputs = [draw.tensor((rows, width), "float32"), draw.tensor((rows, 1), "int64", 0, classes - 1)]
    return draw.call(layer.name, *inputs)


# ---------------------------------------------------------------------- of sequences
@_simple("ctc_loss", "CTCLoss")
def _(draw: Draw, name: str) -> Any:
    steps, batch, classes, kind = (
        draw.int(4, 6),
        draw.int(1, 3),
        draw.int(3, 5),
        draw.choice("float32", "float64"),
    )
    logits = draw.tensor((steps, batch, classes), kind, known=True)
    blank = draw.choice(0, classes - 1)
    labels = draw.tensor(
        (batch, 2), "int32", *((1, classes - 1) if blank == 0 else (0, classes - 2)), known=True
    )
    lengths = [
        draw.feed(np.array([draw.int(low, high) for _ in range(batch)], "int64"), fixed=True, known=True)
        for low, high in ((4, steps), (1, 2))
    ]
    given = {"blank": blank, "reduction": reduction(draw)}
    more = dict(given, norm_by_times=draw.maybe(draw.flag(), 0.2))
    return _either(draw, name, [logits, labels, *lengths], given, more)


@_simple("rnnt_loss", "RNNTLoss")
def _(draw: Draw, name: str) -> Any:
    batch, steps, length, classes = draw.int(1, 2), draw.int(2, 4), draw.int(1, 3), draw.int(3, 4)
    logits = draw.tensor((batch, steps, length + 1, classes), draw.choice("float32", "float64"), known=True)
    blank = draw.choice(0, 0, classes - 1)
    least = int(blank == 0)
    labels = draw.tensor((batch, length), "int32", least, classes - 2 + least, known=True)
    lengths = [
        draw.feed(np.array([draw.int(1, most) for _ in range(batch)], "int32"), fixed=True, known=True)
        for most in (steps, length)
    ]
    given = {"blank": OMIT if blank == 0 else blank}
    given |= {"fastemit_lambda": draw.choice(0.0, 0.001), "reduction": reduction(draw)}
    return _either(draw, name, [logits, labels, *lengths], given, given)


@_simple("gather_tree")
def _(draw: Draw, name: str) -> Any:
    steps, batch, beams, kind = draw.int(1, 4), draw.int(1, 2), draw.int(1, 3), draw.choice(*INTS)
    ids = draw.tensor((steps, batch, beams), kind, 0, 9)
    return draw.call(name, ids, draw.tensor((steps, batch, beams), kind, 0, beams - 1))


@draws("paddle.metric.accuracy", "paddle.static.accuracy")
def _(draw: Draw, name: str) -> Any:
    rows, classes = draw.size(low=1), draw.int(2, 5)
    x = draw.tensor((rows, classes), FLOATS, 0, 1, distinct=True)
    label = draw.tensor((rows, 1), "int64", 0, classes - 1)
    return draw.call(name, x, label, k=draw.maybe(draw.int(1, classes)))


@draws("paddle.static.auc", "paddle.static.ctr_metric_bundle")
def _(draw: Draw, name: str) -> Any:
    rows = draw.int(2, 5)
    draw.gradients = False
    if word(name) == "ctr_metric_bundle":
        x = draw.tensor((rows, 1), "float32", 0, 1)
        return draw.call(name, x, draw.feed(draw.numbers((rows, 1), "bool").astype("float32")))
    first = draw.numbers((rows, 1), "float32", 0, 1)
    x = draw.feed(np.concatenate([1 - first, first], 1), fixed=True)
    found = draw.call(
        name,
        x,
        draw.tensor((rows, 1), "int64", 0, 1),
        curve=draw.maybe(draw.choice("ROC", "PR")),
        num_thresholds=draw.choice(OMIT, 7, 200),
        slide_steps=draw.maybe(draw.choice(0, 1, 3)),
    )
    return draw.call("paddle.assign", found[0])
