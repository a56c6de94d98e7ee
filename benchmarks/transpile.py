"""How long a parameter-server job takes to transpile, beside PaddlePaddle 1.8.5.

    python benchmarks/transpile.py [--sizes 10x2x2 50x10x10 100x100x1000] [--rounds 3] [--patience 200]

A size is LAYERSxSERVERSxTRAINERS; a program of n layers has 8 n + 3 ops. PaddlePaddle runs in the Python
named by PADDLE_PYTHON and is left out without one. Each round of each size is a process of its own,
FluidLite's and PaddlePaddle's in turn; before the clock starts, it has transpiled a small program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

SIZES = ["10x2x2", "50x10x10", "100x100x1000", "200x50x2"]
PARTS = {"trainer": "trainer", "server": "one server", "servers": "all servers"}
WIDTH = 64


def build(fluid: Any, layers: int) -> tuple[Any, Any, int]:
    """Main and startup program of a chain of layers trained by SGD, and the number of ops of the main
    program.
    """
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.data("x", [None, WIDTH])
        for _ in range(layers):
            x = fluid.layers.fc(x, WIDTH, act="relu")
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(x))
    return main, startup, len(main.global_block().ops)


def measure(fluid: Any, layers: int, servers: int, trainers: int) -> dict[str, float]:
    """Seconds for the trainer's programs, one server's, and every server's."""
    main, startup, ops = build(fluid, layers)
    endpoints = [f"10.0.0.{index}:6174" for index in range(servers)]
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False

    def transpiler(main: Any, startup: Any) -> Any:
        made = fluid.DistributeTranspiler(config)
        made.transpile(0, main, ",".join(endpoints), trainers, True, startup)
        return made

    times = {"ops": float(ops)}
    begin = time.perf_counter()
    made = transpiler(main, startup)
    made.get_trainer_program(wait_port=False)
    times["trainer"] = time.perf_counter() - begin
    main, startup, _ = build(fluid, layers)
    made = transpiler(main, startup)  # PaddlePaddle's cannot make servers once it has made a trainer
    for part, asked in (("server", endpoints[:1]), ("servers", endpoints)):
        begin = time.perf_counter()
        for endpoint in asked:
            made.get_pserver_programs(endpoint)
        times[part] = time.perf_counter() - begin
    return times


def work(peer: str, size: str) -> None:
    """Measure one size, once, in a worker process, as one line of JSON."""
    if peer == "paddle":
        import paddle.fluid as fluid  # type: ignore[import-untyped]
    else:
        import fluidlite as fluid  # type: ignore[no-redef]
    measure(fluid, 1, 2, 2)  # imports what is imported late, on both sides
    print(json.dumps(measure(fluid, *map(int, size.split("x")))))


def run(peer: str, size: str, patience: float) -> dict[str, float] | None:
    """One process; None where there is no such peer, or where it takes longer than `patience` seconds."""
    python = sys.executable if peer == "fluidlite" else os.environ.get("PADDLE_PYTHON")
    if python is None:
        return None
    try:
        done = subprocess.run(
            [python, os.path.abspath(__file__), "--worker", peer, size],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
            timeout=patience,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return None
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def row(size: str, rounds: int, patience: float) -> str:
    """A line of the table: each part's best time here, and there."""
    found: dict[str, list[dict[str, float]]] = {"fluidlite": [], "paddle": []}
    for _ in range(rounds):
        for peer, runs in found.items():
            times = run(peer, size, patience)
            runs += [times] if times else []
    layers, servers, trainers = size.split("x")
    cells = [str(8 * int(layers) + 3), servers, trainers]
    for part in PARTS:
        mine, theirs = (
            min((times[part] for times in found[peer]), default=None) for peer in ("fluidlite", "paddle")
        )
        cells.append("-" if mine is None else f"{mine:.3f}")
        cells.append("-" if theirs is None or mine is None else f"{theirs:.2f} ({theirs / mine:.0f} x)")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=200.0)
    parser.add_argument("--worker", nargs=2, metavar=("PEER", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    heads = [head for part in PARTS.values() for head in (f"{part}, s", "PaddlePaddle 1.8.5")]
    print(f"| ops | servers | trainers | {' | '.join(heads)} |")
    print("|---" * (3 + len(heads)) + "|")
    for size in options.sizes:
        print(row(size, options.rounds, options.patience), flush=True)


if __name__ == "__main__":
    main()
