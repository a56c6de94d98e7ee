"""FluidLite beside its peers: every peer of a workload is alive at once, and they are visited in turn, round
after round.

    python benchmarks/run.py [mlp_small ...] [--rounds 7] [--seconds 1] [--numpy-only]
    python benchmarks/run.py --networks --threads 1 --page docs/BENCHMARKS.md --section networks
    python benchmarks/run.py --variants 20 --seed 100

`--networks` takes the published networks, in training and for one sample; `--variants` networks of random
sizes, those of the seeds from `--seed` on. `--numpy-only` has FluidLite do without the extra `fast`. Beside
the ratios of step times stand those of the time of the first step and of the peak memory to the best peer's.
`--page` writes the table, with the facts of the machine, between the marks of a section of a page.

A peer runs in the Python named by its variable (PADDLE_PYTHON, PADDLE2_PYTHON, TORCH_PYTHON, JAX_PYTHON:
interpreters of virtual environments that have paddlepaddle 1.8.5, paddlepaddle 2.6.2, torch or jax); a
peer without one is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from page import around, facts, fill
from worker import NETWORKS, VARIANT, WORKLOADS, unknown_workloads

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {
    "fluidlite": None,
    "numpy": None,
    "naive": None,
    "paddle": "PADDLE_PYTHON",
    "paddle2": "PADDLE2_PYTHON",
    "torch": "TORCH_PYTHON",
    "compile": "TORCH_PYTHON",
    "jax": "JAX_PYTHON",
}
TITLES = {
    "fluidlite": "FluidLite",
    "numpy": "NumPy by hand",
    "naive": "NumPy, an array per op",
    "paddle": "PaddlePaddle 1.8.5",
    "paddle2": "PaddlePaddle 2.6.2",
    "torch": "PyTorch",
    "compile": "torch.compile",
    "jax": "JAX jit",
}


class Peer:
    """A worker process that trains when asked."""

    def __init__(self, name: str, workload: str, threads: int, python: str = "", device: str = "cpu") -> None:
        self.name = name
        python = python or (sys.executable if PEERS[name] is None else os.environ[str(PEERS[name])])
        env = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "OPENBLAS_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "MKL_DEBUG_CPU_TYPE": "5",
            "BENCH_DEVICE": device,
        }
        if device == "cpu":
            env["JAX_PLATFORMS"] = "cpu"
        if PEERS[name] is None:
            # set for old builds of OpenBLAS, which fail on new processors; a current one would compute with
            # half as wide vectors
            for setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
                env.pop(setting, None)
        # installed peers come with compiled modules; a checkout has to keep its own
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "worker.py"), name, workload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )
        self.begun = self._answer()
        self.times: list[float] = []

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def train(self, seconds: float) -> None:
        """One visit."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        self.times.append(self._answer())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def measure(
    workload: str, names: list[str], rounds: int, seconds: float, threads: int, device: str = "cpu"
) -> dict[str, Peer]:
    """The peers that can train a workload, with their times."""
    peers = [Peer(name, workload, threads, device=device) for name in names]
    alive = [peer for peer in peers if peer.begun is not None]
    if "fluidlite" not in [peer.name for peer in alive]:
        sys.exit(
            f"FluidLite did not train {workload}; to see why: {sys.executable} benchmarks/worker.py "
            f"fluidlite {workload}"
        )
    visit(alive, rounds, seconds)
    for peer in peers:
        peer.close()
    return {peer.name: peer for peer in alive}


def visit(peers: list[Peer], rounds: int, seconds: float) -> None:
    """Let every peer train `rounds` times, in rotating order."""
    for number in range(rounds):
        shift = number % len(peers)
        for peer in peers[shift:] + peers[:shift]:
            peer.train(seconds)


def row(workload: str, peers: dict[str, Peer], names: list[str]) -> str:
    """A line of the table: FluidLite's median, and its ratio to each peer (below 1: FluidLite is faster)."""

    def median(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    mine = peers["fluidlite"].times
    cells = []
    for name in names[1:]:
        other = peers.get(name)
        ratios = [a / b for a, b in zip(mine, other.times, strict=True)] if other else []
        cells.append(f"{median(ratios):.2f}" if ratios else "-")
    cells += [_beside_best(peers, fact) for fact in ("first_s", "peak_mb")]
    return f"| {workload} | {median(mine):.3f} ms | {' | '.join(cells)} |"


def _beside_best(peers: dict[str, Peer], fact: str) -> str:
    """FluidLite's figure, and its ratio to the least of the other frameworks'."""
    mine = peers["fluidlite"].begun[fact]
    others = [peer.begun[fact] for name, peer in peers.items() if name not in ("fluidlite", "numpy", "naive")]
    return f"{mine:.2f} ({mine / min(others):.2f})" if others else f"{mine:.2f}"


def _is_there(peer: str) -> bool:
    """True for a peer that needs no Python of its own, or is given one."""
    return PEERS[peer] is None or bool(os.environ.get(str(PEERS[peer])))


TF32 = {"BENCH_TF32": "1", "FLAGS_enable_cublas_tensor_op_math": "1"}
NUMPY_ONLY = {"FLAGS_fast_loops": "off", "FLAGS_use_onednn": "0"}


def arguments() -> argparse.Namespace:
    """The command line; exit code 2 and a line for a wrong one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--variants", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--numpy-only", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tf32", action="store_true", help="of a device: all round float32 to TF32")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--page")
    parser.add_argument("--section", default="workloads")
    args = parser.parse_args()
    if wrong := unknown_workloads(args.workloads):
        parser.error(wrong)
    if args.page:
        try:
            around(args.page, args.section)
        except (OSError, LookupError) as error:
            parser.error(str(error))
    variants = [f"{VARIANT}{args.seed + number}" for number in range(args.variants)]
    args.workloads += [*variants, *(NETWORKS if args.networks else ())]
    return args


def main() -> None:
    """Measure and print a Markdown table of ratios."""
    args = arguments()
    if args.numpy_only:
        os.environ.update(NUMPY_ONLY)
    if args.tf32:
        os.environ.update(TF32)
    names = [name for name in PEERS if name in args.peers.split(",") and _is_there(name)]
    lines = [
        "| workload | FluidLite, median step | "
        + " | ".join("/ " + TITLES[name] for name in names[1:])
        + " | first step, s (/ best) | peak, MB (/ best) |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    print("\n".join(lines), flush=True)
    versions: dict[str, str] = {}
    for workload in args.workloads or WORKLOADS:
        found = measure(workload, names, args.rounds, args.seconds, args.threads, args.device)
        versions |= {
            name: f"{TITLES[name].split()[0]} {peer.begun['version']}" for name, peer in found.items()
        }
        lines.append(row(workload, found, names))
        print(lines[-1], flush=True)
    lines += ["", facts(args.threads, dict.fromkeys(versions.values()))]
    print("\n".join(lines[-2:]))
    if args.page:
        fill(args.page, args.section, "\n".join(lines))


if __name__ == "__main__":
    main()
