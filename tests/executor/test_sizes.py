"""Plans for feeds of several sizes: how many are made, and that they equal the interpreter."""

from __future__ import annotations

import concurrent.futures
import gc
import operator
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluidlite as fluid
from fluidlite import layers
from fluidlite.executor import plan_cache
from fluidlite.executor.plan.sizes import SizeTable, about, plain, resolver
from fluidlite.executor.run import binding
from fluidlite.values.scope import Scope

SIZES = (7, 3, 16, 5, 64, 2, 33, 1, 0, 4)


# ---------------------------------------------------------------------- sizes
def test_a_size_is_computed_again() -> None:
    table = SizeTable([6])
    (n,) = table.inputs
    half = 1.0 / (n * 4 - 1)
    assert plain(half) == 1.0 / 23
    values = table.values_for([10])
    assert values is not None
    made = resolver((n, half, 5))
    assert made is not None and made(values) == (10, 1.0 / 39, 5)


def test_what_was_multiplied_is_found_again() -> None:
    (n, m) = SizeTable([6, 9]).inputs
    assert (n * m * 4) // (m * 2) is n * 2
    assert (n * 12) % 4 == 0 and (n * 7) // (n * 2) == 3 and (n * 7) % (n * 2) is n
    assert n * m is m * n


def test_an_answer_is_a_condition() -> None:
    table = SizeTable([6, 9])
    n, m = table.inputs
    assert n * 10 < 100 and n != m and n > 1 and -1 not in (n, m)
    assert table.values_for([9, 8]) is not None
    assert table.values_for([10, 9]) is None
    assert table.values_for([7, 7]) is None


def test_an_estimate_holds_for_sizes_that_are_not_far_away() -> None:
    table = SizeTable([32, 9])
    n, _ = table.inputs
    assert about(n * 3) == 96 and about(5) == 5
    assert table.values_for([2, 1000]) is not None and table.values_for([128, 2]) is not None
    assert table.values_for([129, 9]) is None
    (exact,) = SizeTable([32], is_exact=True).inputs
    assert about(exact) is exact


@pytest.mark.parametrize("use", [int, float, range, np.empty, np.asarray, repr, "{}".format, operator.index])
def test_a_plain_number_fixes_the_size(use: Callable[[Any], Any]) -> None:
    table = SizeTable([6])
    use(table.inputs[0])
    assert table.fixed() == {0}
    assert table.values_for([6]) is not None and table.values_for([7]) is None


def test_nothing_is_asked_of_a_plan_that_is_made() -> None:
    table = SizeTable([6])
    table.seal()
    with pytest.raises(AssertionError, match="after its plan was made"):
        int(table.inputs[0])


expressions = st.recursive(
    st.sampled_from(["n", "m", "2", "3", "5"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "/"]), inner).map(
        lambda parts: f"({' '.join(parts)})"
    ),
)


@given(expressions, st.integers(2, 40), st.integers(2, 40), st.integers(2, 40), st.integers(2, 40))
def test_sizes_are_numbers(text: str, n: int, m: int, other_n: int, other_m: int) -> None:
    table = SizeTable([n, m])
    code = compile(text, "text", "eval")
    try:
        wanted = eval(code, {"n": n, "m": m})
        other = eval(code, {"n": other_n, "m": other_m})
    except ZeroDivisionError:
        return
    found = eval(code, dict(zip("nm", table.inputs, strict=True)))
    assert plain(found) == wanted
    values = table.values_for([other_n, other_m])
    made = resolver(found)
    assert values is None or (made(values) if made else found) == pytest.approx(other)


# ---------------------------------------------------------------------- programs
def perceptron() -> Any:
    x = fluid.data("x", [None, 6])
    y = fluid.data("y", [None, 1], dtype="int64")
    hidden = layers.fc(x, 8, act="relu")
    hidden = layers.layer_norm(layers.fc(hidden, 8, act="gelu"))
    loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, 3), y))
    fluid.optimizer.Adam(0.01).minimize(loss)
    return loss


