"""The order in memory of what enters a plan: C order, in whatever order it was fed, returned or carried."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import INTS, Op, Spec
from fluidlite.executor.plan.verify import PlanError
from fluidlite.ir.program import Block

layers = fluid.layers


@contextlib.contextmanager
def _declared() -> Iterator[None]:
    """Op types whose kernels return memory of any order, or of another type than their rules say."""
    lies_in = Op("lies_in_order", "X -> Out Copy", attrs={"order": INTS()})

    @lies_in.shape
    def _(X: Spec) -> tuple[Spec, Spec]:
        return X, X

    @lies_in.kernel
    def _(xp: Any, X: Array, order: list[int]) -> tuple[Array, Array]:
        back = np.argsort(order)
        return (X.transpose(order).copy() + 0).transpose(back), X.copy()

    @lies_in.grad("X")
    def _(xp: Any, dOut: Array, order: list[int]) -> Array:
        return dOut.transpose(order).copy().transpose(np.argsort(order))

    is_wider = Op("is_wider", "X -> Out")

    @is_wider.shape
    def _(X: Spec) -> Spec:
        return X

    @is_wider.kernel
    def _(X: Array) -> Array:
        return X.astype("float64")

    try:
        yield
    finally:
        for name in ("lies_in_order", "lies_in_order_grad", "is_wider"):
            registry._OPS.pop(name)


@pytest.fixture(autouse=True)
def _checked(flags: Callable[..., None]) -> Iterator[None]:
    flags(check_buffers=True)
    with _declared():
        yield


def appended(type: str, x: Any, **attrs: Any) -> Any:
    block: Block = fluid.default_main_program().global_block()
    outs = {slot: block.create_var(shape=x.shape, dtype=x.dtype) for slot in registry.get(type).outputs}
    block.append_op(type, {"X": [x]}, {slot: [var] for slot, var in outs.items()}, attrs)
    return outs["Out"]


READERS: dict[str, Callable[[Any], Any]] = {
    "batch_norm": layers.batch_norm,
    "layer_norm": layers.layer_norm,
    "group_norm": lambda x: layers.group_norm(x, 2),
    "softmax": layers.softmax,
    "pool": lambda x: layers.pool2d(x, 2, "max"),
    "average_pool": lambda x: layers.pool2d(x, 2, "avg"),
    "conv": lambda x: layers.conv2d(x, 4, 3, act="relu"),
    "fc": lambda x: layers.fc(x, 3),
    "matmul": lambda x: layers.matmul(x, x, transpose_y=True),
    "loop": lambda x: layers.tanh(layers.scale(layers.relu(x), 2.0)),
    "sum": lambda x: layers.reduce_sum(x, dim=[1, 3]),
    "turned": lambda x: layers.relu(layers.transpose(x, [0, 2, 3, 1])),
    "cut": lambda x: layers.slice(x, [1, 2], [1, 1], [3, 3]),
    "resized": lambda x: layers.resize_bilinear(x, [7, 9]),
}
ORDERS = list(itertools.permutations(range(4)))


def _runs(program: Any, fetched: list[Any], feeds: list[dict[str, Any]], naive: bool) -> list[Any]:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    with fluid.scope_guard(fluid.Scope()):
        exe.run(fluid.default_startup_program())
        for number, var in enumerate(sorted(program.all_parameters(), key=lambda var: var.name)):
            value = np.random.RandomState(number).uniform(0.2, 0.9, var.shape).astype("float32")
            fluid.global_scope().find_var(var.name).get_tensor().set(value, fluid.CPUPlace())
        return [each for feed in feeds for each in exe.run(program, feed, fetched)]


def same_as_interpreter(fetched: list[Any], feeds: list[dict[str, Any]]) -> None:
    program = fluid.default_main_program()
    found, wanted = (_runs(program, fetched, feeds, naive) for naive in (False, True))
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def images(batch: int, order: tuple[int, ...]) -> dict[str, Any]:
    x = np.random.RandomState(batch).uniform(-1, 1, (batch, 4, 6, 5)).astype("float32")
    return {"x": x.transpose(order).copy().transpose(np.argsort(order))}


@pytest.mark.parametrize("loops", ["off", "wait"])
@pytest.mark.parametrize("reader", READERS)
def test_results_of_kernels(reader: str, loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    x = fluid.data("x", [-1, 4, 6, 5])
    x.stop_gradient = False
    y = READERS[reader](appended("lies_in_order", layers.scale(x, 1.5), order=[2, 3, 0, 1]))
    (d,) = fluid.gradients(layers.reduce_sum(y * y), [x])
    same_as_interpreter([y, d], [images(batch, (0, 1, 2, 3)) for batch in (3, 3, 2, 3)])


@pytest.mark.parametrize("reader", READERS)
def test_feeds(reader: str) -> None:
    y = READERS[reader](fluid.data("x", [-1, 4, 6, 5]))
    same_as_interpreter([y], [images(3, order) for order in ORDERS[::5]])


@settings(max_examples=30)
@given(st.sampled_from(ORDERS), st.lists(st.sampled_from(list(READERS)), min_size=1, max_size=2))
def test_orders(order: tuple[int, ...], readers: list[str]) -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [-1, 4, 6, 5])
        y = appended("lies_in_order", x, order=list(order))
        same_as_interpreter([READERS[name](y) for name in readers], [images(b, order) for b in (2, 2, 4)])


def test_products_of_three() -> None:
    x = fluid.data("x", [None, 8])
    same_as_interpreter(
        [layers.batch_norm(layers.bilinear_tensor_product(x, x, 3))],
        [{"x": np.random.RandomState(run).rand(4, 8).astype("float32")} for run in range(3)],
    )


@pytest.mark.parametrize("loops", ["off", "wait"])
def test_largest_of_whole_images_beside_sequences(loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    image, words = fluid.data("image", [None, 3, 5, 6]), fluid.data("words", [None, 5], lod_level=1)
    pooled = layers.pool2d(layers.conv2d(image, 4, 2), pool_type="max", global_pooling=True)
    loss = layers.mean(layers.concat([layers.sequence_pool(words, "average"), layers.flatten(pooled)], 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    place = fluid.CPUPlace()
    feed = {
        "image": np.random.RandomState(0).rand(3, 3, 5, 6).astype("float32"),
        "words": fluid.create_lod_tensor(np.ones((6, 5), "float32"), [[1, 2, 3]], place),
    }
    same_as_interpreter([loss, "conv2d_0.w_0", "conv2d_0.b_0"], [feed] * 3)


@pytest.mark.parametrize("loops", ["off", "wait"])
def test_what_loops_carry(loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    x = fluid.data("x", [4, 4])
    count = layers.fill_constant([1], "int64", 0)
    most = layers.fill_constant([1], "int64", 3)
    carried = layers.scale(x, 1.0)
    condition = layers.less_than(count, most)
    loop = layers.While(condition)
    with loop.block():
        layers.assign(layers.slice(layers.transpose(layers.tanh(carried), [1, 0]), [1], [0], [4]), carried)
        layers.increment(count)
        layers.less_than(count, most, cond=condition)
    chosen = layers.cond(
        layers.less_than(count, most), lambda: x, lambda: layers.transpose(layers.relu(carried), [1, 0])
    )
    same_as_interpreter(
        [layers.batch_norm(carried), layers.batch_norm(chosen)],
        [{"x": np.random.RandomState(run).rand(4, 4).astype("float32")} for run in range(3)],
    )


def test_recurrences_over_parts() -> None:
    x = fluid.data("x", [5, 6, 4])
    x.stop_gradient = False
    part = layers.slice(layers.transpose(layers.scale(x, 2.0), [1, 0, 2]), [1], [1], [4])
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(part)
        memory = rnn.memory(shape=[-1, 4], batch_ref=row)
        new = layers.batch_norm(row) + memory
        rnn.update_memory(memory, new)
        rnn.step_output(new)
    out = rnn()
    (d,) = fluid.gradients(layers.reduce_sum(out * out), [x])
    same_as_interpreter(
        [out, d], [{"x": np.random.RandomState(run).rand(5, 6, 4).astype("float32")} for run in range(2)]
    )


def test_check_names_op_and_line() -> None:
    out = appended("is_wider", fluid.data("x", [2, 3]))
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.ones((2, 3), "float32")}
    with pytest.raises(PlanError, match=r"op 'is_wider': .* is float64\[2, 3\], but .*\n.*test_order"):
        exe.run(feed=feed, fetch_list=[out])
    fluid.set_flags({"FLAGS_check_buffers": False})
    assert exe.run(feed=feed, fetch_list=[out])[0].dtype == np.float64


def test_masks_are_as_kernels_give_them() -> None:
    x = fluid.data("x", [2, 3, 4, 4])
    _, mask = layers.adaptive_pool2d(x, 2, "max", require_index=True)
    assert mask.dtype == VarType.FP32  # as 1.8.5 declares it
    same_as_interpreter([mask, layers.scale(mask, 2.0)], [{"x": np.ones((2, 3, 4, 4), "float32")}] * 2)
