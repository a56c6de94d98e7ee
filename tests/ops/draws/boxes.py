"""Boxes: priors, matches, codes, suppression."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws


def corners(draw: Draw, shape: tuple[int, ...], size: float = 1.0, least: float = 0.1) -> np.ndarray:
    """Boxes (xmin, ymin, xmax, ymax) inside of a square of this size."""
    low = draw.numbers((*shape, 2), "float32", 0.0, 0.6 * size)
    wide = draw.numbers((*shape, 2), "float32", least * size, 0.4 * size)
    return np.concatenate((low, low + wide), -1).astype("float32")


def boxes(
    draw: Draw,
    shape: tuple[int, ...],
    size: float = 1.0,
    lengths: Any = None,
    learn: bool = False,
    **more: Any,
) -> Value:
    """Boxes as a fed tensor; `learn`: gradients by them are asked for."""
    made = draw.feed(corners(draw, shape, size), fixed=True, lengths=lengths, **more)
    draw.feeds[made.name]["stop"] = not learn
    return made


def counts(draw: Draw, images: int) -> list[int]:
    """How many boxes each image has."""
    return [draw.int(1, 3) for _ in range(images)]


# ---------------------------------------------------------------------- priors
def maps(draw: Draw) -> tuple[Value, Value]:
    """Features and the image that they are of."""
    batch, scale = draw.int(1, 2), draw.choice(4, 8)
    height, width = draw.int(1, 3), draw.int(1, 3)
    features = draw.tensor((batch, draw.int(1, 3), height, width), "float32", known=True)
    image = draw.tensor((batch, 3, height * scale, width * scale), "float32", known=True)
    return features, image


def ratios(draw: Draw) -> list[float]:
    """Some aspect ratios."""
    return draw.rng.sample([1.0, 2.0, 3.0, 0.5], draw.int(1, 3))


@draws("fluid.layers.prior_box")
def _(draw: Draw, name: str) -> Any:
    features, image = maps(draw)
    least = [float(draw.int(2, 6)) for _ in range(draw.int(1, 2))]
    return draw.call(
        name,
        features,
        image,
        least,
        max_sizes=draw.maybe([one + draw.int(1, 6) for one in least]),
        aspect_ratios=draw.maybe(ratios(draw)),
        variance=draw.choice(OMIT, [0.1, 0.2, 0.3, 0.4]),
        flip=draw.maybe(draw.flag()),
        clip=draw.maybe(draw.flag()),
        steps=draw.choice(OMIT, [4.0, 3.0]),
        offset=draw.choice(OMIT, 0.0, 0.25),
        min_max_aspect_ratios_order=draw.maybe(draw.flag()),
    )


@draws("fluid.layers.density_prior_box")
def _(draw: Draw, name: str) -> Any:
    features, image = maps(draw)
    count = draw.int(1, 2)
    return draw.call(
        name,
        features,
        image,
        densities=[draw.int(1, 3) for _ in range(count)],
        fixed_sizes=[float(draw.int(2, 9)) for _ in range(count)],
        fixed_ratios=ratios(draw),
        variance=draw.choice(OMIT, [0.1, 0.2, 0.3, 0.4]),
        clip=draw.maybe(draw.flag()),
        steps=draw.choice(OMIT, [4.0, 4.0]),
        offset=draw.choice(OMIT, 0.25),
        flatten_to_2d=draw.maybe(draw.flag()),
    )


@draws("fluid.layers.anchor_generator")
def _(draw: Draw, name: str) -> Any:
    features, _image = maps(draw)
    return draw.call(
        name,
        features,
        anchor_sizes=[float(draw.int(4, 40)) for _ in range(draw.int(1, 3))],
        aspect_ratios=ratios(draw),
        variance=draw.choice(OMIT, [1.0, 1.0, 0.5, 0.5]),
        stride=[float(draw.int(2, 16)) for _ in range(2)],
        offset=draw.choice(OMIT, 0.0),
    )


def strides(count: int) -> dict[str, Any]:
    """Steps of priors across and down, a map each."""
    return {"step_w": [4.0 + at for at in range(count)], "step_h": [3.0 + at for at in range(count)]}


@draws("fluid.layers.multi_box_head")
def _(draw: Draw, name: str) -> Any:
    count, batch = draw.int(3, 4), draw.int(1, 2)
    image = draw.tensor((batch, 3, 16, 16), "float32", known=True)
    inputs = [
        draw.tensor((batch, draw.int(1, 3), size, size), "float32", known=True)
        for size in [4, 3, 2, 1][:count]
    ]
    sizes: dict[str, Any] = {"min_ratio": 20, "max_ratio": 90}
    if draw.flag():
        least = [2.0 + 2 * at for at in range(count)]
        sizes = {"min_sizes": least, "max_sizes": [one + 3 for one in least]}
    return draw.call(
        name,
        inputs,
        image,
        16,
        draw.int(2, 3),
        [draw.choice([2.0], [2.0, 3.0]) for _ in inputs],
        **draw.choice({}, {"steps": [4.0 + at for at in range(count)]}, strides(count)),
        offset=draw.choice(OMIT, 0.25),
        flip=draw.maybe(draw.flag()),
        clip=draw.maybe(draw.flag()),
        kernel_size=draw.choice(OMIT, 1, 3),
        stride=draw.choice(OMIT, OMIT, 1, 2),
        pad=draw.choice(OMIT, 1),
        variance=draw.choice(OMIT, [0.1, 0.2, 0.3, 0.4]),
        min_max_aspect_ratios_order=draw.maybe(draw.flag()),
        **sizes,
    )


# ---------------------------------------------------------------------- matches and codes
@draws("fluid.layers.iou_similarity")
def _(draw: Draw, name: str) -> Any:
    lengths = counts(draw, draw.int(1, 3))
    normal = draw.maybe(draw.flag())
    size = 20.0 if normal is False else 1.0
    x = boxes(draw, (sum(lengths),), size, [lengths] if draw.flag() else None)
    return draw.call(name, x, boxes(draw, (draw.int(1, 4),), size), box_normalized=normal)


@draws("fluid.layers.bipartite_match")
def _(draw: Draw, name: str) -> Any:
    lengths = counts(draw, draw.int(1, 3))
    distances = draw.tensor((sum(lengths), draw.int(2, 5)), "float32", 0, 1, distinct=True, lengths=[lengths])
    draw.gradients = False
    kind = draw.choice(OMIT, "bipartite", "per_prediction")
    limit = draw.choice(0.3, 0.6) if kind == "per_prediction" else OMIT
    return draw.call(name, distances, match_type=kind, dist_threshold=limit)


@draws("fluid.layers.target_assign")
def _(draw: Draw, name: str) -> Any:
    lengths, columns = counts(draw, draw.int(1, 3)), draw.int(2, 5)
    last, kind = draw.int(1, 4), draw.choice("float32", "int32")
    shape = (sum(lengths), 1, last)
    x = draw.tensor(shape, kind, lengths=[lengths])
    matched = np.array([[draw.int(-1, one - 1) for _ in range(columns)] for one in lengths], "int32")
    kwargs: dict[str, Any] = {"mismatch_value": draw.choice(OMIT, 0, 7)}
    if draw.flag(0.4):
        sizes = [draw.int(1, 2) for _ in lengths]
        kwargs["negative_indices"] = draw.tensor((sum(sizes), 1), "int32", 0, columns - 1, lengths=[sizes])
    draw.gradients = False
    return draw.call(name, x, draw.feed(matched, fixed=True), **kwargs)


@draws("fluid.layers.box_coder")
def _(draw: Draw, name: str) -> Any:
    count = draw.int(1, 4)
    kind, axis = draw.choice("encode_center_size", "decode_center_size"), draw.int(0, 1)
    normal = draw.maybe(draw.flag())
    size = 20.0 if normal is False else 1.0
    prior = boxes(draw, (count,), size)
    variance: Any = draw.choice(None, [0.1, 0.1, 0.2, 0.2])
    if draw.flag(0.4):
        variance = draw.tensor((count, 4), "float32", 0.1, 0.5, fixed=True)
    if kind.startswith("encode"):
        target = boxes(draw, (draw.int(1, 4),), size)
        return draw.call(name, prior, variance, target, code_type=kind, box_normalized=normal)
    other = draw.int(1, 3)
    target = draw.tensor((other, count, 4) if axis == 0 else (count, other, 4), "float32", -1, 1)
    draw.gradients = False
    return draw.call(
        name, prior, variance, target, code_type=kind, box_normalized=normal, axis=axis if axis else OMIT
    )


@draws("fluid.layers.box_clip")
def _(draw: Draw, name: str) -> Any:
    lengths = counts(draw, draw.int(1, 3))
    classes = draw.choice((), (2,))
    x = draw.tensor((sum(lengths), *classes, 4), "float32", -10, 40, lengths=[lengths])
    info = draw.tensor((len(lengths), 3), "float32", 10, 30, fixed=True)
    values = draw.feeds[info.name]["values"]
    values[2::3] = [draw.choice(1.0, 0.5, 2.0) for _ in lengths]
    draw.gradients = False
    return draw.call(name, x, info)


@draws("fluid.layers.box_decoder_and_assign")
def _(draw: Draw, name: str) -> Any:
    rows, classes = draw.int(1, 4), draw.int(1, 3)
    prior = boxes(draw, (rows,), 20.0)
    variance = draw.variable([0.1, 0.1, 0.2, 0.2], "float32")
    target = draw.tensor((rows, 4 * classes), "float32", -1, 1)
    score = draw.tensor((rows, classes), "float32", 0, 1, distinct=True)
    draw.gradients = False
    return draw.call(name, prior, variance, target, score, draw.choice(4.135, 1.0))


@draws("fluid.layers.polygon_box_transform")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    shape = (draw.int(1, 2), 2 * draw.int(1, 4), draw.int(1, 4), draw.int(1, 4))
    return draw.call(name, draw.tensor(shape, ("float32", "float64")))


# ---------------------------------------------------------------------- SSD
@draws("fluid.layers.ssd_loss")
def _(draw: Draw, name: str) -> Any:
    images, count, classes = draw.int(1, 2), draw.int(4, 8), draw.int(2, 4)
    lengths = counts(draw, images)
    places = draw.tensor((images, count, 4), "float32", -1, 1)
    sure = draw.tensor((images, count, classes), "float32", -1, 1)
    objects = boxes(draw, (sum(lengths),), lengths=[lengths])
    label = draw.tensor((sum(lengths), 1), "int32", 1, classes - 1, lengths=[lengths])
    prior = boxes(draw, (count,))
    variance: Any = draw.tensor((count, 4), "float32", 0.1, 0.3, fixed=True)
    kind = draw.choice(OMIT, "per_prediction", "bipartite")
    return draw.call(
        name,
        places,
        sure,
        objects,
        label,
        prior,
        draw.choice(variance, [0.1, 0.1, 0.2, 0.2]),
        overlap_threshold=draw.choice(OMIT, 0.3),
        neg_pos_ratio=draw.choice(OMIT, 1.0, 2.0),
        neg_overlap=draw.choice(OMIT, 0.3),
        loc_loss_weight=draw.choice(OMIT, 0.5),
        conf_loss_weight=draw.choice(OMIT, 2.0),
        match_type=kind,
        mining_type=draw.choice(OMIT, "max_negative"),
        background_label=draw.choice(OMIT, 0),
        sample_size=draw.choice(OMIT, 2),
        normalize=draw.maybe(draw.flag()),
    )


@draws("fluid.layers.detection_output")
def _(draw: Draw, name: str) -> Any:
    images, count, classes = draw.int(1, 2), draw.int(3, 7), draw.int(2, 4)
    places = draw.tensor((images, count, 4), "float32", -1, 1)
    sure = draw.tensor((images, count, classes), "float32", -2, 2, distinct=True)
    variance = draw.tensor((count, 4), "float32", 0.1, 0.3, fixed=True)
    draw.gradients = False
    return draw.call(
        name,
        places,
        sure,
        boxes(draw, (count,)),
        variance,
        background_label=draw.choice(OMIT, 0, -1),
        nms_threshold=draw.choice(OMIT, 0.5),
        nms_top_k=draw.choice(OMIT, 4),
        keep_top_k=draw.choice(OMIT, 5, -1),
        score_threshold=draw.choice(OMIT, 0.2),
        nms_eta=draw.choice(OMIT, 0.8),
        return_index=draw.maybe(draw.flag(0.3)),
    )


# ---------------------------------------------------------------------- suppression
def suppressed(draw: Draw, classes: int) -> tuple[Value, Value]:
    """Boxes of images and their scores (images, classes, boxes)."""
    images, count = draw.int(1, 2), draw.int(2, 7)
    found = boxes(draw, (images, count))
    return found, draw.tensor((images, classes, count), "float32", 0, 1, distinct=True)


NMS = "fluid.layers.multiclass_nms fluid.layers.locality_aware_nms fluid.contrib.layers.multiclass_nms2"


@draws(*NMS.split())
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    aware = "locality" in name
    found, scores = suppressed(draw, 1 if aware else draw.int(2, 4))
    kwargs = {"return_index": draw.maybe(draw.flag())} if name.endswith("nms2") else {}
    return draw.call(
        name,
        found,
        scores,
        draw.choice(0.05, 0.3),
        draw.choice(-1, 3, 400),
        draw.choice(-1, 4, 200),
        nms_threshold=draw.choice(OMIT, 0.1, 0.6),
        normalized=draw.maybe(draw.flag(0.8)),
        nms_eta=draw.choice(OMIT, OMIT, 0.8),
        background_label=draw.choice(OMIT, -1) if aware else draw.choice(OMIT, -1, 0, 1),
        **kwargs,
    )


@draws("fluid.layers.matrix_nms")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    found, scores = suppressed(draw, draw.int(2, 4))
    return draw.call(
        name,
        found,
        scores,
        draw.choice(0.05, 0.3),
        draw.choice(0.0, 0.1),
        draw.choice(3, 400),
        draw.choice(4, 200),
        use_gaussian=draw.maybe(draw.flag()),
        gaussian_sigma=draw.choice(OMIT, 1.0),
        background_label=draw.choice(OMIT, -1, 0, 1),
        normalized=draw.maybe(draw.flag(0.8)),
        return_index=draw.maybe(draw.flag()),
    )


# ---------------------------------------------------------------------- YOLO
ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119]


@draws("fluid.layers.yolo_box")
def _(draw: Draw, name: str) -> Any:
    count, classes, batch = draw.int(1, 3), draw.int(1, 3), draw.int(1, 2)
    height, width = draw.int(1, 4), draw.int(1, 4)
    x = draw.tensor((batch, count * (5 + classes), height, width), ("float32", "float64"))
    size = draw.tensor((batch, 2), "int32", 20, 90)
    draw.gradients = False
    return draw.call(
        name,
        x,
        size,
        ANCHORS[: 2 * count],
        classes,
        draw.choice(0.0, 0.3, 0.5),
        draw.choice(8, 32),
        clip_bbox=draw.maybe(draw.flag()),
        scale_x_y=draw.choice(OMIT, 1.2),
    )


@draws("fluid.layers.yolov3_loss")
def _(draw: Draw, name: str) -> Any:
    total, classes, batch, size = draw.int(1, 4), draw.int(1, 3), draw.int(1, 2), draw.int(2, 4)
    mask = draw.rng.sample(range(total), draw.int(1, min(total, 3)))
    x = draw.tensor((batch, len(mask) * (5 + classes), size, size), "float32")
    objects = draw.int(1, 3)
    found = draw.tensor((batch, objects, 4), "float32", 0.15, 0.85, fixed=True)
    draw.feeds[found.name]["stop"] = True
    label = draw.tensor((batch, objects), "int32", 0, classes - 1)
    kwargs: dict[str, Any] = {}
    if draw.flag(0.3):
        kwargs["gt_score"] = draw.tensor((batch, objects), "float32", 0.2, 1, fixed=True)
        draw.feeds[kwargs["gt_score"].name]["stop"] = True
    return draw.call(
        name,
        x,
        found,
        label,
        ANCHORS[: 2 * total],
        mask,
        classes,
        draw.choice(0.3, 0.7),
        draw.choice(8, 32),
        use_label_smooth=draw.maybe(draw.flag()),
        scale_x_y=draw.choice(OMIT, 1.2),
        **kwargs,
    )
