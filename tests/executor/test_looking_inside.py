"""Looking inside a run: its memory, the op behind a NaN, and profiles of programs that are interpreted."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import FluidWarning, NanInfError
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.memory import MemoryUse
from fluidlite.transpiler.modes import make_job

Trained = tuple[fluid.Executor, Any]


@pytest.fixture
def trained() -> Trained:
    """An executor, and the loss of a network whose parameters are initialised."""
    x = fluid.data("x", [None, 4])
    hidden = fluid.layers.dropout(fluid.layers.fc(x, 64), 0.5)
    loss = fluid.layers.mean(fluid.layers.log(fluid.layers.square(fluid.layers.fc(hidden, 8)) + 1e-6))
    fluid.optimizer.Adam(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, loss


@pytest.fixture
def searching() -> Iterator[None]:
    fluid.set_flags({"FLAGS_find_nan_inf": True})
    yield
    fluid.set_flags({"FLAGS_find_nan_inf": False})


def values() -> dict[str, np.ndarray]:
    scope = fluid.global_scope()
    names = [var.name for var in fluid.default_main_program().list_vars() if var.persistable]
    return {name: np.array(scope.find_var(name).get_tensor()) for name in names}


# ---------------------------------------------------------------------- memory
def test_memory_names_the_largest_arrays_and_the_op_at_the_peak(trained: Trained) -> None:
    exe, loss = trained
    found = exe.memory(feed={"x": np.ones([512, 4], "float32")}, fetch_list=[loss], top=2)
    assert isinstance(found, MemoryUse)
    largest = found.buffers[0]
    assert largest.nbytes == 512 * 64 * 4 and largest.shape == (512, 64)
    assert __file__ in largest.where and __file__ in found.peak_where
    assert largest.nbytes <= found.peak_bytes <= found.pool_bytes
    assert found.peak_bytes <= sum(array.nbytes for array in found.buffers)
    assert found.persistable[0].nbytes == 64 * 8 * 4
    assert {"fc_0.w_0", "fc_1.w_0"} <= {array.variable for array in found.persistable}
    lines = str(found).splitlines()
    assert lines[0].startswith("peak: ") and sum(line.startswith("  ... and") for line in lines) == 2


def test_memory_grows_with_the_batch_and_runs_nothing(trained: Trained) -> None:
    exe, loss = trained
    before = values()
    sizes = [
        exe.memory(feed={"x": np.ones([rows, 4], "float32")}, fetch_list=[loss]).peak_bytes
        for rows in (64, 128, 512)
    ]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert all(np.array_equal(before[name], value) for name, value in values().items())


def test_compiled_programs_have_a_plan_for_each_device(trained: Trained) -> None:
    exe, loss = trained
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss.name)
    for look in (exe.memory, exe.explain):
        with pytest.raises(TypeError, match="not a CompiledProgram, whose devices have one plan each"):
            look(compiled, feed={"x": np.ones([2, 4], "float32")}, fetch_list=[loss])


def test_memory_of_a_program_without_ops() -> None:
    found = fluid.Executor(fluid.CPUPlace()).memory(fluid.Program())
    assert found.peak_bytes == 0 and found.buffers == ()


# ---------------------------------------------------------------------- plans
def test_a_plan_is_a_table_of_a_screen(trained: Trained) -> None:
    exe, loss = trained
    text = exe.explain(feed={"x": np.ones([512, 4], "float32")}, fetch_list=[loss])
    lines = text.splitlines()
    head = lines.index("op" + lines[3][2:])
    assert lines[head].split() == ["op", "kernel", "steps", "FLOPs", "bytes"]
    assert len(lines) < 30 and "def step(" not in text and "full=True" in lines[-1]
    rows = {tuple(re.split(r"  +", line)[:2]): re.split(r"  +", line) for line in lines[head + 1 :]}
    # both layers: 2 x 512 x (4 x 64 + 64 x 8)
    assert rows["mul", "BLAS dot"][2:4] == ["2", f"{2 * 512 * (4 * 64 + 64 * 8):,}"]
    # the gradient of the first layer's input is not needed
    assert rows["mul_grad", "BLAS dot"][2:4] == ["3", f"{2 * 512 * (4 * 64 + 2 * 64 * 8):,}"]
    assert "def step(" in exe.explain(feed={"x": np.ones([512, 4], "float32")}, fetch_list=[loss], full=True)


def test_a_notebook_shows_the_table(trained: Trained) -> None:
    exe, loss = trained
    found: Any = exe.explain(feed={"x": np.ones([8, 4], "float32")}, fetch_list=[loss])
    assert "<td" in found._repr_html_() and "BLAS dot" in found._repr_html_()


def test_convolutions_count_with_their_sizes() -> None:
    image = fluid.data("image", [None, 3, 8, 8])
    loss = fluid.layers.mean(fluid.layers.conv2d(image, 4, 3, bias_attr=False))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rows = exe.explain(feed={"image": np.ones([2, 3, 8, 8], "float32")}, fetch_list=[loss]).rows
    counts = {row.op: row.flops for row in rows if row.op.startswith("conv2d")}
    assert set(counts) == {"conv2d", "conv2d_grad"}
    assert set(counts.values()) == {2 * 2 * 4 * 6 * 6 * 3 * 3 * 3}


def test_loops_and_devices_have_tables() -> None:
    step, last = fluid.layers.fill_constant([1], "int64", 0), fluid.layers.fill_constant([1], "int64", 3)
    total = fluid.layers.fill_constant([4], "float32", 0)
    going = fluid.layers.less_than(step, last)
    with fluid.layers.While(going).block():
        fluid.layers.assign(total + 1.0, total)
        fluid.layers.increment(step)
        fluid.layers.less_than(step, last, cond=going)
    text = fluid.Executor(fluid.CPUPlace()).explain(fetch_list=[total])
    assert re.search(r"^while +loop +1", text, re.MULTILINE)


# ---------------------------------------------------------------------- NaN
def test_the_op_behind_a_nan_is_found(trained: Trained, searching: None) -> None:
    exe, loss = trained
    good, bad = np.ones([8, 4], "float32"), np.full([8, 4], np.nan, "float32")
    exe.run(feed={"x": good}, fetch_list=[loss])
    before = values()
    with pytest.raises(NanInfError, match=r"op 'mul': .*'fc_0.tmp_0'") as caught:
        exe.run(feed={"x": bad}, fetch_list=[loss])
    assert __file__ in str(caught.value)
    assert all(np.array_equal(before[name], value) for name, value in values().items())
    assert np.isfinite(exe.run(feed={"x": good}, fetch_list=[loss])[0]).all()


@pytest.mark.parametrize("mode", ["grad_allreduce", "pserver"])
def test_the_op_behind_a_nan_of_a_job_is_found(trained: Trained, searching: None, mode: str) -> None:
    """Ops that talk to others are left out of the search, and what needs their answers: they send once."""
    loss = trained[1]
    programs = fluid.default_main_program(), fluid.default_startup_program()
    job = make_job(*programs, mode, 1, 1)
    sent: list[str] = []

    def act(role: Any) -> str:
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()  # `scope_guard` is all threads'
        made, batch = job.programs(role), np.ones([8, 4], "float32")
        exe.run(made.startup, scope=scope)
        if not role.trains:
            exe.run(made.main, scope=scope)
            return ""
        exe.run(made.main, feed={"x": batch}, fetch_list=[loss.name], scope=scope)
        sent.append("once")
        try:
            exe.run(made.main, feed={"x": batch * np.nan}, fetch_list=[loss.name], scope=scope)
        except NanInfError as error:
            return str(error)
        finally:
            exe.close()
        return "nothing found"

    network = LocalNetwork()
    found = run_roles(network, [(role.name, functools.partial(act, role)) for role in job.roles])
    assert re.search(r"op 'mul': .*'fc_0.tmp_0'", found["trainer0"]) and sent == ["once"]


def test_a_search_changes_no_result(trained: Trained) -> None:
    exe, loss = trained
    feed = {"x": np.ones([8, 4], "float32")}
    before, found = values(), []
    for flag in (False, True):
        for name, value in before.items():
            fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
        exe.random = np.random.default_rng(3)
        exe._plans.clear()
        fluid.set_flags({"FLAGS_find_nan_inf": flag})
        found.append([exe.run(feed=feed, fetch_list=[loss])[0] for _ in range(3)])
    fluid.set_flags({"FLAGS_find_nan_inf": False})
    assert np.array_equal(*found)


def test_what_was_no_number_before_is_left_alone(searching: None) -> None:
    table = fluid.layers.create_global_var([2], float("inf"), "float32", persistable=True, name="table")
    out = fluid.layers.assign(fluid.data("x", [2]))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    assert exe.run(feed={"x": np.ones(2, "float32")}, fetch_list=[out])[0].tolist() == [1, 1]
    assert table.persistable


def test_a_nan_that_does_not_come_again_is_a_warning(
    trained: Trained, searching: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe, loss = trained
    monkeypatch.setattr(exe, "_run_plan", lambda *_: [np.array([np.nan])])
    with pytest.warns(FluidWarning, match="fetch 0 held a NaN .* but not when it was repeated"):
        exe.run(feed={"x": np.ones([8, 4], "float32")}, fetch_list=[loss])


# ---------------------------------------------------------------------- profiles
def test_interpreted_ops_are_counted(trained: Trained, tmp_path: pathlib.Path) -> None:
    exe, loss = trained
    exe.naive = True
    path = tmp_path / "trace.json"
    with fluid.profiler.profiler("CPU", "calls", str(tmp_path / "profile")) as profile:
        for _ in range(2):
            exe.run(feed={"x": np.ones([8, 4], "float32")}, fetch_list=[loss])
    profile.save_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    ops = fluid.default_main_program().global_block().ops
    assert len(events) == 2 * len(ops)
    assert [event["name"] for event in events[: len(ops)]] == [op.type for op in ops]


def profiled(work: Callable[[], None], tmp_path: pathlib.Path) -> fluid.profiler.Profile:
    with fluid.profiler.profiler("CPU", "total", str(tmp_path / "profile")) as found:
        work()
    return found


def rows_of(found: fluid.profiler.Profile) -> dict[str, Any]:
    return {row.name: row for row in found.rows()}


def adds_up(found: fluid.profiler.Profile) -> bool:
    return abs(sum(row.total for row in found.rows()) - found.wall) <= 0.05 * found.wall


@pytest.mark.parametrize("naive", [False, True])
def test_the_rows_of_a_profile_add_up(
    trained: Trained, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], naive: bool
) -> None:
    exe, loss = trained
    exe.naive = naive
    feed = {"x": np.ones([64, 4], "float32")}
    found = profiled(lambda: [exe.run(feed=feed, fetch_list=[loss]) for _ in range(30)] and None, tmp_path)
    rows = rows_of(found)
    assert adds_up(found) and {"mul", "feed", "fetch", "host", "outside"} <= rows.keys()
    assert rows["host"].calls == rows["fetch"].calls == 30 and rows["mul"].calls == 60
    assert naive or {"planning", "profiler"} <= rows.keys()
    # the rest is small: ops and named parts are most of the time
    named = sum(row.total for name, row in rows.items() if name not in ("host", "outside"))
    assert named > 0.5 * found.wall
    assert all(row.low <= row.median <= row.high for row in rows.values())
    said = capsys.readouterr().err
    assert "Median" in said and "sum of the rows" in said and said == f"{found}\n"


def test_rows_hold_the_time_where_it_was_spent(tmp_path: pathlib.Path) -> None:
    """An op, the program between the runs, and a reader that is slow, each 20 ms at a time."""

    def slow(x: Any) -> Any:
        time.sleep(0.02)
        return np.array(x)

    def batches() -> Iterator[Any]:
        for _ in range(3):
            time.sleep(0.02)
            yield [np.ones([2, 3], "float32")]

    x = fluid.data("x", [2, 3])
    out = fluid.default_main_program().current_block().create_var(name="out", shape=[2, 3], dtype="float32")
    fluid.layers.py_func(slow, x, out)
    loader = fluid.io.DataLoader.from_generator([x], capacity=1)
    loader.set_batch_generator(batches, places=fluid.cpu_places(1))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(feed={"x": np.ones([2, 3], "float32")}, fetch_list=[out])

    def work() -> None:
        for data in loader():
            exe.run(feed=data, fetch_list=[out])
            # the reader has the next batch ready when this is over
            time.sleep(0.04)

    found = profiled(work, tmp_path)
    rows = rows_of(found)
    assert adds_up(found)
    assert rows["py_func"].total >= 0.055 and rows["outside"].total >= 0.115
    assert rows["waiting"].total >= 0.015
    assert rows["host"].total < 0.5 * found.wall


def test_the_first_call_stands_apart() -> None:
    row = fluid.profiler.ProfileRow("mul", [1.0, 0.1, 0.3, 0.2])
    assert (row.first, row.median, round(row.mean, 6), row.low, row.high) == (1.0, 0.2, 0.2, 0.1, 0.3)
    assert row.calls == 4 and round(row.total, 6) == 1.6


@pytest.mark.parametrize("naive", [False, True])
def test_ops_in_a_loop_are_not_counted_twice(tmp_path: pathlib.Path, naive: bool) -> None:
    step, last = fluid.layers.fill_constant([1], "int64", 0), fluid.layers.fill_constant([1], "int64", 20)
    going = fluid.layers.less_than(step, last)
    with fluid.layers.While(going).block():
        fluid.layers.increment(step)
        fluid.layers.less_than(step, last, cond=going)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    found = profiled(lambda: exe.run(fetch_list=[step]) and None, tmp_path)
    assert adds_up(found) and rows_of(found)["increment"].calls == 20
