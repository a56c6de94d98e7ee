"""`contrib.layers`: text matching, trees, click-through models, fused ops."""

import importlib
from typing import Any

from ..cases import Built, case, fixed, floats, ids, sequences, train


def _layers(fluid: Any) -> Any:
    """1.8.5 does not import it with fluid."""
    return importlib.import_module(fluid.__name__ + ".contrib.layers")


@case
def text_matching(fluid: Any) -> Built:
    """Pairs of sequences as images of differing sizes, convolved and pooled."""
    layers, contrib = fluid.layers, _layers(fluid)
    left = layers.data("left", [3], lod_level=1)
    right = layers.data("right", [4], lod_level=1)
    left_rows, right_rows = layers.fc(left, 3), layers.fc(right, 3)
    image, product = contrib.match_matrix_tensor(left_rows, right_rows, 2, act="tanh")
    wide = contrib.var_conv_2d(image, left_rows, right_rows, 2, 3, [3, 2], act="tanh")
    pooled = contrib.sequence_topk_avg_pooling(wide, left_rows, right_rows, [1, 2], 3)
    loss = layers.mean(layers.square(layers.fc(pooled, 2)))
    fluid.optimizer.SGD(0.1).minimize(loss)
    feeds = {"left": sequences(3, 4, 3), "right": sequences(3, 5, 4)}
    return train(fluid, feeds, loss, image, product, wide, pooled)


@case
def trees(fluid: Any) -> Built:
    """A convolution over trees of one output, as 1.8.5's gradient is wrong for more, and a tree of items."""
    layers, contrib = fluid.layers, _layers(fluid)
    nodes = fluid.data("nodes", [None, 5, 3])
    edges = fluid.data("edges", [None, 4, 2], "int32")
    items = fluid.data("items", [None, 1], "int32")
    rows = layers.fc(nodes, 3, num_flatten_dims=2)
    out = contrib.tree_conv(rows, edges, 1, 1, 3)
    plain = contrib.tree_conv(rows, edges, 1, act=None, bias_attr=False)
    loss = layers.mean(layers.square(out)) + layers.mean(layers.square(plain))
    child, mask = contrib.tdm_child(items, 6, 2)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    several = [[[1, 2], [1, 3], [2, 4], [2, 5]], [[1, 2], [2, 3], [3, 4], [3, 5]]]
    feeds = {
        "nodes": floats(2, 5, 3),
        "edges": fixed(several, "int32"),
        "items": ids(3, 1, below=6, dtype="int32"),
    }
    return train(fluid, feeds, loss, out, plain, child, mask)


@case
def click_through(fluid: Any) -> Built:
    """Shows and clicks, samples by tag, sums for metrics, columns."""
    layers, contrib = fluid.layers, _layers(fluid)
    ins = fluid.data("ins", [None, 4])
    tags = layers.data("tags", [1], lod_level=1, dtype="int64")
    label = fluid.data("label", [None, 1])
    table = layers.fc(ins, 5, act="relu")
    normed = layers.continuous_value_model(table, layers.slice(ins, [1], [0], [2]), True)
    cut = layers.continuous_value_model(table, layers.slice(ins, [1], [2], [4]), False)
    columns = contrib.partial_concat([normed, table], 1, 2)
    total = contrib.partial_sum([normed, table], 2, 3) + cut
    kept, weight = layers.filter_by_instag(
        layers.concat([columns, total], 1), tags, layers.assign(_tags()), is_lod=False, out_val_if_empty=2
    )
    predicted = layers.fc(normed, 1, act="sigmoid")
    sums = contrib.ctr_metric_bundle(predicted, label)
    loss = layers.mean(layers.log_loss(predicted, label)) + layers.mean(layers.fc(kept, 1))
    fluid.optimizer.SGD(0.05).minimize(loss)
    feeds = {
        "ins": floats(5, 4, low=0.0),
        "tags": sequences(5, 2, 1, below=3),
        "label": fixed([[0], [1], [1], [0], [1]]),
    }
    return train(fluid, feeds, loss, normed, kept, weight, *sums)


def _tags() -> Any:
    import numpy as np

    return np.array([1], "int64")


@case
def fused_pairs(fluid: Any) -> Built:
    """Two functions of elements in one op, and look-up with sum."""
    layers, contrib = fluid.layers, _layers(fluid)
    x = fluid.data("x", [None, 4])
    words = layers.data("words", [1], lod_level=1, dtype="int64")
    y = layers.fc(x, 4)
    one = contrib.fused_elemwise_activation(x, y, ["elementwise_add", "relu"])
    bias = layers.create_parameter([4], "float32")
    two = contrib.fused_elemwise_activation(one, bias, ["elementwise_mul", "tanh"])
    three = contrib.fused_elemwise_activation(
        two, bias, ["scale", "elementwise_add"], scale=0.3, save_intermediate_out=False
    )
    pooled = contrib.fused_embedding_seq_pool(words, [10, 4], padding_idx=2)
    sparse = contrib.fused_embedding_seq_pool(words, [10, 4], is_sparse=True)
    loss = layers.mean(layers.square(three * pooled + sparse))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return train(fluid, {"x": floats(3, 4), "words": sequences(3, 4, 1, below=10)}, loss, three, pooled)


@case
def pyramid_hash(fluid: Any) -> Built:
    """Windows of words by their hashes, in a table that the op trains by itself."""
    layers, contrib = fluid.layers, _layers(fluid)
    words = layers.data("words", [1], lod_level=1, dtype="int32")
    words.stop_gradient = False
    attrs = [fluid.ParamAttr(name=name) for name in ("table", "white", "black")]
    options = {"is_training": True, "use_filter": False, "white_list_len": 4, "black_list_len": 4}
    out = contrib.search_pyramid_hash(
        words, 12, 30, 4, 4, 0.0, seed=1, lr=0.3, param_attr=attrs[0], param_attr_wl=attrs[1],
        param_attr_bl=attrs[2], **options
    )  # fmt: skip
    weight = layers.create_parameter([12], "float32")
    loss = layers.mean(layers.square(out - 0.5)) + layers.mean(layers.square(weight))
    fluid.optimizer.SGD(0.1).minimize(loss)

    def ids(rng: Any, step: int, others: Any) -> Any:
        array, lengths = sequences(3, 5, 1, below=9)(rng, step, others)
        return array.astype("int32"), lengths

    return train(fluid, {"words": ids}, loss, out)
