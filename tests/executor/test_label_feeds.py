"""Labels that were declared as floats by a slip, and are fed as class numbers."""

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


def test_other_whole_numbers_become_the_declared_floats():
    x = fluid.layers.data("x", [2])
    doubled = fluid.layers.scale(x, 2.0)
    executor = fluid.Executor(fluid.CPUPlace())
    (got,) = executor.run(feed={"x": np.array([[1, 2]])}, fetch_list=[doubled])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [[2.0, 4.0]])


def test_soft_labels_become_the_declared_floats():
    logits = fluid.layers.data("logits", [2])
    label = fluid.layers.data("label", [2])
    loss = fluid.layers.softmax_with_cross_entropy(logits, label, soft_label=True)
    executor = fluid.Executor(fluid.CPUPlace())
    feed = {"logits": np.zeros((1, 2), "float32"), "label": np.array([[0, 1]])}
    (got,) = executor.run(feed=feed, fetch_list=[loss])
    np.testing.assert_allclose(got, [[np.log(2)]], rtol=1e-6)
