"""Click-through rates from a sparse table, 2 trainers x 512 x 26 ids a step, two servers: mean step times
over TCP, in turn.

PADDLE_PYTHON=<a Python 3.7 with paddlepaddle 1.8.5> python benchmarks/ctr.py [--modes sync async geo] [--rows
1000000]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from pserver import free_endpoints

WORKER = pathlib.Path(__file__).with_name("ctr_worker.py")


def job(system: str, python: str, mode: str, rows: int, steps: int) -> float:
    """Seconds for the mean step of the slower trainer."""
    endpoints = free_endpoints(2)
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "FLUIDLITE_JOB_KEY": "benchmark",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        started = []
        try:
            for role in ("pserver", "trainer"):
                for number in range(2):
                    command = [
                        python,
                        str(WORKER),
                        system,
                        role,
                        str(number),
                        endpoints,
                        "2",
                        str(steps),
                        mode,
                        str(rows),
                    ]
                    started.append(
                        subprocess.Popen(
                            command,
                            env={**env, "RESULT": os.path.join(folder, f"{role}{number}")},
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL,
                        )
                    )
            for process in started[2:]:
                if process.wait(300):
                    raise SystemExit(f"a process of {system} ended with {process.returncode}: {process.args}")
        finally:
            for process in started:  # 1.8.5's servers outlive their trainers
                process.kill()
                process.wait(30)
        return max(float(pathlib.Path(folder, f"trainer{number}").read_text()) for number in range(2))


def main() -> None:
    """Run the rounds and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modes", nargs="+", default=["sync", "async", "geo"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    systems = {"fluidlite": sys.executable}
    if os.environ.get("PADDLE_PYTHON"):
        systems["paddle"] = os.environ["PADDLE_PYTHON"]
    print(
        "| mode | "
        + " | ".join(f"{name}, ms a step" for name in systems)
        + " | ratio |\n|---|"
        + "---|" * len(systems)
        + "---|"
    )
    for mode in options.modes:
        times: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(options.rounds):
            for name, python in systems.items():
                times[name].append(job(name, python, mode, options.rows, options.steps))
        medians = [statistics.median(found) for found in times.values()]
        print(
            f"| {mode} | "
            + " | ".join(f"{median * 1e3:.1f}" for median in medians)
            + f" | {medians[0] / medians[-1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
