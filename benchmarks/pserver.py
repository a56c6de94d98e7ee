"""Jobs of two trainers and two servers as four processes over TCP on this machine.

    PADDLE_PYTHON=PYTHON37 python benchmarks/pserver.py [--rounds 5] [--steps 50]
    python benchmarks/pserver.py --sparse
    python benchmarks/pserver.py --mpiexec mpiexec
    python benchmarks/pserver.py --bandwidth

PYTHON37 has paddlepaddle 1.8.5. `--sparse` trains a table of 10 million rows x 16, with 512 x 26 ids a
trainer and step; with `--mpiexec` the same job under MPI takes part; `--bandwidth` moves parameters through
the executor beside bare sockets, ZeroMQ and gRPC.

The systems take turns; of each job the median step of trainer 0, of the rounds their median.
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
from typing import Any

FOLDER = pathlib.Path(__file__).parent
ONE_THREAD = {
    "FLUIDLITE_JOB_KEY": "benchmark",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def free_endpoints(count: int) -> str:
    """Addresses of this machine that nobody listens at."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    found = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    return found


def under_mpi(mpiexec: str, commands: list[list[str]]) -> list[str]:
    """One command that starts all."""
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    found = [
        mpiexec,
        *(["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "mpirun" in version else []),
    ]
    for number, command in enumerate(commands):
        found += [*([":"] if number else []), "-n", "1", *command]
    return found


ROLES = [f"{kind}{number}" for kind in ("pserver", "trainer") for number in range(2)]


def job(system: str, python: str, case: str, steps: int, mpiexec: str = "") -> dict[str, list[float]]:
    """The report of each process: trainers' median step and memory, servers' memory before and after."""
    endpoints = free_endpoints(2)
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            ["env", f"RESULT={folder}/{role}", python, str(FOLDER / "pserver_worker.py"), system, case]
            + [role[:-1], role[-1], endpoints, "2", str(steps)]
            for role in ROLES
        ]
        run_together(system, [under_mpi(mpiexec, commands)] if mpiexec else commands)
        reports = {role: pathlib.Path(folder, role) for role in ROLES}
        return {role: json.loads(path.read_text()) for role, path in reports.items() if path.exists()}


def run_together(system: str, commands: list[list[str]]) -> None:
    """Start all, servers first, and wait for them; SystemExit where a trainer fails."""
    started = [
        subprocess.Popen(
            command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for command in commands
    ]
    try:
        for process in started[2:] or started:
            if process.wait(600):
                raise SystemExit(f"a process of {system} ended with {process.returncode}: {process.args}")
        for process in started[:2]:
            if system == "paddle":  # 1.8.5's servers outlive their trainers
                process.terminate()
            process.wait(60)
    finally:
        for process in started:
            process.kill()


def compare(case: str, rounds: int, steps: int, mpiexec: str = "") -> None:
    """Run the rounds and print a table."""
    systems = {"fluidlite": sys.executable, **({"fluidlite, MPI": sys.executable} if mpiexec else {})}
    if os.environ.get("PADDLE_PYTHON"):
        systems["paddle"] = os.environ["PADDLE_PYTHON"]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, python in systems.items():
            found[name].append(job(name, python, case, steps, mpiexec if "MPI" in name else ""))
    times = {name: [one["trainer0"][0] * 1e3 for one in jobs] for name, jobs in found.items()}
    ours = times["fluidlite"]
    print(
        "| system | ms a step, median round | best round | FluidLite / it: medians, bests | MB of a trainer "
        "| MB of a server |"
    )
    print("|---|---|---|---|---|---|")
    for name, ms in times.items():
        last = found[name][-1]
        server = f"{last['pserver0'][0]:.0f}, {last['pserver0'][1]:.0f}" if "pserver0" in last else "-"
        ratios = f"{statistics.median(ours) / statistics.median(ms):.2f}, {min(ours) / min(ms):.2f}"
        print(
            f"| {name} | {statistics.median(ms):.1f} | {min(ms):.1f} | {ratios} | {last['trainer0'][1]:.0f} "
            f"| {server} |"
        )


def main() -> None:
    """Measure what the options say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--mpiexec", default="")
    parser.add_argument("--bandwidth", action="store_true")
    options = parser.parse_args()
    if options.bandwidth:
        raise SystemExit(
            subprocess.call(
                [sys.executable, str(FOLDER / "pserver_bandwidth.py"), str(options.rounds)],
                env={**os.environ, **ONE_THREAD},
            )
        )
    compare("sparse" if options.sparse else "dense", options.rounds, options.steps, options.mpiexec)


if __name__ == "__main__":
    main()
