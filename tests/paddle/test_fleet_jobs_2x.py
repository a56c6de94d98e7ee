"""The trainers of 2.x's guide to fleet, with only the import changed, as processes of a job."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys

import mpi_jobs
import numpy as np
import pytest

NETS = """
import fluidlite.paddle as paddle

def mlp(input_x, input_y, hid_dim=128, label_dim=2):
    # servers would draw numbers of their own
    attr = lambda value: paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(value))
    first = paddle.static.nn.fc(x=input_x, size=hid_dim, activation="tanh", weight_attr=attr(0.02))
    second = paddle.static.nn.fc(x=first, size=hid_dim, activation="tanh", weight_attr=attr(-0.01))
    prediction = paddle.static.nn.fc(x=[second], size=label_dim, activation="softmax", weight_attr=attr(0.1))
    cost = paddle.nn.functional.cross_entropy(input=prediction, label=input_y, use_softmax=False)
    return paddle.mean(x=cost)
"""
# each process draws the whole batch and takes its share, so that all together see what one process would
UTILS = """
import numpy as np
random = np.random.RandomState(3)

def gen_data():
    from fluidlite.paddle.distributed import fleet
    whole = {"x": random.random_sample((128, 32)).astype("float32"), "y": random.randint(2, size=(128, 1))}
    rank, count = fleet.worker_index(), fleet.worker_num()
    return {name: value[rank * 128 // count : (rank + 1) * 128 // count] for name, value in whole.items()}
"""
COLLECTIVE = """
import fluidlite.paddle as paddle
import fluidlite.paddle.distributed.fleet.base.role_maker as role_maker
import fluidlite.paddle.distributed.fleet as fleet
from nets import mlp
from utils import gen_data

paddle.seed(1)
input_x = paddle.static.data(name="x", shape=[None, 32], dtype='float32')
input_y = paddle.static.data(name="y", shape=[None, 1], dtype='int64')
cost = mlp(input_x, input_y)
optimizer = paddle.optimizer.SGD(learning_rate=0.01)

role = role_maker.PaddleCloudRoleMaker(is_collective=True)
fleet.init(role)
optimizer = fleet.distributed_optimizer(optimizer)
optimizer.minimize(cost)

place = paddle.CPUPlace()
exe = paddle.static.Executor(place)
exe.run(paddle.static.default_startup_program())
step = 6
for i in range(step):
    cost_val = exe.run(
        program=paddle.static.default_main_program(), feed=gen_data(), fetch_list=[cost.name])
    print("worker_index: %d, step%d cost = %f" % (fleet.worker_index(), i, cost_val[0]), flush=True)
print("together %d" % fleet.util.all_reduce(fleet.worker_index() + 1), flush=True)
fleet.barrier_worker()
"""
SERVED = """
import fluidlite.paddle as paddle
import fluidlite.paddle.distributed.fleet.base.role_maker as role_maker
import fluidlite.paddle.distributed.fleet as fleet
from nets import mlp
from utils import gen_data

paddle.seed(1)
input_x = paddle.static.data(name="x", shape=[None, 32], dtype='float32')
input_y = paddle.static.data(name="y", shape=[None, 1], dtype='int64')
cost = mlp(input_x, input_y)
optimizer = paddle.optimizer.SGD(learning_rate=0.01)

role = role_maker.PaddleCloudRoleMaker()
fleet.init(role)
optimizer = fleet.distributed_optimizer(optimizer)
optimizer.minimize(cost)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
elif fleet.is_worker():
    place = paddle.CPUPlace()
    exe = paddle.static.Executor(place)
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    step = 6
    for i in range(step):
        cost_val = exe.run(
            program=paddle.static.default_main_program(), feed=gen_data(), fetch_list=[cost.name])
        print("worker_index: %d, step%d cost = %f" % (fleet.worker_index(), i, cost_val[0]), flush=True)
    print("together %d" % fleet.util.all_reduce(fleet.worker_index() + 1), flush=True)
    if fleet.is_first_worker():
        fleet.save_inference_model(exe, "model", ["x"], [cost.block.var("fc_2.tmp_2")])
        fleet.save_persistables(exe, "persistables")
    fleet.stop_worker()
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, text in (("nets", NETS), ("utils", UTILS), ("collective", COLLECTIVE), ("served", SERVED)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def environment(**variables: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("PADDLE_")}
    return {
        **known,
        "OMP_NUM_THREADS": "1",
        "FLUIDLITE_JOB_KEY": "fleet",
        "FLAGS_rpc_deadline": "200000",
        **variables,
    }


def start(folder: pathlib.Path, command: list[str], **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out


def costs(output: str) -> np.ndarray:
    """Costs by worker and step."""
    found = re.findall(r"worker_index: (\d+), step(\d+) cost = ([\d.]+)", output)
    rows = sorted((int(worker), int(step), float(cost)) for worker, step, cost in found)
    return np.array([cost for _, _, cost in rows]).reshape(-1, 6)


def alone(folder: pathlib.Path, script: str) -> np.ndarray:
    return costs(finished(start(folder, [sys.executable, script])))[0]


@pytest.mark.mpi
def test_two_ranks_are_one_process(folder: pathlib.Path) -> None:
    done = mpi_jobs.start(2, [sys.executable, "collective.py"], cwd=folder, FLUIDLITE_JOB_KEY="fleet")
    assert done.returncode == 0, mpi_jobs.says(done)
    found = costs(done.stdout)
    assert found.shape == (2, 6) and done.stdout.count("together 3") == 2
    np.testing.assert_allclose(found.mean(0), alone(folder, "collective.py"), atol=2e-6)


def launched(folder: pathlib.Path, *arguments: str, module: str = "launch") -> str:
    """The output of a command of the guide: what the first worker says is shown, and the others' logs."""
    command = [sys.executable, "-m", f"fluidlite.paddle.distributed.{module}", *arguments]
    shown = finished(start(folder, command))
    logs = sorted((folder / "log").glob("workerlog.*"))
    assert shown == logs[0].read_text() and len(logs) == 2
    return "".join(path.read_text() for path in logs)


@pytest.mark.mpi
def test_two_launched_ranks_are_one_process(folder: pathlib.Path) -> None:
    output = launched(folder, "--nproc_per_node", "2", "collective.py")
    assert output.count("together 3") == 2
    np.testing.assert_allclose(costs(output).mean(0), alone(folder, "collective.py"), atol=2e-6)


@pytest.mark.parametrize("module", ["launch", "launch_ps"])
def test_launched_workers_and_servers_are_one_process(module: str, folder: pathlib.Path) -> None:
    output = launched(folder, "--server_num", "2", "--worker_num", "2", "served.py", module=module)
    assert output.count("together 3") == 2
    np.testing.assert_allclose(costs(output).mean(0), alone(folder, "served.py"), atol=2e-6)


def test_two_workers_and_two_servers_are_one_process(folder: pathlib.Path) -> None:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [str(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in ports[:2]),
        "PADDLE_GLOO_HTTP_ENDPOINT": f"127.0.0.1:{ports[2]}",
        "PADDLE_TRAINERS_NUM": "2",
    }
    command = [sys.executable, "served.py"]
    processes = [
        start(folder, command, TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1", PADDLE_PORT=port, **common)
        for port in ports[:2]
    ]
    workers = [
        start(folder, command, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(number), **common)
        for number in range(2)
    ]
    try:
        output = "".join(map(finished, workers))
        for process in processes:
            finished(process)
    finally:
        for process in (*processes, *workers):
            process.kill()
    assert output.count("together 3") == 2
    np.testing.assert_allclose(costs(output).mean(0), alone(folder, "served.py"), atol=2e-6)
    assert (folder / "model" / "__model__").exists() and (folder / "persistables" / "fc_0.w_0").exists()
