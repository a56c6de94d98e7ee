"""A parameter-server job, fc 1000x1000 + fc 1, batch 32, two trainers and two servers as four processes: step times in turn.

    PADDLE_PYTHON=<a Python 3.7 with paddlepaddle 1.8.5> python benchmarks/pserver.py [--rounds 5] [--steps 50]

Both over TCP on this machine; the median step of trainer 0, and the ratio of the medians of the rounds.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

WORKER = pathlib.Path(__file__).with_name("pserver_worker.py")


def free_endpoints(count: int) -> str:
    """Addresses of this machine that nobody listens at."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    found = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    return found


def job(system: str, python: str, steps: int) -> float:
    """Seconds for the median step of trainer 0."""
    endpoints = free_endpoints(2)
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "FLUIDLITE_JOB_KEY": "benchmark", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        started = []
        for role in ("pserver", "trainer"):
            for number in range(2):
                env["RESULT"] = os.path.join(folder, f"{role}{number}")
                started.append(subprocess.Popen([python, str(WORKER), system, role, str(number), endpoints, "2", str(steps)], env=dict(env),
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        servers, trainers = started[:2], started[2:]
        for process in trainers:
            if process.wait(300):
                raise SystemExit(f"a process of {system} ended with {process.returncode}: {process.args}")
        for process in servers:                          # 1.8.5's servers outlive their trainers
            process.terminate()
            process.wait(30)
        with open(os.path.join(folder, "trainer0")) as source:
            return float(json.load(source))


def main() -> None:
    """Run the rounds and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    systems = {"fluidlite": sys.executable}
    if os.environ.get("PADDLE_PYTHON"):
        systems["paddle"] = os.environ["PADDLE_PYTHON"]
    times: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(options.rounds):
        for name, python in systems.items():
            times[name].append(job(name, python, options.steps))
    medians = {name: statistics.median(found) for name, found in times.items()}
    print("| system | ms a step | ratio |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median * 1e3:.1f} | {median / medians['fluidlite']:.2f} |")


if __name__ == "__main__":
    main()
