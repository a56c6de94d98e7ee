"""A process ends without a word, whatever outlives the modules: Python ends them in an order of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
import fluidlite as fluid

scope = fluid.Scope()  # it goes before the Executor, for that matters
x = fluid.data("x", [None, 2])
loss = fluid.layers.mean(fluid.layers.fc(x, 2))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
program, startup = fluid.default_main_program(), fluid.default_startup_program()
for current in (fluid.global_scope(), scope):
    with fluid.scope_guard(current):
        exe.run(startup)
        for rows in range(2, 8):  # plans for several sizes, too
            exe.run(feed={"x": np.ones((rows, 2), "f4")}, fetch_list=[loss])
        both = fluid.CompiledProgram(program).with_data_parallel(loss.name, places=[fluid.CPUPlace()] * 2)
        exe.run(both, feed={"x": np.ones((2, 2), "f4")}, fetch_list=[loss])
del current
sys.kept = eval(KEPT)
"""
KEPT = ["exe", "scope", "program", "(exe, scope)", "(scope, exe)", "(both, scope)", "loss", "lambda: 0"]


@pytest.mark.parametrize("kept", KEPT)
def test_nothing_is_said_at_exit(kept: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("KEPT", repr(kept))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
