"""Detectors: SSD and YOLOv3, trained on boxes that are made up, and the boxes that come out; small ops in
groups.
"""

from typing import Any, Dict, List

import numpy as np

from ..cases import Built, Fed, Feed, Run, case, fixed, floats, ids, train

OBJECTS = [[2, 3]]


def corners(*shape: int, lengths: Any = None) -> Feed:
    """Boxes (xmin, ymin, xmax, ymax) as parts of an image."""

    def make(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        low = rng.uniform(0, 0.6, shape + (2,))
        boxes = np.concatenate((low, low + rng.uniform(0.1, 0.4, shape + (2,))), axis=-1)
        return boxes.astype("float32"), lengths or []

    return make


def classes(count: int, below: int, lengths: Any, dtype: str = "int32") -> Feed:
    def make(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        return rng.randint(1, below, (count, 1)).astype(dtype), lengths

    return make


def pictures(*shape: int) -> Feed:
    """Numbers between -1 and 1 in quarters: recordings of nothing but noise would be ten times as large."""

    def make(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        return (rng.randint(-4, 5, shape) / 4).astype("float32"), []

    return make


# ---------------------------------------------------------------------- SSD
def features(fluid: Any, image: Any) -> List[Any]:
    """Three maps, each half as large as the one before."""
    found, hidden = [], image
    for filters in (4, 6, 6):
        hidden = fluid.layers.conv2d(hidden, filters, 3, stride=2, padding=1, act="relu")
        found.append(hidden)
    return found


@case
def ssd(fluid: Any) -> Built:
    image = fluid.data("image", [2, 3, 16, 16])
    box = fluid.data("box", [None, 4], lod_level=1)
    label = fluid.data("label", [None, 1], "int32", lod_level=1)
    codes, scores, priors, variances = fluid.layers.multi_box_head(
        inputs=features(fluid, image),
        image=image,
        base_size=16,
        num_classes=4,
        aspect_ratios=[[2.0], [2.0, 3.0], [2.0]],
        min_ratio=20,
        max_ratio=90,
        offset=0.5,
        flip=True,
        clip=True,
    )
    loss = fluid.layers.reduce_sum(
        fluid.layers.ssd_loss(codes, scores, box, label, priors, variances, neg_pos_ratio=2.0)
    )
    test = fluid.default_main_program().clone(for_test=True)
    with fluid.program_guard(test):
        found = fluid.layers.detection_output(
            *[test.global_block().var(var.name) for var in (codes, scores, priors, variances)],
            nms_threshold=0.45,
            score_threshold=0.1,
            keep_top_k=20,
        )
    fluid.optimizer.Momentum(learning_rate=0.02, momentum=0.9).minimize(loss)
    feeds = {
        "image": pictures(2, 3, 16, 16),
        "box": corners(5, lengths=OBJECTS),
        "label": classes(5, 4, OBJECTS),
    }
    built = train(fluid, feeds, loss)
    built.after.append(Run(test, feeds, [found, priors]))
    return built


@case
def ssd_one_match(fluid: Any) -> Built:
    """SSD's loss without `per_prediction`, not normalised, with 64-bit coordinates of one map's priors."""
    places = fluid.data("places", [2, 8, 4])
    sure = fluid.data("sure", [2, 8, 3])
    places.stop_gradient = sure.stop_gradient = False
    box = fluid.data("box", [None, 4], lod_level=1)
    label = fluid.data("label", [None, 1], "int32", lod_level=1)
    prior = fluid.data("prior", [8, 4])
    loss = fluid.layers.ssd_loss(
        places,
        sure,
        box,
        label,
        prior,
        [0.1, 0.1, 0.2, 0.2],
        overlap_threshold=0.4,
        neg_pos_ratio=1.0,
        neg_overlap=0.3,
        loc_loss_weight=2.0,
        conf_loss_weight=0.5,
        match_type="bipartite",
        normalize=False,
    )
    gradients = fluid.gradients([loss], [places, sure])
    feeds = {
        "places": floats(2, 8, 4),
        "sure": floats(2, 8, 3),
        "box": corners(5, lengths=OBJECTS),
        "label": classes(5, 3, OBJECTS),
        "prior": corners(8),
    }
    return train(fluid, feeds, loss, *gradients)


# ---------------------------------------------------------------------- YOLOv3
ANCHORS = [4, 5, 8, 6, 10, 14, 20, 22]


def objects(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
    """Centers, widths and heights; the last object of the first image is padding."""
    boxes = np.concatenate((rng.uniform(0.1, 0.9, (2, 3, 2)), rng.uniform(0.1, 0.7, (2, 3, 2))), axis=-1)
    boxes[0, -1] = 0
    return boxes.astype("float32"), []


@case
def yolo(fluid: Any) -> Built:
    image = fluid.data("image", [None, 3, 24, 24])
    size = fluid.data("size", [None, 2], "int32")
    box = fluid.data("box", [None, 3, 4])
    label = fluid.data("label", [None, 3], "int32")
    score = fluid.data("score", [None, 3])
    hidden, maps = image, []
    for filters in (4, 6, 6):
        hidden = fluid.layers.conv2d(hidden, filters, 3, stride=2, padding=1, act="leaky_relu")
        maps.append(hidden)
    losses, boxes, scores = [], [], []
    for map_, mask, ratio in ((maps[2], [2, 3], 8), (maps[1], [0, 1], 4)):
        said = fluid.layers.conv2d(map_, len(mask) * 8, 1)
        losses.append(
            fluid.layers.yolov3_loss(
                said, box, label, ANCHORS, mask, 3, 0.5, ratio, gt_score=score, use_label_smooth=ratio == 4
            )
        )
        anchors = [ANCHORS[2 * index + i] for index in mask for i in (0, 1)]
        found, sure = fluid.layers.yolo_box(said, size, anchors, 3, 0.1, ratio)
        boxes.append(found)
        scores.append(fluid.layers.transpose(sure, perm=[0, 2, 1]))
    loss = fluid.layers.reduce_mean(fluid.layers.sums(losses))
    kept = fluid.layers.multiclass_nms(
        fluid.layers.concat(boxes, axis=1),
        fluid.layers.concat(scores, axis=2),
        score_threshold=0.05,
        nms_top_k=30,
        keep_top_k=12,
        nms_threshold=0.45,
        background_label=-1,
    )
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.003).minimize(loss)
    feeds = {
        "image": pictures(2, 3, 24, 24),
        "size": fixed([[60, 40], [50, 70]], "int32"),
        "box": objects,
        "label": ids(2, 3, below=3, dtype="int32"),
        "score": floats(2, 3, low=0.2),
    }
    built = train(fluid, feeds, loss)
    built.after.append(Run(test, feeds, [kept]))
    return built


# ---------------------------------------------------------------------- one by one
@case
def priors(fluid: Any) -> Built:
    """Priors and anchors of one map, and codes relative to them."""
    image = fluid.data("image", [None, 3, 33, 40])
    map_ = fluid.data("map", [None, 2, 3, 4])
    box = fluid.data("box", [None, 4], lod_level=1)
    made = [
        fluid.layers.prior_box(map_, image, [4.0, 6.0], [7.0, 11.0], [2.0, 3.0], flip=True, clip=True),
        fluid.layers.prior_box(map_, image, 9, steps=[7.0, 8.0], min_max_aspect_ratios_order=True),
        fluid.layers.density_prior_box(map_, image, [2, 1], [4.0, 8.0], [1.0, 0.5]),
        fluid.layers.density_prior_box(map_, image, [3], [12.0], [1.0], clip=True, flatten_to_2d=True),
        fluid.layers.anchor_generator(map_, [32.0, 64.0], [0.5, 1.0, 2.0], stride=[16.0, 16.0]),
    ]
    flat, _ = made[3]
    codes = [
        fluid.layers.box_coder(flat, made[3][1], box),
        fluid.layers.box_coder(flat, [0.1, 0.1, 0.2, 0.2], box, box_normalized=False),
    ]
    back = fluid.layers.box_coder(flat, made[3][1], codes[0], code_type="decode_center_size")
    likeness = fluid.layers.iou_similarity(box, flat)
    match, near = fluid.layers.bipartite_match(likeness, "per_prediction", 0.1)
    target, weight = fluid.layers.target_assign(codes[0], match, mismatch_value=1)
    fetch = [one for pair in made for one in pair] + codes + [back, likeness, match, near, target, weight]
    feeds = {
        "image": fixed(np.zeros((1, 3, 33, 40))),
        "map": fixed(np.zeros((1, 2, 3, 4))),
        "box": corners(3, lengths=[[1, 2]]),
    }
    return Built([], after=[Run(fluid.default_main_program(), feeds, fetch)])


@case
def suppression(fluid: Any) -> Built:
    """Kinds of suppression, and what else is done to boxes."""
    box = fluid.data("box", [2, 20, 4])
    score = fluid.data("score", [2, 3, 20])
    own = fluid.data("own", [None, 3, 4], lod_level=1)
    own_score = fluid.data("own_score", [None, 3], lod_level=1)
    info = fluid.data("info", [None, 3])
    text = fluid.data("text", [None, 8, 3, 2])
    prior, code, sure = (fluid.data(n, [4, k]) for n, k in (("prior", 4), ("code", 12), ("sure", 3)))
    scale = fluid.data("scale", [4])
    fetch = [
        fluid.layers.multiclass_nms(box, score, 0.2, 15, 9, nms_threshold=0.7, nms_eta=0.9),
        fluid.layers.multiclass_nms(own, own_score, 0.1, -1, -1, background_label=2),
        fluid.layers.multiclass_nms(box, score, 2.0, 15, 9),
        fluid.layers.matrix_nms(box, score, 0.2, 0.25, -1, 10),
        fluid.layers.matrix_nms(box, score, 0.2, 0.25, 12, -1, use_gaussian=True, background_label=1),
        fluid.layers.polygon_box_transform(text),
        fluid.layers.box_clip(fluid.layers.scale(own, 40.0), info),
    ]
    fetch += fluid.layers.box_decoder_and_assign(prior, scale, code, sure, 1.5)
    lengths = [[3, 5]]
    feeds = {
        "box": corners(2, 20),
        "score": floats(2, 3, 20, low=0.0),
        "own": corners(8, 3, lengths=lengths),
        "own_score": with_lengths(floats(8, 3, low=0.0), lengths),
        "info": fixed([[30, 20, 1], [25, 33, 2]]),
        "text": floats(1, 8, 3, 2),
        "prior": corners(4),
        "code": floats(4, 12),
        "sure": floats(4, 3, low=0.0),
        "scale": fixed([0.1, 0.1, 0.2, 0.2]),
    }
    return Built([], after=[Run(fluid.default_main_program(), feeds, fetch)])


def with_lengths(feed: Feed, lengths: Any) -> Feed:
    return lambda rng, step, others: (feed(rng, step, others)[0], lengths)