def perceptron_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {"x": rng.rand(size, 6).astype("float32"), "y": rng.randint(0, 3, (size, 1)).astype("int64")}


def convolution() -> Any:
    x = fluid.data("x", [None, 2, 8, 8])
    hidden = layers.batch_norm(layers.conv2d(x, 4, 3, padding=1), act="relu")
    hidden = layers.pool2d(hidden, 2, pool_stride=2)
    flat = layers.reshape(hidden, [-1, 64])
    loss = layers.mean(layers.square(layers.fc([flat, layers.tanh(flat)], 3)))
    fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)
    return loss


def convolution_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {"x": rng.rand(size, 2, 8, 8).astype("float32")}


def images() -> Any:
    x = fluid.data("x", [None, 2, None, None])
    hidden = layers.conv2d(x, 4, 3, padding=1, act="relu")
    kept = layers.pool2d(hidden, 3, pool_stride=2, pool_padding=1, pool_type="avg")
    hidden = layers.pool2d(layers.batch_norm(hidden), 2, pool_stride=2, ceil_mode=True)
    hidden = layers.conv2d(hidden, 4, 3, padding=1)
    heads = [layers.pool2d(each, 1, "avg", global_pooling=True) for each in (kept, hidden)]
    heads.append(layers.adaptive_pool2d(hidden, 2, "avg"))
    loss = layers.mean(layers.square(layers.scale(layers.fc(heads, 3), 0.1)))
    fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)
    return loss


def images_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {"x": rng.rand(2, 2, size + 4, 3 * size + 5).astype("float32")}


def attention() -> Any:
    x = fluid.data("x", [None, None, 8])
    heads = layers.transpose(layers.reshape(layers.fc(x, 8, num_flatten_dims=2), [0, 0, 2, 4]), [0, 2, 1, 3])
    weights = layers.softmax(layers.matmul(heads, heads, transpose_y=True, alpha=0.5))
    mixed = layers.transpose(layers.matmul(weights, heads), [0, 2, 1, 3])
    joined = layers.reshape(mixed, [0, 0, 8])
    loss = layers.reduce_mean(layers.square(layers.elementwise_add(x, joined)))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def attention_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {"x": rng.rand(size, 2 * size + 3 if size else 4, 8).astype("float32")}


def slots() -> Any:
    ids = [fluid.data(f"id{number}", [None, 1], dtype="int64") for number in range(4)]
    found = [layers.embedding(one, size=[20, 4], is_sparse=number % 2 == 0) for number, one in enumerate(ids)]
    rows = [layers.reshape(one, [-1, 4]) for one in found]
    left, right = layers.split(layers.concat(rows, axis=1), 2, dim=1)
    loss = layers.reduce_sum(layers.elementwise_mul(left, right))
    fluid.optimizer.Adagrad(0.1).minimize(loss)
    return loss


def slots_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {f"id{number}": rng.randint(0, 20, (size, 1)).astype("int64") for number in range(4)}


def loop() -> Any:
    x = fluid.data("x", [None, 4])
    step, count = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    going = layers.less_than(step, count)
    states = layers.array_write(layers.fc(x, 4), step)
    with layers.While(going).block():
        state = layers.tanh(layers.fc(layers.array_read(states, step), 4, param_attr="w"))
        layers.increment(step)
        layers.array_write(state, step, array=states)
        layers.less_than(step, count, cond=going)
    loss = layers.mean(layers.array_read(states, count))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def loop_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {"x": rng.rand(size, 4).astype("float32")}


def chain() -> Any:
    x = fluid.data("x", [None, 64, 64])
    hidden = x
    for _ in range(4):
        hidden = layers.tanh(layers.scale(hidden, 0.9, bias=0.1))
    hidden = layers.elementwise_add(hidden, layers.create_parameter([64], "float32", name="b"))
    loss = layers.mean(layers.relu(hidden))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def chain_feeds(rng: Any, size: int) -> dict[str, Any]:
    return {"x": rng.rand(size, 64, 64).astype("float32")}


