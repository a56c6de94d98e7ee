"""Feeds that outlive a run, feeds with sequences, and updates that a fetch list chooses, as in 1.8.5."""

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import FeedError
from fluidlite.values.tensor import LoDTensor, LoDTensorArray

ONES = np.ones((2, 3), "float32")


def value_of(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


@pytest.fixture
def executor():
    return fluid.Executor(fluid.CPUPlace())


@pytest.mark.parametrize("naive", [False, True])
def test_persistable_feed_stays_in_the_scope(executor, naive):
    executor.naive = naive
    x = fluid.data("x", [2, 3])
    x.persistable = True
    y = fluid.layers.scale(x, 2.0)
    fed = ONES.copy()
    executor.run(feed={"x": fed}, fetch_list=[y])
    fed[:] = 7.0  # the scope has a copy
    np.testing.assert_array_equal(value_of("x"), ONES)
    (found,) = executor.run(fetch_list=[y])
    np.testing.assert_array_equal(found, 2 * ONES)
    fluid.global_scope().find_var("x").get_tensor().set(5 * ONES, fluid.CPUPlace())
    (found,) = executor.run(fetch_list=[y])
    np.testing.assert_array_equal(found, 10 * ONES)


def test_persistable_feed_may_change_its_shape_and_keeps_its_sequences(executor):
    x = fluid.data("x", [None, 3], lod_level=1)
    x.persistable = True
    y = fluid.layers.sequence_pool(x, "sum")
    for lengths in ([2], [1, 2], [2]):
        rows = np.ones((sum(lengths), 3), "float32")
        fed = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
        (found,) = executor.run(feed={"x": fed}, fetch_list=[y])
        np.testing.assert_array_equal(found[:, 0], lengths)
        assert fluid.global_scope().find_var("x").get_tensor().recursive_sequence_lengths() == [lengths]


def test_other_feeds_leave_nothing_in_the_scope(executor):
    y = fluid.layers.scale(fluid.data("x", [2, 3]), 2.0)
    executor.run(feed={"x": ONES}, fetch_list=[y])
    assert fluid.global_scope().find_var("x") is None


@pytest.mark.parametrize("lod_level", [0, 1])
def test_tensor_with_sequences_may_have_any_number_of_rows(executor, lod_level):
    x = fluid.data("x", [2, 3], "float32", lod_level)
    y = fluid.layers.scale(x, 2.0)
    fed = fluid.create_lod_tensor(np.ones((3, 3), "float32"), [[1, 2]], fluid.CPUPlace())
    (found,) = executor.run(feed={"x": fed}, fetch_list=[y], return_numpy=False)
    assert found.shape() == [3, 3]
    assert found.lod() == [[0, 1, 3]]
    with pytest.raises(FeedError, match="data type of fed Variable 'x'"):
        fed = fluid.create_lod_tensor(np.ones((3, 3), "int64"), [[1, 2]], fluid.CPUPlace())
        executor.run(feed={"x": fed}, fetch_list=[y])
    with pytest.raises(FeedError, match="should have dimensions"):
        executor.run(feed={"x": np.ones((3, 3), "float32")}, fetch_list=[y])


def two_losses():
    """Two losses with a weight each, their updates, and a counter that neither needs."""
    x = fluid.data("x", [2, 3])
    fluid.layers.increment(fluid.layers.create_global_var([1], 0.0, "float32", True, name="counter"))
    losses, updates = [], []
    for name in "ab":
        weight = fluid.ParamAttr(name=name, initializer=fluid.initializer.Constant(1.0))
        losses.append(fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=weight, bias_attr=False)))
        updates.append(fluid.optimizer.SGD(0.1).minimize(losses[-1]))
    return losses, updates


# fetched updates, and how many times 1.8.5 moves the first weight, the second, and the counter
CHOICES = {
    "none": (lambda updates: [], (1, 1, 1)),
    "what the first minimize returned": (lambda updates: [updates[0]], (1, 0, 0)),
    "its ops": (lambda updates: [updates[0][0]], (1, 0, 0)),
    "both": (lambda updates: [updates[0], updates[1]], (1, 1, 0)),
}


@pytest.mark.parametrize("use_prune", [False, True])
@pytest.mark.parametrize("choice", CHOICES)
def test_fetched_updates_are_the_only_ones_that_run(executor, choice, use_prune):
    losses, updates = two_losses()
    executor.run(fluid.default_startup_program())
    chosen, (first, second, counted) = CHOICES[choice]
    fetches = [losses[0], *chosen(updates)]
    (loss,) = executor.run(feed={"x": ONES}, fetch_list=fetches, use_prune=use_prune)
    np.testing.assert_allclose(loss, [3.0])
    np.testing.assert_allclose(value_of("a"), np.full((3, 1), 1 - 0.1 * first), rtol=1e-6)
    np.testing.assert_allclose(value_of("b"), np.full((3, 1), 1 - 0.1 * second), rtol=1e-6)
    # where pruning is asked for, the counter does not run even if no updates are named
    assert value_of("counter") == [counted and not use_prune]


def test_queue_takes_what_is_pushed_before_the_reader_starts(executor):
    reader = fluid.layers.py_reader(4, [(-1, 2)], ["float32"])
    y = fluid.layers.scale(fluid.layers.read_file(reader), 2.0)
    executor.run(fluid.default_startup_program())
    with pytest.raises(fluid.core.EOFException, match="was not started"):
        executor.run(fetch_list=[y])
    batch = LoDTensorArray([LoDTensor(np.ones((1, 2), "float32"))])
    assert reader.queue.push(batch)
    assert reader.queue.size() == 1
    (found,) = executor.run(fetch_list=[y])
    np.testing.assert_array_equal(found, [[2.0, 2.0]])
    reader.queue.close()
    with pytest.raises(fluid.core.EOFException):
        executor.run(fetch_list=[y])
    assert not reader.queue.push(batch)
