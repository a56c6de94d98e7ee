"""Whole detectors as they were published: a ResNet-18 in two stages, a DarkNet in one; both train by a
program, and find boxes by another that shares the parameters by name.
"""

from typing import Any, Dict, List, Tuple

import numpy as np

from ..cases import Built, Fed, Feed, Run, case, fixed, train

SIZE, CLASSES = 48, 4
COUNTS = [2, 1]  # objects of the two images


def named(fluid: Any, name: str, scale: float = 0.0) -> Any:
    """The attributes of a parameter; drawn from a normal distribution where a scale is given."""
    initializer = fluid.initializer.Normal(0.0, scale) if scale else None
    return fluid.ParamAttr(name=name, initializer=initializer)


def pictures() -> Feed:
    """The same two in every step, of squares of one colour, so that recordings are small."""
    colours = np.random.RandomState(1).uniform(-1, 1, (2, 3, 8, 8)).round(2)
    return fixed(colours.repeat(SIZE // 8, axis=2).repeat(SIZE // 8, axis=3))


# ---------------------------------------------------------------------------- two stages
def affine_conv(fluid: Any, x: Any, filters: int, size: int, stride: int, name: str, act: Any = None) -> Any:
    """A convolution and a frozen normalisation, as detectors were fine-tuned."""
    layers = fluid.layers
    y = layers.conv2d(
        x, filters, size, stride, (size - 1) // 2, param_attr=named(fluid, name + "_weights"), bias_attr=False
    )
    spread = [
        layers.create_parameter(
            shape=[filters],
            dtype="float32",
            attr=fluid.ParamAttr(name=f"bn_{name}_{what}", learning_rate=0.0),
            default_initializer=fluid.initializer.Constant(value),
        )
        for what, value in (("scale", 1.0), ("offset", 0.0))
    ]
    y = layers.affine_channel(x=y, scale=spread[0], bias=spread[1], act=act)
    for one in spread:
        one.stop_gradient = True
    return y


def residual(fluid: Any, x: Any, filters: int, stride: int, name: str) -> Any:
    y = affine_conv(fluid, x, filters, 3, stride, name + "_branch2a", "relu")
    y = affine_conv(fluid, y, filters, 3, 1, name + "_branch2b")
    if x.shape[1] != filters or stride != 1:
        x = affine_conv(fluid, x, filters, 1, stride, name + "_branch1")
    return fluid.layers.elementwise_add(x=x, y=y, act="relu")


def resnet18(fluid: Any, image: Any) -> List[Any]:
    """The maps of stages 2 to 4, of which the first learns nothing."""
    x = affine_conv(fluid, image, 4, 7, 2, "conv1", "relu")
    x = fluid.layers.pool2d(x, 3, "max", 2, 1)
    maps = []
    for stage, filters in ((2, 4), (3, 6), (4, 8)):
        for block in "ab":
            stride = 2 if block == "a" and stage > 2 else 1
            x = residual(fluid, x, filters, stride, f"res{stage}{block}")
        if stage == 2:
            x.stop_gradient = True
        maps.append(x)
    return maps


def pyramid(fluid: Any, maps: List[Any]) -> List[Any]:
    """The same number of channels at every stage, from the coarsest down."""
    layers = fluid.layers
    found: List[Any] = []
    for level, x in reversed(list(enumerate(maps))):
        inner = layers.conv2d(x, 6, 1, param_attr=f"fpn_inner_{level}_w", bias_attr=f"fpn_inner_{level}_b")
        if found:
            inner = inner + layers.resize_nearest(found[0], scale=2.0)
        found.insert(0, inner)
    return [
        layers.conv2d(x, 6, 3, padding=1, param_attr=f"fpn_{level}_w", bias_attr=f"fpn_{level}_b")
        for level, x in enumerate(found)
    ]


class FasterRcnn:
    """Proposals of every level with shared weights, and a head over the levels' regions."""

    def __init__(self, fluid: Any) -> None:
        layers = self.layers = fluid.layers
        self.fluid = fluid
        self.image = fluid.data("image", [None, 3, SIZE, SIZE])
        self.info = fluid.data("im_info", [None, 3])
        self.maps = pyramid(fluid, resnet18(fluid, self.image))
        self.outputs = []
        for level, x in enumerate(self.maps):
            x = layers.conv2d(
                x, 6, 3, 1, 1, act="relu", param_attr=named(fluid, "rpn_w", 0.1), bias_attr="rpn_b"
            )
            stride = 4.0 * 2**level
            anchors = layers.anchor_generator(
                x, [3 * stride], [0.5, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], [stride, stride]
            )
            scores = layers.conv2d(x, 3, 1, param_attr=named(fluid, "cls_w", 0.1), bias_attr="cls_b")
            deltas = layers.conv2d(x, 12, 1, param_attr=named(fluid, "box_w", 0.05), bias_attr="box_b")
            self.outputs.append((scores, deltas, *anchors))

    def proposals(self) -> Any:
        layers, found = self.layers, []
        for scores, deltas, anchors, variances in self.outputs:
            found.append(
                layers.generate_proposals(
                    layers.sigmoid(scores), deltas, self.info, anchors, variances, 40, 8, 0.7, 2.0
                )
            )
        return layers.collect_fpn_proposals([one[0] for one in found], [one[1] for one in found], 2, 4, 10)

    def rpn_loss(self, boxes: Any, crowd: Any) -> Any:
        layers = self.layers

        def rows(index: int, width: int) -> Any:
            maps = [layers.transpose(one[index], [0, 2, 3, 1]) for one in self.outputs]
            return layers.concat([layers.reshape(x, [0, -1, width]) for x in maps], axis=1)

        anchors, variances = (
            layers.concat([layers.reshape(one[index], [-1, 4]) for one in self.outputs]) for index in (2, 3)
        )
        scores, places, labels, targets, weights = layers.rpn_target_assign(
            *(rows(1, 4), rows(0, 1), anchors, variances, boxes, crowd, self.info),
            rpn_batch_size_per_im=16,
            rpn_straddle_thresh=8.0,
            rpn_positive_overlap=0.5,
            use_random=False,
        )
        labels = layers.cast(labels, "float32")
        labels.stop_gradient = True
        classes = layers.reduce_mean(layers.sigmoid_cross_entropy_with_logits(scores, labels))
        off = layers.smooth_l1(places, targets, sigma=3.0, inside_weight=weights, outside_weight=weights)
        return classes + layers.reduce_mean(off)

    def head(self, rois: Any) -> Tuple[Any, Any]:
        layers = self.layers
        parts, restore = layers.distribute_fpn_proposals(rois, 2, 4, 3, 24)
        pooled = [
            layers.roi_align(x, part, 2, 2, 0.25 / 2**level, 2)
            for level, (x, part) in enumerate(zip(self.maps, parts))
        ]
        x = layers.lod_reset(layers.gather(layers.concat(pooled), restore), rois)
        x = layers.fc(x, 10, act="relu", param_attr="fc6_w", bias_attr="fc6_b")
        scores = layers.fc(x, CLASSES, param_attr=named(self.fluid, "score_w", 0.1), bias_attr="score_b")
        deltas = layers.fc(x, 4 * CLASSES, param_attr=named(self.fluid, "pred_w", 0.05), bias_attr="pred_b")
        return scores, deltas

    def loss(self) -> Any:
        fluid, layers = self.fluid, self.layers
        boxes = fluid.data("gt_boxes", [None, 4], lod_level=1)
        classes, crowd = (
            fluid.data(name, [None, 1], "int32", lod_level=1) for name in ("gt_classes", "is_crowd")
        )
        rois, labels, targets, inside, outside = layers.generate_proposal_labels(
            *(self.proposals(), classes, crowd, boxes, self.info),
            batch_size_per_im=8,
            fg_thresh=0.5,
            class_nums=CLASSES,
            use_random=False,
        )
        scores, deltas = self.head(rois)
        labels = layers.cast(labels, "int64")
        labels.stop_gradient = True
        off = layers.smooth_l1(deltas, targets, inside_weight=inside, outside_weight=outside)
        classified = layers.reduce_mean(layers.softmax_with_cross_entropy(scores, labels))
        return layers.sum([classified, layers.reduce_mean(off), self.rpn_loss(boxes, crowd)])

    def boxes(self) -> Any:
        layers = self.layers
        rois = self.proposals()
        scores, deltas = self.head(rois)
        scale = layers.sequence_expand(layers.slice(self.info, [1], [2], [3]), rois)
        decoded = layers.box_coder(
            rois / scale,
            [0.1, 0.1, 0.2, 0.2],
            layers.reshape(deltas, (-1, CLASSES, 4)),
            "decode_center_size",
            False,
            axis=1,
        )
        clipped = layers.box_clip(decoded, self.info)
        return layers.multiclass_nms(clipped, layers.softmax(scores), 0.05, 20, 6, 0.5, normalized=False)


def objects(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
    low = rng.uniform(0, SIZE * 0.5, (3, 2))
    return np.concatenate((low, low + rng.uniform(8, 24, (3, 2))), 1).astype("float32"), [COUNTS]


@case
def faster_rcnn_resnet18(fluid: Any) -> Built:
    model = FasterRcnn(fluid)
    loss = model.loss()
    rate = fluid.layers.linear_lr_warmup(fluid.layers.piecewise_decay([6], [0.02, 0.002]), 4, 0.005, 0.02)
    fluid.optimizer.Momentum(rate, 0.9, regularization=fluid.regularizer.L2Decay(1e-4)).minimize(loss)
    feeds = {
        "image": pictures(),
        "im_info": fixed([[SIZE, SIZE, 1.0], [SIZE, SIZE, 1.25]]),
        "gt_boxes": objects,
        "gt_classes": fixed([[1], [3], [2]], "int32", [COUNTS]),
        "is_crowd": fixed([[0], [0], [0]], "int32", [COUNTS]),
    }
    built = train(fluid, feeds, loss)
    finds = fluid.Program()
    with fluid.program_guard(finds, fluid.Program()), fluid.unique_name.guard():
        boxes = FasterRcnn(fluid).boxes()
    seen = {name: feeds[name] for name in ("image", "im_info")}
    built.after.append(Run(finds.clone(for_test=True), seen, [boxes]))
    return built


# ---------------------------------------------------------------------------- one stage
ANCHORS = [5, 6, 9, 14, 14, 9, 18, 20, 30, 24, 34, 40]
MASKS = [[3, 4, 5], [0, 1, 2]]


def normed(fluid: Any, x: Any, filters: int, size: int, stride: int, name: str, is_test: bool) -> Any:
    layers = fluid.layers
    y = layers.conv2d(
        *(x, filters, size, stride, (size - 1) // 2),
        param_attr=named(fluid, name + ".conv.weights", 0.1),
        bias_attr=False,
    )
    y = layers.batch_norm(
        y,
        is_test=is_test,
        param_attr=named(fluid, name + ".bn.scale"),
        bias_attr=fluid.ParamAttr(name=name + ".bn.offset", regularizer=fluid.regularizer.L2Decay(0.0)),
        moving_mean_name=name + ".bn.mean",
        moving_variance_name=name + ".bn.var",
    )
    return layers.leaky_relu(y, alpha=0.1)


def darknet(fluid: Any, x: Any, is_test: bool) -> List[Any]:
    """Maps of 16 and 8 pixels a place, the coarser first."""
    maps = []
    for stage, filters in enumerate((4, 4, 6, 8)):
        x = normed(fluid, x, filters, 3, 2, f"stage.{stage}.downsample", is_test)
        y = normed(fluid, x, 4, 1, 1, f"stage.{stage}.0", is_test)
        x = fluid.layers.elementwise_add(x, normed(fluid, y, filters, 3, 1, f"stage.{stage}.1", is_test))
        maps.insert(0, x)
    return maps[:2]


def upsampled(fluid: Any, x: Any) -> Any:
    layers = fluid.layers
    size = layers.slice(layers.shape(x), axes=[0], starts=[2], ends=[4])
    size.stop_gradient = True
    size = layers.cast(size, "int32") * 2
    size.stop_gradient = True
    return layers.resize_nearest(x, scale=2.0, actual_shape=size)


def yolo_outputs(fluid: Any, is_test: bool) -> List[Any]:
    route, outputs = None, []
    image = fluid.data("image", [None, 3, SIZE, SIZE])
    for level, x in enumerate(darknet(fluid, image, is_test)):
        if route is not None:
            x = fluid.layers.concat([route, x], axis=1)
        route = normed(fluid, x, 6, 1, 1, f"yolo_block.{level}", is_test)
        tip = normed(fluid, route, 8, 3, 1, f"yolo_block.{level}.tip", is_test)
        weights = named(fluid, f"yolo_output.{level}.weights", 0.05)
        outputs.append(
            fluid.layers.conv2d(tip, 24, 1, param_attr=weights, bias_attr=f"yolo_output.{level}.bias")
        )
        route = upsampled(fluid, normed(fluid, route, 4, 1, 1, f"yolo_transition.{level}", is_test))
    return outputs


def yolo_loss(fluid: Any) -> Any:
    layers = fluid.layers
    truth = {
        "gt_box": fluid.data("gt_box", [None, 3, 4]),
        "gt_label": fluid.data("gt_label", [None, 3], "int32"),
        "gt_score": fluid.data("gt_score", [None, 3]),
    }
    losses = [
        layers.yolov3_loss(
            x=x,
            anchors=ANCHORS,
            anchor_mask=MASKS[level],
            class_num=3,
            ignore_thresh=0.5,
            downsample_ratio=16 // 2**level,
            use_label_smooth=level == 1,
            **truth,
        )
        for level, x in enumerate(yolo_outputs(fluid, False))
    ]
    return sum(layers.reduce_mean(one) for one in losses)


def yolo_boxes(fluid: Any) -> Any:
    layers = fluid.layers
    size = fluid.data("im_size", [None, 2], "int32")
    boxes, scores = [], []
    for level, x in enumerate(yolo_outputs(fluid, True)):
        anchors = [ANCHORS[2 * index + i] for index in MASKS[level] for i in (0, 1)]
        found = layers.yolo_box(x, size, anchors, 3, 0.01, 16 // 2**level)
        boxes.append(found[0])
        scores.append(layers.transpose(found[1], perm=[0, 2, 1]))
    boxes, scores = layers.concat(boxes, axis=1), layers.concat(scores, axis=2)
    return layers.multiclass_nms(boxes, scores, 0.01, 20, 6, 0.45, background_label=-1)


def warming_up(fluid: Any, rate: float, steps: float) -> Any:
    """A learning rate that grows for the first steps, by a Switch over the step."""
    layers = fluid.layers
    step = layers.learning_rate_scheduler._decay_step_counter()
    found = layers.create_global_var([1], 0.0, "float32", persistable=True, name="learning_rate")
    limit = layers.fill_constant([1], "float32", steps, force_cpu=True)
    with layers.control_flow.Switch() as switch:
        with switch.case(step < limit):
            share = step / limit
            layers.assign(rate * (0.1 * (1 - share) + share), found)
        with switch.default():
            layers.assign(layers.fill_constant([1], "float32", rate), found)
    return found


@case
def yolov3_darknet(fluid: Any) -> Built:
    loss = yolo_loss(fluid)
    rate = warming_up(fluid, 5e-4, 4.0)
    decay = fluid.regularizer.L2Decay(5e-4)
    fluid.optimizer.Momentum(learning_rate=rate, momentum=0.9, regularization=decay).minimize(loss)
    boxes = [[[0.3, 0.4, 0.3, 0.2], [0.7, 0.6, 0.4, 0.5], [0] * 4], [[0.5, 0.5, 0.6, 0.7], [0] * 4, [0] * 4]]
    feeds = {
        "image": pictures(),
        "gt_box": fixed(boxes),
        "gt_label": fixed([[1, 2, 0], [0, 0, 0]], "int32"),
        "gt_score": fixed([[1.0, 0.8, 0.0], [1.0, 0.0, 0.0]]),
    }
    built = train(fluid, feeds, loss, rate)
    finds = fluid.Program()
    with fluid.program_guard(finds, fluid.Program()), fluid.unique_name.guard():
        found = yolo_boxes(fluid)
    seen = {"image": feeds["image"], "im_size": fixed([[48, 48], [40, 60]], "int32")}
    built.after.append(Run(finds.clone(for_test=True), seen, [found]))
    return built
