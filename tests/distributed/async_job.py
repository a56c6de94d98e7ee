"""One process of an asynchronous job with communicators: click-through rates from a table on two servers;
prints its losses as JSON.

ROLE=PSERVER ENDPOINT=127.0.0.1:6174 ENDPOINTS=... TRAINERS=2 MODE=geo python async_job.py
ROLE=TRAINER TRAINER_ID=0            ENDPOINTS=... TRAINERS=2 MODE=geo python async_job.py
MODE=geo mpiexec -n 4 python async_job.py               two trainers and two servers
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.communicator import Communicator
from fluidlite.transpiler.distribute_transpiler import DistributedMode
from fluidlite.transpiler.geo_sgd_transpiler import GeoSgdTranspiler

STEPS, ROWS, TABLE = 60, 32, 50


def net() -> Any:
    ids, y = fluid.data("ids", [None, 1], "int64"), fluid.data("y", [None, 1])
    constant = fluid.initializer.Constant
    rows = fluid.layers.embedding(
        ids, [TABLE, 4], is_sparse=True, param_attr=fluid.ParamAttr("table", initializer=constant(0.1))
    )
    guess = fluid.layers.fc(rows, 1, param_attr=fluid.ParamAttr("w", initializer=constant(0.5)))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def roles_of_ranks() -> None:
    """Under `mpiexec`: the first two processes are trainers."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    endpoints = ["127.0.0.1:6174", "127.0.0.1:6175"]
    os.environ.update(
        ROLE="TRAINER" if rank < 2 else "PSERVER",
        TRAINERS="2",
        TRAINER_ID=str(rank % 2),
        ENDPOINTS=",".join(endpoints),
        ENDPOINT=endpoints[rank % 2],
    )


def main() -> None:
    under_mpi = "ROLE" not in os.environ
    if under_mpi:
        roles_of_ranks()
    mode, number, trainers = (
        os.environ["MODE"],
        int(os.environ.get("TRAINER_ID", "0")),
        int(os.environ["TRAINERS"]),
    )
    loss = net()
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode, config.min_block_size = False, 20
    config.runtime_split_send_recv, config.half_async, config.geo_sgd_mode = (
        True,
        mode == "half_async",
        mode == "geo",
    )
    config.geo_sgd_need_push_nums = 4
    made = (GeoSgdTranspiler if mode == "geo" else fluid.DistributeTranspiler)(config)
    made.transpile(number, pservers=os.environ["ENDPOINTS"], trainers=trainers, sync_mode=False)
    exe = fluid.Executor(fluid.CPUPlace())
    if os.environ["ROLE"] == "PSERVER":
        server, startup = made.get_pserver_programs(os.environ["ENDPOINT"])
        exe.run(startup)
        exe.run(server)
        return
    program, given = made.get_trainer_program(wait_port=not under_mpi), None
    if mode == "geo":
        given = {
            "push_vars": made._get_vars_info(),
            "trainers": trainers,
            "push_nums": config.geo_sgd_need_push_nums,
        }
    kinds = {
        "async": DistributedMode.ASYNC,
        "half_async": DistributedMode.HALF_ASYNC,
        "geo": DistributedMode.GEO,
    }
    settings = {
        "communicator_max_merge_var_num": "2",
        # a gradient is a few steps old at the most: with older ones, on a busy machine, the job would diverge
        "communicator_send_queue_size": "2",
        "communicator_independent_recv_thread": "0",
        "communicator_send_wait_times": "1",
        "communicator_min_send_grad_num_before_recv": "2",
        "communicator_is_sgd_optimizer": "0",
    }
    communicator = Communicator(program, kinds[mode], given, settings)
    communicator.start()
    exe.run(fluid.default_startup_program())
    random, losses = np.random.RandomState(number), []
    truth = np.random.RandomState(7).randn(TABLE, 1).astype("float32")
    for _ in range(STEPS):
        ids = random.randint(0, TABLE, (ROWS, 1))
        losses.append(exe.run(program, feed={"ids": ids, "y": truth[ids[:, 0]]}, fetch_list=[loss])[0].item())
    communicator.stop()
    exe.close()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
