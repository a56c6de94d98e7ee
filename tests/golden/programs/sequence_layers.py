"""Every layer over sequences of unequal length, each with its own gradient."""

from typing import Any, Dict

from ..cases import Built, Fed, Layer, Run, case, each_layer, fixed, floats, sequences, train

LENGTHS = [[3, 1, 4]]
NESTED = [[2, 1], [3, 1, 4]]


def fed(lengths: Any) -> Any:
    def make(rng: Any, step: int, others: Dict[str, Fed]) -> Fed:
        return rng.uniform(-1, 1, (8, 4)).astype("float32"), lengths

    return make


def sequence_group(fluid: Any, made: Dict[str, Layer], lengths: Any = None) -> Built:
    """Each layer over `fc` of the fed sequences, so that gradients reach a weight."""
    lengths = lengths or LENGTHS
    data = fluid.data(name="data", shape=[None, 4], dtype="float32", lod_level=len(lengths))
    loss, fetch = each_layer(fluid, fluid.layers.fc(data, size=4, bias_attr=False), made)
    fluid.optimizer.SGD(learning_rate=0.02).minimize(loss)
    block = fluid.default_main_program().global_block()
    kept = [one for one in fetch if not isinstance(one, str) or block.has_var(one)]
    return train(fluid, {"data": fed(lengths)}, loss, *kept)


@case
def sequence_ops(fluid: Any) -> Built:
    layers = fluid.layers
    zero = layers.fill_constant([1], "float32", 0.5)
    offset = layers.assign(fixed([[1], [0], [2]], "int64")(None, 0, {})[0])
    length = layers.assign(fixed([[2], [1], [1]], "int64")(None, 0, {})[0])
    made: Dict[str, Layer] = {
        "sum": lambda x: layers.sequence_pool(x, "sum"),
        "average": lambda x: layers.sequence_pool(x, "average"),
        "sqrt": lambda x: layers.sequence_pool(x, "sqrt"),
        "max": lambda x: layers.sequence_pool(x, "max"),
        "first": layers.sequence_first_step,
        "last": layers.sequence_last_step,
        "softmax": lambda x: layers.sequence_softmax(layers.fc(x, size=1, bias_attr=False)),
        "conv": lambda x: layers.sequence_conv(x, num_filters=3, filter_size=3),
        "conv_start": lambda x: layers.sequence_conv(
            x, num_filters=3, filter_size=2, padding_start=0, act="tanh"
        ),
        "reverse": layers.sequence_reverse,
        "concat": lambda x: layers.sequence_concat([x, layers.tanh(x)]),
        "reshape": lambda x: layers.sequence_reshape(x, new_dim=2),
        "pad": lambda x: layers.sequence_pad(x, zero)[0],
        "pad_longer": lambda x: layers.sequence_pad(x, zero, maxlen=6)[0],
        "unpad": lambda x: layers.sequence_unpad(*layers.sequence_pad(x, zero)),
        "slice": lambda x: layers.sequence_slice(x, offset, length),
        "expand": lambda x: layers.sequence_expand(layers.sequence_pool(x, "sum"), x),
        "expand_as": lambda x: layers.sequence_expand_as(layers.sequence_pool(x, "sum"), x),
        "lod_reset": lambda x: layers.sequence_pool(layers.lod_reset(x, target_lod=[0, 2, 8]), "sum"),
        "lod_reset_like": lambda x: layers.sequence_pool(
            layers.lod_reset(x, y=layers.sequence_reverse(x)), "sum"
        ),
        "row_conv": lambda x: layers.row_conv(x, future_context_size=1),
    }
    return sequence_group(fluid, made)


@case
def sequence_nested(fluid: Any) -> Built:
    """Two levels: pools work on the last, expanding takes a level."""
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "pool": lambda x: layers.sequence_pool(x, "max"),
        "pool_twice": lambda x: layers.sequence_pool(layers.sequence_pool(x, "average"), "sum"),
        "expand_outer": lambda x: layers.sequence_expand(
            layers.sequence_pool(layers.sequence_pool(x, "sum"), "sum"), x, ref_level=0
        ),
        "expand_inner": lambda x: layers.sequence_expand(
            layers.lod_reset(layers.sequence_pool(x, "sum"), target_lod=[0, 1, 2, 3]), x, ref_level=1
        ),
        "append": lambda x: layers.sequence_pool(
            layers.lod_append(layers.lod_reset(x, target_lod=[0, 3, 8]), list(range(9))), "last"
        ),
    }
    return sequence_group(fluid, made, NESTED)


