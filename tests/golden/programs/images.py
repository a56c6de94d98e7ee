"""Convolutions, pools and resizing in their forms, regions of interest, detection heads."""

from typing import Any, Dict

from ..cases import Built, Layer, Run, case, fixed, floats, ids, layer_group, train


@case
def convolutions(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "plain": lambda x: layers.conv2d(x, 2, 3, bias_attr=False),
        "stride_pad": lambda x: layers.conv2d(x, 2, [3, 2], stride=[2, 1], padding=[1, 0], act="relu"),
        "four_pads": lambda x: layers.conv2d(x, 2, 3, padding=[1, 0, 2, 1]),
        "paired_pads": lambda x: layers.conv2d(x, 2, 3, padding=[[0, 0], [0, 0], [1, 0], [0, 2]]),
        "same": lambda x: layers.conv2d(x, 2, 3, stride=2, padding="SAME"),
        "valid_dilated": lambda x: layers.conv2d(x, 2, 2, padding="VALID", dilation=2),
        "groups": lambda x: layers.conv2d(x, 4, 2, groups=2, param_attr=fluid.ParamAttr(
            initializer=fluid.initializer.MSRA(uniform=False))),
        "depthwise": lambda x: layers.conv2d(x, 8, 3, groups=4, padding=1, use_cudnn=False),
        "last": lambda x: layers.conv2d(layers.transpose(x, [0, 2, 3, 1]), 2, 2, data_format="NHWC"),
    }
    return layer_group(fluid, (2, 4, 4, 4), made)


@case
def convolutions_turned(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "turned": lambda x: layers.conv2d_transpose(x, 2, filter_size=3, stride=2, padding=1),
        "turned_size": lambda x: layers.conv2d_transpose(x, 2, output_size=[10, 9], filter_size=3, stride=2),
        "turned_no_filter": lambda x: layers.conv2d_transpose(x, 2, output_size=[8, 8], stride=2),
        "turned_groups": lambda x: layers.conv2d_transpose(x, 4, filter_size=2, groups=2, dilation=2),
        "row_conv": lambda x: layers.row_conv(layers.reshape(x, [2, 8, 8]), future_context_size=2),
    }
    return layer_group(fluid, (2, 4, 4, 4), made)


@case
def volumes(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "conv3d": lambda x: layers.conv3d(x, 2, 2, stride=[1, 2, 1], padding=[1, 0, 0]),
        "conv3d_groups": lambda x: layers.conv3d(x, 2, 2, groups=2, bias_attr=False),
        "conv3d_transpose": lambda x: layers.conv3d_transpose(x, 2, filter_size=2, stride=2),
        "pool3d": lambda x: layers.pool3d(x, pool_size=2, pool_type="max", pool_stride=1),
        "pool3d_mean": lambda x: layers.pool3d(x, pool_size=[1, 2, 3], pool_type="avg", pool_stride=1,
                                               pool_padding=[0, 1, 1], exclusive=False),
        "pool3d_all": lambda x: layers.pool3d(x, pool_type="avg", global_pooling=True),
        "adaptive": lambda x: layers.adaptive_pool3d(x, pool_size=[1, 2, 2], pool_type="avg"),
        "trilinear": lambda x: layers.resize_trilinear(x, out_shape=[3, 4, 5]),
    }
    return layer_group(fluid, (1, 2, 2, 3, 4), made)


@case
def pools(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "max": lambda x: layers.pool2d(x, 2, "max", 2),
        "max_overlap": lambda x: layers.pool2d(x, 3, "max", 1, pool_padding=1),
        "max_ceil": lambda x: layers.pool2d(x, 2, "max", 2, ceil_mode=True),
        "avg": lambda x: layers.pool2d(x, [2, 3], "avg", [1, 2]),
        "avg_exclusive": lambda x: layers.pool2d(x, 3, "avg", 2, pool_padding=1),
        "avg_inclusive": lambda x: layers.pool2d(x, 3, "avg", 2, pool_padding=1, exclusive=False),
        "avg_ceil": lambda x: layers.pool2d(x, 2, "avg", 2, ceil_mode=True),
        "same": lambda x: layers.pool2d(x, 2, "avg", 2, pool_padding="SAME"),
        "uneven": lambda x: layers.pool2d(x, 2, "max", 1, pool_padding=[1, 0, 0, 1]),
        "global_max": lambda x: layers.pool2d(x, pool_type="max", global_pooling=True),
        "global_avg": lambda x: layers.pool2d(x, pool_type="avg", global_pooling=True),
        "last": lambda x: layers.pool2d(layers.transpose(x, [0, 2, 3, 1]), 2, "avg", 1, data_format="NHWC"),
        "adaptive_avg": lambda x: layers.adaptive_pool2d(x, [2, 3], "avg"),
        "adaptive_max": lambda x: layers.adaptive_pool2d(x, [3, 2], "max"),
        "adaptive_index": lambda x: layers.adaptive_pool2d(x, 2, "max", require_index=True)[0],
    }
    return layer_group(fluid, (2, 2, 5, 5), made)


