"""One process of a job under mpirun: `mpiexec -n 4 python mpi_job.py MODE SERVERS [TRAINERS] [FATE]`. Rank
0 compares with one process.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import fluidlite as fluid
from fluidlite.transpiler import Programs, make_job
from fluidlite.transpiler.rings.reductions import Trainers, reduce_over_trainers

STEPS, ROWS = 4, 12


def build() -> tuple[fluid.Program, fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    constant = fluid.initializer.Constant
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 200]), fluid.data("y", [None, 1])
        hidden = fluid.layers.fc(
            x, 100, act="tanh", param_attr=fluid.ParamAttr("w", initializer=constant(0.02))
        )
        guess = fluid.layers.fc(hidden, 1, param_attr=fluid.ParamAttr("v", initializer=constant(0.1)))
        optimizer = fluid.optimizer.SGD(0.1) if sys.argv[1] == "local_sgd" else fluid.optimizer.Adam(0.01)
        optimizer.minimize(fluid.layers.mean(fluid.layers.square_error_cost(guess, y)))
    return main, startup


def batches(number: int, count: int) -> list[dict[str, Any]]:
    random = np.random.RandomState(0)
    whole = [
        {"x": random.randn(ROWS, 200).astype("float32"), "y": random.randn(ROWS, 1).astype("float32")}
        for _ in range(STEPS)
    ]
    return [
        {name: value[number * ROWS // count : (number + 1) * ROWS // count] for name, value in batch.items()}
        for batch in whole
    ]


def train(main: fluid.Program, startup: fluid.Program, feeds: list[dict[str, Any]]) -> list[Any]:
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    exe.run(startup, scope=scope)
    for feed in feeds:
        exe.run(main, feed=feed, scope=scope)
    exe.close()
    return [np.array(scope.find_var(name).get_tensor()) for name in ("w", "v")]


def reduced(programs: Programs, rank: int, count: int, group: int) -> fluid.Program:
    """The program that `CompiledProgram` runs of a job whose runtime reduces; its rings are joined."""
    fluid.Executor(fluid.CPUPlace()).run(programs.startup)
    found = reduce_over_trainers(programs.main, Trainers(rank, count, 2, group), bucket_bytes=1 << 14)
    fluid.Executor(fluid.CPUPlace()).run(found.startup)
    return found.main


def options(mode: str) -> tuple[str, fluid.DistributeTranspilerConfig]:
    """The mode that a word stands for, and how it is configured."""
    if mode == "buckets":
        return "grad_allreduce", fluid.DistributeTranspilerConfig.make(bucket_bytes=1 << 20)
    if mode.startswith("nccl2"):
        groups = (
            {"use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2}
            if mode == "nccl2_groups"
            else {}
        )
        return "nccl2", fluid.DistributeTranspilerConfig.make(nccl_comm_num=2, **groups)
    return mode, fluid.DistributeTranspilerConfig()


def main() -> None:
    mode, servers = sys.argv[1], int(sys.argv[2])
    fate = sys.argv.pop() if sys.argv[-1] in ("fewer", "broken") else ""  # of trainer 1
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    trainers = int(sys.argv[3]) if len(sys.argv) > 3 else size - servers
    program, startup = build()
    transpiled, config = options(mode)
    job = make_job(program, startup, transpiled, trainers, servers or trainers, config=config)
    role = job.roles[rank]
    programs = job.programs(role)
    if role.kind == "pserver":
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup)
        exe.run(programs.main)
        return
    if mode == "nccl2_compiled":
        fluid.Executor(fluid.CPUPlace()).run(programs.startup)
        strategy = fluid.BuildStrategy()
        strategy.num_trainers, strategy.trainer_id = trainers, rank
        loss = next(op for op in programs.main.global_block().ops if op.type == "mean").output("Out")[0]
        compiled: Any = fluid.CompiledProgram(programs.main).with_data_parallel(
            loss, strategy, places=[fluid.CPUPlace()]
        )
        programs = Programs(compiled, programs.startup)
    elif transpiled == "nccl2":
        programs = Programs(reduced(programs, rank, trainers, 2 * (mode == "nccl2_groups")), programs.startup)
    feeds = batches(role.index, trainers)
    if fate == "fewer" and role.index == 1:
        feeds = feeds[:2]
    if fate == "broken" and role.index == 1:
        feeds[2]["x"] = feeds[2]["x"][:, :7]
    found = train(programs.main, programs.startup, feeds)
    if rank == 0 and not fate:
        wanted = train(program, startup, batches(0, 1))
        worst = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, wanted, strict=True))
        print(f"largest relative difference from one process: {worst:.1e}")
        assert worst < 2e-5


if __name__ == "__main__":
    main()
