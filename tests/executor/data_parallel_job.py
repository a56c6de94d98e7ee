"""One process of a job whose processes have two devices each: `mpiexec -n 2 python data_parallel_job.py`;
says how far it is off.
"""

from __future__ import annotations

from typing import Any

import data_parallel_programs as programs
import numpy as np
from mpi4py import MPI

import fluidlite as fluid

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
random = np.random.default_rng(1)
FEED = {
    "x": random.standard_normal((12, 5)).astype("float32"),
    "y": random.standard_normal((12, 1)).astype("float32"),
}


def train(name: str, feed: dict[str, Any], processes: int) -> dict[str, Any]:
    """The variables after three steps."""
    main, startup, loss, _ = programs.build(fluid, next(case for case in programs.CASES if case.name == name))
    exe, scope, strategy = fluid.Executor(fluid.CPUPlace()), fluid.Scope(), fluid.BuildStrategy()
    exe.run(startup, scope=scope)
    programs.initialise(fluid, main, scope)
    strategy.num_trainers, strategy.trainer_id = processes, RANK if processes > 1 else 0
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, strategy, places=fluid.cpu_places(2 if processes > 1 else 1)
    )
    for _ in range(3):
        exe.run(compiled, feed=feed, scope=scope)
    return {name: np.array(scope.find_var(name).get_tensor()) for name in scope.local_var_names()}


share = {name: value[RANK * 12 // SIZE : (RANK + 1) * 12 // SIZE] for name, value in FEED.items()}
for program in ("sgd", "global_norm"):
    alone, together = train(program, FEED, 1), train(program, share, SIZE)
    difference = max(np.abs(together[name] - value).max() for name, value in alone.items())
    assert difference < 1e-5, f"{program}: {difference}"
print(f"process {RANK} agrees", flush=True)
