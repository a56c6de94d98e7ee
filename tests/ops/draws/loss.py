"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")


def probabilities(draw: Draw, shape: tuple[int, ...], dtype: str, axis: int = -1) -> Value:
    """Numbers above 0 whose sums along an axis are 1."""
    found = draw.numbers(shape, dtype, 0.1, 1.0)
    return draw.feed((found / found.sum(axis, keepdims=True)).astype(dtype), fixed=True)


def rows(draw: Draw) -> tuple[int, ...]:
    """Sizes in front of the classes."""
    return tuple(max(size, 1) for size in draw.shape((1, 3)))


@draws("fluid.layers.cross_entropy")
def _(draw: Draw, name: str) -> Any:
    front, classes, dtype = rows(draw), draw.int(2, 5), draw.choice(*FLOATS)
    x = probabilities(draw, (*front, classes), dtype)
    if draw.flag(0.3):
        return draw.call(name, x, probabilities(draw, (*front, classes), dtype), soft_label=True)
    ignored = draw.choice(OMIT, OMIT, 0, -100)
    label = draw.tensor((*front, 1), "int64", 0, classes - 1)
    return draw.call(name, x, label, soft_label=draw.maybe(False), ignore_index=ignored)


@draws("fluid.layers.softmax_with_cross_entropy")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = [max(size, 1) for size in draw.shape((2, 4))], draw.choice(*FLOATS)
    axis = draw.axis(len(shape))
    shape[axis] = classes = draw.int(2, 5)
    last = axis in (-1, len(shape) - 1)
    x = draw.tensor(shape, dtype, -4, 4)
    common = {
        "axis": OMIT if last and draw.flag() else axis,
        "numeric_stable_mode": draw.maybe(draw.flag(), 0.3) if last else OMIT,
        "return_softmax": draw.maybe(draw.flag()),
    }
    if draw.flag(0.35):
        return draw.call(name, x, probabilities(draw, tuple(shape), dtype, axis), soft_label=True, **common)
    shape[axis] = 1
    label = draw.tensor(shape, "int64", 0, classes - 1)
    return draw.call(name, x, label, ignore_index=draw.choice(OMIT, OMIT, 0), **common)


@draws("fluid.layers.sigmoid_cross_entropy_with_logits")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    x = draw.tensor(shape, dtype, -4, 4)
    label = draw.tensor(shape, dtype, 0, 1)
    ignored = draw.choice(OMIT, OMIT, -1, 0)
    if ignored is not OMIT:
        whole = np.array([draw.choice(-1, 0, 1) for _ in range(int(np.prod(shape)))], dtype)
        label = draw.feed(whole.reshape(shape), fixed=True)
    return draw.call(name, x, label, ignore_index=ignored, normalize=draw.maybe(draw.flag()))


@draws("fluid.layers.sigmoid_focal_loss")
def _(draw: Draw, name: str) -> Any:
    count, classes = draw.int(1, 5), draw.int(1, 4)
    x = draw.tensor((count, classes), FLOATS, -3, 3)
    label = draw.tensor((count, 1), "int32", 0, classes)
    number = draw.variable(draw.int(1, 5), "int32")
    return draw.call(
        name, x, label, number, gamma=draw.choice(OMIT, 1.0, 2.5), alpha=draw.choice(OMIT, 0.5, 0.9)
    )


@draws("fluid.layers.square_error_cost", "fluid.layers.mse_loss")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    return draw.call(name, draw.tensor(shape, dtype), draw.tensor(shape, dtype))


@draws("fluid.layers.huber_loss")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = (draw.int(1, 5), 1), draw.choice(*FLOATS)
    return draw.call(name, draw.tensor(shape, dtype), draw.tensor(shape, dtype), draw.choice(0.3, 1.0, 2))


@draws("fluid.layers.smooth_l1")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((2, 4)), "float32"
    x, y = draw.tensor(shape, dtype), draw.tensor(shape, dtype)
    inside = outside = OMIT
    if draw.flag():
        inside, outside = draw.tensor(shape, dtype, 0, 1), draw.tensor(shape, dtype, 0, 1)
    sigma = draw.choice(OMIT, 0.5, 2.0, 3.0)
    return draw.call(name, x, y, inside_weight=inside, outside_weight=outside, sigma=sigma)


@draws("fluid.layers.kldiv_loss")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    target = draw.tensor(shape, dtype, 0.05, 1)
    how = draw.choice(OMIT, "mean", "sum", "batchmean", "none")
    return draw.call(name, draw.tensor(shape, dtype), target, reduction=how)


