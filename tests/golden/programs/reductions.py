"""Reductions, searches, products of matrices, arithmetic of two tensors."""

from typing import Any, Dict

from ..cases import Built, Layer, Run, case, fixed, floats, ids, layer_group, train


@case
def reductions_all(fluid: Any) -> Built:
    layers = fluid.layers
    made: Dict[str, Layer] = {
        "sum_all": layers.reduce_sum,
        "sum_one": lambda x: layers.reduce_sum(x, dim=1),
        "sum_two": lambda x: layers.reduce_sum(x, dim=[0, -1]),
        "sum_keep": lambda x: layers.reduce_sum(x, dim=-2, keep_dim=True),
        "mean_all": layers.reduce_mean,
        "mean_keep": lambda x: layers.reduce_mean(x, dim=[1, 2], keep_dim=True),
        "mean_op": layers.mean,
        "max": lambda x: layers.reduce_max(x, dim=2),
        "max_all": layers.reduce_max,
        "min": lambda x: layers.reduce_min(x, dim=[0, 1]),
        "prod": lambda x: layers.reduce_prod(x, dim=1),
        "prod_keep": lambda x: layers.reduce_prod(x, dim=-1, keep_dim=True),
        "logsumexp": lambda x: layers.logsumexp(x, dim=[1, 2], keepdim=True),
        "topk": lambda x: layers.topk(x, k=2)[0],
        "argsort": lambda x: layers.argsort(x, axis=1)[0],
        "argsort_down": lambda x: layers.argsort(x, axis=-1, descending=True)[0],
        "trace": lambda x: layers.trace(x, offset=0, dim1=1, dim2=2),
    }
    return layer_group(fluid, (2, 3, 4), made)


