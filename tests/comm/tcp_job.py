"""A fluid script of old: one process of a parameter-server job, started by hand with its role in the
environment.

ROLE=PSERVER ENDPOINT=127.0.0.1:6174 ENDPOINTS=... TRAINERS=2 python tcp_job.py
ROLE=TRAINER TRAINER_ID=0            ENDPOINTS=... TRAINERS=2 python tcp_job.py     prints its last parameters
as JSON ROLE=LOCAL                                                     python tcp_job.py     the same of one
process
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

import fluidlite as fluid

STEPS, ROWS = 5, 8


def net(optimizer: str) -> Any:
    x, y, ids = (
        fluid.data("x", [None, 100]),
        fluid.data("y", [None, 1]),
        fluid.data("ids", [None, 1], "int64"),
    )
    constant = fluid.initializer.Constant
    rows = fluid.layers.embedding(
        ids, [1000, 5], is_sparse=True, param_attr=fluid.ParamAttr("table", initializer=constant(0.01))
    )
    hidden = fluid.layers.fc(x, 100, act="tanh", param_attr=fluid.ParamAttr("w", initializer=constant(0.02)))
    guess = fluid.layers.fc(
        fluid.layers.concat([hidden, rows], 1), 1, param_attr=fluid.ParamAttr("v", initializer=constant(0.1))
    )
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    getattr(fluid.optimizer, optimizer)(0.01).minimize(loss)
    return loss


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


def train(program: Any, feeds: list[dict[str, Any]], loss: Any) -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for feed in feeds:
        exe.run(program, feed=feed, fetch_list=[loss])
    exe.close()
    print(
        json.dumps(
            {
                name: np.array(fluid.global_scope().find_var(name).get_tensor()).ravel().tolist()
                for name in ("w", "v")
            }
        )
    )


def main() -> None:
    role, loss = os.environ["ROLE"], net(os.environ.get("OPTIMIZER", "SGD"))
    if role == "LOCAL":
        return train(fluid.default_main_program(), batches(0, ROWS), loss)
    trainers, number = int(os.environ["TRAINERS"]), int(os.environ.get("TRAINER_ID", "0"))
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(
        number,
        pservers=os.environ["ENDPOINTS"],
        trainers=trainers,
        sync_mode=os.environ.get("SYNC", "1") == "1",
    )
    if role == "PSERVER":
        server, startup = transpiler.get_pserver_programs(os.environ["ENDPOINT"])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        exe.run(server)
    else:
        each = ROWS // trainers
        train(transpiler.get_trainer_program(), batches(number * each, (number + 1) * each), loss)
    return None


if __name__ == "__main__":
    main()
