"""Which outputs have the level of detail of an input: that of most inputs ends at a layer that moves rows."""

from typing import Any

from ..cases import Built, case, each_layer, fixed, floats, train

LENGTHS = [[2, 1]]


def trained(fluid: Any, name: str, shape: Any) -> Any:
    """A fed variable with sequences, plus a parameter."""
    data = fluid.data(name=name, shape=[None] + shape, dtype="float32", lod_level=1)
    zero = fluid.initializer.Constant(0.0)
    offset = fluid.layers.create_parameter(shape, "float32", name=name + "_offset", default_initializer=zero)
    return fluid.layers.elementwise_add(data, offset)


@case
def levels_of_images(fluid: Any) -> Built:
    layers = fluid.layers
    image = trained(fluid, "image", [4, 4, 4])

    def twice_as_large(x: Any) -> Any:
        """As detectors grow a map: `scale` makes the declared shape, `actual_shape` the size."""
        size = layers.slice(layers.shape(x), axes=[0], starts=[2], ends=[4])
        size.stop_gradient = True
        return layers.resize_nearest(x, scale=2.0, actual_shape=layers.cast(size, "int32") * 2)

    loss, fetch = each_layer(
        fluid,
        image,
        {
            "conv": lambda x: layers.conv2d(x, 2, 3),
            "turned": lambda x: layers.conv2d_transpose(x, 2, filter_size=2, stride=2),
            "pool": lambda x: layers.pool2d(x, 2, "max", 2),
            "adaptive": lambda x: layers.adaptive_pool2d(x, [2, 2], "max"),
            "nearest": lambda x: layers.resize_nearest(x, [2, 2]),
            "bilinear": lambda x: layers.resize_bilinear(x, [6, 6]),
            "grown": twice_as_large,
            "shuffle": lambda x: layers.pixel_shuffle(x, 2),
            "channels": lambda x: layers.shuffle_channel(x, 2),
            "maxout": lambda x: layers.maxout(x, 2),
            "unfold": lambda x: layers.unfold(x, [2, 2]),
            "fsp": lambda x: layers.fsp_matrix(x, x),
            "quads": lambda x: layers.conv2d(layers.polygon_box_transform(layers.concat([x, x], 1)), 1, 1),
        },
    )
    fluid.optimizer.SGD(1e-4).minimize(loss)
    feed = fixed([[[[i * j % 7 - 3 for i in range(4)] for j in range(2, 6)] for _ in range(4)]] * 3)
    return train(fluid, {"image": lambda *at: (feed(*at)[0], LENGTHS)}, loss, *fetch[::2])


@case
def levels_of_rows(fluid: Any) -> Built:
    layers = fluid.layers
    rows = trained(fluid, "rows", [4])
    plain = fluid.data("plain", [None, 4])
    label = fluid.data("label", [None, 1], "int64", lod_level=1)
    codes = layers.reshape(layers.scale(rows, 0.1), [-1, 1, 4])
    spans = [0.1, 0.1, 0.2, 0.2]
    # 1.8.5's gradient of rows that are written over is wrong
    held = layers.scale(rows, 1.0)
    held.stop_gradient = True
    outs = [
        layers.smooth_l1(rows, plain),
        layers.rank_loss(layers.cast(label, "float32"), rows[:, 0:1], rows[:, 1:2]),
        layers.bilinear_tensor_product(rows, plain, 3),
        layers.scatter(held, layers.reshape(label, [-1]), plain),
        layers.box_coder(plain, spans, codes, "decode_center_size", False, axis=1),
        layers.box_coder(layers.scale(rows, 2.0), spans, codes, "decode_center_size", False, axis=1),
    ]
    right = layers.accuracy(layers.softmax(rows), label)
    loss = layers.sums([layers.reduce_mean(out) for out in outs])
    fluid.optimizer.SGD(0.01).minimize(loss)

    def fed(feed: Any) -> Any:
        return lambda *at: (feed(*at)[0], LENGTHS)

    feeds = {
        "rows": fed(floats(3, 4)),
        "plain": floats(3, 4, low=0.1),
        "label": fed(fixed([[1], [0], [2]], "int64")),
    }
    return train(fluid, feeds, loss, right, *outs)
