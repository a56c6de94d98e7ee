"""One process of a job under mpirun: `mpiexec -n 4 python -m mpi4py mpi_job.py MODE SERVERS`. Rank 0 compares with one process."""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import fluidlite as fluid
from fluidlite.transpiler import make_job

STEPS, ROWS = 4, 12


def build() -> tuple[fluid.Program, fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    constant = fluid.initializer.Constant
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 200]), fluid.data("y", [None, 1])
        hidden = fluid.layers.fc(x, 100, act="tanh", param_attr=fluid.ParamAttr("w", initializer=constant(0.02)))
        guess = fluid.layers.fc(hidden, 1, param_attr=fluid.ParamAttr("v", initializer=constant(0.1)))
        fluid.optimizer.Adam(0.01).minimize(fluid.layers.mean(fluid.layers.square_error_cost(guess, y)))
    return main, startup


def batches(number: int, count: int) -> list[dict[str, Any]]:
    random = np.random.RandomState(0)
    whole = [{"x": random.randn(ROWS, 200).astype("float32"), "y": random.randn(ROWS, 1).astype("float32")} for _ in range(STEPS)]
    return [{name: value[number * ROWS // count:(number + 1) * ROWS // count] for name, value in batch.items()} for batch in whole]


def train(main: fluid.Program, startup: fluid.Program, feeds: list[dict[str, Any]]) -> list[Any]:
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    exe.run(startup, scope=scope)
    for feed in feeds:
        exe.run(main, feed=feed, scope=scope)
    exe.close()
    return [np.array(scope.find_var(name).get_tensor()) for name in ("w", "v")]


def main() -> None:
    mode, servers = sys.argv[1], int(sys.argv[2])
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    trainers = int(sys.argv[3]) if len(sys.argv) > 3 else size - servers
    program, startup = build()
    job = make_job(program, startup, mode, trainers, servers or trainers)
    role = job.roles[rank]
    programs = job.programs(role)
    if role.kind == "pserver":
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup)
        exe.run(programs.main)
        return
    found = train(programs.main, programs.startup, batches(role.index, trainers))
    if rank == 0:
        wanted = train(program, startup, batches(0, 1))
        worst = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, wanted, strict=True))
        print(f"largest relative difference from one process: {worst:.1e}")
        assert worst < 2e-5


if __name__ == "__main__":
    main()
