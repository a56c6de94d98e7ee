"""Targets and losses of detectors: anchors and regions that are drawn for training, what levels of a pyramid
give together, and the evaluation of what is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from op_rows.made import RNG, Row, below, layers, normal, sized, uniform

VARIANCES = [0.1, 0.1, 0.2, 0.2]


def boxes(count: int, scale: float) -> np.ndarray:
    low = RNG.uniform(0, 0.7, (count, 2))
    return (np.concatenate((low, low + RNG.uniform(0.05, 0.3, (count, 2))), -1) * scale).astype("float32")


def info(images: int, size: int) -> np.ndarray:
    return np.array([[size, size, 1]] * images, "float32")


def anchors_of(build: Any, classes: int) -> Any:
    """Anchors of images with so many objects each."""

    def row(images: int, anchors: int, objects: int) -> Row:
        lod = [[objects] * images]
        return layers(
            build,
            grad=False,
            a=normal(images, anchors, 4),
            b=normal(images, anchors, classes),
            c=boxes(anchors, 600),
            d=np.tile(np.array(VARIANCES, "float32"), (anchors, 1)),
            e=(boxes(images * objects, 600), lod),
            f=(below(classes, images * objects, 1).astype("int32") + 1, lod),
            g=(np.zeros((images * objects, 1), "int32"), lod),
            h=info(images, 600),
        )

    return row


def rpn_targets(fluid: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    return fluid.layers.rpn_target_assign(a, b, c, d, e, g, h, use_random=False)


def retinanet_targets(fluid: Any, **given: Any) -> Any:
    return fluid.layers.retinanet_target_assign(*[given[name] for name in "abcdefgh"], num_classes=20)


def labels_of_proposals(images: int, regions: int, objects: int) -> Row:
    def build(fluid: Any, r: Any, c: Any, crowd: Any, g: Any, i: Any) -> Any:
        return fluid.layers.generate_proposal_labels(r, c, crowd, g, i, class_nums=21, use_random=False)

    lod = [[objects] * images]
    return layers(
        build,
        grad=False,
        r=(boxes(images * regions, 600), [[regions] * images]),
        c=(below(20, images * objects, 1).astype("int32") + 1, lod),
        crowd=(np.zeros((images * objects, 1), "int32"), lod),
        g=(boxes(images * objects, 600), lod),
        i=info(images, 600),
    )


def collected(images: int, regions: int) -> Row:
    lod = [[regions] * images]
    inputs = {}
    for level in range(4):
        inputs[f"r{level}"] = (boxes(images * regions, 600), lod)
        inputs[f"s{level}"] = (uniform(images * regions, 1), lod)
    return layers(
        lambda fluid, **given: fluid.layers.collect_fpn_proposals(
            [given[f"r{level}"] for level in range(4)],
            [given[f"s{level}"] for level in range(4)],
            2,
            5,
            regions,
        ),
        grad=False,
        **inputs,
    )


def ssd_loss(images: int, priors: int, objects: int) -> Row:
    lod = [[objects] * images]
    return layers(
        lambda fluid, a, b, g, y, p: fluid.layers.ssd_loss(a, b, g, y, p, VARIANCES),
        a=normal(images, priors, 4),
        b=normal(images, priors, 21),
        g=(boxes(images * objects, 1), lod),
        y=(below(20, images * objects, 1).astype("int32") + 1, lod),
        p=boxes(priors, 1),
    )


def retinanet_output(size: int, classes: int) -> Row:
    levels = [size // 2**level for level in range(3)]
    inputs = {}
    for number, level in enumerate(levels):
        count = 9 * level * level
        inputs[f"b{number}"] = normal(1, count, 4) / 10
        inputs[f"s{number}"] = uniform(1, count, classes) ** 30
        inputs[f"a{number}"] = boxes(count, 600)
    return layers(
        lambda fluid, i, **given: fluid.layers.retinanet_detection_output(
            *[[given[f"{kind}{number}"] for number in range(3)] for kind in "bsa"], i
        ),
        grad=False,
        i=info(1, 600),
        **inputs,
    )


def detection_map(images: int, found: int, objects: int) -> Row:
    detected = np.concatenate(
        (below(20, images * found, 1) + 1, uniform(images * found, 1), boxes(images * found, 1)), -1
    ).astype("float32")
    labels = np.concatenate(
        (below(20, images * objects, 1) + 1, np.zeros((images * objects, 1)), boxes(images * objects, 1)), -1
    ).astype("float32")
    return {
        "op": "detection_map",
        "inputs": {"DetectRes": (detected, [[found] * images]), "Label": (labels, [[objects] * images])},
        "outputs": ["MAP", "AccumPosCount:int32", "AccumTruePos", "AccumFalsePos"],
        "attrs": {"class_num": 21, "overlap_threshold": 0.5, "ap_type": "integral"},
        "grad": [],
    }


def bent_regions(channels: int, size: int, count: int) -> Row:
    return layers(
        lambda fluid, x, r, t: fluid.layers.deformable_roi_pooling(
            x, r, t, False, 1 / 16, pooled_height=3, pooled_width=3, sample_per_part=2
        ),
        x=normal(1, channels, size, size),
        r=(boxes(count, 16 * size), [[count]]),
        t=normal(count, 2, 3, 3),
    )


ANCHORS = (1, 100, 3), (2, 5000, 10), (4, 20000, 20)
ROWS = {
    "rpn_target_assign": sized(anchors_of(rpn_targets, 1), *ANCHORS),
    "retinanet_target_assign": sized(anchors_of(retinanet_targets, 20), *ANCHORS),
    "generate_proposal_labels": sized(labels_of_proposals, (1, 20, 3), (2, 500, 10), (4, 2000, 20)),
    "collect_fpn_proposals": sized(collected, (1, 5), (2, 300), (4, 1000)),
    "ssd_loss": sized(ssd_loss, (1, 50, 2), (4, 1000, 5), (8, 8732, 10)),
    "retinanet_detection_output": sized(retinanet_output, (4, 3), (16, 20), (32, 80)),
    "detection_map": sized(detection_map, (2, 5, 3), (8, 50, 10), (32, 200, 20)),
    "deformable_roi_pooling": sized(bent_regions, (4, 10, 4), (32, 38, 32), (64, 50, 128)),
}