@draws("fluid.layers.log_loss")
def _(draw: Draw, name: str) -> Any:
    shape = (draw.int(1, 5), 1)
    x = draw.tensor(shape, "float32", 0.05, 0.95)
    label = draw.tensor(shape, "float32", 0, 1)
    return draw.call(name, x, label, epsilon=draw.choice(OMIT, 1e-3, 0.1))


@draws("fluid.layers.rank_loss", "fluid.layers.margin_rank_loss")
def _(draw: Draw, name: str) -> Any:
    count, dtype = draw.int(1, 5), "float32"
    low = -1 if "margin" in name else 0
    values = np.array([draw.choice(low, 1) for _ in range(count)], dtype).reshape(count, 1)
    label = draw.feed(values, fixed=True)
    left, right = draw.tensor((count, 1), dtype), draw.tensor((count, 1), dtype)
    margin = draw.choice(OMIT, 0.5, 1.0) if "margin" in name else OMIT
    return draw.call(name, label, left, right, margin=margin)


@draws("fluid.layers.bpr_loss")
def _(draw: Draw, name: str) -> Any:
    count, classes = draw.int(1, 5), draw.int(2, 5)
    return draw.call(
        name, draw.tensor((count, classes), FLOATS), draw.tensor((count, 1), "int64", 0, classes - 1)
    )


@draws("fluid.layers.teacher_student_sigmoid_loss")
def _(draw: Draw, name: str) -> Any:
    count, dtype = draw.int(1, 5), draw.choice(*FLOATS)
    labels = np.array([draw.choice(-2.0, -1.0, 0.3, 0.8, 1.0, 1.4) for _ in range(count)], dtype)
    label = draw.feed(labels.reshape(count, 1), fixed=True)
    x = draw.tensor((count, 1), dtype)
    bounds = {"soft_max_up_bound": 2.0, "soft_max_lower_bound": -2.0} if draw.flag(0.4) else {}
    return draw.call(name, x, label, **bounds)


@draws("fluid.layers.dice_loss")
def _(draw: Draw, name: str) -> Any:
    front, classes = rows(draw), draw.int(2, 4)
    x = draw.tensor((*front, classes), "float32", 0, 1)
    label = draw.tensor((*front, 1), "int64", 0, classes - 1)
    return draw.call(name, x, label, epsilon=draw.choice(OMIT, 0.1))


@draws("fluid.layers.npair_loss")
def _(draw: Draw, name: str) -> Any:
    count, width = draw.int(2, 4), draw.int(1, 4)
    anchor, positive = (draw.tensor((count, width), "float32") for _ in range(2))
    labels = draw.tensor((count,), "float32", 0, 2, fixed=True)
    draw.feeds[labels.name]["values"] = [float(draw.int(0, 2)) for _ in range(count)]
    draw.feeds[labels.name]["stop"] = True
    return draw.call(name, anchor, positive, labels, l2_reg=draw.choice(OMIT, 0.1))


@draws("fluid.layers.center_loss")
def _(draw: Draw, name: str) -> Any:
    count, width, classes = draw.int(1, 4), draw.int(1, 4), draw.int(2, 4)
    x = draw.tensor((count, width), "float32")
    label = draw.tensor((count, 1), "int64", 0, classes - 1)
    attr = draw.made("fluid.ParamAttr", name="centers")
    return draw.call(name, x, label, classes, draw.real(0.1, 0.9), attr, update_center=draw.flag())


@draws("fluid.layers.label_smooth")
def _(draw: Draw, name: str) -> Any:
    count, classes, dtype = draw.int(1, 4), draw.int(2, 5), draw.choice(*FLOATS)
    label = probabilities(draw, (count, classes), dtype)
    prior = probabilities(draw, (1, classes), dtype) if draw.flag(0.4) else OMIT
    return draw.call(name, label, prior_dist=prior, epsilon=draw.choice(OMIT, 0.0, 0.3), dtype=dtype)


@draws("fluid.layers.continuous_value_model")
def _(draw: Draw, name: str) -> Any:
    width = draw.int(3, 5)
    lengths = [1] * draw.int(1, 4)
    x = draw.tensor((len(lengths), width), "float32", 0, 3, lengths=[lengths])
    cvm = draw.tensor((len(lengths), 2), "float32", 1, 5)
    return draw.call(name, x, cvm, use_cvm=draw.maybe(draw.flag()))


