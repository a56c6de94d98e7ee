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
import sys
import tempfile

from pserver import ROLES, free_endpoints, run_together

WORKER = pathlib.Path(__file__).with_name("ctr_worker.py")


def job(system: str, python: str, mode: str, rows: int, steps: int) -> float:
    """Seconds for the mean step of the slower trainer."""
    endpoints = free_endpoints(2)
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            ["env", f"RESULT={folder}/{role}", python, str(WORKER), system, role[:-1], role[-1], endpoints]
            + ["2", str(steps), mode, str(rows)]
            for role in ROLES
        ]
        run_together(system, commands)
        return max(float(pathlib.Path(folder, role).read_text()) for role in ROLES[2:])


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
