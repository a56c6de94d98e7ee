"""One process of a job under mpirun that saves, and goes on: `mpiexec -n 3 python mpi_checkpoint_job.py
MODE SERVERS FOLDER`.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from checkpoint_job import batch, net
from mpi4py import MPI

import fluidlite as fluid
from fluidlite.distributed import load_checkpoint, save_checkpoint
from fluidlite.transpiler import make_job


def main() -> None:
    mode, servers, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    net()
    rank, trainers = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size - servers
    job = make_job(
        fluid.default_main_program(), fluid.default_startup_program(), mode, trainers, servers or trainers
    )
    programs, exe = job.programs(job.roles[rank]), fluid.Executor(fluid.CPUPlace())
    exe.run(programs.startup)
    found = load_checkpoint(exe, folder, programs.main)
    if job.roles[rank].kind == "pserver":
        exe.run(programs.main)
        return
    for step in range(found.step if found else 0, 5):
        exe.run(programs.main, feed=batch(step, rank))
        if step + 1 == 2 and found is None:
            save_checkpoint(exe, folder, programs.main, 2)
    exe.close()
    scope, end = fluid.global_scope(), folder / f"end_{rank}.npz"
    values = {
        name: np.array(scope.find_var(name).get_tensor())
        for name in ("w", "v", "batch_norm_0.w_1", "batch_norm_0.w_2")
    }
    if found is None:
        np.savez(end, **values)
    else:
        with np.load(end) as wanted:
            assert all(np.array_equal(values[name], wanted[name]) for name in values)
        print(f"{rank} has gone on from step {found.step}")


if __name__ == "__main__":
    main()
