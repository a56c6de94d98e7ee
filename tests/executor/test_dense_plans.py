"""Plans of dense programs against the naive interpreter: attention, cut and joined arrays, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import fluidlite as fluid
from fluidlite import layers
from fluidlite.executor.passes.place_buffers import layout_of
from fluidlite.executor.plan.actions import Bound, Call, Out
from fluidlite.executor.plan.objects import PlanObject
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value, ValueFactory
from fluidlite.executor.run.draws import KeptMask
from fluidlite.executor.run.functions import Erf

SHAPE = [3, 5, 12]


def attention(x: Any, packed: bool, drop: float = 0.0) -> Any:
    """One layer of attention with two heads, from one product or from three."""
    width = x.shape[-1]

    def heads(value: Any) -> Any:
        return layers.transpose(layers.reshape(value, [0, 0, 2, width // 2]), [0, 2, 1, 3])

    if packed:
        parts = layers.split(layers.fc(x, 3 * width, num_flatten_dims=2), 3, dim=2)
    else:
        parts = [layers.fc(x, width, num_flatten_dims=2) for _ in range(3)]
    q, k, v = map(heads, parts)
    weights = layers.softmax(layers.matmul(q, k, transpose_y=True, alpha=0.4))
    if drop:
        weights = layers.dropout(weights, drop, dropout_implementation="upscale_in_train")
    mixed = layers.transpose(layers.matmul(weights, v), [0, 2, 1, 3])
    found = layers.fc(layers.reshape(mixed, [0, 0, width]), width, num_flatten_dims=2)
    return layers.layer_norm(layers.elementwise_add(x, found), begin_norm_axis=2)


def cut_and_joined(x: Any) -> Any:
    parts = layers.unstack(x, axis=1)
    stacked = layers.stack([parts[3], parts[0]], axis=2)
    sliced = layers.slice(x, axes=[1, 2], starts=[1, -7], ends=[100, -1])
    first, second = layers.split(x, [5, -1], dim=-1)
    joined = layers.concat([second, layers.transpose(first, [0, 1, 2])], axis=2)
    parts = [stacked, joined, sliced, layers.slice(sliced, axes=[2], starts=[0], ends=[1])]
    return layers.concat([layers.reshape(part, [3, -1]) for part in parts], axis=1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "attention of one product": lambda x: attention(x, packed=True),
    "attention of three products": lambda x: attention(x, packed=False),
    "attention with dropout": lambda x: attention(x, packed=False, drop=0.3),
    "cut and joined": lambda x: cut_and_joined(layers.fc(x, 12, num_flatten_dims=2)),
    "gelu": lambda x: layers.gelu(layers.fc(x, 700, num_flatten_dims=2)),
    "gelu by tanh": lambda x: layers.gelu(layers.fc(x, 7, num_flatten_dims=2), approximate=True),
    "erf": lambda x: layers.erf(layers.fc(x, 7, num_flatten_dims=2)),
    "layer_norm of many rows": lambda x: layers.layer_norm(
        layers.expand(layers.fc(x, 40, num_flatten_dims=2), [60, 3, 1]), begin_norm_axis=2
    ),
    "layer_norm without factors": lambda x: layers.layer_norm(
        layers.fc(x, 7, num_flatten_dims=2), scale=False, shift=False, begin_norm_axis=1
    ),
    "softmax of many rows": lambda x: layers.softmax(
        layers.expand(layers.fc(x, 41, num_flatten_dims=2), [50, 3, 1])
    ),
    "a product of few rows": lambda x: layers.fc(layers.fc(x, 33), 40_001, act="tanh"),
    "a stack by one matrix": lambda x: layers.matmul(x, layers.create_parameter([12, 4], "float32")),
    "rows of a transposed slice": lambda x: layers.matmul(
        layers.transpose(layers.slice(layers.fc(x, 6, num_flatten_dims=2), [2], [1], [5]), [0, 2, 1]),
        layers.fc(x, 3, num_flatten_dims=2),
    ),
}


def steps_of(build: Callable[[Any], Any], optimizer: Any, naive: bool, shape: list[int]) -> list[Any]:
    """Fetches and parameters after a few steps."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", shape, "float32")
        x.stop_gradient = False
        loss = layers.mean(layers.square(build(x)))
        optimizer().minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    scope = fluid.Scope()
    random = np.random.default_rng(3)
    exe.run(startup, scope=scope)
    exe.naive = naive
    found = []
    for _ in range(3):
        feed = {"x": random.standard_normal(shape).astype("float32")}
        found += exe.run(main, feed=feed, fetch_list=[loss, "x@GRAD"], scope=scope)
    names = sorted(variable.name for variable in main.list_vars() if variable.persistable)
    return found + [np.asarray(scope.find_var(name).get_tensor()) for name in names]


