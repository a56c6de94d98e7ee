"""One process of a small parameter-server job that saves its state after every few steps, and goes on from
there when it is started again.

ROLE=PSERVER|TRAINER TRAINER_ID=0 ENDPOINT=... ENDPOINTS=... TRAINERS=2 STEPS=20 EVERY=2 FOLDER=... PAUSE=0.01
python checkpoint_job.py
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.distributed import load_checkpoint, save_checkpoint


def net() -> Any:
    x, y, ids = fluid.data("x", [None, 30]), fluid.data("y", [None, 1]), fluid.data("ids", [None, 1], "int64")
    rows = fluid.layers.embedding(
        ids, [60, 4], is_sparse=True, param_attr=fluid.ParamAttr("table", initializer=constant(0.01))
    )
    hidden = fluid.layers.batch_norm(
        fluid.layers.fc(x, 10, act="tanh", param_attr=fluid.ParamAttr("w", initializer=constant(0.02)))
    )
    guess = fluid.layers.fc(
        fluid.layers.concat([hidden, rows], 1), 1, param_attr=fluid.ParamAttr("v", initializer=constant(0.1))
    )
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    fluid.optimizer.Adam(fluid.layers.exponential_decay(0.01, 3, 0.9)).minimize(loss)
    return loss


def constant(value: float) -> Any:
    return fluid.initializer.Constant(value)


def batch(step: int, number: int) -> dict[str, Any]:
    random = np.random.RandomState(100 * step + number)
    return {
        "x": random.randn(4, 30).astype("float32"),
        "y": random.randn(4, 1).astype("float32"),
        "ids": random.randint(0, 60, (4, 1)),
    }


def serve(transpiler: Any, exe: Any, folder: str) -> None:
    server, startup = transpiler.get_pserver_programs(os.environ["ENDPOINT"])
    exe.run(startup)
    load_checkpoint(exe, folder, server)
    exe.run(server)


def train(transpiler: Any, exe: Any, folder: str, number: int) -> None:
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    found = load_checkpoint(exe, folder, program)
    print(f"from {found.step if found else 0}", flush=True)
    for step in range(found.step if found else 0, int(os.environ["STEPS"])):
        exe.run(program, feed=batch(step, number))
        print(f"done {step + 1}", flush=True)
        if (step + 1) % int(os.environ["EVERY"]) == 0:
            save_checkpoint(exe, folder, program, step + 1)
            print(f"saved {step + 1}", flush=True)
        time.sleep(float(os.environ.get("PAUSE", "0")))
    fluid.io.save_persistables(exe, os.path.join(folder, f"end_{number}"), program)
    exe.close()


def main() -> None:
    net()
    number = int(os.environ.get("TRAINER_ID", "0"))
    config = fluid.DistributeTranspilerConfig()
    config.min_block_size, config.wait_port = 30, False
    transpiler, exe = fluid.DistributeTranspiler(config), fluid.Executor(fluid.CPUPlace())
    transpiler.transpile(number, pservers=os.environ["ENDPOINTS"], trainers=int(os.environ["TRAINERS"]))
    (serve if os.environ["ROLE"] == "PSERVER" else train)(
        transpiler, exe, os.environ["FOLDER"], *(() if os.environ["ROLE"] == "PSERVER" else (number,))
    )


if __name__ == "__main__":
    main()
