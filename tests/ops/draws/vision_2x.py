"""Detection functions of paddle.vision.ops."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws
from ops.draws.common_2x import FLOATS, either, word

OPS = "paddle.vision.ops."


def _boxes(draw: Draw, count: int, kind: str, most: float = 8.0, known: bool = False) -> Value:
    """Boxes as left, top, right and bottom; other runs feed them alike."""
    corner = draw.numbers((count, 2), "float64", 0, most / 2)
    size = draw.numbers((count, 2), "float64", 0.5, most / 2)
    return draw.feed(
        np.concatenate([corner, corner + size], 1).round(2).astype(kind), fixed=True, known=known
    )


def _regions(draw: Draw, kind: str, channels: int) -> list[Any]:
    """Images, boxes on them, and how many of the boxes belong to each image."""
    images = draw.int(1, 2)
    x = draw.tensor((images, channels, draw.int(4, 6), draw.int(4, 6)), kind, known=True)
    counts = [draw.int(1, 2) for _ in range(images)]
    boxes = _boxes(draw, sum(counts), kind, known=True)
    return [x, boxes, draw.feed(np.array(counts, "int32"), fixed=True, known=True)]


@draws(*(OPS + name for name in ["roi_pool", "roi_align", "RoIPool", "RoIAlign"]))
def _(draw: Draw, name: str) -> Any:
    size, kind = draw.int(1, 3), "float32" if "ool" in name else draw.choice(*FLOATS)
    inputs = _regions(draw, kind, draw.int(1, 2))
    given: dict[str, Any] = {"spatial_scale": draw.maybe(draw.choice(0.5, 1.0))}
    given["output_size"] = size if draw.flag() else (size, draw.int(1, 3))
    if word(name) == "roi_align":
        given |= {"sampling_ratio": draw.maybe(draw.int(1, 2)), "aligned": draw.maybe(draw.flag())}
    return either(draw, name, inputs, **given)


@draws(OPS + "deform_conv2d", OPS + "DeformConv2D")
def _(draw: Draw, name: str) -> Any:
    kernel, groups = draw.int(1, 3), draw.choice(1, 1, 2)
    stride, pad, dilation = draw.int(1, 2), draw.int(0, 1), draw.choice(1, 1, 2)
    inside, outside = groups * draw.int(1, 2), groups * draw.int(1, 2)
    batch, sides = draw.int(1, 2), [draw.int(3, 5) for _ in range(2)]
    reach = dilation * (kernel - 1) + 1
    sides = [max(side, reach - 2 * pad) for side in sides]
    places = [(side + 2 * pad - reach) // stride + 1 for side in sides]
    kind = draw.choice(*FLOATS) if "deform" in name else "float32"
    parts = draw.choice(1, inside)
    count = parts * kernel * kernel
    x = draw.tensor((batch, inside, *sides), kind, known=True)
    offset = draw.tensor((batch, 2 * count, *places), kind, -0.9, 0.9, known=True)
    mask = draw.tensor((batch, count, *places), kind, 0, 1, known=True) if draw.flag() else OMIT
    given = {"stride": stride, "padding": pad, "groups": groups}
    given |= {"dilation": dilation, "deformable_groups": parts}
    if "Deform" in name:
        layer = draw.call(
            name,
            inside,
            outside,
            kernel,
            **given,
            bias_attr=draw.maybe(False, 0.3),
            weight_attr=draw.attr(0.15),
        )
        return draw.call(layer.name, x, offset, mask)
    weight = draw.tensor((outside, inside // groups, kernel, kernel), kind, known=True)
    bias = draw.tensor((outside,), kind, known=True) if draw.flag() else OMIT
    return draw.call(name, x, offset, weight, bias=bias, mask=mask, **given)


@draws(OPS + "nms")
def _(draw: Draw, name: str) -> Any:
    count, kind = draw.int(1, 6), draw.choice("float32", "float64")
    draw.gradients = False
    boxes = _boxes(draw, count, kind, 4.0)
    threshold = draw.maybe(draw.choice(0.1, 0.5))
    if draw.flag(0.4):
        return draw.call(name, boxes, threshold)
    scores = draw.tensor((count,), kind, 0, 1, distinct=True)
    if draw.flag(0.5):
        return draw.call(name, boxes, threshold, scores=scores, top_k=draw.maybe(draw.int(1, count)))
    labels = draw.tensor((count,), "int64", 0, 1, fixed=True)
    return draw.call(
        name,
        boxes,
        threshold,
        scores=scores,
        category_idxs=labels,
        categories=[0, 1],
        top_k=draw.int(1, count),
    )


@draws(OPS + "matrix_nms")
def _(draw: Draw, name: str) -> Any:
    count, classes, kind = draw.int(1, 5), draw.int(1, 3), draw.choice("float32", "float64")
    draw.gradients = False
    boxes = draw.numbers((1, count, 2), "float64", 0, 2)
    both = np.concatenate([boxes, boxes + draw.numbers((1, count, 2), "float64", 1, 3)], 2)
    given = {"use_gaussian": draw.maybe(draw.flag()), "normalized": draw.maybe(draw.flag())}
    given |= {"return_index": draw.maybe(draw.flag()), "return_rois_num": draw.maybe(draw.flag())}
    scores = draw.tensor((1, classes, count), kind, 0, 1, distinct=True)
    background = draw.maybe(draw.choice(-1, 0))
    return draw.call(
        name,
        draw.feed(both.astype(kind), fixed=True),
        scores,
        0.1,
        0.05,
        10,
        5,
        gaussian_sigma=draw.maybe(draw.choice(0.5, 3.0), 0.4),
        background_label=background,
        **given,
    )


@draws(OPS + "box_coder")
def _(draw: Draw, name: str) -> Any:
    rows, priors, kind = draw.int(1, 3), draw.int(1, 3), draw.choice("float32", "float64")
    draw.gradients = False
    encode = draw.flag()
    given = {"code_type": "encode_center_size" if encode else "decode_center_size"}
    given["box_normalized"] = draw.maybe(draw.flag())
    variance: Any = [0.1, 0.2, 0.1, 0.2]
    prior = _boxes(draw, priors, kind)
    if encode:
        return draw.call(name, prior, variance, _boxes(draw, rows, kind), **given)
    target = draw.tensor((rows, priors, 4), kind)
    return draw.call(name, prior, variance, target, **given, axis=0)


@draws(OPS + "prior_box")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((1, 2, draw.int(1, 3), draw.int(1, 3)), "float32", known=True)
    image = draw.tensor((1, 3, draw.int(6, 9), draw.int(6, 9)), "float32", known=True)
    draw.gradients = False
    small = [2.0, 3.0][: draw.int(1, 2)]
    return draw.call(
        name,
        x,
        image,
        min_sizes=small,
        max_sizes=draw.maybe([one + 2.0 for one in small]),
        aspect_ratios=draw.maybe(draw.choice([1.0, 2.0], [2.0])),
        flip=draw.maybe(draw.flag()),
        clip=draw.maybe(draw.flag()),
        offset=draw.maybe(0.0, 0.3),
        variance=draw.maybe([0.2, 0.1, 0.3, 0.4], 0.3),
        steps=draw.maybe([2.0, 3.0], 0.3),
        min_max_aspect_ratios_order=draw.maybe(draw.flag()),
    )


@draws(OPS + "yolo_box", OPS + "yolo_loss")
def _(draw: Draw, name: str) -> Any:
    classes, batch, side = draw.int(1, 3), draw.int(1, 2), draw.int(1, 3)
    anchors = [10, 13, 16, 30]
    kind = draw.choice("float32", "float64")
    aware = word(name) == "yolo_box" and draw.flag(0.3)
    wide = draw.int(1, 3) if word(name) == "yolo_box" else side
    x = draw.tensor((batch, 2 * (5 + aware + classes), side, wide), kind, known=True)
    scale = draw.maybe(draw.choice(1.0, 1.2))
    if word(name) == "yolo_box":
        size = draw.tensor((batch, 2), "int32", 20, 60, fixed=True, known=True)
        draw.gradients = False
        clip = draw.maybe(draw.flag())
        limit = draw.choice(0.01, 0.3, 0.5)
        more = {"iou_aware": True, "iou_aware_factor": draw.choice(OMIT, 0.3, 1.0)} if aware else {}
        return draw.call(name, x, size, anchors, classes, limit, 32, clip_bbox=clip, scale_x_y=scale, **more)
    boxes = draw.tensor((batch, 2, 4), kind, 0.2, 0.6, fixed=True, known=True)
    labels = draw.tensor((batch, 2), "int32", 0, classes - 1, fixed=True, known=True)
    score = draw.tensor((batch, 2), kind, 0.2, 1, fixed=True, known=True) if draw.flag(0.3) else OMIT
    smooth = draw.maybe(draw.flag())
    return draw.call(
        name,
        x,
        boxes,
        labels,
        anchors,
        [0, 1],
        classes,
        0.7,
        32,
        gt_score=score,
        use_label_smooth=smooth,
        scale_x_y=scale,
    )


@draws(OPS + "distribute_fpn_proposals")
def _(draw: Draw, name: str) -> Any:
    counts = [draw.int(1, 3) for _ in range(draw.int(1, 2))]
    draw.gradients = False
    boxes = _boxes(draw, sum(counts), "float32", 200.0, known=True)
    number = draw.feed(np.array(counts, "int32"), fixed=True, known=True) if draw.flag(0.8) else OMIT
    found = draw.call(name, boxes, 2, 4, 3, 60, pixel_offset=draw.maybe(draw.flag()), rois_num=number)
    return found


@draws(OPS + "generate_proposals")
def _(draw: Draw, name: str) -> Any:
    batch, anchors, side, kind = draw.int(1, 2), draw.int(1, 2), draw.int(1, 3), "float32"
    draw.gradients = False
    scores = draw.tensor((batch, anchors, side, side), kind, 0, 1, distinct=True, known=True)
    deltas = draw.tensor((batch, 4 * anchors, side, side), kind, -0.3, 0.3, known=True)
    size = draw.tensor((batch, 2), kind, 16, 20, fixed=True, known=True)
    corner = draw.numbers((side, side, anchors, 2), "float64", 0, 6)
    boxes = np.concatenate([corner, corner + draw.numbers(corner.shape, "float64", 3, 8)], -1).astype(kind)
    variances = draw.feed(np.ones((side, side, anchors, 4), kind), fixed=True, known=True)
    return draw.call(
        name,
        scores,
        deltas,
        size,
        draw.feed(boxes, fixed=True, known=True),
        variances,
        pre_nms_top_n=draw.maybe(draw.int(3, 9)),
        post_nms_top_n=draw.maybe(draw.int(2, 5)),
        nms_thresh=draw.maybe(0.7),
        eta=draw.choice(OMIT, OMIT, 0.9, 1.0),
        min_size=draw.maybe(draw.choice(0.1, 1.0)),
        pixel_offset=draw.maybe(draw.flag()),
        return_rois_num=draw.maybe(draw.flag()),
    )
