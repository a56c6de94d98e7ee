"""Plans with compiled loops: they compute what the interpreter does, and compile behind the program."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from test_plans import test_plan_equals_interpreter as plan_equals_interpreter
from test_tiles import SHAPE, chain, kept_relu, trained, two_means

import fluidlite as fluid
from fluidlite.executor.fast.loops import compiler
from fluidlite.executor.fast.loops.compiled import CompiledLoops
from fluidlite.executor.fast.loops.rows import CompiledRows
from fluidlite.executor.plan.actions import CompiledRun
from fluidlite.executor.plan.steps import flat
from fluidlite.executor.run import pending

layers = fluid.layers


@pytest.fixture(autouse=True)
def _wait(flags: Callable[..., None]) -> Iterator[None]:
    flags(fast_loops="wait")
    yield


@pytest.mark.parametrize(
    "name",
    ["activations_channels", "optimizer_adam", "optimizer_ftrl", "static_rnn", "v2_mlp_adamw", "decay_l2"],
)
def test_golden_programs(name: str) -> None:
    plan_equals_interpreter(name)


@pytest.mark.parametrize("build", [chain, two_means, kept_relu])
@pytest.mark.parametrize("special", [False, True])
def test_chains(build: Callable[[Any, Any], Any], special: bool) -> None:
    a = np.random.RandomState(3).randn(*SHAPE).astype("float32")
    if special:
        a[0, :4] = [np.nan, np.inf, -np.inf, 0.0]
    plan, naive = (trained(build, naive, {"a": a}) for naive in (False, True))
    for found, wanted in zip(plan[0], naive[0], strict=True):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(plan[1], naive[1], rtol=2e-5, atol=1e-6)


def test_fed_arrays_of_any_layout() -> None:
    # 12 steps: enough for a loop of small arrays
    x = fluid.data("x", [20, 30], "float32")
    y = x
    for _ in range(6):
        y = layers.scale(layers.tanh(y), 1.5)
    exe = fluid.Executor(fluid.CPUPlace())
    base = np.random.RandomState(0).randn(60, 20).astype("float32")
    for fed in (
        base.T[:, ::2],
        base[:20, :1] * np.ones((1, 30), "float32"),
        np.asfortranarray(base[:20].repeat(2, 1)[:, :30]),
    ):
        wanted = fed
        for _ in range(6):
            wanted = np.tanh(wanted) * np.float32(1.5)
        (found,) = exe.run(feed={"x": fed}, fetch_list=[y])
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def compiled_steps(exe: fluid.Executor) -> list[CompiledRun]:
    """The compiled loops of an executor's plans."""
    plans = [bound.plan.plan for bound in exe._plans.bounds()]
    return [
        step.action for plan in plans for step in flat(plan.steps) if isinstance(step.action, CompiledRun)
    ]


def test_updates_of_all_parameters_are_one_call(exe: fluid.Executor) -> None:
    x = fluid.data("x", [None, 40], "float32")
    hidden = layers.fc(layers.fc(layers.fc(x, 50, act="tanh"), 60, act="tanh"), 70)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(layers.mean(hidden))
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": np.ones((8, 40), "float32")}, fetch_list=[hidden])
    together = [step for step in compiled_steps(exe) if len(step.loops) > 1]
    assert [len(step.loops) for step in together] == [6]


def test_updates_with_rates_of_their_own_are_one_call(exe: fluid.Executor) -> None:
    x = fluid.data("x", [None, 40], "float32")
    hidden = layers.fc(layers.fc(layers.fc(x, 50, act="tanh"), 60, act="tanh"), 70)
    fluid.optimizer.Adam(0.1).minimize(layers.mean(hidden))
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": np.ones((8, 40), "float32")}, fetch_list=[hidden])
    assert [len(step.loops) for step in compiled_steps(exe) if len(step.loops) > 1] == [6]
    # until they are compiled, one function does for all
    (text,) = {bound.plan.text for bound in exe._plans.bounds() if "sqrt" in bound.plan.text}
    assert text.count("\ndef each(") == 1 and text.count("each(*row)") == 1


def test_gradients_are_not_kept_for_a_common_update(exe: fluid.Executor) -> None:
    ids = fluid.data("ids", [None, 1], "int64")
    found = [layers.embedding(ids, [2000, 8], is_sparse=True) for _ in range(4)]
    loss = layers.mean(layers.square(layers.concat(found, 1)))
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    feed = {"ids": np.arange(8, dtype="int64").reshape(8, 1)}
    exe.run(feed=feed, fetch_list=[loss])
    assert exe.memory(feed=feed, fetch_list=[loss]).pool_bytes < 4 * 2000 * 8 * 4