PROGRAMS = {
    "perceptron": (perceptron, perceptron_feeds, 4),
    "convolution": (convolution, convolution_feeds, 5),
    "images": (images, images_feeds, 4),
    "attention": (attention, attention_feeds, 4),
    "slots": (slots, slots_feeds, 3),
    "loop": (loop, loop_feeds, 4),
    "chain": (chain, chain_feeds, 4),
}


class Side:
    """One of two executions of a program that start alike."""

    def __init__(self, start: dict[str, Any], naive: bool) -> None:
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.naive = naive
        self.exe.threads = 1  # with more, how a team shares the work depends on the size as well
        self.scope = Scope()
        for name, array in start.items():
            self.scope.var(name).get_tensor().set(array.copy(), fluid.CPUPlace())

    def run(self, loss: Any, feeds: dict[str, Any]) -> Any:
        return self.exe.run(feed=feeds, fetch_list=[loss], scope=self.scope)[0]

    def state(self) -> dict[str, Any]:
        return {name: np.array(held.get_tensor()) for name, held in self.scope.variables.items()}


def started() -> dict[str, Any]:
    scope = Scope()
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program(), scope=scope)
    return {name: np.array(held.get_tensor()) for name, held in scope.variables.items()}


def check(name: str, sizes: Iterable[int]) -> Side:
    build, feeds, _ = PROGRAMS[name]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    start = started()
    plan, naive = Side(start, False), Side(start, True)
    rng = np.random.RandomState(3)
    for size in sizes:
        fed = feeds(rng, size)
        np.testing.assert_allclose(plan.run(loss, fed), naive.run(loss, fed), rtol=2e-4, atol=1e-5)
    found = plan.state()
    for variable, wanted in naive.state().items():
        np.testing.assert_allclose(found[variable], wanted, rtol=2e-3, atol=2e-5, err_msg=variable)
    return plan