@case
def sequence_expand_sequences(fluid: Any) -> Built:
    """sequence_expand of sequences (not rows), and of a level with empty sequences in the pool."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 2], dtype="float32", lod_level=1)
    y = fluid.data(name="y", shape=[None, 1], dtype="float32", lod_level=2)
    holes = fluid.data(name="holes", shape=[None, 2], dtype="float32", lod_level=1)
    hidden = layers.fc(x, size=2)
    grown = layers.sequence_expand(hidden, y, ref_level=0)
    pooled = [
        layers.sequence_pool(layers.fc(holes, size=2), kind, pad_value=0.25)
        for kind in ("sum", "max", "average", "sqrt", "first", "last")
    ]
    loss = layers.reduce_mean(layers.square(grown)) + layers.reduce_mean(
        layers.square(layers.concat(pooled, axis=1))
    )
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    feeds = {
        "x": fixed([[1.0, 2.0], [3.0, -1.0], [0.5, 0.2]], "float32", [[2, 1]]),
        "y": fixed([[1.0], [1.0], [1.0], [1.0]], "float32", [[2, 1], [1, 2, 1]]),
        "holes": fixed([[1.0, 0.3], [0.2, -0.7], [0.9, 0.1], [0.4, 0.4]], "float32", [[2, 0, 2, 0]]),
    }
    return train(fluid, feeds, loss, grown, *pooled)


@case
def sequence_integers(fluid: Any) -> Built:
    """Layers over sequences of whole numbers, without gradients. (1.8.5's layers.hash always raises
    TypeError.)
    """
    layers = fluid.layers
    words = fluid.data(name="words", shape=[None, 1], dtype="int64", lod_level=1)
    lengths = fluid.data(name="lengths", shape=[None], dtype="int64")
    table = fluid.data(name="table", shape=[3, 6], dtype="float32")
    update = fluid.data(name="update", shape=[None, 1], dtype="float32", lod_level=1)
    grams = layers.sequence_enumerate(words, win_size=2, pad_value=0)
    mask = layers.sequence_mask(lengths, maxlen=5, dtype="int64")
    free_mask = layers.sequence_mask(lengths, dtype="float32")
    padded, real = layers.sequence_pad(words, layers.fill_constant([1], "int64", 9))
    scattered = layers.sequence_scatter(table, words, update)
    reversed_words = layers.sequence_reverse(words)
    unpadded = layers.sequence_unpad(padded, real)
    words_fed = fixed([[1], [4], [2], [5], [0], [3]], "int64", [[2, 3, 1]])

    def updates(rng: Any, step: int, others: Dict[str, Fed]) -> Fed:
        return rng.uniform(-1, 1, (6, 1)).astype("float32"), [[2, 3, 1]]

    feeds = {
        "words": words_fed,
        "lengths": fixed([2, 5, 1], "int64"),
        "table": floats(3, 6),
        "update": updates,
    }
    fetch = [
        layers.reduce_sum(scattered),
        grams,
        mask,
        free_mask,
        padded,
        real,
        scattered,
        reversed_words,
        unpadded,
    ]
    return Built([Run(fluid.default_main_program(), feeds, fetch)])


@case
def ranked_sequences(fluid: Any) -> Built:
    """The rank table under DynamicRNN: reorder, shrink and convert to an array by hand, with gradients."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 3], dtype="float32", lod_level=1)
    hidden = layers.fc(x, size=3)
    table = layers.control_flow.lod_rank_table(hidden)
    longest = layers.control_flow.max_sequence_len(table)
    array = layers.control_flow.lod_tensor_to_array(hidden, table)
    back = layers.control_flow.array_to_lod_tensor(array, table)
    pooled = layers.sequence_pool(hidden, "sum")
    ordered = layers.reorder_lod_tensor_by_rank(pooled, table)
    loss = layers.reduce_mean(layers.square(back)) + layers.reduce_mean(ordered)
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": sequences(3, 4, 3)}, loss, longest, back, ordered)