@case
def searches(fluid: Any) -> Built:
    """Layers whose results are indices or truth values."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[3, 4], dtype="float32")
    whole = fluid.data(name="whole", shape=[3, 4], dtype="int64")
    positive = layers.greater_than(x, layers.zeros([3, 4], "float32"))
    even = layers.equal(
        layers.elementwise_mod(whole, layers.fill_constant([3, 4], "int64", 2)), layers.zeros([3, 4], "int64")
    )
    fetch = [
        layers.argmax(x, axis=1),
        layers.argmin(x, axis=0),
        layers.topk(x, k=2)[1],
        layers.argsort(x, axis=0)[1],
        layers.reduce_all(positive, dim=1),
        layers.reduce_any(positive, dim=0, keep_dim=True),
        layers.reduce_all(even),
        layers.logical_and(positive, even),
        layers.logical_or(positive, even),
        layers.logical_xor(positive, even),
        layers.logical_not(even),
        layers.less_equal(x, layers.reverse(x, axis=1)),
        layers.greater_equal(whole, layers.ones([3, 4], "int64")),
        layers.not_equal(whole, layers.ones([3, 4], "int64")),
        layers.less_than(x, layers.transpose(layers.transpose(x, [1, 0]), [1, 0])),
        layers.isfinite(x),
        layers.has_nan(x),
        layers.has_inf(x),
        layers.where(positive),
        layers.reduce_sum(whole, dim=1),
        layers.reduce_max(whole),
        layers.cumsum(x, axis=0),
        layers.cast(positive, "int32"),
        layers.cast(x * 3.0, "int64"),
        layers.unique(layers.reshape(whole, [-1]))[0],
        layers.elementwise_floordiv(whole, layers.fill_constant([3, 4], "int64", 3)),
        layers.shape(x),
        layers.size(x),
        layers.rank(x),
        layers.shard_index(layers.reshape(whole, [-1, 1]), 20, 2, 1),
    ]
    feeds = {"x": floats(3, 4), "whole": ids(3, 4, below=6)}
    return Built([Run(fluid.default_main_program(), feeds, [layers.reduce_sum(x)] + fetch)])


@case
def elementwise_all(fluid: Any) -> Built:
    """Arithmetic of a trained tensor with others: same shape, broadcast along an axis, numbers, operators."""
    layers = fluid.layers
    row = layers.create_parameter([4], "float32", default_initializer=fluid.initializer.Constant(0.7))
    middle = layers.create_parameter([3], "float32", default_initializer=fluid.initializer.Constant(1.3))
    block = layers.create_parameter(
        [3, 4], "float32", default_initializer=fluid.initializer.Uniform(0.5, 1.5)
    )
    front = layers.create_parameter(
        [2, 1, 4], "float32", default_initializer=fluid.initializer.Uniform(0.5, 1.5)
    )
    made: Dict[str, Layer] = {
        "add": lambda x: layers.elementwise_add(x, row),
        "sub": lambda x: layers.elementwise_sub(x, middle, axis=1),
        "mul": lambda x: layers.elementwise_mul(x, block, act="relu"),
        "div": lambda x: layers.elementwise_div(x, block),
        "div_middle": lambda x: layers.elementwise_div(x, middle, axis=1),
        "max": lambda x: layers.elementwise_max(x, row),
        "min": lambda x: layers.elementwise_min(x, block, axis=1),
        "pow": lambda x: layers.elementwise_pow(layers.abs(x), row),
        "add_ones": lambda x: layers.elementwise_add(x, front),
        "mul_ones": lambda x: layers.elementwise_mul(x, front),
        "operators": lambda x: (2.0 - x) * (x + 1.0) / 3.0 - (-x),
        "reflected": lambda x: 1.0 / (x + 3.0) + 2.0 * x - x / 4.0,
        "power": lambda x: (x + 2.0) ** 2.0,
        "variables": lambda x: x * x - x / (x + 5.0) + row * x,
        "sums": lambda x: layers.sums([x, x, block + x]),
        "sum": lambda x: layers.sum([x, layers.tanh(x)]),
    }
    return layer_group(fluid, (2, 3, 4), made)


@case
def products_all(fluid: Any) -> Built:
    """matmul in its forms, mul with column counts, and their relatives."""
    layers = fluid.layers

    def weight(*shape: int) -> Any:
        return layers.create_parameter(list(shape), "float32")

    made: Dict[str, Layer] = {
        "matmul": lambda x: layers.matmul(x, weight(4, 5)),
        "matmul_batches": lambda x: layers.matmul(x, weight(2, 4, 3), alpha=0.5),
        "matmul_turned": lambda x: layers.matmul(x, weight(2, 3, 5), transpose_x=True),
        "matmul_both": lambda x: layers.matmul(x, weight(2, 5, 3), transpose_x=True, transpose_y=True),
        "matmul_self": lambda x: layers.matmul(x, x, transpose_y=True),
        "mul_two": lambda x: layers.mul(x, weight(4, 2), x_num_col_dims=2),
        "mul_deep": lambda x: layers.mul(x, weight(3, 4, 2), y_num_col_dims=2),
        "bmm": lambda x: layers.bmm(x, weight(2, 4, 2)),
        "dot": lambda x: layers.dot(layers.reshape(x, [6, 4]), weight(6, 4)),
        "addmm": lambda x: layers.addmm(
            weight(6, 2), layers.reshape(x, [6, 4]), weight(4, 2), alpha=2.0, beta=0.5
        ),
        "kron": lambda x: layers.kron(layers.reshape(x, [6, 4]), weight(2, 3)),
        "cross": lambda x: layers.cross(layers.transpose(x, [0, 2, 1]), weight(2, 4, 3), dim=2),
        "bilinear": lambda x: layers.bilinear_tensor_product(layers.reshape(x, [6, 4]), weight(6, 3), size=2),
        "cos_sim": lambda x: layers.cos_sim(layers.reshape(x, [6, 4]), weight(6, 4)),
        "cos_sim_row": lambda x: layers.cos_sim(layers.reshape(x, [6, 4]), weight(1, 4)),
        "dist": lambda x: layers.dist(x, weight(2, 3, 4), 2),
    }
    return layer_group(fluid, (2, 3, 4), made)


@case
def constants_all(fluid: Any) -> Built:
    """Layers that make values out of nothing, and assignments."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 3], dtype="float32")
    import_values = [[1.5, -2.0], [0.25, 3.0]]
    written = layers.create_tensor(dtype="float32")
    layers.assign(x, written)
    fetch = [
        layers.fill_constant([2, 3], "float32", 1.5),
        layers.fill_constant([2], "int64", 7),
        layers.zeros([2, 2], "int32"),
        layers.ones([3], "float64"),
        layers.ones_like(x),
        layers.zeros_like(x),
        layers.eye(3),
        layers.eye(2, 3, [2]),
        layers.linspace(0.0, 1.0, 5, "float32"),
        layers.range(0, 10, 3, "int64"),
        layers.diag(layers.fill_constant([3], "float32", 2.0)),
        layers.assign(fixed_array(import_values)),
        written,
        layers.fill_constant_batch_size_like(x, shape=[4, -1], dtype="float32", value=0.5, output_dim_idx=1),
        layers.fill_constant([1], "bool", True),
        layers.full([2, 2], 4.0, dtype="float32"),
    ]
    total = layers.reduce_sum(written)
    return Built([Run(fluid.default_main_program(), {"x": floats(2, 3)}, [total] + fetch)])


def fixed_array(value: Any) -> Any:
    return fixed(value)(None, 0, {})[0]


@case
def hard_labels(fluid: Any) -> Built:
    """Metrics in a program: accuracy, auc with both curves, mean intersection over union."""
    layers = fluid.layers
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    predicted = layers.softmax(layers.fc(x, size=3))
    two = layers.softmax(layers.fc(x, size=2))
    binary = layers.cast(layers.greater_than(label, layers.zeros_like(label)), "int64")
    loss = layers.mean(layers.cross_entropy(predicted, label))
    roc, roc_batch, _ = layers.auc(two, binary, curve="ROC", num_thresholds=30)
    pr, pr_batch, _ = layers.auc(two, binary, curve="PR", num_thresholds=30, slide_steps=0)
    correct, total = layers.create_tensor("int64"), layers.create_tensor("int64")
    top = layers.accuracy(predicted, label, k=2, correct=correct, total=total)
    _, wrong, right = layers.mean_iou(
        layers.argmax(predicted, axis=1), layers.squeeze(label, [1]), num_classes=3
    )
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    feeds = {"x": floats(6, 4), "label": ids(6, 1, below=3)}
    return train(fluid, feeds, loss, roc, roc_batch, pr, pr_batch, top, correct, total, wrong, right)
