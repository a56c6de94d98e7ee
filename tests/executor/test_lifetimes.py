"""Programs, scopes and what executors made of them live as long as somebody holds them, and no longer."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base import cores
from fluidlite.base.cores import memory_limit

L = fluid.layers
ONES = np.ones((2, 3), "float32")


def dense(x: Any) -> Any:
    return L.mean(L.fc(x, 4, act="relu"))


def looping(x: Any) -> Any:
    count, limit = (L.fill_constant([1], "int64", number) for number in (0, 3))
    hidden = L.fc(x, 3)
    return L.mean(
        L.while_loop(lambda i, h: L.less_than(i, limit), lambda i, h: [i + 1, h * 2.0], [count, hidden])[1]
    )


def branching(x: Any) -> Any:
    loss = L.mean(L.fc(x, 4))
    zero = L.fill_constant([1], "float32", 0.0)
    return L.cond(L.greater_than(loss, zero), lambda: loss * 2.0, lambda: loss * 3.0)


def recurrent(x: Any) -> Any:
    rnn = L.StaticRNN()
    rows = L.reshape(x, [2, 1, 3])
    with rnn.step():
        now = rnn.step_input(rows)
        before = rnn.memory(shape=[-1, 3], batch_ref=now)
        rnn.update_memory(before, L.fc([now, before], 3))
        rnn.step_output(before)
    return L.mean(rnn())


def outside(x: Any) -> Any:
    out = L.create_parameter([2, 3], "float32", name="out")
    L.assign(
        L.py_func(
            lambda a: np.asarray(a) * 2,
            x,
            fluid.default_main_program().current_block().create_var(dtype="float32", shape=[2, 3]),
        ),
        out,
    )
    return L.mean(x)


NETWORKS: dict[str, Callable[[Any], Any]] = {
    "dense": dense,
    "loop": looping,
    "branch": branching,
    "recurrent": recurrent,
    "outside": outside,
}


class Made:
    """A network with a scope of its own, which has been trained for a step."""

    def __init__(self, exe: fluid.Executor, network: Callable[[Any], Any], scope: Any = None) -> None:
        self.scope = fluid.Scope() if scope is None else scope
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.loss = network(fluid.data("x", [None, 3], "float32"))
            if network is not outside:
                fluid.optimizer.Adam(0.1).minimize(self.loss)
        exe.run(self.startup, scope=self.scope)
        self.run(exe)

    def run(self, exe: fluid.Executor) -> None:
        exe.run(self.main, feed={"x": ONES}, fetch_list=[self.loss], scope=self.scope)

    def references(self) -> list[weakref.ref[Any]]:
        return [weakref.ref(thing) for thing in (self.main, self.startup, self.scope)]


@pytest.fixture(params=["plan", "naive"])
def exe(request: pytest.FixtureRequest) -> fluid.Executor:
    made = fluid.Executor(fluid.CPUPlace())
    made.naive = request.param == "naive"
    return made


def alive(references: list[weakref.ref[Any]]) -> list[Any]:
    gc.collect()
    return [found for reference in references if (found := reference()) is not None]


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_program_and_its_scope_end_with_their_last_holder(exe: fluid.Executor, network: Any) -> None:
    references = Made(exe, network).references()
    assert not alive(references)


def test_a_program_ends_before_its_scope(exe: fluid.Executor) -> None:
    scope = fluid.Scope()
    references = Made(exe, dense, scope).references()[:2]
    assert not alive(references)
    assert scope.find_var("fc_0.w_0").is_initialized()


def test_a_scope_ends_before_its_program(exe: fluid.Executor) -> None:
    made = Made(exe, dense)
    scope = weakref.ref(made.scope)
    array = weakref.ref(made.scope.find_var("fc_0.w_0").get_tensor())
    made.scope = fluid.Scope()
    assert not alive([scope, array])
    exe.run(made.startup, scope=made.scope)
    made.run(exe)


def test_an_executor_ends_before_program_and_scope() -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    made = Made(exe, dense)
    plans = [weakref.ref(bound) for bound in exe._plans.bounds()]
    assert plans
    del exe
    assert not alive(plans)
    made.run(fluid.Executor(fluid.CPUPlace()))


def test_an_executor_counts_no_plans_that_are_gone() -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    for _ in range(3):
        Made(exe, dense)
    gc.collect()
    assert not exe._plans
    made = Made(exe, dense)
    assert made.scope is not None
    assert len(exe._plans._families) == len(exe._plans._entries) == 1


def test_a_compiled_program_ends_with_its_last_holder() -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    made = Made(exe, dense)
    compiled = fluid.CompiledProgram(made.main).with_data_parallel(
        made.loss.name, places=[fluid.CPUPlace()] * 2
    )
    exe.run(compiled, feed={"x": ONES}, fetch_list=[made.loss], scope=made.scope)
    references = [*made.references(), weakref.ref(compiled)]
    del made, compiled
    assert not alive(references)


def test_programs_that_come_and_go_leave_memory_as_it_is() -> None:
    exe = fluid.Executor(fluid.CPUPlace())

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    for _ in range(5):
        Made(exe, dense)
    before = objects()
    for _ in range(100):
        Made(exe, dense)
    assert objects() - before < 200


def test_copies_of_a_program_have_none_of_its_plans() -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    made = Made(exe, dense)
    assert made.main.belongings
    assert not made.main.clone().belongings
    assert not copy.deepcopy(made.main.belongings)


# ------------------------------------------------------------------ the memory that there is
MACHINE = 2**62


@pytest.mark.parametrize(
    "lines, files, wanted",
    [
        ("0::/", {"memory.max": "1000\n"}, 1000),
        ("0::/a/b", {"a/memory.max": "3000\n", "a/b/memory.max": "max\n"}, 3000),
        ("0::/outside/of/it", {"memory.max": "2000\n"}, 2000),
        ("4:memory:/c\n0::/", {"memory/c/memory.limit_in_bytes": "500\n"}, 500),
        ("4:cpu:/c", {"memory/c/memory.limit_in_bytes": "500\n"}, MACHINE),
        ("0::/", {}, MACHINE),
    ],
)
def test_limits_of_control_groups_count(
    lines: str, files: dict[str, str], wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {**groups, "proc/self/cgroup": lines}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cores.os, "sysconf", lambda name: 2**31)
    assert memory_limit(tmp_path) == wanted