def test_updates_by_gradients_that_kernels_return(exe: fluid.Executor) -> None:
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    pooled = layers.sequence_pool(layers.embedding(words, [500, 40]), "sum")
    fluid.optimizer.Adam(0.1).minimize(layers.mean(layers.fc(pooled, 30, act="tanh")))
    exe.run(fluid.default_startup_program())
    feed = {"words": fluid.create_lod_tensor(np.arange(12).reshape(-1, 1), [[5, 7]], fluid.CPUPlace())}
    exe.run(feed=feed, fetch_list=[pooled])
    (updates,) = [step for step in compiled_steps(exe) if len(step.loops) > 1]
    assert len(updates.loops) == 3
    (loops,) = [
        thing
        for bound in exe._plans.bounds()
        for thing in bound.binding._names.values()
        if isinstance(thing, CompiledLoops) and thing.passing
    ]
    # what kernels returned is let go
    assert [loops.held[position] for position, _ in loops.passing] == [None] * 3


def test_off_makes_none(exe: fluid.Executor, flags: Callable[..., None]) -> None:
    flags(fast_loops="off")
    x = fluid.data("x", [64, 64], "float32")
    y = layers.tanh(layers.tanh(layers.tanh(layers.tanh(layers.tanh(x)))))
    exe.run(feed={"x": np.ones((64, 64), "float32")}, fetch_list=[y])
    assert not compiled_steps(exe)


def test_background_takes_over(exe: fluid.Executor, flags: Callable[..., None]) -> None:
    flags(fast_loops="background")
    x = fluid.data("x", [61, 67], "float32")
    y = layers.tanh(layers.scale(layers.tanh(layers.tanh(layers.tanh(x))), 1.75))
    feed = {"x": np.random.RandomState(0).randn(61, 67).astype("float32")}
    results = [exe.run(feed=feed, fetch_list=[y])[0] for _ in range(3)]
    (step,) = compiled_steps(exe)
    code = step.kernel.thing.arguments[0]
    # however fast the compiler was: not before the fourth run, and then for certain
    code.make()
    assert code.function is None
    results += [exe.run(feed=feed, fetch_list=[y])[0] for _ in range(2)]
    assert code.function is code.made
    for found in results[1:3]:
        np.testing.assert_array_equal(found, results[0])
    np.testing.assert_allclose(results[3], results[0], rtol=1e-5)
    np.testing.assert_array_equal(results[4], results[3])


def test_code_is_asked_for_though_no_batch_is_as_long_as_another(
    exe: fluid.Executor, flags: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags(fast_loops="background")
    compiler.LOOPS.known.clear()
    x = fluid.data("x", [-1, 12], "float32")
    # at the ends a softmax, which has a kernel of its own, and between them a loop
    y = layers.softmax(layers.scale(layers.tanh(layers.scale(layers.softmax(x), 2.5)), 3.25, 1.75))
    calls: list[int] = []
    softmax = CompiledRows.plain.func

    def counted(kernel: CompiledRows) -> Callable[..., None]:
        calls.append(exe._plans.bounds()[0].runs)
        return softmax(kernel)

    monkeypatch.setattr(CompiledRows, "plain", property(counted))
    for size in (5, 7, 6, 9, 4):
        a = np.random.RandomState(size).randn(size, 12).astype("float32")
        (found,) = exe.run(feed={"x": a}, fetch_list=[y])
        exe.naive = True
        np.testing.assert_allclose(found, exe.run(feed={"x": a}, fetch_list=[y])[0], rtol=2e-5, atol=1e-6)
        exe.naive = False
    assert exe._plans.made == 1
    # the fourth run takes into use what the second has asked for
    assert max(calls) <= 3
    loops = [
        thing for thing in exe._plans.bounds()[0].binding._names.values() if isinstance(thing, CompiledLoops)
    ]
    assert [loop.loop.function is not None for loop in loops] == [True]


def test_two_threads_begin_one_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.LOOPS, "_llvm", None)
    with ThreadPoolExecutor(4) as pool:
        found = {id(engine) for engine in pool.map(lambda _: compiler.LOOPS.llvm(), range(8))}
    assert len(found) == 1


def test_what_cannot_be_compiled_is_let_be() -> None:
    broken = compiler.LoopCode("broken", "define no such thing")
    pending.expect(broken)
    pending.settle()
    assert broken.function is None


