"""A published kind of script: Fleet with parameter servers, its role from the environment."""

from __future__ import annotations

import sys

import numpy as np

import fluidlite as fluid
from fluidlite.incubate.fleet.base import role_maker
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler import fleet
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
fleet.init(role_maker.PaddleCloudRoleMaker())
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    feed = {"x": np.ones([8, 4], "float32"), "y": np.ones([8, 1], "float32")}
    losses = [exe.run(fleet.main_program, feed=feed, fetch_list=[loss])[0].item()]
    for step in range(5):
        if "fail" in sys.argv and step == 3 and fleet.worker_index() == 1:
            raise ValueError("step 3")
        losses.append(exe.run(fleet.main_program, feed=feed, fetch_list=[loss])[0].item())
    assert losses[-1] < losses[0]
    fleet.stop_worker()
    sys.stdout.write(f"worker {fleet.worker_index()} of {fleet.worker_num()} is done\n")
