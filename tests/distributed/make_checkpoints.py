"""Records what PaddlePaddle 1.8.5 saves of a parameter-server job: `python make_checkpoints.py
recorded/checkpoints.json`, run with 1.8.5.

Two trainers and two servers, as processes. Trainer 0 saves after the last step; the files go into the JSON as
base64. `net` and `batch` are also what `test_checkpoints_of_paddle.py` runs.
"""

import base64
import json
import os
import socket
import subprocess
import sys
import tempfile

import numpy as np

STEPS = 3
OPTIMIZERS = ("SGD", "Momentum", "Adam", "Adagrad")


def net(fluid, optimizer):
    """A loss; everything that has a state is in it, and nothing that is random."""

    def start(name, value):
        return fluid.ParamAttr(name, initializer=fluid.initializer.Constant(value))

    x, y = fluid.data("x", [None, 12]), fluid.data("y", [None, 1])
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    rows = fluid.layers.sequence_pool(
        fluid.layers.embedding(ids, [40, 5], is_sparse=True, param_attr=start("table", 0.01)), "sum"
    )
    hidden = fluid.layers.batch_norm(
        fluid.layers.fc(x, 10, act="tanh", param_attr=start("w", 0.02), bias_attr=start("b", 0.0))
    )
    guess = fluid.layers.fc(
        fluid.layers.concat([hidden, rows], 1), 1, param_attr=start("v", 0.1), bias_attr=False
    )
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    rate = fluid.layers.exponential_decay(0.1, 2, 0.9)
    make = {"Momentum": lambda: fluid.optimizer.Momentum(rate, 0.9)}.get(
        optimizer, lambda: getattr(fluid.optimizer, optimizer)(rate)
    )
    make().minimize(loss)
    return guess, loss


def small_slices(transpiler):
    """Let parameters be cut although they are small, which the configuration alone does not allow."""
    transpiler.config.min_block_size = 20
    return transpiler


def batch(step, number):
    """Dense inputs, and the ids, of a trainer's step."""
    random = np.random.RandomState(100 * step + number)
    return {
        "x": random.randn(4, 12).astype("float32"),
        "y": random.randn(4, 1).astype("float32"),
        "ids": random.randint(0, 40, (4, 1)),
    }


def feed(fluid, step, number):
    found = batch(step, number)
    ids = fluid.create_lod_tensor(found["ids"], [[1, 1, 1, 1]], fluid.CPUPlace())
    return dict(found, ids=ids)


def role():
    import paddle.fluid as fluid

    me, optimizer, endpoints, folder = sys.argv[2:]
    guess, _ = net(fluid, optimizer)
    kind, _, number = me.partition(":")
    transpiler = small_slices(fluid.DistributeTranspiler())
    transpiler.transpile(int(number) if kind == "trainer" else 0, pservers=endpoints, trainers=2)
    exe = fluid.Executor(fluid.CPUPlace())
    if kind == "pserver":
        server, startup = transpiler.get_pserver_programs(endpoints.split(",")[int(number)])
        exe.run(startup)
        exe.run(server)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    for step in range(STEPS):
        exe.run(program, feed=feed(fluid, step, int(number)))
    if number == "0":
        fluid.io.save_persistables(exe, os.path.join(folder, "persistables"), program)
        fluid.io.save_inference_model(os.path.join(folder, "model"), ["x", "ids"], [guess], exe, program)
        with open(os.path.join(folder, "saved"), "w"):
            pass
    else:
        while not os.path.exists(os.path.join(folder, "saved")):
            pass
    exe.close()


def record(optimizer):
    held = [socket.socket() for _ in range(2)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    endpoints = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            subprocess.Popen(
                [sys.executable, __file__, "role", me, optimizer, endpoints, folder],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for me in ("pserver:0", "pserver:1", "trainer:0", "trainer:1")
        ]
        try:
            for job in jobs[2:]:
                assert job.wait(120) == 0, optimizer
        finally:
            for job in jobs:
                job.kill()
        found = {}
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = base64.b64encode(file.read()).decode()
    return {
        "persistables": {
            os.path.basename(name): data for name, data in found.items() if name.startswith("persistables")
        },
        "model": sorted(os.path.basename(name) for name in found if name.startswith("model")),
    }


def main():
    if sys.argv[1] == "role":
        role()
    else:
        with open(sys.argv[1], "w") as out:
            json.dump(
                {optimizer: record(optimizer) for optimizer in OPTIMIZERS}, out, indent=0, sort_keys=True
            )


if __name__ == "__main__":
    main()
