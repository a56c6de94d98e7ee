"""Feeds of other data types than their variables declare: class numbers, and others."""

import numpy as np
import pytest

import fluidlite as fluid


def losses(label_dtype, of_logits):
    """Three losses of a classifier whose label is declared with `label_dtype`."""
    image = fluid.layers.data("image", [6])
    label = fluid.layers.data("label", [1], dtype=label_dtype)
    logits = fluid.layers.fc(
        image, 4, param_attr=fluid.ParamAttr(initializer=fluid.initializer.Xavier(seed=3))
    )
    prob = fluid.layers.softmax(logits)
    if of_logits:
        each = fluid.layers.softmax_with_cross_entropy(logits, label)
    else:
        each = fluid.layers.cross_entropy(prob, label)
    loss = fluid.layers.mean(each)
    right = fluid.layers.accuracy(prob, label)
    fluid.optimizer.SGD(0.5).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    rng = np.random.RandomState(5)
    feed = {"image": rng.rand(8, 6).astype("float32"), "label": rng.randint(0, 4, (8, 1)).astype("int64")}
    return [executor.run(feed=feed, fetch_list=[loss, right]) for _ in range(3)]


@pytest.mark.parametrize("of_logits", [False, True])
def test_class_numbers_stay_whole_where_a_float_is_declared(of_logits):
    slip = losses("float32", of_logits)
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
        fluid.unique_name.guard(),
    ):
        right = losses("int64", of_logits)
    np.testing.assert_array_equal(np.array(slip), np.array(right))
    assert slip[2][0] < slip[0][0]


def run(build, given, declared="float32"):
    """The result of a layer over x, of two columns, which is fed as it is given."""
    out = build(fluid.layers.data("x", [2], dtype=declared))
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return executor.run(feed={"x": given}, fetch_list=[out])[0]


@pytest.mark.parametrize("given", ["float64", "int64", "int32", "float16", "uint8"])
def test_feeds_keep_their_type(given):
    got = run(lambda x: fluid.layers.scale(x, 2.0), np.array([[1, 2]], given))
    assert got.dtype == given
    np.testing.assert_array_equal(got, [[2, 4]])


MIXED = {
    "a sum with what is declared": lambda x: x + fluid.layers.fill_constant([1, 2], "float32", 1.0),
    "a weight": lambda x: fluid.layers.fc(x, 3),
    "a loss": lambda x: fluid.layers.square_error_cost(x, fluid.layers.fill_constant([1, 2], "float32", 0)),
    "a gradient": lambda x: fluid.gradients(fluid.layers.mean(_learning(x)), x)[0],
}


def _learning(x):
    x.stop_gradient = False
    return fluid.layers.square(x)


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("given", ["float64", "int64"])
def test_ops_do_not_mix_what_is_fed_with_what_is_declared(name, given):
    with pytest.raises(fluid.core.EnforceNotMet, match="wrong type|does not have kernel"):
        run(MIXED[name], np.ones((1, 2), given))


@pytest.mark.parametrize("given, layer", [("int64", fluid.layers.relu), ("bool", fluid.layers.reduce_sum)])
def test_ops_without_a_computation_in_the_type_that_is_fed(given, layer):
    with pytest.raises(fluid.core.EnforceNotMet, match="does not have kernel"):
        run(layer, np.ones((1, 2), given))


def test_soft_labels_are_no_class_numbers():
    logits = fluid.layers.data("logits", [2])
    label = fluid.layers.data("label", [2])
    loss = fluid.layers.softmax_with_cross_entropy(logits, label, soft_label=True)
    executor = fluid.Executor(fluid.CPUPlace())
    feed = {"logits": np.zeros((1, 2), "float32"), "label": np.array([[0, 1]])}
    with pytest.raises(fluid.core.EnforceNotMet, match="'label'"):
        executor.run(feed=feed, fetch_list=[loss])


def test_accuracy_takes_class_numbers_alone():
    """1.8.5: "Tensor holds the wrong type, it holds float, but desires to be int64_t"."""
    prob, label = fluid.data("prob", [2, 2]), fluid.data("label", [2, 1])
    right = fluid.layers.accuracy(prob, label)
    executor = fluid.Executor(fluid.CPUPlace())
    feed = {"prob": np.eye(2, dtype="float32"), "label": np.zeros((2, 1), "float32")}
    with pytest.raises(fluid.core.EnforceNotMet, match="'accuracy' takes class indices.*feed int64\n"):
        executor.run(feed=feed, fetch_list=[right])