# ---------------------------------------------------------------------- sampled classes
@draws("fluid.layers.nce")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    count, width, classes = draw.int(1, 4), draw.int(1, 4), draw.int(3, 8)
    x = draw.tensor((count, width), "float32")
    label = draw.tensor((count, draw.choice(1, 1, 2)), "int64", 0, classes - 1)
    sampler = draw.choice(OMIT, "uniform", "log_uniform", "custom_dist")
    custom = OMIT
    if sampler == "custom_dist":
        found = draw.numbers((classes,), "float32", 0.1, 1)
        custom = [float(one) for one in found / found.sum()]
    return draw.call(
        name,
        x,
        label,
        classes,
        sample_weight=draw.tensor((count, 1), "float32", 0.5, 1) if draw.flag(0.3) else OMIT,
        bias_attr=draw.choice(OMIT, OMIT, False),
        param_attr=draw.attr(0.15),
        is_sparse=draw.maybe(draw.flag(), 0.2),
        num_neg_samples=draw.maybe(draw.int(1, 5)),
        sampler=sampler,
        custom_dist=custom,
        seed=draw.choice(OMIT, 3),
    )


@draws("fluid.layers.hsigmoid")
def _(draw: Draw, name: str) -> Any:
    count, width, classes = draw.int(1, 4), draw.int(1, 4), draw.int(2, 7)
    x = draw.tensor((count, width), FLOATS)
    label = draw.tensor((count, 1), "int64", 0, classes - 1)
    kwargs: dict[str, Any] = {
        "param_attr": draw.attr(0.15),
        "bias_attr": draw.choice(OMIT, OMIT, False),
        "is_sparse": draw.maybe(False, 0.2),
    }
    if draw.flag(0.3):
        depth = draw.int(1, 3)
        table = draw.numbers((count, depth), "int64", 0, classes - 1)
        table[:, -1] = [draw.choice(-1, draw.int(0, classes - 1)) for _ in range(count)]
        code = draw.tensor((count, depth), "int64", 0, 1)
        kwargs.update(path_table=draw.feed(table), path_code=code, is_custom=True)
    return draw.call(name, x, label, classes, **kwargs)


@draws("fluid.layers.sampled_softmax_with_cross_entropy")
def _(draw: Draw, name: str) -> Any:
    count, classes, true, sampled = (
        draw.int(1, 4),
        draw.int(4, 8),
        2 if draw.flag(0.05) else 1,
        draw.int(1, 4),
    )
    logits = draw.tensor((count, classes), FLOATS)
    label = draw.tensor((count, true), "int64", 0, classes - 1)
    kwargs: dict[str, Any] = {"seed": draw.choice(OMIT, 3)}
    if draw.flag(0.7):
        labels = draw.feeds[label.name]["values"]
        picked = [
            [*labels[true * row : true * (row + 1)], *(draw.int(0, classes - 1) for _ in range(sampled))]
            for row in range(count)
        ]
        samples = draw.feed(np.array(picked, "int64"), fixed=True)
        draw.feeds[label.name]["fixed"] = True
        chances = draw.tensor((count, true + sampled), logits.dtype or "", 0.1, 0.5, fixed=True)
        kwargs = {
            "use_customized_samples": True,
            "customized_samples": samples,
            "customized_probabilities": chances,
        }
    else:
        draw.random = True
    remove = draw.maybe(draw.flag())
    if true > 1:
        kwargs["num_true"] = true
    return draw.call(name, logits, label, sampled, remove_accidental_hits=remove, **kwargs)


# ---------------------------------------------------------------------- sequences of labels
def padded(draw: Draw, lengths: list[int]) -> Value:
    """Lengths of padded sequences as a Variable."""
    return draw.feed(np.array(lengths, "int64"), fixed=True, known=True)


@draws("fluid.layers.warpctc")
def _(draw: Draw, name: str) -> Any:
    classes = draw.int(2, 5)
    blank = draw.choice(OMIT, 0, classes - 1)
    low = 1 if blank in (OMIT, 0) else 0
    high = classes - 1 if low else classes - 2
    labels = [draw.int(1, 3) for _ in range(draw.int(1, 3))]
    times = [2 * one + draw.int(0, 2) for one in labels]
    common = {"blank": blank, "norm_by_times": draw.maybe(draw.flag())}
    if draw.flag():
        logits = draw.tensor((sum(times), classes), "float32", lengths=[times])
        label = draw.tensor((sum(labels), 1), "int32", low, high, lengths=[labels])
        return draw.call(name, logits, label, **common)
    logits = draw.tensor((max(times), len(times), classes), "float32", known=True)
    label = draw.tensor((len(labels), max(labels)), "int32", low, high, known=True)
    counts = {"input_length": padded(draw, times), "label_length": padded(draw, labels)}
    return draw.call(name, logits, label, **common, **counts)


