"""One process of a job of trainers and servers, under FluidLite or PaddlePaddle 1.8.5: see `pserver.py`.
Runs on Python 3.7.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

SIZE, BATCH, WARM = 1000, 32, 10
TABLE, WIDTH, SLOTS, EXAMPLES = 10_000_000, 16, 26, 512


def dense(fluid):
    """Two layers, 1000 x 1000 and 1000 x 1."""
    x, y = fluid.data("x", [None, SIZE], "float32"), fluid.data("y", [None, 1], "float32")
    guess = fluid.layers.fc(fluid.layers.fc(x, SIZE), 1)
    random = np.random.RandomState(0)
    feeds = [
        {"x": random.randn(BATCH, SIZE).astype("float32"), "y": random.randn(BATCH, 1).astype("float32")}
    ]
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y)), feeds, 1e-6


def sparse(fluid):
    """A table of 10 million rows of 16, of which each example reads 26."""
    ids, y = fluid.data("ids", [None, SLOTS, 1], "int64"), fluid.data("y", [None, 1], "float32")
    rows = fluid.layers.embedding(
        ids, [TABLE, WIDTH], is_sparse=True, is_distributed=True, param_attr="table"
    )
    guess = fluid.layers.fc(fluid.layers.reshape(rows, [-1, SLOTS * WIDTH]), 1)
    random = np.random.RandomState(int(sys.argv[4]))
    feeds = [
        {
            "ids": random.randint(0, TABLE, (EXAMPLES, SLOTS, 1)).astype("int64"),
            "y": random.randn(EXAMPLES, 1).astype("float32"),
        }
        for _ in range(8)
    ]
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y)), feeds, 1e-3


def main():
    system, case, role, number, endpoints, trainers, steps = sys.argv[1:8]
    if system == "paddle":
        import paddle.fluid as fluid
    else:
        import fluidlite as fluid
    loss, feeds, rate = {"dense": dense, "sparse": sparse}[case](fluid)
    fluid.optimizer.SGD(rate).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(int(number) if role == "trainer" else 0, pservers=endpoints, trainers=int(trainers))
    exe = fluid.Executor(fluid.CPUPlace())
    if role == "pserver":
        server, startup = transpiler.get_pserver_programs(endpoints.split(",")[int(number)])
        exe.run(startup)
        before = megabytes()
        exe.run(server)
        report([before, megabytes()])
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    times = []
    for step in range(int(steps) + WARM):
        start = time.perf_counter()
        exe.run(program, feed=feeds[step % len(feeds)], fetch_list=[loss])
        times.append(time.perf_counter() - start)
    exe.close()
    times = sorted(times[WARM:])
    report([times[len(times) // 2], megabytes()])


def megabytes():
    """The memory that this process has now."""
    with open("/proc/self/statm") as source:
        return int(source.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def report(numbers):
    """Leave numbers where the benchmark looks for them."""
    with open(os.environ["RESULT"], "w") as target:
        json.dump(numbers, target)


if __name__ == "__main__":
    main()