@pytest.mark.parametrize("loops", ["off", "wait"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sizes_equal_the_interpreter(name: str, loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    # nothing was dropped for want of memory, and at most a few plans serve all sizes
    plan = check(name, [size for size in SIZES if size])
    assert plan.exe._plans.made <= PROGRAMS[name][2]


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("name", ["perceptron", "slots"])
def test_empty_batches(name: str) -> None:
    build, feeds, _ = PROGRAMS[name]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    start = started()
    for size in (4, 0, 5):
        plan, naive = Side(start, False), Side(start, True)
        fed = feeds(np.random.RandomState(size), size)
        np.testing.assert_allclose(plan.run(loss, fed), naive.run(loss, fed), rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_that_are_not_far_away_have_one_plan(threads: int, flags: Callable[..., None]) -> None:
    flags(fast_loops="wait")
    loss = PROGRAMS["convolution"][0]()
    start = started()
    plan, naive = Side(start, False), Side(start, True)
    plan.exe.threads = threads
    for size in (12, 2, 5, 45):
        fed = convolution_feeds(np.random.RandomState(size), size)
        np.testing.assert_allclose(plan.run(loss, fed), naive.run(loss, fed), rtol=1e-4)
    assert plan.exe._plans.made == 1
    plan.run(loss, convolution_feeds(np.random.RandomState(0), 50))
    assert plan.exe._plans.made == 2


def test_arrays_that_outlive_a_step_have_one_plan() -> None:
    x = fluid.data("x", [3, None, 32])
    x.stop_gradient = False
    rnn = layers.StaticRNN()
    with rnn.step():
        memory = rnn.memory(
            shape=[-1, 32], batch_ref=x, init_value=0.0, init_batch_dim_idx=0, ref_batch_dim_idx=1
        )
        state = layers.tanh(layers.elementwise_add(rnn.step_input(x), memory))
        rnn.update_memory(memory, state)
        rnn.step_output(state)
    (grad,) = fluid.gradients(layers.mean(rnn()), x)
    plan, naive = fluid.Executor(fluid.CPUPlace()), fluid.Executor(fluid.CPUPlace())
    naive.naive = True
    # 4096 bytes are 32 rows
    for rows in (40, 8, 33, 31):
        feed = {"x": np.random.RandomState(rows).rand(3, rows, 32).astype("float32")}
        found, wanted = (exe.run(feed=feed, fetch_list=[grad])[0] for exe in (plan, naive))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert plan._plans.made == 1


def test_blocks_that_are_even_or_many_by_chance_have_one_plan() -> None:
    x = fluid.data("x", [None, 1024])
    x.stop_gradient = False
    out = layers.tanh(layers.scale(layers.tanh(x), 2.0))
    (grad,) = fluid.gradients(out, x)
    plan, naive = fluid.Executor(fluid.CPUPlace()), fluid.Executor(fluid.CPUPlace())
    naive.naive = True
    # blocks of 32 rows: an uneven number, an even one, and less than one block
    for rows in (70, 96, 33, 20):
        feed = {"x": np.random.RandomState(rows).rand(rows, 1024).astype("float32")}
        found, wanted = (exe.run(feed=feed, fetch_list=[grad])[0] for exe in (plan, naive))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert plan._plans.made == 1


def test_deterministic_steps_do_not_depend_on_those_before(flags: Callable[..., None]) -> None:
    flags(cpu_deterministic=True)
    loss = PROGRAMS["chain"][0]()
    start = started()
    fed = chain_feeds(np.random.RandomState(0), 40)
    alone, later = Side(start, False), Side(start, False)
    later.run(loss, chain_feeds(np.random.RandomState(1), 12))
    for name, array in start.items():
        later.scope.find_var(name).get_tensor().set(array.copy(), fluid.CPUPlace())
    np.testing.assert_array_equal(alone.run(loss, fed), later.run(loss, fed))


def test_one_plan_for_many_batch_sizes() -> None:
    plan = check("perceptron", [64, *range(9, 40)])
    assert plan.exe._plans.made == 1
    # one binding, whose pool has grown
    assert len(plan.exe._plans.bounds()) == 1


def pictures() -> Any:
    x = fluid.data("x", [None, 8, 16, 16])
    hidden = layers.relu(layers.elementwise_add(x, layers.tanh(layers.scale(x, 0.5))))
    bias = layers.create_parameter([8, 16, 16], "float32", name="b")
    pooled = layers.reduce_mean(layers.sigmoid(layers.elementwise_add(hidden, bias)), dim=[2, 3])
    gates = layers.fc(layers.fc(pooled, 8, act="relu"), 8, act="sigmoid")
    loss = layers.mean(layers.elementwise_mul(hidden, gates, axis=0))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def texts() -> Any:
    x = fluid.data("x", [None, 8, 4, 4])
    found = layers.im2sequence(x, filter_size=[4, 1])
    return layers.reduce_sum(layers.sequence_pool(layers.fc(found, 3), "max"))


def detections() -> Any:
    x = fluid.data("x", [None, 8, 4, 4])
    corners, scores = layers.reshape(x, [0, 32, 4]), layers.softmax(layers.reshape(x, [0, 4, 32]))
    return layers.reduce_sum(layers.multiclass_nms(corners, scores, 0.0, 8, 4))


@pytest.mark.parametrize("loops", ["off", "wait"])
@pytest.mark.parametrize(
    ("build", "shape", "size", "last"),
    [
        (pictures, (8, 16, 16), 32, 5),  # whole blocks of a loop, less than one in the last batch
        (pictures, (8, 16, 16), 8, 3),  # as large as a layer
        (texts, (8, 4, 4), 8, 3),  # more than pixels, and fewer
        (detections, (8, 4, 4), 8, 3),
        (chain, (64, 64), 24, 7),  # loops over rows
        (loop, (4,), 512, 40),  # states that are kept for the gradient, large and small
    ],
)
def test_a_short_last_batch_has_no_plan_of_its_own(
    build: Callable[[], Any],
    shape: tuple[int, ...],
    size: int,
    last: int,
    loops: str,
    flags: Callable[..., None],
) -> None:
    flags(fast_loops=loops)
    fluid.default_startup_program().random_seed = 7
    loss = build()
    start = started()
    plan, naive = Side(start, False), Side(start, True)
    for rows in (size, size, last, size):
        fed = {"x": np.random.RandomState(rows).rand(rows, *shape).astype("float32")}
        np.testing.assert_allclose(plan.run(loss, fed), naive.run(loss, fed), rtol=1e-4)
    assert plan.exe._plans.made == 1


@pytest.mark.parametrize("loops", ["off", "wait"])
def test_images_of_many_sizes_have_one_plan(loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    fluid.default_startup_program().random_seed = 7
    x = fluid.data("x", [None, 2, None, None])
    wide = layers.conv2d(x, 4, 3, padding=1, act="relu")
    small = layers.conv2d(layers.pool2d(wide, 2, pool_stride=2), 4, 3, padding=1)
    gate = layers.sigmoid(layers.adaptive_pool2d(small, 1, "avg"))
    grown = layers.resize_nearest(layers.tanh(layers.elementwise_mul(small, gate)), scale=2)
    loss = layers.mean(layers.square(layers.concat([grown, wide], axis=1)))
    fluid.optimizer.SGD(0.1).minimize(loss)
    start = started()
    plan, naive = Side(start, False), Side(start, True)
    # higher than wide and wider than high, less than a block of rows and more
    for shape in ((2, 2, 16, 24), (3, 2, 24, 16), (2, 2, 56, 64), (2, 2, 24, 24)):
        fed = {"x": np.random.RandomState(3).rand(*shape).astype("float32")}
        np.testing.assert_allclose(plan.run(loss, fed), naive.run(loss, fed), rtol=1e-4)
    assert plan.exe._plans.made == 1


def test_sizes_that_were_equal_by_chance() -> None:
    x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 3])
    out = layers.elementwise_add(layers.reduce_sum(x), layers.reduce_sum(y))
    exe = fluid.Executor(fluid.CPUPlace())
    for rows, others in ((4, 4), (5, 5), (5, 7), (6, 3), (8, 8)):
        feeds = {"x": np.ones((rows, 3), "float32"), "y": np.ones((others, 3), "float32")}
        assert exe.run(feed=feeds, fetch_list=[out])[0] == 3 * (rows + others)
    assert exe._plans.made == 2


def test_declared_sizes_that_differ() -> None:
    x = layers.data("x", [4, 3], append_batch_size=False)
    out = layers.reduce_sum(x, dim=1)
    exe = fluid.Executor(fluid.CPUPlace())
    for rows in (4, 5, 6, 7):
        (found,) = exe.run(feed={"x": np.ones((rows, 3), "float32")}, fetch_list=[out])
        np.testing.assert_array_equal(found, np.full(rows, 3, "float32"))
    assert exe._plans.made == 2


def test_plans_are_bounded_in_bytes() -> None:
    build, feeds, _ = PROGRAMS["chain"]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    side = Side(started(), False)
    rng = np.random.RandomState(0)
    first = side.run(loss, feeds(rng, 8))
    (held,) = side.exe._plans.bounds()
    side.exe._plans.max_bytes = held.nbytes
    extra = layers.scale(loss, 2.0)
    doubled = side.run(extra, feeds(rng, 8))
    assert held not in side.exe._plans.bounds() and len(side.exe._plans.bounds()) == 1
    assert np.isfinite(first).all() and np.isfinite(doubled).all()
    assert np.isfinite(side.run(loss, feeds(rng, 8))).all()


def test_without_general_plans_one_without_shapes_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MAX_FORMS", 3)
    build, feeds, _ = PROGRAMS["perceptron"]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    start = started()
    side, naive = Side(start, False), Side(start, True)
    side.exe._plans.general = False
    for size in range(2, 9):
        fed = feeds(np.random.RandomState(size), size)
        np.testing.assert_allclose(side.run(loss, fed), naive.run(loss, fed), rtol=1e-4)
    assert side.exe._plans.made == 4


def test_one_sample_at_a_time_of_any_length() -> None:
    x = fluid.data("x", [None, None, 4])
    scores = layers.softmax(layers.matmul(x, layers.fc(x, 4, num_flatten_dims=2), transpose_y=True))
    out = layers.reduce_mean(layers.matmul(scores, x), 1)
    side = Side(started(), False)
    for length in (9, 5, 12, 7, 10, 6, 11):
        side.run(out, {"x": np.ones((1, length, 4), "float32")})
    assert side.exe._plans.made == 1


def test_steps_of_sizes_that_are_dropped_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "MAX_STEPS", 2)
    build, feeds, _ = PROGRAMS["perceptron"]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    side = Side(started(), False)
    rng = np.random.RandomState(0)
    for size in (12, 11):
        side.run(loss, feeds(rng, size))
    (plan,) = side.exe._plans.bounds()
    gc.collect()
    gc.disable()
    try:
        step = weakref.ref(plan.step)
        for size in (10, 9):
            side.run(loss, feeds(rng, size))
        assert step() is None
        last = weakref.ref(plan.step)
        del plan
        side.exe._plans.clear()
        assert last() is None
    finally:
        gc.enable()


def test_who_makes_cycles_beside_new_sizes_gets_them_collected() -> None:
    build, feeds, _ = PROGRAMS["chain"]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    side = Side(started(), False)
    rng = np.random.RandomState(0)
    side.run(loss, feeds(rng, 8))
    collections = gc.get_stats()[1]["collections"]
    for size in range(9, 39):
        side.run(loss, feeds(rng, size))
        for _ in range(800):
            cycle: list[Any] = []
            cycle.append(cycle)
    assert gc.get_stats()[1]["collections"] > collections


def test_one_plan_without_shapes_outlives_the_forms_that_it_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MAX_FORMS", 2)
    monkeypatch.setattr(plan_cache, "MAX_ENTRIES", 4)
    build, feeds, _ = PROGRAMS["perceptron"]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    side = Side(started(), False)
    side.exe._plans.general = False
    for size in range(2, 16):
        side.run(loss, feeds(np.random.RandomState(size), size))
    assert side.exe._plans.made == 3


def test_parameters_that_are_replaced_between_sizes() -> None:
    x = fluid.data("x", [None, 3])
    out = layers.fc(x, 2, param_attr="w", bias_attr=False)
    side = Side(started(), False)
    for number, size in enumerate((4, 6, 4, 5, 6)):
        weight = np.full((3, 2), number, "float32")
        side.scope.find_var("w").get_tensor().set(weight, fluid.CPUPlace())
        found = side.run(out, {"x": np.ones((size, 3), "float32")})
        np.testing.assert_array_equal(found, np.full((size, 2), 3 * number, "float32"))


@pytest.mark.parametrize("name", ["attention", "slots"])
def test_threads_that_share_an_executor_feed_other_sizes(name: str, flags: Callable[..., None]) -> None:
    flags(fast_loops="wait")
    build, feeds, _ = PROGRAMS[name]
    fluid.default_startup_program().random_seed = 7
    loss = build()
    forward = fluid.default_main_program().clone(for_test=True)._prune([loss])
    start = started()
    side, naive = Side(start, False), Side(start, True)
    sizes = ((7, 3, 16, 5, 9), (12, 2, 33, 4, 7))
    fed = [[feeds(np.random.RandomState(size), size) for size in each] for each in sizes]

    def run(each: Side, given: dict[str, Any]) -> Any:
        return each.exe.run(forward, given, [loss], scope=each.scope)[0]

    def work(number: int) -> list[Any]:
        return [run(side, given) for _ in range(3) for given in fed[number]]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, range(2)))
    for number, each in enumerate(found):
        wanted = [run(naive, given) for given in fed[number]] * 3
        np.testing.assert_allclose(np.ravel(each), np.ravel(wanted), rtol=1e-4)