@draws("fluid.layers.edit_distance")
def _(draw: Draw, name: str) -> Any:
    count, dtype = draw.int(1, 3), "int64"
    common = {"normalized": draw.maybe(draw.flag()), "ignored_tokens": draw.choice(OMIT, OMIT, [9], [8, 9])}
    sizes = [[draw.int(1, 4) for _ in range(count)] for _ in range(2)]
    if draw.flag():
        one, two = (
            draw.tensor((sum(size), 1), dtype, 0, 9 if size[0] > 1 else 3, lengths=[size]) for size in sizes
        )
        return draw.call(name, one, two, **common)
    one, two = (draw.tensor((count, max(size)), dtype, 0, 3, known=True) for size in sizes)
    counts = {"input_length": padded(draw, sizes[0]), "label_length": padded(draw, sizes[1])}
    common["ignored_tokens"] = OMIT
    return draw.call(name, one, two, **common, **counts)


@draws("fluid.layers.ctc_greedy_decoder")
def _(draw: Draw, name: str) -> Any:
    classes, lengths = draw.int(2, 5), [draw.int(1, 4) for _ in range(draw.int(1, 3))]
    blank = draw.int(0, classes - 1)
    if draw.flag():
        x = draw.tensor((sum(lengths), classes), FLOATS, 0, 1, distinct=True, lengths=[lengths])
        return draw.call(name, x, blank)
    shape = (len(lengths), max(lengths), classes)
    x = draw.tensor(shape, FLOATS, 0, 1, distinct=True, known=True)
    counts = draw.feed(np.array(lengths, "int64").reshape(-1, 1), fixed=True, known=True)
    return draw.call(name, x, blank, input_length=counts, padding_value=draw.choice(OMIT, 0, -1))


@draws("fluid.layers.linear_chain_crf", "fluid.layers.crf_decoding")
def _(draw: Draw, name: str) -> Any:
    classes, lengths = draw.int(2, 4), [draw.int(1, 4) for _ in range(draw.int(1, 3))]
    flat = draw.flag()
    shape = (sum(lengths),) if flat else (len(lengths), max(lengths))
    extra: dict[str, Any] = {"lengths": [lengths]} if flat else {"known": True}
    x = draw.tensor((*shape, classes), FLOATS, **extra)
    label = draw.tensor((*shape, 1) if flat or draw.flag() else shape, "int64", 0, classes - 1, **extra)
    count = {} if flat else {"length": padded(draw, lengths)}
    attr = draw.made("fluid.ParamAttr", name="crf")
    cost = draw.call("fluid.layers.linear_chain_crf", x, label, param_attr=attr, **count)
    if name.endswith("crf"):
        return cost
    found = draw.call(name, x, attr, label=label if draw.flag(0.4) else OMIT, **count)
    return [cost, found]


@draws("fluid.layers.chunk_eval")
def _(draw: Draw, name: str) -> Any:
    scheme = draw.choice("IOB", "IOE", "IOBES", "plain")
    kinds = draw.int(1, 3)
    tags = {"IOB": 2, "IOE": 2, "IOBES": 4, "plain": 1}[scheme] * kinds
    lengths = [draw.int(1, 5) for _ in range(draw.int(1, 3))]
    excluded = draw.choice(OMIT, OMIT, [0])
    if draw.flag():
        tensors = [draw.tensor((sum(lengths), 1), "int64", 0, tags, lengths=[lengths]) for _ in range(2)]
        return draw.call(name, *tensors, scheme, kinds, excluded_chunk_types=excluded)
    tensors = [draw.tensor((len(lengths), max(lengths), 1), "int64", 0, tags, known=True) for _ in range(2)]
    count = padded(draw, lengths)
    return draw.call(name, *tensors, scheme, kinds, excluded_chunk_types=excluded, seq_length=count)


# ---------------------------------------------------------------------- figures
@draws("fluid.layers.accuracy")
def _(draw: Draw, name: str) -> Any:
    count, classes = draw.int(1, 5), draw.int(2, 5)
    x = draw.tensor((count, classes), FLOATS, 0, 1, distinct=True)
    label = draw.tensor((count, 1), "int64", 0, classes - 1)
    extra: dict[str, Any] = {}
    if draw.flag(0.3):
        extra = {key: draw.call("fluid.layers.create_tensor", "int32") for key in ("correct", "total")}
    found = draw.call(name, x, label, k=draw.choice(OMIT, 1, 2), **extra)
    return [found, *extra.values()]


@draws("fluid.layers.auc")
def _(draw: Draw, name: str) -> Any:
    count = draw.int(2, 6)
    one = draw.numbers((count, 1), "float32", 0.02, 0.98)
    x = draw.feed(np.concatenate((1 - one, one), 1), fixed=True)
    draw.feeds[x.name]["stop"] = True
    label = draw.tensor((count, 1), "int64", 0, 1)
    return draw.call(
        name,
        x,
        label,
        curve=draw.choice(OMIT, "ROC", "PR"),
        num_thresholds=draw.choice(OMIT, 7, 100),
        slide_steps=draw.choice(OMIT, 0, 1, 3),
    )[0]
