"""Convolutions, pools and resizing in their forms, regions of interest, detection heads."""

from typing import Any, Dict

from ..cases import Built, Layer, case, layer_group


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
        "groups": lambda x: layers.conv2d(
            x, 4, 2, groups=2, param_attr=fluid.ParamAttr(initializer=fluid.initializer.MSRA(uniform=False))
        ),
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
        "pool3d_mean": lambda x: layers.pool3d(
            x, pool_size=[1, 2, 3], pool_type="avg", pool_stride=1, pool_padding=[0, 1, 1], exclusive=False
        ),
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
        "bilinear_half": lambda x: layers.resize_bilinear(
            x, out_shape=[5, 7], align_corners=False, align_mode=0
        ),
        "bilinear_floor": lambda x: layers.resize_bilinear(x, scale=2.0, align_corners=False, align_mode=1),
        "nearest": lambda x: layers.resize_nearest(x, out_shape=[6, 2]),
        "nearest_floor": lambda x: layers.resize_nearest(x, scale=1.5, align_corners=False),
        "image_resize": lambda x: layers.image_resize(x, [3, 3], resample="NEAREST"),
        "affine_grid": wave,
        "grid_sampler": lambda x: layers.grid_sampler(x, wave(x)),
    }
    return layer_group(fluid, (2, 2, 4, 3), made)


@case
def interpolations(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "cubic": lambda x: layers.interpolate(x, out_shape=[5, 7], resample="BICUBIC"),
        "cubic_free": lambda x: layers.interpolate(x, [5, 3], resample="BICUBIC", align_corners=False),
        "linear": lambda x: layers.interpolate(x, scale=1.5, resample="BILINEAR", align_mode=0, name="half"),
        "nearest": lambda x: layers.interpolate(x, out_shape=[2, 6], resample="NEAREST"),
    }
    return layer_group(fluid, (2, 2, 4, 4), made)
