"""Steps of Fleet beside those of programs that a transpiler makes by hand, interleaved.

    python benchmarks/fleet.py ranks      two ranks under mpiexec, which take turns with both programs
    python benchmarks/fleet.py servers    jobs of two trainers and two servers by `launch`, in turn

An MLP, 128 rows of 32-128-128-2 each. Seconds of the clock and of the processor, medians over rounds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.base.strategies import DistributedMode
from fluidlite.paddle.distributed import fleet

ROWS, STEPS, ROUNDS = 128, 50, 21
BATCH = {
    "x": np.random.RandomState(0).random_sample((ROWS, 32)).astype("float32"),
    "y": np.random.RandomState(1).randint(2, size=(ROWS, 1)),
}


def network() -> Any:
    """The loss of the MLP."""
    x, y = paddle.static.data("x", [None, 32]), paddle.static.data("y", [None, 1], "int64")
    start = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.01))
    hidden = paddle.static.nn.fc(x, 128, activation="tanh", weight_attr=start)
    hidden = paddle.static.nn.fc(hidden, 128, activation="tanh", weight_attr=start)
    return paddle.nn.functional.cross_entropy(paddle.static.nn.fc(hidden, 2, weight_attr=start), y)


def built(way: str, is_collective: bool) -> tuple[Any, Any, Any]:
    """Main and startup program of this process, and what else a server needs."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    fleet.init(is_collective=is_collective)
    with paddle.static.program_guard(main, startup), fluid.unique_name.guard():
        loss, optimizer = network(), paddle.optimizer.SGD(0.1)
        if way == "fleet":
            strategy = fleet.DistributedStrategy()
            strategy.a_sync = False
            fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
            return main, startup, loss
        optimizer.minimize(loss)
        config, index = fluid.DistributeTranspilerConfig(), fleet.worker_index()
        if is_collective:
            config.mode, config.collective_mode = "collective", "grad_allreduce"
            places = fleet.worker_endpoints()
            names = {"trainers": ",".join(places), "current_endpoint": places[index]}
            fluid.DistributeTranspiler(config).transpile(index, main, startup_program=startup, **names)
            return main, startup, None
        # gradients are split when they leave, as Fleet's are
        config.sync_mode, config.runtime_split_send_recv = False, True
        config.half_async = config.completely_not_async = True
        made = fluid.DistributeTranspiler(config)
        servers = fleet.server_endpoints(to_string=True)
        made.transpile(index, main, servers, fleet.worker_num(), False, startup)
    return main, startup, made


def steps(exe: Any, main: Any, scope: Any, count: int) -> tuple[float, float]:
    """Milliseconds of a step, by the clock and by the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    for _ in range(count):
        exe.run(main, feed=BATCH, scope=scope)
    return tuple((now - then) * 1e3 / count for now, then in
                 ((time.perf_counter(), clock), (time.process_time(), processor)))  # fmt: skip


def rank() -> None:
    """One of the ranks; rank 0 prints the medians of each way."""
    exe, made = paddle.static.Executor(paddle.CPUPlace()), {}
    for way in ("fleet", "by hand"):
        main, startup, _ = built(way, True)
        made[way] = main, paddle.static.Scope()
        exe.run(startup, scope=made[way][1])
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in made}
    for number in range(ROUNDS + 1):
        for way in made if number % 2 else reversed(made):
            times[way].append(steps(exe, *made[way], STEPS))
    if fleet.is_first_worker():
        medians = {way: np.median(found[1:], axis=0).tolist() for way, found in times.items()}
        print(json.dumps(medians), flush=True)


def role(way: str) -> None:
    """One process of a job with servers; trainer 0 prints a step's time."""
    main, startup, made = built(way, False)
    exe = paddle.static.Executor(paddle.CPUPlace())
    if fleet.is_server() and way == "fleet":
        fleet.init_server()
        return fleet.run_server()
    if fleet.is_server():
        place = fleet.server_endpoints()[fleet.server_index()]
        server = made.get_pserver_program(place)
        exe.run(made.get_startup_program(place, server))
        exe.run(server)
        return None
    if way == "fleet":
        fleet.init_worker()
    else:
        main = made.get_trainer_program()
    beside = None
    if way == "by hand":
        facts = {"pserver_endpoints": fleet.server_endpoints(), "trainer_id": fleet.worker_index()}
        beside = fluid.communicator.Communicator(main, DistributedMode.SYNC, facts)
        beside.start()
    scope = paddle.static.global_scope()
    exe.run(startup)
    steps(exe, main, scope, 20)
    found = np.median([steps(exe, main, scope, STEPS) for _ in range(5)], axis=0)
    if fleet.is_first_worker():
        print(json.dumps({way: found.tolist()}), flush=True)
    if way == "fleet":
        return fleet.stop_worker()
    if beside is not None:
        beside.stop()
    return exe.close()


def job(*arguments: str) -> dict[str, Any]:
    """The line that a job prints."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def servers() -> dict[str, Any]:
    """Medians of jobs that take turns."""
    launcher = [sys.executable, "-m", "fluidlite.paddle.distributed.launch", "--server_num", "2"]
    found: dict[str, list[Any]] = {"fleet": [], "by hand": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            for way, times in found.items() if number % 2 else reversed(found.items()):
                said = job(*launcher, "--worker_num", "2", "--log_dir", folder, __file__, "role", way)
                times.append(said[way])
    return {way: np.median(times, axis=0).tolist() for way, times in found.items()}


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "ranks"
    if what == "rank":
        return rank()
    if what == "role":
        return role(sys.argv[2])
    mpiexec = shutil.which("mpiexec") or "mpiexec"
    medians = servers() if what == "servers" else job(mpiexec, "-n", "2", sys.executable, __file__, "rank")
    for way, (clock, processor) in medians.items():
        print(f"{what}, {way}: {clock:.3f} ms a step, {processor:.3f} ms of the processor")
    return None


if __name__ == "__main__":
    main()
