"""The cost of the executor and the parameter-server path over bare MPI: two processes, interleaved rounds.

    python benchmarks/bandwidth.py [--rounds 15] [--mpiexec mpiexec]

Reduce: a step that makes a gradient (by filling it) and sums it over both processes, against `fill` and
`Allreduce` in place. Push and pull: a gradient to a server and a parameter back, against `Send`, a request of
8 bytes, and `Recv`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
STOP = -1


def rounds_of(
    count: int, repeats: int, ways: dict[str, Callable[[], Any]], barrier: Callable[[], None]
) -> dict[str, list[float]]:
    """Seconds of each way in each round, the first round left out."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(count + 1):
        for name, way in ways.items():
            barrier()
            start = time.perf_counter()
            for _ in range(repeats):
                way()
            if number:
                times[name].append((time.perf_counter() - start) / repeats)
    return times


def repeats_of(nbytes: int) -> int:
    """How often something is done in a round: a few hundredths of a second."""
    return max(1, min(100, (1 << 25) // nbytes))


def row(what: str, nbytes: int, moved: int, times: dict[str, list[float]]) -> str:
    """A line of the table: gigabytes a second in the best rounds, their ratio, and the median of the
    ratios of all rounds.
    """
    bare, ours = min(times["bare"]), min(times["ours"])
    ratio = statistics.median(one / other for one, other in zip(times["bare"], times["ours"], strict=True))
    speeds = f"{moved / bare / 1e9:.2f} | {moved / ours / 1e9:.2f}"
    return f"| {what} | {nbytes >> 10} KB | {speeds} | {100 * bare / ours:.0f} % | {100 * ratio:.0f} % |"


def reduce_program(nbytes: int) -> Any:
    """A program that makes a gradient and sums it over the ranks."""
    import fluidlite as fluid

    main = fluid.Program()
    block = main.global_block()
    block.create_var(name="g", shape=[nbytes // 4], dtype="float32")
    block.append_op(
        type="fill_constant", outputs={"Out": ["g"]}, attrs={"shape": [nbytes // 4], "dtype": 5, "value": 1.0}
    )
    block.append_op(type="c_allreduce_sum", inputs={"X": ["g"]}, outputs={"Out": ["g"]}, attrs={"ring_id": 0})
    return main


def reductions(count: int, mpi: Any) -> list[str]:
    """The lines of the reductions."""
    import fluidlite as fluid
    from fluidlite.executor.comm.transports import process_session

    session = process_session(False)
    assert session is not None
    session.join(0, mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size)
    lines = []
    for nbytes in SIZES:
        exe, program, bare = (
            fluid.Executor(fluid.CPUPlace()),
            reduce_program(nbytes),
            np.ones(nbytes // 4, "float32"),
        )

        def by_hand(bare: Any = bare) -> None:
            bare.fill(1.0)
            mpi.COMM_WORLD.Allreduce(mpi.IN_PLACE, bare)

        times = rounds_of(
            count,
            repeats_of(nbytes),
            {"bare": by_hand, "ours": lambda exe=exe, program=program: exe.run(program, feed={})},
            mpi.COMM_WORLD.Barrier,
        )
        lines.append(row("reduce", nbytes, nbytes, times))
    return lines


class Exchange:
    """Process 0 pushes and pulls, process 1 is the server."""

    def __init__(self, mpi: Any) -> None:
        from fluidlite.executor.comm.mpi.session import MpiSession
        from fluidlite.executor.comm.terms import Terms
        from fluidlite.executor.comm.transports import process_session

        session = process_session(True)
        assert isinstance(session, MpiSession)
        self.world, self.session = mpi.COMM_WORLD, session
        self.request = np.zeros(1, np.int64)
        if self.world.rank:
            self.serving = session.listen("server:1", Terms(trainers=1), lambda header: None)
        else:
            session.meet()  # both have to come before they know each other

    def trainer(self, nbytes: int) -> dict[str, Callable[[], None]]:
        """Both ways of pushing a gradient and pulling a parameter."""
        from fluidlite.executor.comm.messages import Kind, Message

        gradient, parameter = np.ones(nbytes // 4, "float32"), np.zeros(nbytes // 4, "float32")

        def bare() -> None:
            self.world.Send(gradient, 1, 0)
            self.world.Send(self.request, 1, 1)
            self.world.Recv(parameter, 1, 2)

        def ours() -> None:
            self.session.link.post("server:1", Message(Kind.SEND, 0, "w@GRAD", gradient))
            self.session.link.post("server:1", Message(Kind.GET, 0, "w"))
            self.session.link.answer("server:1", parameter)

        return {"bare": bare, "ours": ours}

    def server(self, nbytes: int) -> dict[str, Callable[[], None]]:
        """The other side of both."""
        gradient, parameter = np.ones(nbytes // 4, "float32"), np.zeros(nbytes // 4, "float32")

        def bare() -> None:
            self.world.Recv(gradient, 0, 0)
            self.world.Recv(self.request, 0, 1)
            self.world.Send(parameter, 0, 2)

        def ours() -> None:
            self.serving.next_message()
            found = self.serving.next_message()
            assert found is not None
            self.serving.reply(found[0], parameter)

        return {"bare": bare, "ours": ours}


def exchanges(count: int, mpi: Any) -> list[str]:
    """The lines of pushing and pulling."""
    exchange, lines = Exchange(mpi), []
    for nbytes in SIZES:
        ways = exchange.server(nbytes) if mpi.COMM_WORLD.rank else exchange.trainer(nbytes)
        lines.append(
            row(
                "push and pull",
                nbytes,
                2 * nbytes,
                rounds_of(count, repeats_of(nbytes), ways, mpi.COMM_WORLD.Barrier),
            )
        )
    return lines


def main() -> None:
    """Start the two processes, or be one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--mpiexec",
        default=shutil.which("mpiexec", path=str(pathlib.Path(sys.executable).parent)) or "mpiexec",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.worker:
        version = subprocess.run(
            [options.mpiexec, "--version"], capture_output=True, text=True, check=False
        ).stdout
        allow = (
            ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "mpirun" in version else []
        )
        command = [
            options.mpiexec,
            *allow,
            "-n",
            "2",
            sys.executable,
            __file__,
            "--worker",
            "--rounds",
            str(options.rounds),
        ]
        raise SystemExit(
            subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode
        )
    from mpi4py import MPI

    lines = exchanges(options.rounds, MPI) + reductions(options.rounds, MPI)
    if MPI.COMM_WORLD.rank == 0:
        name = MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0 ")
        head = "| what | size | bare MPI, GB/s | FluidLite, GB/s | best rounds | median of rounds |"
        print("\n".join([name, "", head, "|---|---|---|---|---|---|", *lines]), flush=True)


if __name__ == "__main__":
    main()
