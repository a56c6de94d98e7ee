"""A worker that saves and trains after it has left its job, and leaves before it has begun."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.incubate.fleet.base import role_maker
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler import fleet


def tried(name: str, work: Callable[[], Any]) -> None:
    begin = time.monotonic()
    try:
        work()
        said = "done"
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
    sys.stdout.write(f"{name}; {'soon' if time.monotonic() - begin < 30 else 'late'}; {said}\n")


def main() -> None:
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    predicted = fluid.layers.fc(x, 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.01)).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    tried("stop", fleet.stop_worker)
    fleet.init_worker()
    exe.run(fleet.startup_program)
    feed = {"x": np.ones([8, 4], "float32"), "y": np.ones([8, 1], "float32")}
    exe.run(fleet.main_program, feed=feed)
    fleet.stop_worker()
    time.sleep(3.0)  # the server ends
    tried("persistables", lambda: fleet.save_persistables(exe, "saved"))
    tried("inference", lambda: fleet.save_inference_model(exe, "model", ["x"], [predicted]))
    tried("train", lambda: exe.run(fleet.main_program, feed=feed))
    tried("stop again", fleet.stop_worker)


if __name__ == "__main__":
    main()
