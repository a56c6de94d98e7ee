"""Records what PaddlePaddle 1.8.5's asynchronous and geo-SGD jobs compute: `python make_async.py
recorded/async.json`, run with 1.8.5.

One trainer and one server, as processes, and the trainer waits after each step until nothing is on its way:
then the result is always the same. `test_async_tcp.py` runs the same jobs; both speak to `fluid` as scripts
of old do.
"""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np

SETTINGS = {
    "max_merge_var_num": 20,
    "send_queue_size": 20,
    "independent_recv_thread": 0,
    "min_send_grad_num_before_recv": 1,
    "thread_pool_size": 5,
    "send_wait_times": 5,
    "is_sgd_optimizer": 1,
    "merge_sparse_grad": 1,
}
CASES = {
    "async_sgd": {"steps": 5},
    "async_adagrad": {"steps": 5, "optimizer": "Adagrad"},
    "async_sums": {"steps": 4, "at_once": True, "settings": {"send_wait_times": 20}},
    "async_means": {"steps": 4, "at_once": True, "settings": {"send_wait_times": 20, "is_sgd_optimizer": 0}},
    "geo": {"steps": 7, "push": 2, "share": 2, "optimizer": "SGD"},
    "geo_adagrad": {"steps": 6, "push": 3, "share": 3, "optimizer": "Adagrad"},
}


def net(fluid, case):
    """A loss over a dense parameter and a sparse table."""

    def constant(name, value):
        return fluid.ParamAttr(name, initializer=fluid.initializer.Constant(value))

    x, y, ids = fluid.data("x", [None, 3]), fluid.data("y", [None, 1]), fluid.data("ids", [None, 1], "int64")
    rows = fluid.layers.embedding(ids, [6, 2], is_sparse=True, param_attr=constant("table", 0.25))
    guess = fluid.layers.fc(x, 1, param_attr=constant("w", 0.5), bias_attr=False) + fluid.layers.reduce_sum(
        rows, dim=1, keep_dim=True
    )
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    getattr(fluid.optimizer, case.get("optimizer", "SGD"))(0.1).minimize(loss)
    return loss


def batch(step):
    """One trainer's batch."""
    random = np.random.RandomState(step)
    return {
        "x": random.randn(4, 3).astype("float32"),
        "y": random.randn(4, 1).astype("float32"),
        "ids": random.randint(0, 6, (4, 1)),
    }


def transpiled(fluid, name, endpoint):
    case, geo = CASES[name], name.startswith("geo")
    loss = net(fluid, case)
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.runtime_split_send_recv = True
    config.geo_sgd_mode, config.geo_sgd_need_push_nums = geo, case.get("push", 100)
    from importlib import import_module

    made = (
        import_module(fluid.__name__ + ".transpiler.geo_sgd_transpiler").GeoSgdTranspiler(config)
        if geo
        else (fluid.DistributeTranspiler(config))
    )
    made.transpile(0, pservers=endpoint, trainers=1, sync_mode=False)
    return made, loss


def communicator(fluid, name, made, program):
    from importlib import import_module

    mode = import_module(fluid.__name__ + ".transpiler.distribute_transpiler").DistributedMode
    case = CASES[name]
    envs = {
        "communicator_" + key: str(value) for key, value in dict(SETTINGS, **case.get("settings", {})).items()
    }
    envs.update(rpc_deadline="180000", rpc_retry_times="3")
    make = import_module(fluid.__name__ + ".communicator").Communicator
    if not name.startswith("geo"):
        return make(program, mode.ASYNC, None, envs)
    return make(
        program,
        mode.GEO,
        {"push_vars": made._get_vars_info(), "trainers": case["share"], "push_nums": case["push"]},
        envs,
    )


def train(fluid, name, endpoint, settle):
    """The trainer's variables after each step, its losses included, as lists."""
    made, loss = transpiled(fluid, name, endpoint)
    program, case, exe = (
        made.get_trainer_program(wait_port=False),
        CASES[name],
        fluid.Executor(fluid.CPUPlace()),
    )
    helper = communicator(fluid, name, made, program)
    if name.startswith("geo"):
        helper.start()
        exe.run(fluid.default_startup_program())
    else:
        exe.run(fluid.default_startup_program())
        helper.start()

    def value(param):
        return (
            np.array(fluid.global_scope().find_var(param).get_tensor())
            .astype(float)
            .round(7)
            .ravel()
            .tolist()
        )

    found = []
    for step in range(case["steps"]):
        got = exe.run(program, feed=batch(step), fetch_list=[loss])
        if not case.get("at_once") or step == case["steps"] - 1:
            settle(helper, step)
        found.append(
            {
                "loss": float(got[0][0]),
                "w": value("w"),
                "table": value("table") if name.startswith("geo") else [],
            }
        )
    helper.stop()
    return found, exe


def serve(fluid, name, endpoint):
    server, startup = transpiled(fluid, name, endpoint)[0].get_pserver_programs(endpoint)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    exe.run(server)


def role():
    import paddle.fluid as fluid

    kind, name, endpoint = sys.argv[2:]
    if kind == "server":
        serve(fluid, name, endpoint)
    else:
        found, exe = train(fluid, name, endpoint, lambda helper, step: time.sleep(0.6))
        print(json.dumps(found))
        exe.close()


def record(name):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{held.getsockname()[1]}"
    command = [sys.executable, __file__, "role"]
    server = subprocess.Popen(
        [*command, "server", name, endpoint], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(4)
        out = subprocess.run(
            [*command, "trainer", name, endpoint],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=True,
        )
    finally:
        server.kill()
    return json.loads(out.stdout.decode().strip().splitlines()[-1])


def main():
    if sys.argv[1] == "role":
        role()
        return
    found = {name: record(name) for name in CASES}
    with open(sys.argv[1], "w") as file:
        file.write(
            "{\n"
            + ",\n".join(json.dumps(name) + ": " + json.dumps(found[name]) for name in sorted(found))
            + "\n}\n"
        )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
