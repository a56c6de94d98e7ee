"""A job of ranks: four steps, and the weights of each rank. `kill`: rank 1 ends by a signal after two steps;
`resume`: so does rank 1 in the first run, and the next one goes on from the checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import fluidlite.paddle as paddle
import fluidlite.paddle.distributed.fleet as fleet
from fluidlite.distributed import load_checkpoint, save_checkpoint

MODE = sys.argv[1] if len(sys.argv) > 1 else ""

paddle.seed(7)
fleet.init(is_collective=True)
x, y = paddle.static.data("x", [None, 4]), paddle.static.data("y", [None, 1])
out = paddle.static.nn.fc(x, 1, weight_attr=paddle.nn.initializer.Constant(0.1))
loss = paddle.nn.functional.mse_loss(out, y)
fleet.distributed_optimizer(paddle.optimizer.Momentum(0.05, 0.9)).minimize(loss)
main = paddle.static.default_main_program()
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
rank = fleet.worker_index()
first = 0
if MODE == "resume":
    found = load_checkpoint(exe, "checkpoints", main)
    first = found.step if found else 0
    print("from step", first, flush=True)
for step in range(first, 4):
    feed = {"x": np.full((8, 4), rank + 1, "float32"), "y": np.ones((8, 1), "float32")}
    exe.run(main, feed=feed, fetch_list=[loss])
    if step == 1:
        if MODE == "resume":
            save_checkpoint(exe, "checkpoints", main, step + 1)
        if MODE and first == 0 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
weights = np.array(main.all_parameters()[0].get_value()).ravel()
print("rank", rank, "of", fleet.worker_num(), weights.round(5).tolist(), flush=True)
