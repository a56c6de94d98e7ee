"""Detectors in two stages, and a RetinaNet: with proposals, targets, feature pyramids and mask heads.

Nothing is sampled at random: with `use_random=False` the first boxes that qualify are taken.
"""

from typing import Any, Dict, List, Tuple

import numpy as np

from ..cases import Built, Fed, Feed, Run, case, fixed, floats, train

COUNTS = [2, 1]  # objects of the two images
SIZE = 32
IMAGES = np.random.RandomState(0).uniform(-2, 2, (2, 2, SIZE, SIZE))


def objects(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
    low = rng.uniform(0, SIZE * 0.5, (3, 2))
    high = low + rng.uniform(SIZE * 0.2, SIZE * 0.5, (3, 2))
    return np.concatenate((low, high), 1).astype("float32"), [COUNTS]


def inputs(fluid: Any) -> Tuple[Dict[str, Any], Dict[str, Feed]]:
    made = {
        "image": fluid.data(name="image", shape=[None, 2, SIZE, SIZE], dtype="float32"),
        "im_info": fluid.data(name="im_info", shape=[None, 3], dtype="float32"),
        "gt_boxes": fluid.data(name="gt_boxes", shape=[None, 4], dtype="float32", lod_level=1),
        "gt_classes": fluid.data(name="gt_classes", shape=[None, 1], dtype="int32", lod_level=1),
        "is_crowd": fluid.data(name="is_crowd", shape=[None, 1], dtype="int32", lod_level=1),
    }
    feeds = {
        "image": fixed(IMAGES),  # the same in every step, so that recordings are small
        "im_info": fixed([[SIZE, SIZE, 1.0], [SIZE, SIZE, 1.25]]),
        "gt_boxes": objects,
        "gt_classes": fixed([[1], [3], [2]], "int32", [COUNTS]),
        "is_crowd": fixed([[0], [0], [0]], "int32", [COUNTS]),
    }
    return made, feeds


def backbone(fluid: Any, image: Any) -> Any:
    hidden = fluid.layers.conv2d(image, 4, 3, stride=4, padding=1, act="relu")
    return fluid.layers.conv2d(hidden, 6, 3, stride=2, padding=1, act="relu")


def anchors_of(fluid: Any, height: int, width: int, stride: int, sizes: List[int]) -> Tuple[Any, Any]:
    """Square anchors (height, width, len(sizes), 4), as constants, and their variances."""
    centers = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=2) * stride + stride / 2.0
    halves = np.array(sizes, "float32")[:, None] / 2
    low, high = centers[:, :, None] - halves, centers[:, :, None] + halves
    boxes = np.concatenate((low, high), axis=3).astype("float32")
    variances = np.ones_like(boxes)
    return fluid.layers.assign(boxes), fluid.layers.assign(variances)


class Rpn:
    """A region proposal network over a feature map of 4 x 4 places of 8 pixels."""

    def __init__(self, fluid: Any, features: Any, made: Dict[str, Any], sizes: List[int]) -> None:
        layers = fluid.layers
        self.fluid, self.made = fluid, made
        self.anchors, self.variances = anchors_of(fluid, 4, 4, 8, sizes)
        hidden = layers.conv2d(features, 6, 3, padding=1, act="tanh")  # no two scores alike
        self.logits = layers.conv2d(hidden, len(sizes), 1)
        self.deltas = layers.conv2d(hidden, 4 * len(sizes), 1)

    def proposals(self, count: int = 8) -> Tuple[Any, Any]:
        return self.fluid.layers.generate_proposals(
            scores=self.fluid.layers.sigmoid(self.logits),
            bbox_deltas=self.deltas,
            im_info=self.made["im_info"],
            anchors=self.anchors,
            variances=self.variances,
            pre_nms_top_n=20,
            post_nms_top_n=count,
            nms_thresh=0.7,
            min_size=2.0,
        )

    def loss(self) -> Any:
        layers = self.fluid.layers
        places = [
            layers.reshape(layers.transpose(map_, [0, 2, 3, 1]), [0, -1, width])
            for map_, width in ((self.deltas, 4), (self.logits, 1))
        ]
        scores, boxes, labels, targets, weights = layers.rpn_target_assign(
            bbox_pred=places[0],
            cls_logits=places[1],
            anchor_box=layers.reshape(self.anchors, [-1, 4]),
            anchor_var=layers.reshape(self.variances, [-1, 4]),
            gt_boxes=self.made["gt_boxes"],
            is_crowd=self.made["is_crowd"],
            im_info=self.made["im_info"],
            rpn_batch_size_per_im=12,
            rpn_straddle_thresh=4.0,
            rpn_positive_overlap=0.5,
            use_random=False,
        )
        labels = layers.cast(labels, "float32")
        labels.stop_gradient = True
        classes = layers.reduce_mean(layers.sigmoid_cross_entropy_with_logits(scores, labels))
        regression = layers.smooth_l1(
            boxes, targets, sigma=3.0, inside_weight=weights, outside_weight=weights
        )
        return layers.elementwise_add(classes, layers.reduce_mean(regression))