@case
def resizes(fluid: Any) -> Built:
    """Every grid carries a gradient: with a constant grid 1.8.5's grid_sampler_grad crashes."""
    layers = fluid.layers

    def wave(x: Any) -> Any:
        theta = layers.reshape(layers.slice(x, [1, 2], [0, 0], [1, 2]), [2, 2, 3])
        return layers.affine_grid(theta, out_shape=[2, 2, 4, 3])

    made: Dict[str, Layer] = {
        "bilinear": lambda x: layers.resize_bilinear(x, out_shape=[5, 7]),
        "bilinear_half": lambda x: layers.resize_bilinear(x, out_shape=[5, 7], align_corners=False, align_mode=0),
        "bilinear_floor": lambda x: layers.resize_bilinear(x, scale=2.0, align_corners=False, align_mode=1),
        "nearest": lambda x: layers.resize_nearest(x, out_shape=[6, 2]),
        "nearest_floor": lambda x: layers.resize_nearest(x, scale=1.5, align_corners=False),
        "image_resize": lambda x: layers.image_resize(x, [3, 3], resample="NEAREST"),
        "affine_grid": wave,
        "grid_sampler": lambda x: layers.grid_sampler(x, wave(x)),
    }
    return layer_group(fluid, (2, 2, 4, 3), made)


@case
def regions(fluid: Any) -> Built:
    """roi_pool, roi_align, psroi_pool over boxes with a level of detail."""
    layers = fluid.layers
    rois = fluid.data(name="rois", shape=[None, 4], dtype="float32", lod_level=1)
    made: Dict[str, Layer] = {
        "roi_pool": lambda x: layers.roi_pool(x, rois, 2, 2, 0.5),
        "roi_align": lambda x: layers.roi_align(x, rois, 2, 2, 0.5, sampling_ratio=2),
        "roi_align_auto": lambda x: layers.roi_align(x, rois, 1, 2, 0.5),
        "psroi_pool": lambda x: layers.psroi_pool(x, rois, 2, 0.5, 2, 1),
    }
    built = layer_group(fluid, (2, 4, 6, 6), made)
    boxes = [[0.3, 0.7, 6.0, 7.2], [2.1, 1.3, 9.4, 8.0], [1.2, 0.4, 5.5, 9.7]]
    built.steps[0].feeds["rois"] = fixed(boxes, "float32", [[2, 1]])
    return built


@case
def boxes(fluid: Any) -> Built:
    """Prior boxes, anchors, coding, overlap, matching, suppression: what detectors compute without gradients."""
    layers = fluid.layers
    image = fluid.data(name="image", shape=[1, 3, 12, 12], dtype="float32")
    feature = fluid.data(name="feature", shape=[1, 4, 3, 3], dtype="float32")
    target = fluid.data(name="target", shape=[None, 4], dtype="float32", lod_level=1)
    priors, variances = layers.prior_box(feature, image, min_sizes=[4.0], max_sizes=[6.0], aspect_ratios=[2.0],
                                         flip=True, clip=True)
    dense, _ = layers.density_prior_box(feature, image, densities=[2], fixed_sizes=[4.0], fixed_ratios=[1.0])
    anchors, _ = layers.anchor_generator(feature, anchor_sizes=[4.0, 8.0], aspect_ratios=[0.5, 1.0], stride=[4.0, 4.0])
    flat = layers.reshape(priors, [-1, 4])
    flat_variances = layers.reshape(variances, [-1, 4])
    overlap = layers.iou_similarity(target, flat)
    matched, distance = layers.bipartite_match(overlap)
    coded = layers.box_coder(flat, flat_variances, target, code_type="encode_center_size")
    decoded = layers.box_coder(flat, flat_variances, coded, code_type="decode_center_size")
    scores = layers.reshape(layers.softmax(layers.reshape(feature, [1, 2, 18])), [1, 2, 18])
    kept_boxes = layers.reshape(layers.slice(flat, [0], [0], [18]), [1, 18, 4])
    kept = layers.multiclass_nms(kept_boxes, scores, score_threshold=0.01, nms_top_k=10, keep_top_k=6,
                                 nms_threshold=0.4, background_label=-1)
    fetch = [priors, variances, dense, anchors, overlap, matched, distance, coded, decoded, kept]
    boxes_fed = fixed([[0.1, 0.1, 0.5, 0.6], [0.4, 0.3, 0.9, 0.8]], "float32", [[2]])
    feeds = {"image": floats(1, 3, 12, 12), "feature": floats(1, 4, 3, 3), "target": boxes_fed}
    return Built([Run(fluid.default_main_program(), feeds, [layers.reduce_sum(overlap)] + fetch)])