# ---------------------------------------------------------------------- on disk
TEXT = (
    "define void @LOOP(i64 %first, i64 %last, ptr %arguments) {\n"
    "  store i64 VALUE, ptr %arguments\n  ret void\n}\n"
)


def value_of(number: int) -> int:
    """The number that a loop stores, compiled or read anew."""
    loop = compiler.LoopCode("x", TEXT.replace("@LOOP(", "@loop_x(").replace("VALUE", str(number)))
    loop.compile()
    place = np.zeros(1, np.int64)
    loop.function(0, 0, place.ctypes.data)
    return int(place[0])


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fluidlite" / "loops"


def test_code_is_kept_on_disk(folder: pathlib.Path) -> None:
    assert value_of(5) == 5
    (kept,) = folder.iterdir()
    before = kept.read_bytes()
    assert folder.stat().st_mode & 0o777 == 0o700 and not kept.stat().st_mode & 0o077
    assert value_of(5) == 5
    assert kept.read_bytes() == before
    assert value_of(6) == 6
    assert len(list(folder.iterdir())) == 2


def test_changed_files_are_not_loaded(folder: pathlib.Path) -> None:
    value_of(5)
    (kept,) = folder.iterdir()
    content = kept.read_bytes()
    value_of(6)
    (other,) = set(folder.iterdir()) - {kept}
    # cut off, changed, and the code of another loop under this one's name
    for wrong in (content[:50], content[:-1] + b"x", other.read_bytes()):
        kept.write_bytes(wrong)
        assert value_of(5) == 5
        assert kept.read_bytes() == content


def test_files_that_others_may_write_are_not_loaded(folder: pathlib.Path) -> None:
    value_of(5)
    (kept,) = folder.iterdir()
    kept.chmod(0o666)
    assert compiler._read(kept.name) is None
    kept.chmod(0o600)
    assert compiler._read(kept.name) is not None
    folder.chmod(0o777)
    assert compiler._read(kept.name) is None
    folder.chmod(0o700)
    link = folder / "link"
    link.symlink_to(kept)
    assert compiler._read("link") is None


def test_folder_that_cannot_be_made_is_done_without(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert value_of(5) == 5


_LATE = """
    import time
    from fluidlite.executor.fast.loops import compiler

    begin = compiler._Llvm.__init__

    def late(self):
        time.sleep(1)  # by then the process is ending
        begin(self)

    compiler._Llvm.__init__ = late
"""


@pytest.mark.parametrize("first", ["", _LATE], ids=["while it compiles", "before LLVM is imported"])
def test_process_that_ends_early_is_quiet(tmp_path: pathlib.Path, first: str) -> None:
    program = """
        import numpy as np
        import fluidlite as fluid

        x = fluid.data("x", [64, 64], "float32")
        y = x
        for _ in range(300):
            y = fluid.layers.tanh(fluid.layers.scale(y, 1.25))
        exe = fluid.Executor(fluid.CPUPlace())
        for _ in range(3):
            exe.run(feed={"x": np.ones((64, 64), "float32")}, fetch_list=[y])
    """
    env = {**os.environ, "FLAGS_fast_loops": "background", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(first) + textwrap.dedent(program)],
        env=env,
        capture_output=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_loops_are_bounded(exe: fluid.Executor) -> None:
    # the time of the compiler grows faster than the loop
    x = fluid.data("x", [3, 40], "float32")
    y = x
    for number in range(700):
        y = layers.scale(y, 1.0 + number * 1e-6)
    feed = {"x": np.ones((3, 40), "float32")}
    exe.run(feed=feed, fetch_list=[y])
    counts = [len(loop.run) for step in compiled_steps(exe) for loop in step.loops]
    assert sum(counts) == 700 and max(counts) <= 512


FORKS = """
import os
import numpy as np
import fluidlite as fluid

loss = fluid.layers.mean(fluid.layers.relu(fluid.layers.fc(fluid.data("x", [None, 64]), 64)))
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feed = {"x": np.ones([512, 64], "float32")}
before = exe.run(feed=feed, fetch_list=[loss])[0]
child = os.fork()
if not child:
    os._exit(0 if np.array_equal(exe.run(feed=feed, fetch_list=[loss])[0], before) else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_goes_on_with_compiled_loops() -> None:
    """Its copy of the compiler goes, and the code that it has made stays."""
    variables = {**os.environ, "FLAGS_fast_loops": "wait"}
    found = subprocess.run(
        [sys.executable, "-c", FORKS], env=variables, capture_output=True, text=True, check=True
    )
    assert found.stdout == "0\n"
