"""Every loss layer, over class scores, over pairs and over probabilities."""

from typing import Any, Dict

from ..cases import Built, Layer, case, each_layer, floats, ids, layer_group, train


def scored(fluid: Any) -> Any:
    """Scores of 5 rows in 4 classes: fed data plus a trained offset."""
    data = fluid.data(name="data", shape=[5, 4], dtype="float32")
    offset = fluid.layers.create_parameter(
        [5, 4], "float32", name="offset", default_initializer=fluid.initializer.Constant(0.0)
    )
    return fluid.layers.elementwise_add(data, offset)


def finished(fluid: Any, made: Dict[str, Layer], feeds: Dict[str, Any]) -> Built:
    loss, fetch = each_layer(fluid, scored(fluid), made)
    fluid.optimizer.SGD(learning_rate=0.02).minimize(loss)
    block = fluid.default_main_program().global_block()
    kept = [one for one in fetch if not isinstance(one, str) or block.has_var(one)]
    return train(fluid, dict(feeds, data=floats(5, 4)), loss, *kept)


@case
def losses_classes(fluid: Any) -> Built:
    layers = fluid.layers
    label = fluid.data(name="label", shape=[5, 1], dtype="int64")
    soft = layers.softmax(fluid.data(name="soft", shape=[5, 4], dtype="float32"))
    made: Dict[str, Layer] = {
        "cross_entropy": lambda x: layers.cross_entropy(layers.softmax(x), label),
        "cross_entropy_ignore": lambda x: layers.cross_entropy(layers.softmax(x), label, ignore_index=1),
        "cross_entropy_soft": lambda x: layers.cross_entropy(layers.softmax(x), soft, soft_label=True),
        "with_softmax": lambda x: layers.softmax_with_cross_entropy(x, label),
        "with_softmax_ignore": lambda x: layers.softmax_with_cross_entropy(x, label, ignore_index=9),
        "with_softmax_soft": lambda x: layers.softmax_with_cross_entropy(x, soft, soft_label=True),
        "with_softmax_axis": lambda x: layers.softmax_with_cross_entropy(
            layers.transpose(x, [1, 0]), layers.transpose(label, [1, 0]), axis=0
        ),
        "with_softmax_both": lambda x: layers.softmax_with_cross_entropy(x, label, return_softmax=True)[0],
        "bpr": lambda x: layers.bpr_loss(x, label),
        "npair": lambda x: layers.npair_loss(
            x, layers.tanh(x), layers.cast(layers.reshape(label, [5]), "float32"), l2_reg=0.01
        ),
        "dice": lambda x: layers.dice_loss(layers.softmax(x), label),
        "center": lambda x: layers.center_loss(
            x,
            label,
            num_classes=4,
            alpha=0.1,
            param_attr=fluid.ParamAttr(name="centers", initializer=fluid.initializer.Constant(0.2)),
        ),
        "hsigmoid": lambda x: layers.hsigmoid(x, label, num_classes=4),
        "accuracy_free": lambda x: layers.reduce_mean(x),
    }
    return finished(fluid, made, {"label": ids(5, 1, below=4), "soft": floats(5, 4)})


@case
def losses_values(fluid: Any) -> Built:
    layers = fluid.layers
    target = fluid.data(name="target", shape=[5, 4], dtype="float32")
    binary = layers.cast(layers.greater_than(target, layers.zeros([5, 4], "float32")), "float32")
    column = layers.slice(target, axes=[1], starts=[0], ends=[1])
    sign = layers.slice(binary, axes=[1], starts=[0], ends=[1])
    inside = layers.fill_constant([5, 4], "float32", 0.7)
    made: Dict[str, Layer] = {
        "square_error": lambda x: layers.square_error_cost(x, target),
        "mse": lambda x: layers.mse_loss(x, target),
        "smooth_l1": lambda x: layers.smooth_l1(x, target),
        "smooth_l1_weights": lambda x: layers.smooth_l1(x, target, inside, inside, sigma=2.0),
        "huber": lambda x: layers.huber_loss(x, target, delta=0.5),
        "sigmoid": lambda x: layers.sigmoid_cross_entropy_with_logits(x, binary),
        "sigmoid_normalized": lambda x: layers.sigmoid_cross_entropy_with_logits(
            x, binary, ignore_index=0, normalize=True
        ),
        "log": lambda x: layers.log_loss(layers.sigmoid(layers.slice(x, [1], [0], [1])), sign),
        "kldiv_mean": lambda x: layers.kldiv_loss(x, layers.softmax(target)),
        "kldiv_sum": lambda x: layers.kldiv_loss(x, layers.softmax(target), reduction="sum"),
        "kldiv_batch": lambda x: layers.kldiv_loss(x, layers.softmax(target), reduction="batchmean"),
        "kldiv_none": lambda x: layers.kldiv_loss(x, layers.softmax(target), reduction="none"),
        "margin_rank": lambda x: layers.margin_rank_loss(
            sign * 2.0 - 1.0, layers.slice(x, [1], [0], [1]), column, margin=0.2
        ),
        "rank": lambda x: layers.rank_loss(sign, layers.slice(x, [1], [0], [1]), column),
        "teacher_student": lambda x: layers.teacher_student_sigmoid_loss(
            layers.slice(x, [1], [0], [1]), sign
        ),
    }
    return finished(fluid, made, {"target": floats(5, 4)})


@case
def double_precision(fluid: Any) -> Built:
    """A float64 program: the types of constants, parameters and gradients follow the input's."""
    x = fluid.data(name="x", shape=[None, 3], dtype="float64")
    hidden = fluid.layers.fc(x, size=4, act="tanh")
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, size=1) - 0.5))
    fluid.optimizer.SGD(learning_rate=0.1, regularization=fluid.regularizer.L2Decay(0.1)).minimize(loss)

    def feed(rng: Any, step: int, others: Any) -> Any:
        return rng.uniform(-1, 1, (4, 3)), []

    return train(fluid, {"x": feed}, loss)


@case
def norm_layers(fluid: Any) -> Built:
    """batch_norm in its forms, layer_norm, group_norm, instance_norm, lrn.

    Not batch_norm with in_place=True or is_test=True: 1.8.5 builds them, and their gradients refuse to run.
    """
    layers = fluid.layers
    ones = fluid.initializer.Constant(1.5)
    made: Dict[str, Layer] = {
        "batch_norm": lambda x: layers.batch_norm(x, momentum=0.7, epsilon=1e-4),
        "batch_norm_global": lambda x: layers.batch_norm(x, use_global_stats=True, act="relu"),
        "batch_norm_last": lambda x: layers.batch_norm(x, data_layout="NHWC"),
        "batch_norm_flat": lambda x: layers.batch_norm(layers.reshape(x, [3, 24])),
        "layer_norm": lambda x: layers.layer_norm(x),
        "layer_norm_axis": lambda x: layers.layer_norm(
            x, begin_norm_axis=2, param_attr=fluid.ParamAttr(initializer=ones)
        ),
        "layer_norm_plain": lambda x: layers.layer_norm(x, scale=False, shift=False, begin_norm_axis=3),
        "group_norm": lambda x: layers.group_norm(x, groups=2, act="tanh"),
        "instance_norm": lambda x: layers.instance_norm(x),
        "lrn": lambda x: layers.lrn(x, n=3, k=2.0, alpha=0.1, beta=0.6),
        "data_norm": lambda x: layers.data_norm(layers.reshape(x, [3, 24])),
    }
    return layer_group(fluid, (3, 4, 2, 3), made)
