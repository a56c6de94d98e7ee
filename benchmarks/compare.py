"""Two commits of FluidLite side by side: the same workloads in both, visited in turn, round after round.

    python benchmarks/compare.py A B [mlp_small ...] [--rounds 7] [--seconds 1] [--threads 2]

Each commit is installed, with its extra `fast`, in an environment of its own that is removed at the end.
The workloads are those of this checkout. A ratio below 1: B is faster, or needs less.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from run import Peer, visit
from worker import WORKLOADS, unknown_workloads

ROOT = pathlib.Path(__file__).resolve().parents[1]


def commit(name: str) -> str:
    """The full name of a commit; SystemExit where there is none."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise SystemExit(f"compare.py: {name!r} is no commit of this repository")
    return found.stdout.strip()


def install(name: str, folder: pathlib.Path) -> str:
    """The Python of a new environment that has FluidLite as it was in a commit."""
    source = folder / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", name], check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv" / "bin" / "python")
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        f"{source}[fast]",
        "scikit-learn",
    ]
    subprocess.run(pip, check=True)
    return python


def row(workload: str, peers: list[Peer]) -> str:
    """A line of the table: A's median step, and the ratios of B to A."""
    before, after = peers
    ratios = sorted(b / a for a, b in zip(before.times, after.times, strict=True))
    facts = [after.begun[fact] / before.begun[fact] for fact in ("first_s", "peak_mb")]
    middle = sorted(before.times)[len(before.times) // 2]
    spread = f"{ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
    return f"| {workload} | {middle:.3f} ms | {spread} | {facts[0]:.2f} | {facts[1]:.2f} |"


def compare(pythons: list[str], workloads: list[str], args: argparse.Namespace) -> None:
    """Print the table."""
    print("| workload | A, median step | B / A (least to greatest) | first step | peak memory |")
    print("|---|---|---|---|---|", flush=True)
    for workload in workloads:
        peers = [Peer("fluidlite", workload, args.threads, python) for python in pythons]
        alive = [peer.begun is not None for peer in peers]
        if all(alive):
            visit(peers, args.rounds, args.seconds)
        for peer in peers:
            peer.close()
        failed = " and ".join(side for side, ran in zip("AB", alive, strict=True) if not ran)
        print(
            f"| {workload} | {failed} did not train | | | |" if failed else row(workload, peers), flush=True
        )


def main() -> None:
    """Install both commits and compare them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs=2, metavar=("A", "B"))
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if wrong := unknown_workloads(args.workloads):
        parser.error(wrong)
    names = [commit(name) for name in args.commits]
    with tempfile.TemporaryDirectory(prefix="fluidlite-compare-") as folder:
        os.chdir(folder)  # Python would find the checkout's package in its root first
        pythons = [install(name, pathlib.Path(folder) / side) for side, name in zip("ab", names, strict=True)]
        compare(pythons, args.workloads or [*WORKLOADS], args)


if __name__ == "__main__":
    main()
