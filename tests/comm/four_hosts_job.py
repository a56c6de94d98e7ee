"""One process of a job over several hosts, which `launch` has started there: 25 short steps of Fleet."""

from __future__ import annotations

import time

import numpy as np

import fluidlite.paddle as paddle
from fluidlite.paddle.distributed import fleet

STEPS, ROWS = 25, 8
random = np.random.RandomState(5)

x, y = paddle.static.data("x", [None, 30]), paddle.static.data("y", [None, 1])
start = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.01))
hidden = paddle.static.nn.fc(
    x, 600, activation="tanh", weight_attr=start
)  # enough for slices on both servers
loss = paddle.nn.functional.mse_loss(paddle.static.nn.fc(hidden, 1, weight_attr=start), y)

fleet.init(is_collective=False)
strategy = fleet.DistributedStrategy()
strategy.a_sync = False
fleet.distributed_optimizer(paddle.optimizer.SGD(0.02), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    index, count = fleet.worker_index(), fleet.worker_num()
    for step in range(STEPS):
        batch = random.standard_normal((ROWS, 31)).astype("float32")
        mine = batch[ROWS * index // count : ROWS * (index + 1) // count]
        (cost,) = exe.run(feed={"x": mine[:, :30], "y": mine[:, 30:]}, fetch_list=[loss])
        print(f"step {step} {float(cost):.6f}", flush=True)
        time.sleep(0.1)  # a network that is cut is cut in the midst of it
    fleet.stop_worker()