def sampled(fluid: Any, rois: Any, made: Dict[str, Any], **options: Any) -> Tuple[Any, ...]:
    return tuple(
        fluid.layers.generate_proposal_labels(
            rpn_rois=rois,
            gt_classes=made["gt_classes"],
            is_crowd=made["is_crowd"],
            gt_boxes=made["gt_boxes"],
            im_info=made["im_info"],
            batch_size_per_im=6,
            fg_fraction=0.5,
            fg_thresh=0.5,
            class_nums=4,
            use_random=False,
            **options,
        )
    )


def head_loss(fluid: Any, pooled: Any, targets: Tuple[Any, ...]) -> Tuple[Any, Any, Any]:
    layers = fluid.layers
    _, labels, boxes, inside, outside = targets
    hidden = layers.fc(pooled, 8, act="relu")
    scores, deltas = layers.fc(hidden, 4), layers.fc(hidden, 16)
    labels = layers.cast(labels, "int64")
    labels.stop_gradient = True
    classes = layers.reduce_mean(layers.softmax_with_cross_entropy(scores, labels))
    regression = layers.smooth_l1(deltas, boxes, inside_weight=inside, outside_weight=outside)
    return layers.elementwise_add(classes, layers.reduce_mean(regression)), scores, deltas


@case
def faster_rcnn(fluid: Any) -> Built:
    layers = fluid.layers
    made, feeds = inputs(fluid)
    features = backbone(fluid, made["image"])
    rpn = Rpn(fluid, features, made, [8, 14])
    rois, probabilities = rpn.proposals()
    targets = sampled(fluid, rois, made)
    pooled = layers.roi_align(features, targets[0], 2, 2, spatial_scale=1 / 8.0, sampling_ratio=2)
    loss, _, _ = head_loss(fluid, pooled, targets)
    loss = layers.elementwise_add(loss, rpn.loss())
    fluid.optimizer.Momentum(learning_rate=0.02, momentum=0.9).minimize(loss)
    return train(fluid, feeds, loss, rois, probabilities, *targets[:3])


@case
def faster_rcnn_pool(fluid: Any) -> Built:
    """With roi_pool, and a second stage as in a cascade."""
    layers = fluid.layers
    made, feeds = inputs(fluid)
    features = backbone(fluid, made["image"])
    rpn = Rpn(fluid, features, made, [10])
    rois, _ = rpn.proposals(6)
    targets = sampled(fluid, rois, made)
    pooled = layers.roi_pool(features, targets[0], 2, 2, spatial_scale=1 / 8.0)
    first, _, _ = head_loss(fluid, pooled, targets)
    again = sampled(
        fluid, targets[0], made, is_cls_agnostic=True, is_cascade_rcnn=True, bbox_reg_weights=[1.0] * 4
    )
    pooled = layers.roi_pool(features, again[0], 2, 2, spatial_scale=1 / 8.0)
    second, _, _ = head_loss(fluid, pooled, again)
    loss = layers.sums([first, second, rpn.loss()])
    fluid.optimizer.SGD(learning_rate=0.05).minimize(loss)
    return train(fluid, feeds, loss, first, second, *again)


@case
def mask_rcnn(fluid: Any) -> Built:
    """A feature pyramid, whose levels' proposals are collected and dealt out again, and a mask head."""
    layers = fluid.layers
    made, feeds = inputs(fluid)
    segments = fluid.data(name="gt_segms", shape=[None, 2], dtype="float32", lod_level=3)
    feeds["gt_segms"] = polygons
    fine = backbone(fluid, made["image"])
    coarse = layers.pool2d(fine, 2, "max", 2)
    rpn = Rpn(fluid, fine, made, [8, 14])
    levels = [rpn.proposals(6), rpn.proposals(3)]
    rois = layers.collect_fpn_proposals(
        [level[0] for level in levels], [level[1] for level in levels], 2, 3, 10
    )
    targets = sampled(fluid, rois, made)
    parts, restore = layers.distribute_fpn_proposals(targets[0], 2, 3, 3, 14)
    pooled = layers.concat(
        [
            layers.roi_align(map_, part, 2, 2, spatial_scale=scale, sampling_ratio=2)
            for map_, part, scale in ((fine, parts[0], 1 / 8.0), (coarse, parts[1], 1 / 16.0))
        ]
    )
    loss, _, _ = head_loss(fluid, layers.gather(pooled, restore), targets)
    boxes, numbers, masks = layers.generate_mask_labels(
        im_info=made["im_info"],
        gt_classes=made["gt_classes"],
        is_crowd=made["is_crowd"],
        gt_segms=segments,
        rois=targets[0],
        labels_int32=targets[1],
        num_classes=4,
        resolution=4,
    )
    pooled = layers.roi_align(fine, boxes, 4, 4, spatial_scale=1 / 8.0, sampling_ratio=1)
    logits = layers.reshape(layers.conv2d(pooled, 4, 1), [-1, 64])
    masks_as_floats = layers.cast(masks, "float32")
    masks_as_floats.stop_gradient = True
    errors = layers.sigmoid_cross_entropy_with_logits(
        logits, masks_as_floats, ignore_index=-1, normalize=True
    )
    loss = layers.sums([loss, layers.reduce_sum(errors), rpn.loss()])
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return train(fluid, feeds, loss, rois, restore, boxes, numbers, masks)


