"""Start-up: a program of one layer and its Executor open no room that they have no use for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import fluidlite as fluid
x = fluid.data("x", [None, 4])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
print(*sys.modules)
"""

# what starts late: communication and servers, other processes, reports, and libraries of other fields
LATE = """
fluidlite.executor.serving
fluidlite.executor.comm.ring_ops
fluidlite.executor.comm.parallel_ops
fluidlite.executor.comm.server_ops
fluidlite.executor.comm.server.loop
fluidlite.executor.comm.tcp
fluidlite.executor.comm.mpi
fluidlite.transpiler
fluidlite.saving.onnx
fluidlite.show
concurrent.futures
difflib
llvmlite
logging
mpi4py
numpy.random
onnx
scipy
shutil
statistics
subprocess
tempfile
uuid
"""


def test_what_a_program_has_no_use_for_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert sorted(set(LATE.split()) & set(done.stdout.split())) == []
