"""Data parallel training on two CPU devices, beside one device with two threads and beside others' ways to do
it.

    python benchmarks/data_parallel.py [mlp_large lenet ...] [--rounds 9] [--seconds 1] [--out RESULTS.md]

All are alive at once and visited in turn, round after round; the table gives FluidLite's step on two devices
and the median of each round's ratios to the others (below 1: two devices of FluidLite are faster).
TORCH_PYTHON (two processes, DistributedDataParallel over gloo) and PADDLE_PYTHON (PaddlePaddle 1.8.5,
CPU_NUM=2) name their interpreters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICES = 2
# name -> (heading, the variable that names its Python)
PEERS = {
    "devices": ("FluidLite, 2 devices", None),
    "one": ("FluidLite, 1 device, 2 threads", None),
    "ddp": ("torch DDP, gloo, 2 processes", "TORCH_PYTHON"),
    "torch": ("PyTorch, 1 process, 2 threads", "TORCH_PYTHON"),
    "paddle": ("PaddlePaddle 1.8.5, CPU_NUM=2", "PADDLE_PYTHON"),
}


# ---------------------------------------------------------------------- what a peer does
def fluid_step(fluid: Any, kind: str, spec: Any, devices: int) -> Callable[[], float]:
    """One training step of a workload on so many devices."""
    from fluid_peer import PROGRAMS

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        loss, optimizer = PROGRAMS[kind](fluid, spec)
        optimizer.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    scope = fluid.global_scope()
    exe.run(startup)
    for name, value in spec.params.items():
        scope.find_var(name).get_tensor().set(np.ascontiguousarray(value), fluid.CPUPlace())
    program = (
        main
        if devices == 1
        else fluid.CompiledProgram(main).with_data_parallel(loss.name, places=fluid.cpu_places(devices))
    )

    def step() -> float:
        (value,) = exe.run(program, feed=spec.next(), fetch_list=[loss])
        return float(np.mean(value))

    return step


def ddp_step(kind: str, spec: Any, rank: int) -> Callable[[], float]:
    """One process's step of a workload, on its half of each batch."""
    import torch
    import torch_peer

    params = torch.nn.ParameterDict(
        {name: torch.nn.Parameter(torch.tensor(np.asarray(value))) for name, value in spec.params.items()}
    )
    forward = torch_peer._forward(kind, params, spec)

    class Model(torch.nn.Module):  # type: ignore[misc]
        """The workload's parameters, and its loss."""

        def __init__(self) -> None:
            super().__init__()
            self.params = params

        def forward(self, batch: Any) -> Any:
            """The loss of a batch."""
            return forward(batch)

    model = torch.nn.parallel.DistributedDataParallel(Model())
    make = torch.optim.Adam if kind == "lenet" else torch.optim.SGD
    optimizer = make(model.parameters(), lr=spec.lr)

    def step() -> float:
        feed = spec.next()
        batch = {
            name: torch.from_numpy(value[rank * len(value) // DEVICES : (rank + 1) * len(value) // DEVICES])
            for name, value in feed.items()
        }
        optimizer.zero_grad(set_to_none=True)
        loss = model(batch)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def step_of(peer: str, workload: str, rank: int) -> Callable[[], float]:
    """The step of a peer."""
    sys.path[:0] = [HERE, os.path.join(HERE, "floors")]
    from worker import WORKLOADS, load

    kind, config = WORKLOADS[workload]
    spec = load(kind + "_spec").make(config)
    if peer == "ddp":
        return ddp_step(kind, spec, rank)
    if peer == "torch":
        import torch_peer

        return torch_peer.build(kind, spec, False)
    if peer == "paddle":
        import paddle.fluid as fluid
    else:
        import fluidlite as fluid
    return fluid_step(fluid, kind, spec, 1 if peer == "one" else DEVICES)


def timed(step: Callable[[], float], count: int) -> list[float]:
    """Milliseconds of so many steps."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def work(peer: str, workload: str, rank: int, store: str) -> None:
    """Train on demand: a line with seconds on stdin, the median step on stdout. Processes agree on the
    number of steps.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not answer for us
    if peer == "ddp":
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=DEVICES)
    step = step_of(peer, workload, rank)
    timed(step, 3)
    each = float(np.median(timed(step, 3)))
    say = lambda value: print(json.dumps(value), file=answers, flush=True)
    if rank == 0:
        say(step())
    else:
        step()
    while True:
        count = asked(rank, peer, each)
        if count == 0:
            return
        median = float(np.median(timed(step, count)))
        if rank == 0:
            say(median)


def asked(rank: int, peer: str, each: float) -> int:
    """How many steps to take now; 0 at the end."""
    line = sys.stdin.readline() if rank == 0 else ""
    count = max(2, int(float(line) * 1e3 / each)) if line else 0
    if peer != "ddp":
        return count
    import torch
    import torch.distributed as dist

    shared = torch.tensor([count])
    dist.broadcast(shared, 0)
    return int(shared)


# ---------------------------------------------------------------------- who visits them
class Peer:
    """A worker, or two of them, that train when asked."""

    def __init__(self, name: str, workload: str) -> None:
        self.name, self.times = name, list[float]()
        variable = PEERS[name][1]
        python = sys.executable if variable is None else os.environ[variable]
        threads = "1" if name in ("ddp", "paddle") else str(DEVICES)
        env = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "CPU_NUM": str(DEVICES),
            "MKL_DEBUG_CPU_TYPE": "5",
            "GLOG_minloglevel": "3",
        }
        self.folder = tempfile.TemporaryDirectory()
        self.processes = [
            subprocess.Popen(
                [
                    python,
                    os.path.abspath(__file__),
                    "--worker",
                    name,
                    workload,
                    str(rank),
                    os.path.join(self.folder.name, "store"),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=env,
            )
            for rank in range(DEVICES if name == "ddp" else 1)
        ]
        self.loss = self._answer()

    def _answer(self) -> Any:
        stdout = self.processes[0].stdout
        line = stdout.readline() if stdout is not None else ""
        return json.loads(line) if line else None

    def train(self, seconds: float) -> None:
        """One visit."""
        stdin = self.processes[0].stdin
        assert stdin is not None
        stdin.write(f"{seconds}\n")
        stdin.flush()
        self.times.append(self._answer())

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        self.folder.cleanup()


def measure(workload: str, names: list[str], rounds: int, seconds: float) -> list[Peer]:
    """Visit every peer `rounds` times in rotating order."""
    peers: list[Peer] = []
    try:
        for name in names:
            peers.append(Peer(name, workload))
        alive = [peer for peer in peers if peer.loss is not None]
        for number in range(rounds):
            shift = number % len(alive)
            for peer in alive[shift:] + alive[:shift]:
                peer.train(seconds)
    finally:
        for peer in peers:
            peer.close()
    return alive


def row(workload: str, peers: list[Peer], names: list[str]) -> str:
    """A line of the table."""
    found = {peer.name: peer for peer in peers}
    mine = found["devices"].times
    cells = []
    for name in names[1:]:
        ratios = [a / b for a, b in zip(mine, found[name].times, strict=True)] if name in found else []
        cells.append(f"{np.median(ratios):.2f} ({min(mine) / min(found[name].times):.2f})" if ratios else "-")
    return f"| {workload} | {np.median(mine):.2f} ms | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print a Markdown table of ratios: the median of the rounds', and in brackets that of
    the best visits.
    """
    if "--worker" in sys.argv:
        peer, workload, rank, store = sys.argv[2:6]
        work(peer, workload, int(rank), store)
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out")
    args = parser.parse_args()
    names = [name for name, (_, variable) in PEERS.items() if variable is None or os.environ.get(variable)]
    lines = [
        "| workload | "
        + " | ".join(("" if name == "devices" else "/ ") + PEERS[name][0] for name in names)
        + " |",
        "|---|" + "---|" * len(names),
    ]
    print("\n".join(lines), flush=True)
    for workload in args.workloads or ["mlp_large", "lenet"]:
        lines.append(row(workload, measure(workload, names, args.rounds, args.seconds), names))
        print(lines[-1], flush=True)
    if args.out:
        with open(args.out, "w", encoding="utf8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