@case
def ssd(fluid: Any) -> Built:
    """A small SSD: multi_box_head, ssd_loss, detection_output."""
    layers = fluid.layers
    image = fluid.data(name="image", shape=[None, 3, 16, 16], dtype="float32")
    gt_box = fluid.data(name="gt_box", shape=[None, 4], dtype="float32", lod_level=1)
    gt_label = fluid.data(name="gt_label", shape=[None, 1], dtype="int32", lod_level=1)
    first = layers.conv2d(image, 4, 3, stride=4, padding=1, act="relu")
    second = layers.conv2d(first, 4, 3, stride=2, padding=1, act="relu")
    locations, confidences, box, box_var = layers.multi_box_head(
        inputs=[first, second], image=image, num_classes=3, min_ratio=20, max_ratio=90, min_sizes=[4.0, 8.0],
        max_sizes=[8.0, 12.0], aspect_ratios=[[2.0], [2.0]], base_size=16, offset=0.5, flip=True, clip=True)
    loss = layers.reduce_sum(layers.ssd_loss(locations, confidences, gt_box, gt_label, box, box_var))
    fluid.optimizer.Momentum(learning_rate=0.005, momentum=0.9).minimize(loss)
    lengths = [[2, 1]]
    feeds = {"image": floats(2, 3, 16, 16),
             "gt_box": fixed([[0.1, 0.1, 0.5, 0.6], [0.4, 0.3, 0.9, 0.8], [0.2, 0.5, 0.7, 0.9]], "float32", lengths),
             "gt_label": fixed([[1], [2], [1]], "int32", lengths)}
    return train(fluid, feeds, loss, locations, confidences)


@case
def yolo(fluid: Any) -> Built:
    layers = fluid.layers
    image = fluid.data(name="image", shape=[None, 3, 16, 16], dtype="float32")
    size = fluid.data(name="size", shape=[None, 2], dtype="int32")
    gt_box = fluid.data(name="gt_box", shape=[None, 2, 4], dtype="float32")
    gt_label = fluid.data(name="gt_label", shape=[None, 2], dtype="int32")
    gt_score = fluid.data(name="gt_score", shape=[None, 2], dtype="float32")
    anchors, mask = [2, 3, 4, 6, 8, 7], [0, 1]
    head = layers.conv2d(layers.conv2d(image, 4, 3, stride=4, padding=1, act="leaky_relu"), 2 * (5 + 3), 1)
    losses = layers.yolov3_loss(x=head, gt_box=gt_box, gt_label=gt_label, gt_score=gt_score, anchors=anchors,
                                anchor_mask=mask, class_num=3, ignore_thresh=0.6, downsample_ratio=4)
    loss = layers.mean(losses)
    found, scores = layers.yolo_box(x=head, img_size=size, anchors=[2, 3, 4, 6], class_num=3, conf_thresh=0.01,
                                    downsample_ratio=4)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    box = [[[0.3, 0.4, 0.2, 0.3], [0.7, 0.6, 0.3, 0.4]], [[0.5, 0.5, 0.4, 0.3], [0.0, 0.0, 0.0, 0.0]]]
    feeds = {"image": floats(2, 3, 16, 16), "size": fixed([[16, 16], [20, 12]], "int32"), "gt_box": fixed(box),
             "gt_label": ids(2, 2, below=3, dtype="int32"), "gt_score": floats(2, 2, low=0.5)}
    return train(fluid, feeds, loss, losses, found, scores)
