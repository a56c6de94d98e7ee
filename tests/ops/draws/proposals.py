"""Proposals, what anchors and proposals learn, regions of feature maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws
from ops.draws.boxes import boxes, corners, counts

SIZE = 32.0


def infos(draw: Draw, images: int) -> Value:
    """Height, width and scale of images."""
    rows = [
        [SIZE - draw.int(0, 8), SIZE - draw.int(0, 8), draw.choice(1.0, 1.0, 1.25, 0.5)]
        for _ in range(images)
    ]
    made = draw.feed(np.array(rows, "float32"), fixed=True)
    draw.feeds[made.name]["stop"] = True
    return made


def crowd(draw: Draw, lengths: list[int]) -> Value:
    """1 for crowds of objects."""
    found = np.array([int(draw.flag(0.15)) for _ in range(sum(lengths))], "int32").reshape(-1, 1)
    return draw.feed(found, fixed=True, lengths=[lengths])


@draws("fluid.layers.generate_proposals")
def _(draw: Draw, name: str) -> Any:
    images, each, height, width = draw.int(1, 2), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    scores = draw.tensor((images, each, height, width), "float32", 0, 1, distinct=True)
    deltas = draw.tensor((images, 4 * each, height, width), "float32", -0.5, 0.5)
    anchors = boxes(draw, (height, width, each), SIZE)
    variances = draw.tensor((height, width, each, 4), "float32", 0.2, 1, fixed=True)
    draw.gradients = False
    return draw.call(
        name,
        scores,
        deltas,
        infos(draw, images),
        anchors,
        variances,
        pre_nms_top_n=draw.choice(OMIT, 5, 20),
        post_nms_top_n=draw.choice(OMIT, 3, 10),
        nms_thresh=draw.choice(OMIT, 0.2, 0.8),
        min_size=draw.choice(OMIT, 2.0, 5.0),
        eta=draw.choice(OMIT, 0.8),
        return_rois_num=draw.maybe(draw.flag(0.3)),
    )


@draws("fluid.layers.rpn_target_assign", "fluid.layers.retinanet_target_assign")
def _(draw: Draw, name: str) -> Any:
    images, count = draw.int(1, 2), draw.int(6, 14)
    retina = "retinanet" in name
    classes = draw.int(1, 3) if retina else 1
    lengths = counts(draw, images)
    places = draw.tensor((images, count, 4), "float32", -1, 1)
    logits = draw.tensor((images, count, classes), "float32", -2, 2)
    anchors = boxes(draw, (count,), SIZE, known=True)
    variance = draw.tensor((count, 4), "float32", 0.2, 1, fixed=True, known=True)
    draw.feeds[variance.name]["stop"] = True
    objects = boxes(draw, (sum(lengths),), SIZE, [lengths])
    args: list[Any] = [places, logits, anchors, variance, objects]
    if retina:
        args.append(draw.tensor((sum(lengths), 1), "int32", 1, classes, lengths=[lengths]))
    args += [crowd(draw, lengths), infos(draw, images)]
    if retina:
        overlaps = {"positive_overlap": draw.choice(OMIT, 0.3), "negative_overlap": draw.choice(OMIT, 0.2)}
        return draw.call(name, *args, classes, **overlaps)
    return draw.call(
        name,
        *args,
        rpn_batch_size_per_im=draw.choice(OMIT, 6),
        rpn_straddle_thresh=draw.choice(OMIT, 4.0, -1.0),
        rpn_fg_fraction=draw.choice(OMIT, 0.25),
        rpn_positive_overlap=draw.choice(OMIT, 0.4),
        rpn_negative_overlap=draw.choice(OMIT, 0.2),
        use_random=False,
    )


@draws("fluid.layers.retinanet_detection_output")
def _(draw: Draw, name: str) -> Any:
    images, classes, levels = draw.int(1, 2), draw.int(1, 3), draw.int(1, 3)
    deltas, scores, anchors = [], [], []
    for _ in range(levels):
        count = draw.int(2, 6)
        deltas.append(draw.tensor((images, count, 4), "float32", -0.5, 0.5))
        scores.append(draw.tensor((images, count, classes), "float32", 0, 1, distinct=True))
        anchors.append(boxes(draw, (count,), SIZE))
    draw.gradients = False
    return draw.call(
        name,
        deltas,
        scores,
        anchors,
        infos(draw, images),
        score_threshold=draw.choice(OMIT, 0.3),
        nms_top_k=draw.choice(OMIT, 3),
        keep_top_k=draw.choice(OMIT, 4),
        nms_threshold=draw.choice(OMIT, 0.6),
        nms_eta=draw.choice(OMIT, 0.9),
    )


@draws("fluid.layers.generate_proposal_labels")
def _(draw: Draw, name: str) -> Any:
    images, classes = draw.int(1, 2), draw.int(2, 4)
    lengths, many = counts(draw, images), [draw.int(3, 8) for _ in range(images)]
    rois = boxes(draw, (sum(many),), SIZE, [many])
    labels = draw.tensor((sum(lengths), 1), "int32", 1, classes - 1, lengths=[lengths])
    objects = boxes(draw, (sum(lengths),), SIZE, [lengths])
    draw.gradients = False
    return draw.call(
        name,
        rois,
        labels,
        crowd(draw, lengths),
        objects,
        infos(draw, images),
        batch_size_per_im=draw.int(4, 10),
        fg_fraction=draw.choice(OMIT, 0.5),
        fg_thresh=draw.choice(OMIT, 0.5),
        bg_thresh_hi=draw.choice(OMIT, 0.5),
        bg_thresh_lo=draw.choice(OMIT, 0.0),
        bbox_reg_weights=draw.choice(OMIT, [0.2, 0.2, 0.4, 0.4]),
        class_nums=classes,
        use_random=False,
        is_cls_agnostic=draw.maybe(draw.flag(), 0.3),
        is_cascade_rcnn=draw.maybe(False, 0.2),
    )


@draws("fluid.layers.generate_mask_labels")
def _(draw: Draw, name: str) -> Any:
    images, classes = draw.int(1, 2), draw.int(2, 4)
    lengths, many = counts(draw, images), [draw.int(1, 4) for _ in range(images)]
    labels = draw.tensor((sum(lengths), 1), "int32", 1, classes - 1, lengths=[lengths])
    polygons = [draw.int(1, 2) for _ in range(sum(lengths))]
    points = [draw.int(3, 5) for _ in range(sum(polygons))]
    segments = draw.tensor(
        (sum(points), 2), "float32", 0, SIZE, fixed=True, lengths=[lengths, polygons, points]
    )
    draw.feeds[segments.name]["stop"] = True
    rois = boxes(draw, (sum(many),), SIZE, [many])
    found = draw.tensor((sum(many), 1), "int32", 0, classes - 1, lengths=[many])
    draw.feeds[found.name]["values"][0] = 1
    draw.feeds[found.name]["fixed"] = True
    draw.gradients = False
    info, groups = infos(draw, images), crowd(draw, lengths)
    draw.feeds[groups.name]["values"] = [0] * sum(lengths)
    return draw.call(name, info, labels, groups, segments, rois, found, classes, draw.int(2, 5))


@draws("fluid.layers.distribute_fpn_proposals")
def _(draw: Draw, name: str) -> Any:
    first = draw.int(1, 3)
    last = first + draw.int(0, 2)
    refer, scale = draw.int(first, last), draw.choice(60, 100, 224)
    # a box at least for each level: 1.8.5 cannot fetch what it has not written
    levels = [*range(first, last + 1), *(draw.int(first, last) for _ in range(draw.int(1, 4)))]
    draw.rng.shuffle(levels)
    sizes = np.array([scale * 2.0 ** (level - refer) for level in levels])[:, None]
    low = draw.numbers((len(levels), 2), "float32", 0.0, 20.0)
    array = np.concatenate((low, low + sizes * draw.numbers(low.shape, "float32", 1.1, 1.5)), 1)
    cut = draw.int(1, len(levels) - 1)
    lengths = [[len(levels)], [cut, len(levels) - cut]][draw.int(0, 1)]
    rois = draw.feed(array.astype("float32"), fixed=True, lengths=[lengths])
    draw.feeds[rois.name]["stop"] = True
    draw.gradients = False
    return draw.call(name, rois, first, last, refer, scale)


@draws("fluid.layers.collect_fpn_proposals")
def _(draw: Draw, name: str) -> Any:
    images, levels = draw.int(1, 2), draw.int(1, 3)
    rois, scores = [], []
    for _ in range(levels):
        many = [draw.int(1, 4) for _ in range(images)]
        rois.append(boxes(draw, (sum(many),), SIZE, [many]))
        scores.append(draw.tensor((sum(many), 1), "float32", 0, 1, fixed=True, lengths=[many]))
    draw.gradients = False
    return draw.call(name, rois, scores, 2, 1 + levels, draw.choice(5, 12, 100))


# ---------------------------------------------------------------------- regions of feature maps
def regions(draw: Draw, images: int, learn: bool = False) -> Value:
    """Regions of images, which fall into sequences."""
    many = [draw.int(1, 3) for _ in range(images)]
    return boxes(draw, (sum(many),), 16.0, [many], learn)


def features(draw: Draw, channels: int | None = None, dtype: Any = ("float32", "float64")) -> Value:
    """A feature map of images of 16 pixels."""
    size = draw.choice(4, 8)
    return draw.tensor((draw.int(1, 2), channels or draw.int(1, 3), size, size), dtype, distinct=True)


@draws("fluid.layers.roi_align", "fluid.layers.roi_pool", "fluid.layers.prroi_pool")
def _(draw: Draw, name: str) -> Any:
    x = features(draw, dtype="float32")
    assert x.shape is not None
    rois = regions(draw, x.shape[0], name.endswith("prroi_pool"))
    kwargs: dict[str, Any] = {"spatial_scale": x.shape[2] / 16.0}
    if name.endswith("align"):
        kwargs["sampling_ratio"] = draw.choice(OMIT, 1, 2)
    height, width = draw.int(1, 3), draw.int(1, 3)
    return draw.call(name, x, rois, pooled_height=height, pooled_width=width, **kwargs)


@draws("fluid.layers.psroi_pool")
def _(draw: Draw, name: str) -> Any:
    channels, height, width = draw.int(2, 3), draw.int(1, 2), draw.int(1, 2)
    x = features(draw, channels * height * width)
    assert x.shape is not None
    array = corners(draw, (draw.int(1, 4),), 16.0).astype(x.dtype or "float32")
    lengths = [len(array)] if x.shape[0] == 1 else [1, len(array) - 1]
    rois = draw.feed(array, fixed=True, lengths=[lengths])
    draw.feeds[rois.name]["stop"] = True
    return draw.call(name, x, rois, channels, x.shape[2] / 16.0, height, width)


@draws("fluid.layers.roi_perspective_transform")
def _(draw: Draw, name: str) -> Any:
    x = features(draw, dtype="float32")
    assert x.shape is not None
    many = [draw.int(1, 2) for _ in range(x.shape[0])]
    low = corners(draw, (sum(many),), 16.0, 0.3)
    xs, ys, xe, ye = low.T
    quads = np.stack([xs, ys, xe, ys + 0.5, xe - 0.5, ye, xs + 0.5, ye - 0.5], 1).astype("float32")
    rois = draw.feed(quads, fixed=True, lengths=[many])
    draw.feeds[rois.name]["stop"] = True
    return draw.call(name, x, rois, draw.int(2, 4), draw.int(2, 4), spatial_scale=x.shape[2] / 16.0)


@draws("fluid.layers.deformable_roi_pooling")
def _(draw: Draw, name: str) -> Any:
    height, width = draw.int(1, 2), draw.int(1, 2)
    sensitive = draw.flag(0.05)  # 1.8.5 wants a whole number there and divides
    channels = draw.int(1, 2) * (height * width if sensitive else 1)
    x = features(draw, channels, "float32")
    assert x.shape is not None
    rois = regions(draw, x.shape[0])
    assert rois.shape is not None
    trans = draw.tensor((rois.shape[0], 2, height, width), "float32", -1, 1)
    return draw.call(
        name,
        x,
        rois,
        trans,
        no_trans=draw.maybe(draw.flag()),
        spatial_scale=x.shape[2] / 16.0,
        group_size=[height, width] if sensitive else [1, 1],
        pooled_height=height,
        pooled_width=width,
        part_size=[height, width],
        sample_per_part=draw.int(1, 3),
        trans_std=draw.choice(OMIT, 0.3),
        position_sensitive=sensitive,
    )
