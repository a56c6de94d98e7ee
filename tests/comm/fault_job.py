"""One process of a small parameter-server job, for what happens to processes: see `test_tcp_processes.py`.

ROLE=PSERVER|TRAINER TRAINER_ID=0 ENDPOINTS=127.0.0.1:6174 TRAINERS=2 SYNC=1 STEPS=100 PAUSE=0.01 python
fault_job.py
"""

from __future__ import annotations

import os
import time

import numpy as np

import fluidlite as fluid


def main() -> None:
    x, y = fluid.data("x", [None, 30]), fluid.data("y", [None, 1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.01).minimize(loss)
    role, endpoints, number = (
        os.environ["ROLE"],
        os.environ["ENDPOINTS"],
        int(os.environ.get("TRAINER_ID", "0")),
    )
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(
        number,
        pservers=endpoints,
        trainers=int(os.environ["TRAINERS"]),
        sync_mode=os.environ.get("SYNC", "1") == "1",
    )
    exe = fluid.Executor(fluid.CPUPlace())
    if role == "PSERVER":
        server, startup = transpiler.get_pserver_programs(endpoints)
        exe.run(startup)
        exe.run(server)
        print("after the server", flush=True)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    random = np.random.RandomState(number)
    for step in range(int(os.environ["STEPS"])):
        feed = {"x": random.randn(4, 30).astype("float32"), "y": random.randn(4, 1).astype("float32")}
        exe.run(program, feed=feed, fetch_list=[loss])
        print(f"step {step}", flush=True)
        time.sleep(float(os.environ.get("PAUSE", "0")))
        if str(step) == os.environ.get("ERROR_AT"):
            raise ValueError("a mistake of the user's")
    exe.close()


if __name__ == "__main__":
    main()
