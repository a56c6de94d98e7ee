"""One process of a job of two trainers and two servers, under FluidLite or PaddlePaddle 1.8.5: see `pserver.py`. Runs on Python 3.7."""
from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

SIZE, BATCH, WARM = 1000, 32, 10


def main() -> None:
    system, role, number, endpoints, trainers, steps = sys.argv[1:7]
    if system == "paddle":
        import paddle.fluid as fluid
    else:
        import fluidlite as fluid
    x, y = fluid.data("x", [None, SIZE], "float32"), fluid.data("y", [None, 1], "float32")
    guess = fluid.layers.fc(fluid.layers.fc(x, SIZE), 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    fluid.optimizer.SGD(1e-6).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(int(number) if role == "trainer" else 0, pservers=endpoints, trainers=int(trainers))
    exe = fluid.Executor(fluid.CPUPlace())
    if role == "pserver":
        server, startup = transpiler.get_pserver_programs(endpoints.split(",")[int(number)])
        exe.run(startup)
        exe.run(server)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    random = np.random.RandomState(0)
    feed = {"x": random.randn(BATCH, SIZE).astype("float32"), "y": random.randn(BATCH, 1).astype("float32")}
    times = []
    for _ in range(int(steps) + WARM):
        start = time.perf_counter()
        exe.run(program, feed=feed, fetch_list=[loss])
        times.append(time.perf_counter() - start)
    exe.close()
    times = sorted(times[WARM:])
    with open(os.environ["RESULT"], "w") as target:
        json.dump(times[len(times) // 2], target)


if __name__ == "__main__":
    main()
