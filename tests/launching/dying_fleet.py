"""A job of two servers and two trainers in which `WHO` ends by `HOW`: `dying_fleet.py trainer leave`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np

import fluidlite as fluid
from fluidlite.incubate.fleet.base import role_maker
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler import fleet


def end() -> None:
    if sys.argv[2] == "leave":
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def end_later() -> None:
    time.sleep(1.0)
    end()


def main() -> None:
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.01)).minimize(loss)
    if fleet.is_server():
        if sys.argv[1] == "server" and fleet.server_index() == 0:
            threading.Thread(target=end_later, daemon=True).start()
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    feed = {"x": np.ones([8, 4], "float32"), "y": np.ones([8, 1], "float32")}
    for step in range(1000):
        exe.run(fleet.main_program, feed=feed)
        if step == 3 and sys.argv[1] == "trainer" and fleet.worker_index() == 1:
            end()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