def polygons(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
    """Each object as one or two polygons: a diamond in its box, and a triangle."""
    boxes = others["gt_boxes"][0]
    points: List[Any] = []
    for left, top, right, bottom in boxes:
        x, y = (left + right) / 2, (top + bottom) / 2
        points.append([[x, top], [right, y], [x, bottom], [left, y]])
    left, top, right, bottom = boxes[1]
    points.insert(2, [[left, top], [right, top], [right, bottom]])
    lengths = [COUNTS, [1, 2, 1], [len(polygon) for polygon in points]]
    return np.concatenate(points).astype("float32"), lengths


@case
def retinanet(fluid: Any) -> Built:
    layers = fluid.layers
    made, feeds = inputs(fluid)
    features = backbone(fluid, made["image"])
    levels = [(features, 4, 8, [8, 14]), (layers.pool2d(features, 2, "avg", 2), 2, 16, [18, 26])]
    scores, deltas, anchors, variances = [], [], [], []
    for map_, size, stride, sizes in levels:
        boxes, box_variances = anchors_of(fluid, size, size, stride, sizes)
        for width, into, name in ((3, scores, "cls"), (4, deltas, "box")):
            shared = fluid.ParamAttr(name=name + "_w"), fluid.ParamAttr(name=name + "_b")
            out = layers.conv2d(
                map_, width * len(sizes), 3, padding=1, param_attr=shared[0], bias_attr=shared[1]
            )
            into.append(layers.reshape(layers.transpose(out, [0, 2, 3, 1]), [0, -1, width]))
        anchors.append(layers.reshape(boxes, [-1, 4]))
        variances.append(layers.reshape(box_variances, [-1, 4]))
    predicted = layers.retinanet_target_assign(
        bbox_pred=layers.concat(deltas, axis=1),
        cls_logits=layers.concat(scores, axis=1),
        anchor_box=layers.concat(anchors),
        anchor_var=layers.concat(variances),
        gt_boxes=made["gt_boxes"],
        gt_labels=made["gt_classes"],
        is_crowd=made["is_crowd"],
        im_info=made["im_info"],
        num_classes=3,
    )
    logits, boxes, labels, targets, weights, count = predicted
    classes = layers.reduce_sum(layers.sigmoid_focal_loss(logits, labels, layers.reduce_sum(count)))
    regression = layers.smooth_l1(boxes, targets, sigma=3.0, inside_weight=weights, outside_weight=weights)
    loss = layers.elementwise_add(classes, layers.reduce_mean(regression))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    built = train(fluid, feeds, loss, labels, targets, count)
    test = fluid.Program()
    with fluid.program_guard(test, fluid.Program()):
        built.after.append(detections(fluid, test))
    return built


def detections(fluid: Any, test: Any) -> Run:
    """The detection output of three levels of fed predictions."""
    data, feeds = fluid.data, {}
    levels: List[List[Any]] = [[], [], []]
    for number, count in enumerate((12, 6, 4)):
        for kind, (name, shape, low, high) in enumerate(
            (
                ("box", (2, count, 4), -0.6, 0.6),
                ("score", (2, count, 2), 0.0, 1.0),
                ("anchor", (count, 4), 0, 0),
            )
        ):
            key = f"{name}{number}"
            levels[kind].append(data(name=key, shape=list(shape), dtype="float32"))
            feeds[key] = floats(*shape, low=low, high=high) if kind < 2 else anchor_boxes(count)
    info = data(name="info", shape=[2, 3], dtype="float32")
    feeds["info"] = fixed([[SIZE, SIZE + 4, 1.25], [SIZE, SIZE, 1.0]])
    out = fluid.layers.retinanet_detection_output(
        *levels, im_info=info, score_threshold=0.4, nms_top_k=8, keep_top_k=10, nms_threshold=0.4
    )
    return Run(test, feeds, [out])


def anchor_boxes(count: int) -> Feed:
    def make(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        low = rng.uniform(0, SIZE * 0.6, (count, 2))
        return np.concatenate((low, low + rng.uniform(4, 16, (count, 2))), 1).astype("float32"), []

    return make