def assert_alike(build: Callable[[Any], Any], optimizer: Any, shape: list[int]) -> None:
    """The plan's numbers are the interpreter's, up to the order of sums."""
    planned, wanted = (steps_of(build, optimizer, naive, shape) for naive in (False, True))
    for found, expected in zip(planned, wanted, strict=True):
        assert found.shape == expected.shape and found.dtype == expected.dtype
        largest = float(np.abs(expected).max(initial=0))
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5 * largest + 1e-7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_plan_equals_interpreter(name: str) -> None:
    assert_alike(PROGRAMS[name], lambda: fluid.optimizer.SGD(0.1), SHAPE)


@pytest.mark.parametrize("shape", [[2, 3, 4, 5], [4, 6, 7], [3, 5, 1, 1]])
def test_fed_images_are_normalised_as_they_lie(shape: list[int]) -> None:
    found: list[Any] = []
    copies: list[str] = []
    for naive in (True, False):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            out = layers.relu(layers.batch_norm(fluid.data("x", shape), is_test=True))
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        random = np.random.default_rng(3)
        for name in [one.name for one in main.list_vars() if one.persistable]:
            kept = scope.find_var(name).get_tensor()
            kept.set(random.uniform(0.5, 2, kept.shape()).astype("float32"), fluid.CPUPlace())
        feed = {"x": random.standard_normal(shape).astype("float32")}
        exe.naive = naive
        found += exe.run(main, feed=feed, fetch_list=[out], scope=scope)
        copies = [
            line
            for line in exe.explain(main, feed, [out], scope, full=True).splitlines()
            if "copyto(" in line
        ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert not copies


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "lars": lambda: fluid.optimizer.LarsMomentum(0.1, 0.9),
    "lamb": lambda: fluid.optimizer.Lamb(0.1),
    "dpsgd": lambda: fluid.optimizer.Dpsgd(0.1, clip=0.5, sigma=0.0),
    "centred rmsprop": lambda: fluid.optimizer.RMSProp(0.01, centered=True, momentum=0.5),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1, l1=0.01, l2=0.01),
    "adam": lambda: fluid.optimizer.Adam(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_equal_the_interpreters(name: str) -> None:
    assert_alike(lambda x: layers.fc(x, 70, num_flatten_dims=2, act="elu"), OPTIMIZERS[name], [90, 20, 70])


def test_erf_is_as_exact_as_stated() -> None:
    x = np.concatenate([np.linspace(-6, 6, 100_001), np.geomspace(1e-37, 1e37, 1001), [0.0, np.inf]])
    x = x.astype("float32")
    found = np.empty_like(x)
    with np.errstate(all="ignore"):
        Erf(np)(x, found)
    wanted = special.erf(x.astype("float64"))
    assert np.abs(found - wanted).max() < 1.8e-7
    assert (np.abs(found - wanted) <= 2.8e-7 * np.abs(wanted)).all()
    found = np.full_like(x, np.nan)
    Erf(np)(found, found)
    assert np.isnan(found).all()


def numbers_drawn(count: int, threads: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """The mask of one draw, and what the source gives next."""
    found = np.empty(count, bool)
    KeptMask(np, random, count, 0.4, None, threads)(found)
    return np.append(found, random.random(3, dtype="float32"))


@pytest.mark.parametrize("count", [1 << 17, (1 << 17) + 1, 1 << 18, 7])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_team_draws_what_one_thread_would(count: int, before: int) -> None:
    sources = [np.random.default_rng(9) for _ in range(3)]
    for source in sources:
        source.random(before, dtype="float32")
    expected = sources[0].random(count, dtype="float32") >= np.float32(0.4)
    wanted = np.append(expected, sources[0].random(3, dtype="float32"))
    for threads, source in zip((1, 3), sources[1:], strict=True):
        np.testing.assert_array_equal(numbers_drawn(count, threads, source), wanted)


def test_plans_draw_what_the_interpreter_draws() -> None:
    x = fluid.data("x", [400, 500], "float32")
    x.stop_gradient = False
    kinds = ("upscale_in_train", "downgrade_in_infer")
    dropped = [layers.dropout(x, 0.3, dropout_implementation=kind) for kind in kinds]
    dropped += [layers.dropout(x, 0.3, seed=4), layers.dropout(x, 1.0), layers.dropout(x, 0.3, is_test=True)]
    gradient = fluid.gradients(layers.reduce_sum(layers.square(layers.sums(dropped))), x)
    feed = {"x": np.random.default_rng(0).standard_normal((400, 500)).astype("float32")}
    found = []
    for naive in (False, True):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        exe.random = np.random.default_rng(11)
        found.append([exe.run(feed=feed, fetch_list=[*dropped, *gradient]) for _ in range(2)])
    for planned, wanted in zip(*found, strict=True):
        for one, other in zip(planned, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_pool_is_hardly_larger_than_what_is_in_use_at_once() -> None:
    values = ValueFactory()
    feed = values.make((4,), "float32", Storage.FEED)
    random = np.random.default_rng(2)
    alive: list[Value] = []
    steps = []
    for _ in range(300):
        out = values.make((int(random.integers(1, 5000)),), "float32", Storage.BUFFER)
        reads = [alive.pop(int(random.integers(len(alive))))] if len(alive) > 12 else [feed]
        steps.append(Step(None, Call(Bound("opaque", PlanObject()), (*reads, Out(out)))))
        alive.append(out)
    layout = layout_of(steps, alive)
    assert layout.live_bytes <= layout.pool_bytes <= 1.2 * layout.live_bytes


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("loops", ["off", "wait"])
@pytest.mark.parametrize("shared", [False, True])
def test_decay_of_a_table_of_which_a_batch_has_some_rows(
    shared: bool, loops: str, threads: int, flags: Callable[..., None]
) -> None:
    flags(fast_loops=loops)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [-1, 4], "int64")
        looked_up = fluid.embedding(ids, [500, 33], is_sparse=True, param_attr="table")
        if shared:
            other = fluid.embedding(layers.slice(ids, [1], [0], [2]), [500, 33], True, param_attr="table")
            looked_up = layers.concat([looked_up, other], axis=1)
        loss = layers.mean(layers.square(looked_up))
        decay = fluid.regularizer.L2Decay(0.01)
        fluid.optimizer.Momentum(0.5, 0.9, regularization=decay).minimize(loss)
    random = np.random.RandomState(0)
    batches = [{"ids": random.randint(0, 500, (90, 4))} for _ in range(5)]
    tables = []
    for naive in (True, False):
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.naive, exe.threads = naive, threads
        exe.run(startup, scope=scope)
        for batch in batches:
            exe.run(main, feed=batch, fetch_list=[loss], scope=scope)
        tables.append(np.array(scope.find_var("table").get_tensor()))
    np.testing.assert_allclose(*tables, rtol=1e-5, atol=1e-7)
    assert "added_rows" in exe.explain(main, batches[0], [loss], scope, full=True)


@pytest.mark.parametrize("is_custom", [False, True])
def test_a_tree_of_classes_copies_no_table(is_custom: bool) -> None:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = fluid.data("x", [-1, 8], "float32"), fluid.data("label", [-1, 1], "int64")
        table, code = (fluid.data(name, [-1, 3], "int64") for name in ("table", "code"))
        tree = {"path_table": table, "path_code": code, "is_custom": True} if is_custom else {}
        loss = layers.mean(layers.hsigmoid(x, label, 7, param_attr="W", bias_attr="b", **tree))
        fluid.optimizer.SGD(0.5).minimize(loss)
    random = np.random.RandomState(0)
    fed: dict[str, Any] = {
        "x": random.rand(20, 8).astype("float32"),
        "label": random.randint(0, 7, (20, 1)),
        "table": random.randint(-1, 7, (20, 3)),
        "code": random.randint(0, 2, (20, 3)),
    }
    if not is_custom:
        fed = {name: fed[name] for name in ("x", "label")}
    tables = []
    for naive in (True, False):
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.naive = naive
        exe.run(startup, scope=scope)
        for _ in range(5):
            exe.run(main, feed=fed, fetch_list=[loss], scope=scope)
        tables.append(np.array(scope.find_var("W").get_tensor()))
    np.testing.assert_allclose(*tables, rtol=1e-5, atol=1e-7)
    text = exe.explain(main, feed=fed, fetch_list=[loss], scope=scope, full=True)
    assert "copyto(W" not in text and "hierarchical_sigmoid x" not in text


@pytest.mark.parametrize(("power", "function"), [(-0.5, "sqrt("), (-0.4, "power(")])
def test_ftrl_takes_roots_where_its_power_is_one(power: float, function: str) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [4, 8], "float32")
        loss = layers.mean(layers.fc(x, 3))
        fluid.optimizer.Ftrl(0.1, lr_power=power).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    text = exe.explain(main, feed={"x": np.ones((4, 8), "float32")}, fetch_list=[loss], full=True)
    assert [name for name in ("sqrt(", "power(") if name in text] == [function]


@pytest.mark.parametrize(("x", "y"), [((1, 1), (1, 3)), ((3, 1), (1, 1)), ((1, 2), (2, 1)), ((2, 3), (3, 2))])
@pytest.mark.parametrize("naive", [False, True])
def test_zero_times_infinity_in_products(x: Any, y: Any, naive: bool) -> None:
    """BLAS skips a factor of 0 where one matrix has a single element."""
    left, right = fluid.data("left", list(x)), fluid.data("right", list(y))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    for zeros, others in (("left", "right"), ("right", "left")):
        shapes = {"left": x, "right": y}
        feed = {zeros: np.zeros(shapes[zeros], "float32"), others: np.full(shapes[others], np.inf, "float32")}
        with np.errstate(invalid="ignore"):
            (found,) = exe.run(feed=feed, fetch_list=[layers.mul(left, right)])
        assert np.isnan(found).all()
