"""`Executor.run`'s contract, and what plans must never do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import FeedError, KernelError, NotFoundError, UninitializedError


def regression() -> tuple[Any, Any, Any]:
    x = fluid.data("x", [None, 3], "float32")
    y = fluid.data("y", [None, 1], "float32")
    loss = fluid.layers.mean(
        fluid.layers.square_error_cost(fluid.layers.fc(x, 1, param_attr="w", bias_attr="b"), y)
    )
    result = fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, loss, result


def batch(rows: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(seed)
    return {"x": rng.rand(rows, 3).astype("float32"), "y": rng.rand(rows, 1).astype("float32")}


def param(name: str = "w") -> np.ndarray:
    return np.array(fluid.global_scope().find_var(name).get_tensor())


def test_all_ops_run_whatever_is_fetched() -> None:
    exe, _, _ = regression()
    before = param()
    assert exe.run(feed=batch()) == []
    assert not np.array_equal(before, param())


def test_use_prune_runs_only_what_the_fetches_and_the_updates_need() -> None:
    exe, loss, result = regression()
    before = param()
    exe.run(
        feed=batch(),
        fetch_list=[loss, [op for op in result[0] if "w" not in op.output("ParamOut")]],
        use_prune=True,
    )
    assert np.array_equal(before, param())
    exe.run(
        feed=batch(), fetch_list=[loss], use_prune=True
    )  # without a word all updates are meant, as in 1.8.5
    assert not np.array_equal(before, param())


def test_fetch_list_takes_names_variables_and_what_minimize_returned() -> None:
    exe, loss, result = regression()
    by_name, by_variable = exe.run(feed=batch(), fetch_list=[loss.name, loss])
    assert by_name == by_variable
    before = param()
    found = exe.run(feed=batch(), fetch_list=[loss, result], use_prune=True)
    assert len(found) == 1
    assert not np.array_equal(before, param())


def test_fetched_values_stay_as_they_were() -> None:
    exe, loss, _ = regression()
    first, weight = exe.run(feed=batch(), fetch_list=[loss, "w"])
    kept, kept_weight = first.copy(), weight.copy()
    (tensor,) = exe.run(feed=batch(), fetch_list=[loss], return_numpy=False)
    held = np.array(tensor)
    exe.run(feed=batch(seed=1), fetch_list=[loss])
    assert (
        np.array_equal(first, kept)
        and np.array_equal(weight, kept_weight)
        and np.array_equal(np.array(tensor), held)
    )
    assert tensor.shape() == [1]


def test_fetching_a_parameter_gives_its_value_after_the_update() -> None:
    exe, _, _ = regression()
    (weight,) = exe.run(feed=batch(), fetch_list=["w"])
    assert np.array_equal(weight, param())


def test_feeds_are_not_changed() -> None:
    exe, loss, _ = regression()
    feed = batch()
    kept = {name: value.copy() for name, value in feed.items()}
    for _ in range(3):
        exe.run(feed=feed, fetch_list=[loss])
    assert all(np.array_equal(feed[name], kept[name]) for name in feed)


def test_plan_follows_a_parameter_that_is_set_from_outside() -> None:
    exe, loss, _ = regression()
    exe.run(feed=batch(), fetch_list=[loss])
    tensor = fluid.global_scope().find_var("w").get_tensor()
    tensor.set(np.zeros((3, 1), "float32"), fluid.CPUPlace())
    fluid.global_scope().find_var("b").get_tensor().set(np.zeros(1, "float32"), fluid.CPUPlace())
    (found,) = exe.run(feed=batch(), fetch_list=[loss])
    assert found[0] == pytest.approx(float(np.mean(batch()["y"] ** 2)), rel=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
def test_plan_writes_to_a_variable_in_whatever_order_its_elements_lie(order: Any) -> None:
    block = fluid.default_main_program().global_block()
    x, w = fluid.data("x", [2, 3, 4], "float32"), fluid.data("w", [4, 5], "float32")
    out = block.create_var(name="out", shape=[2, 3, 5], dtype="float32", persistable=True)
    block.append_op("mul", {"X": [x], "Y": [w]}, {"Out": [out]}, {"x_num_col_dims": 2})
    flat = fluid.layers.reshape(
        block.create_var(name="in", shape=[2, 3], dtype="float32", persistable=True), [6]
    )
    scope, exe = fluid.global_scope(), fluid.Executor(fluid.CPUPlace())
    scope.var("out").set(np.zeros((2, 3, 5), "float32", order=order))
    scope.var("in").set(np.zeros((2, 3), "float32", order=order))
    feed = {"x": np.ones((2, 3, 4), "float32"), "w": np.ones((4, 5), "float32")}
    exe.run(feed=feed, fetch_list=[flat])
    assert (param("out") == 4).all()
    scope.find_var("in").get_tensor().set(np.arange(6, dtype="float32").reshape(2, 3), fluid.CPUPlace())
    (found,) = exe.run(feed=feed, fetch_list=[flat])
    assert found.tolist() == [0, 1, 2, 3, 4, 5]


def test_plan_follows_edits_of_the_program() -> None:
    x = fluid.data("x", [None, 2], "float32")
    y = fluid.layers.scale(x, 2.0)
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.ones((1, 2), "float32")}
    assert exe.run(feed=feed, fetch_list=[y])[0][0, 0] == 2
    fluid.default_main_program().global_block().ops[-1]._set_attr("scale", 5.0)
    assert exe.run(feed=feed, fetch_list=[y])[0][0, 0] == 5


def test_batches_of_every_size() -> None:
    exe, loss, _ = regression()
    for rows in (1, 2, 3, 50, 2, *range(60, 85)):
        (found,) = exe.run(feed=batch(rows), fetch_list=[loss])
        assert np.isfinite(found).all()


def test_scopes_are_separate() -> None:
    exe, loss, _ = regression()
    other = fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=other)
    before = param()
    exe.run(feed=batch(), fetch_list=[loss], scope=other)
    assert np.array_equal(before, param())
    assert fluid.global_scope().find_var(loss.name) is None


def test_threads_share_a_program() -> None:
    x = fluid.data("x", [None, 400], "float32")
    out = fluid.layers.reduce_sum(fluid.layers.tanh(fluid.layers.fc(x, 300)), dim=1)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeds = [{"x": np.random.RandomState(i).rand(64, 400).astype("float32")} for i in range(4)]
    wanted = [exe.run(feed=feed, fetch_list=[out])[0] for feed in feeds]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(20):
            (found,) = exe.run(program, feed=feeds[index], fetch_list=[out], scope=scope)
            # of 300 numbers between -1 and 1 whose sum may be nearly 0: compiled loops differ by 3e-6
            if not np.allclose(found, wanted[index], rtol=1e-5, atol=2e-5):
                wrong.append(index)

    program, scope = fluid.default_main_program(), fluid.global_scope()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns every few lines."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_threads_share_an_executor_with_batches_of_all_sizes() -> None:
    x = fluid.data("x", [None, 4])
    doubled = fluid.layers.scale(x, 2.0)
    others = [fluid.layers.scale(doubled, float(factor)) for factor in range(30)]
    program, scope, exe = fluid.default_main_program(), fluid.global_scope(), fluid.Executor(fluid.CPUPlace())

    def work(seed: int) -> None:
        random = np.random.RandomState(seed)
        for other in [others[place] for place in random.permutation(90) % 30]:
            fed = random.rand(random.randint(1, 40), 4).astype("float32")
            _, found = exe.run(program, {"x": fed}, [other, doubled], scope=scope)
            np.testing.assert_array_equal(found, 2 * fed)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))


def test_explain_shows_the_plan_and_runs_nothing() -> None:
    exe, loss, _ = regression()
    before = param()
    text = exe.explain(feed=batch(), fetch_list=[loss], full=True)
    assert "def step(" in text and "dot(" in text and "buffers" in text and "test_executor.py" in text
    assert np.array_equal(before, param())


# ---------------------------------------------------------------------- bad input
def test_missing_feed_names_the_variable_and_the_line() -> None:
    exe, loss, _ = regression()
    with pytest.raises(UninitializedError, match=r"'x' holds no value: feed it[\s\S]*test_executor.py:\d+"):
        exe.run(feed={"y": batch()["y"]}, fetch_list=[loss])


def test_missing_startup_says_so() -> None:
    x = fluid.data("x", [None, 3], "float32")
    out = fluid.layers.fc(x, 2)
    with pytest.raises(UninitializedError, match="run the startup program"):
        fluid.Executor(fluid.CPUPlace()).run(feed={"x": batch()["x"]}, fetch_list=[out])


def test_unknown_names_suggest_the_nearest() -> None:
    exe, loss, _ = regression()
    with pytest.warns(UserWarning, match="The variable xs is not found in program.*"):
        exe.run(feed={**batch(), "xs": batch()["x"]}, fetch_list=[loss])
    with pytest.raises(NotFoundError, match="did you mean 'mean_0.tmp_0'"):
        exe.run(feed=batch(), fetch_list=["mean_0.tmp_1"])


@pytest.mark.parametrize(
    "value",
    [
        np.ones((4, 2), "float32"),
        np.ones((4, 3), "float64"),
        np.ones((4, 3, 1), "float32"),
        np.ones((4, 3), "int64"),
    ],
)
def test_fluid_data_checks_what_is_fed(value: np.ndarray) -> None:
    exe, loss, _ = regression()
    with pytest.raises(FeedError, match="'x'"):
        exe.run(feed={"x": value, "y": batch()["y"]}, fetch_list=[loss])


def test_ragged_lists_are_refused() -> None:
    exe, loss, _ = regression()
    with pytest.raises(FeedError):
        exe.run(feed={"x": [[1.0, 2.0, 3.0], [1.0]], "y": [[1.0], [2.0]]}, fetch_list=[loss])


def test_batches_that_do_not_match() -> None:
    exe, loss, _ = regression()
    with pytest.raises(Exception, match=r"elementwise_sub|square_error|do not match"):
        exe.run(feed={"x": batch(4)["x"], "y": batch(3)["y"]}, fetch_list=[loss])


def test_label_outside_the_classes() -> None:
    x = fluid.data("x", [None, 3], "float32")
    label = fluid.data("label", [None, 1], "int64")
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(x, label))
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(KernelError, match=r"label 7 is not one of 3 classes[\s\S]*test_executor.py"):
        exe.run(feed={"x": batch(2)["x"], "label": np.array([[0], [7]])}, fetch_list=[loss])


def test_id_outside_the_table() -> None:
    ids = fluid.data("ids", [None, 1], "int64")
    out = fluid.layers.embedding(ids, [10, 4])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    with pytest.raises(KernelError, match="id 12 is outside the table of 10 rows"):
        exe.run(feed={"ids": np.array([[3], [12]])}, fetch_list=[out])


def test_nan_is_named(flags: Callable[..., None]) -> None:
    x = fluid.data("x", [None, 2], "float32")
    out = fluid.layers.sqrt(fluid.layers.log(x))
    exe = fluid.Executor(fluid.CPUPlace())
    flags(check_nan_inf=True)
    with pytest.raises(fluid.core.EnforceNotMet, match=r"op 'log'[\s\S]*test_executor.py"):
        exe.run(feed={"x": -np.ones((1, 2), "float32")}, fetch_list=[out])


def test_closed_executor() -> None:
    exe, loss, _ = regression()
    exe.close()
    with pytest.raises(RuntimeError, match="closed"):
        exe.run(feed=batch(), fetch_list=[loss])


@pytest.mark.parametrize("bad", [3, object(), "text"])
def test_what_is_no_program(bad: Any) -> None:
    with pytest.raises(TypeError, match="Program"):
        fluid.Executor(fluid.CPUPlace()).run(bad)


def test_a_forked_process_has_a_team_of_its_own() -> None:
    x = fluid.data("x", [None, 600], "float32")
    out = fluid.layers.reduce_sum(fluid.layers.fc(x, 600))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((512, 600), "float32")}
    (wanted,) = exe.run(feed=feed, fetch_list=[out])
    code = (
        "import os, signal, numpy as np, fluidlite as fluid\n"
        "from fluidlite.executor.run.team import team_of\n"
        "found = []; team = team_of(2); team(found.append)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    signal.alarm(20); team(found.append); os._exit(0 if sorted(found) == [0, 0, 1, 1] else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=300).returncode == 0
    assert np.isfinite(wanted).all()
