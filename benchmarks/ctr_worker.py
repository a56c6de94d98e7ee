"""One process of a job that learns click-through rates from a sparse table: see `ctr.py`. Runs on Python
3.7 under both systems.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module

import numpy as np

SLOTS, BATCH, WIDTH, WARM = 26, 512, 16, 20
SETTINGS = {
    "max_merge_var_num": 20,
    "send_queue_size": 20,
    "independent_recv_thread": 1,
    "min_send_grad_num_before_recv": 20,
    "thread_pool_size": 5,
    "send_wait_times": 5,
    "is_sgd_optimizer": 1,
    "merge_sparse_grad": 1,
}


def net(fluid, rows):
    """Rows of one table for each slot and dense features, through two layers of 128."""
    dense, label = fluid.data("dense", [None, 13], "float32"), fluid.data("label", [None, 1], "float32")
    ids = [fluid.data(f"slot{slot}", [None, 1], "int64") for slot in range(SLOTS)]
    found = [
        fluid.layers.embedding(
            one,
            [rows, WIDTH],
            is_sparse=True,
            is_distributed=False,
            param_attr=fluid.ParamAttr("table", initializer=fluid.initializer.Uniform(-0.1, 0.1)),
        )
        for one in ids
    ]
    hidden = fluid.layers.concat([dense, *found], axis=1)
    for _ in range(2):
        hidden = fluid.layers.fc(hidden, 128, act="relu")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), label))
    fluid.optimizer.SGD(1e-4).minimize(loss)
    return loss


def transpiled(fluid, mode, number, endpoints, trainers):
    config = fluid.DistributeTranspilerConfig()
    if mode != "sync":
        config.sync_mode = False
        config.runtime_split_send_recv = True
    config.geo_sgd_mode, config.geo_sgd_need_push_nums = mode == "geo", 10
    kind = (
        import_module(fluid.__name__ + ".transpiler.geo_sgd_transpiler").GeoSgdTranspiler
        if mode == "geo"
        else fluid.DistributeTranspiler
    )
    made = kind(config)
    made.transpile(number, pservers=endpoints, trainers=trainers, sync_mode=mode == "sync")
    return made


def communicator(fluid, mode, made, program, trainers):
    modes = import_module(fluid.__name__ + ".transpiler.distribute_transpiler").DistributedMode
    envs = {"communicator_" + key: str(value) for key, value in SETTINGS.items()}
    envs.update(rpc_deadline="180000", rpc_retry_times="3")
    make = import_module(fluid.__name__ + ".communicator").Communicator
    if mode == "geo":
        return make(
            program,
            modes.GEO,
            {"push_vars": made._get_vars_info(), "trainers": trainers, "push_nums": 10},
            envs,
        )
    return make(program, modes.ASYNC, None, envs)


def main():
    system, role, number, endpoints, trainers, steps, mode, rows = sys.argv[1:9]
    fluid = import_module("paddle.fluid" if system == "paddle" else "fluidlite")
    loss = net(fluid, int(rows))
    made = transpiled(fluid, mode, int(number) if role == "trainer" else 0, endpoints, int(trainers))
    exe = fluid.Executor(fluid.CPUPlace())
    if role == "pserver":
        server, startup = made.get_pserver_programs(endpoints.split(",")[int(number)])
        exe.run(startup)
        exe.run(server)
        return
    program = made.get_trainer_program()
    helper = communicator(fluid, mode, made, program, int(trainers)) if mode != "sync" else None
    if helper is not None and mode == "geo":
        helper.start()
    exe.run(fluid.default_startup_program())
    if helper is not None and mode != "geo":
        helper.start()
    random = np.random.RandomState(int(number))
    feeds = []
    for _ in range(8):
        feed = {
            f"slot{slot}": random.randint(0, int(rows), (BATCH, 1)).astype("int64") for slot in range(SLOTS)
        }
        feed.update(
            dense=random.randn(BATCH, 13).astype("float32"), label=random.randn(BATCH, 1).astype("float32")
        )
        feeds.append(feed)
    for step in range(WARM):
        exe.run(program, feed=feeds[step % 8], fetch_list=[loss])
    start = time.perf_counter()
    for step in range(int(steps)):
        exe.run(program, feed=feeds[step % 8], fetch_list=[loss])
    mean = (time.perf_counter() - start) / int(steps)
    if helper is not None:
        helper.stop()
    with open(os.environ["RESULT"], "w") as target:
        json.dump(mean, target)
    exe.close()


if __name__ == "__main__":
    main()
