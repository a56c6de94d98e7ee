"""A fleet script of old: one process of a parameter-server job, its role in the environment, as
PaddleCloudRoleMaker reads it.

    export PADDLE_PSERVERS_IP_PORT_LIST=... PADDLE_TRAINERS_NUM=2
    TRAINING_ROLE=PSERVER POD_IP=127.0.0.1 PADDLE_PORT=6174 python fleet_job.py sync
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 python fleet_job.py sync
    python fleet_job.py alone

The last is the same job of one process. Trainers print their last parameters as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.incubate.fleet.base import role_maker
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler import fleet
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

STEPS, ROWS = 6, 8
STRATEGIES = {
    "sync": StrategyFactory.create_sync_strategy,
    "half_async": StrategyFactory.create_half_async_strategy,
    "async": StrategyFactory.create_async_strategy,
    "geo": lambda: StrategyFactory.create_geo_strategy(2),
}


def net() -> Any:
    constant = fluid.initializer.Constant
    x, y, ids = (
        fluid.data("x", [None, 100]),
        fluid.data("y", [None, 1]),
        fluid.data("ids", [None, 1], "int64"),
    )
    rows = fluid.layers.embedding(
        ids, [1000, 10], is_sparse=True, param_attr=fluid.ParamAttr("table", initializer=constant(0.01))
    )
    hidden = fluid.layers.fc(x, 100, act="tanh", param_attr=fluid.ParamAttr("w", initializer=constant(0.02)))
    guess = fluid.layers.fc(
        fluid.layers.concat([hidden, rows], 1), 1, param_attr=fluid.ParamAttr("v", initializer=constant(0.1))
    )
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y)), guess


def batches(first: int, last: int) -> list[dict[str, Any]]:
    random = np.random.RandomState(0)
    whole = [
        {
            "x": random.randn(ROWS, 100).astype("float32"),
            "y": random.randn(ROWS, 1).astype("float32"),
            "ids": random.randint(0, 1000, (ROWS, 1)),
        }
        for _ in range(STEPS)
    ]
    return [{name: value[first:last] for name, value in batch.items()} for batch in whole]


def report(loss: float) -> None:
    values = {
        name: np.array(fluid.global_scope().find_var(name).get_tensor()).ravel().tolist()
        for name in ("w", "v")
    }
    print(json.dumps({"loss": loss, **values}))


def main() -> None:
    (loss, guess), optimizer, exe = net(), fluid.optimizer.SGD(0.005), fluid.Executor(fluid.CPUPlace())
    if sys.argv[1] == "alone":
        optimizer.minimize(loss)
        exe.run(fluid.default_startup_program())
        for feed in batches(0, ROWS):
            (value,) = exe.run(feed=feed, fetch_list=[loss])
        return report(float(value[0]))
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(optimizer, STRATEGIES[sys.argv[1]]()).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return None
    fleet.init_worker()
    exe.run(fleet.startup_program)
    each = ROWS // fleet.worker_num()
    for feed in batches(fleet.worker_index() * each, (fleet.worker_index() + 1) * each):
        (value,) = exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
    if fleet.is_first_worker():
        fleet.save_inference_model(exe, os.environ["SAVE_TO"], ["x", "ids"], [guess])
    fleet.stop_worker()
    return report(float(value[0]))


if __name__ == "__main__":
    main()
