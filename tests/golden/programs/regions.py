"""Regions of interest of feature maps, and convolutions and pools that learn where to look."""

from typing import Any, Dict, List, Tuple

import numpy as np

from ..cases import Built, Fed, Feed, Layer, as_list, case, each_layer, fixed, floats, train


def boxes(counts: List[int], size: int, corners: int = 4) -> Feed:
    """Regions as sequences, `counts` of each image, in pictures of `size` pixels; four corners for 8."""

    def make(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        low = rng.uniform(-1, size * 0.6, (sum(counts), 2))
        high = low + rng.uniform(1, size * 0.6, (sum(counts), 2))
        if corners == 4:
            return np.concatenate((low, high), 1).astype("float32"), [counts]
        (left, top), (right, bottom) = low.T, high.T
        quads = np.stack((left, top, right, top, right, bottom, left, bottom), axis=1)
        return (quads + rng.uniform(0, size * 0.1, quads.shape)).astype("float32"), [counts]

    return make


def trained_map(fluid: Any, shape: Tuple[int, ...]) -> Any:
    """A fed feature map plus a trained one."""
    data = fluid.data(name="data", shape=list(shape), dtype="float32")
    offset = fluid.layers.create_parameter(
        shape=list(shape), dtype="float32", name="offset", default_initializer=fluid.initializer.Constant(0.0)
    )
    return fluid.layers.elementwise_add(data, offset)


def region_group(fluid: Any, shape: Tuple[int, ...], feeds: Dict[str, Feed], made: Dict[str, Layer]) -> Built:
    """Each layer over the map, all gradients fetched, ten steps of SGD."""
    loss, fetch = each_layer(fluid, trained_map(fluid, shape), made)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return train(fluid, {"data": floats(*shape), **feeds}, loss, *fetch)


@case
def region_means(fluid: Any) -> Built:
    layers = fluid.layers
    rois = fluid.data(name="rois", shape=[None, 4], dtype="float32", lod_level=1)
    rois.stop_gradient = False  # 1.8.5 cannot build prroi_pool's gradient without that of the regions
    plain = fluid.data(name="plain", shape=[5, 4], dtype="float32")
    plain.stop_gradient = False
    offsets = fluid.data(name="offsets", shape=[3], dtype="int64")
    counts = fluid.data(name="counts", shape=[2], dtype="int64")
    made: Dict[str, Layer] = {
        "align": lambda x: layers.roi_align(x, rois, 2, 3, spatial_scale=0.5),
        "align_two": lambda x: layers.roi_align(x, rois, 2, 2, spatial_scale=0.5, sampling_ratio=2),
        "align_offsets": lambda x: layers.roi_align(x, plain, 2, 1, 0.5, rois_lod=offsets),
        "psroi": lambda x: layers.psroi_pool(layers.concat([x, x], 1), rois, 2, 0.5, 2, 2),
        "prroi": lambda x: layers.prroi_pool(x, rois, 0.5, 2, 2),
        "prroi_counts": lambda x: layers.prroi_pool(x, plain, 0.5, 1, 2, batch_roi_nums=counts),
    }
    feeds = {"rois": boxes([3, 2], 10), "plain": boxes([3, 2], 10)}
    feeds["plain"] = without_lod(feeds["plain"])
    feeds["offsets"] = fixed([0, 2, 5], "int64")
    feeds["counts"] = fixed([2, 3], "int64")
    built = region_group(fluid, (2, 4, 4, 5), feeds, made)
    built.steps[0].fetch.append("plain@GRAD")
    return built


def without_lod(feed: Feed) -> Feed:
    def make(rng: np.random.RandomState, step: int, others: Dict[str, Fed]) -> Fed:
        return feed(rng, step, others)[0], []

    return make


@case
def region_pools(fluid: Any) -> Built:
    layers = fluid.layers
    rois = fluid.data(name="rois", shape=[None, 4], dtype="float32", lod_level=1)
    quads = fluid.data(name="quads", shape=[None, 8], dtype="float32", lod_level=1)
    moves = fluid.data(name="moves", shape=[None, 4, 2, 2], dtype="float32")
    moves.stop_gradient = False

    def straightened(x: Any) -> List[Any]:
        out, _, matrix = as_list(layers.roi_perspective_transform(x, quads, 3, 4, 0.5))
        return [out, matrix]

    made: Dict[str, Layer] = {
        "max": lambda x: layers.roi_pool(x, rois, 2, 3, spatial_scale=0.5),
        "straightened": straightened,
        "moved": lambda x: layers.deformable_roi_pooling(
            x, rois, moves, spatial_scale=0.5, pooled_height=2, pooled_width=2, sample_per_part=2
        ),
        "not_moved": lambda x: layers.deformable_roi_pooling(
            x,
            rois,
            moves,
            no_trans=True,
            spatial_scale=0.5,
            pooled_height=3,
            pooled_width=2,
            part_size=[2, 2],
            sample_per_part=2,
        ),
    }
    feeds = {"rois": boxes([2, 3], 10), "quads": boxes([1, 1], 10, corners=8), "moves": floats(5, 4, 2, 2)}
    built = region_group(fluid, (2, 4, 5, 6), feeds, made)
    built.steps[0].fetch.append("moves@GRAD")
    return built


@case
def deformable_net(fluid: Any) -> Built:
    """Offsets and masks are learned as the filters are."""
    layers = fluid.layers
    image = fluid.data(name="image", shape=[None, 2, 6, 5], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    hidden = layers.conv2d(image, 4, 3, padding=1, act="tanh")
    both = layers.conv2d(hidden, 27 * 2, 3, padding=1, stride=2)
    offset, mask = layers.split(both, [36, 18], dim=1)
    hidden = layers.deformable_conv(hidden, offset, layers.sigmoid(mask), 6, 3, 2, 1, 1, 2, 2, im2col_step=1)
    offset = layers.conv2d(layers.tanh(hidden), 8, 1)
    hidden = layers.deformable_conv(
        hidden,
        layers.slice(offset, [2, 3], [0, 0], [2, 2]),
        None,
        4,
        [2, 2],
        deformable_groups=1,
        im2col_step=1,
        modulated=False,
        name="plain",
        bias_attr=False,
    )
    predicted = layers.fc(hidden, 3, act="softmax")
    loss = layers.mean(layers.cross_entropy(predicted, label))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    feeds = {"image": floats(2, 2, 6, 5), "label": fixed([[0], [2]], "int64")}
    return train(fluid, feeds, loss, hidden, offset.name + "@GRAD", mask.name + "@GRAD")
