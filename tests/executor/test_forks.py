"""The child of a fork runs programs, whatever the threads of its parent were doing at that moment."""

from __future__ import annotations

import ast
import os
import pathlib
import signal
import sys
import threading
import time

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import ReaderError
from fluidlite.base.forks import ChildRLock, child_lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

ROOT = pathlib.Path(fluid.__file__).parents[1]
CHILDREN = 12
SECONDS = 20


def in_fork(work):
    """The exit status of a child that calls `work`: 0 if it returns True, -SIGALRM if it hangs."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            os._exit(0 if work() else 3)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def small_model():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 1, 12, 12])
        hidden = fluid.layers.conv2d(x, 8, 3, act="relu")
        out = fluid.layers.softmax(fluid.layers.fc(hidden, 5))
    return main, startup, out


def test_children_run_while_a_thread_of_the_parent_runs():
    main, startup, out = small_model()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feed = {"x": np.random.RandomState(1).rand(3, 1, 12, 12).astype("float32")}

    def run():
        return exe.run(main, feed=feed, fetch_list=[out], scope=scope)[0]

    wanted = run()
    stop = threading.Event()

    def be_busy():
        while not stop.is_set():
            run()

    thread = threading.Thread(target=be_busy)
    thread.start()
    try:
        for _ in range(CHILDREN):
            time.sleep(0.005)
            assert in_fork(lambda: np.array_equal(run(), wanted)) == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("make", [child_lock, ChildRLock])
def test_locks_are_open_in_a_child(make):
    lock, held, leave = make(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def take():
        with lock:
            return True

    try:
        assert in_fork(take) == 0
    finally:
        leave.set()
        thread.join()
    assert take()


def test_a_reader_of_the_parent_is_an_error_in_a_child():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 2])
        loader = fluid.io.DataLoader.from_generator([x], capacity=2)
        go_on = threading.Event()

        def batches():
            yield [np.zeros([1, 2], "float32")]
            go_on.wait()
            yield [np.zeros([1, 2], "float32")]

        loader.set_batch_generator(batches, fluid.CPUPlace())
        batch = iter(loader)
        next(batch)

        def next_in_child():
            with pytest.raises(ReaderError, match="before the process was forked"):
                next(batch)
            return True

        try:
            assert in_fork(next_in_child) == 0
        finally:
            go_on.set()
        assert len(list(batch)) == 1


def plain_locks(path):
    """The lines at the top of a module, or in a function of a module, that make a lock of the process."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            text = ast.unparse(statement.value)
            if text.startswith(("threading.Lock(", "threading.RLock(", "threading.Condition(")):
                yield f"{path.relative_to(ROOT)}:{statement.lineno}"


def test_locks_of_the_process_have_a_story_for_forks():
    folders = [ROOT / "fluidlite", ROOT / "executor", ROOT / "transpiler"]
    found = [line for folder in folders for path in folder.rglob("*.py") for line in plain_locks(path)]
    assert found == []
