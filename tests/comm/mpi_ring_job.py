"""One process of a job under mpirun that only talks on rings: `mpiexec -n N python mpi_ring_job.py WHAT`.
Each says "done" at its end.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from mpi4py import MPI
from ring_cases import CASES, RingCase, check, joined, ring

import fluidlite as fluid
from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.mpi.session import MpiSession
from fluidlite.executor.comm.transports import process_session

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def table() -> None:
    """Every op of the table, on rings of all processes, in two groups of neighbours, and among those with
    even numbers.
    """
    joined(RANK, SIZE, (0, 1))
    for number, case in enumerate(CASES):
        try:
            check(case, RANK, SIZE, number % 2 if case.op.startswith("c_") else 0)
        except AssertionError as error:
            raise AssertionError(f"{case.id}: {error}") from error
    big = RingCase(
        "c_allreduce_sum",
        lambda rank, size: np.full(3 << 18, rank + 1, "float32"),
        lambda values, rank: sum(values[1:], values[0]),
        in_place=True,
    )
    check(big, RANK, SIZE)
    for _ in range(300):  # calls behind those that are all checked
        assert ring().all_reduce(np.array([1.0]), "sum")[0] == SIZE


def groups() -> None:
    """Rings of some processes, whose names differ although their numbers do not."""
    places = [f"h{number}:1" for number in range(SIZE)]
    mine = places[RANK // 2 * 2 : RANK // 2 * 2 + 2]
    for ring_id, members in ((5, mine), *([(6, places[::2])] if RANK % 2 == 0 else []), (7, places[::-1])):
        startup, scope = fluid.Program(), fluid.Scope()
        block, number = startup.global_block(), members.index(places[RANK])
        block.create_var(name="id", persistable=True, type=fluid.core.VarDesc.VarType.RAW)
        block.append_op(
            type="c_gen_nccl_id",
            outputs={"Out": ["id"]},
            attrs={
                "rank": number,
                "endpoint": places[RANK],
                "other_endpoints": [one for one in members if one != places[RANK]],
            },
        )
        block.append_op(
            type="c_comm_init",
            inputs={"X": ["id"]},
            attrs={"nranks": len(members), "rank": number, "ring_id": ring_id},
        )
        for _ in range(2):
            fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    total = ring(5).all_reduce(np.array([10.0**RANK]), "sum")
    if RANK % 2 == 0:
        total = ring(6).all_reduce(total, "sum")
    assert ring(5).broadcast(total, 0)[0] == sum(10.0**number for number in range(SIZE))
    assert ring(7).all_gather(np.array([RANK]))[0][0] == SIZE - 1


def exchange() -> None:
    """All send much before they receive."""
    joined(RANK, SIZE)
    for count in (0, 5, 1 << 20):
        ring().send(np.full(count, RANK, "float32"), (RANK + 1) % SIZE)
        found = ring().receive((RANK - 1) % SIZE)
        assert found.size == count and (found == (RANK - 1) % SIZE).all()


def overlap() -> None:
    """A reduction gets on while nobody waits for it, as long as somebody looks after it."""
    joined(RANK, SIZE)
    values = [np.full(1 << 16, RANK + number, "float32") for number in range(3)]
    started = [ring().start_all_reduce(value, value, "sum") for value in values]
    end = time.monotonic() + 10
    while not all(request.request.Test() for request in started) and time.monotonic() < end:  # type: ignore[attr-defined]
        for request in started:
            request.poll()
    for number, request in reversed(list(enumerate(started))):
        request.wait()
        assert values[number][0] == sum(rank + number for rank in range(SIZE))


def disagree(what: str) -> None:
    """An error on every rank, which each prints and survives."""
    joined(RANK, SIZE)
    odd = RANK == 1
    try:
        if what == "shape":
            ring().all_reduce(np.zeros(4 if odd else 3, "float32"), "sum")
        elif what == "op":
            _ = (
                ring().broadcast(np.zeros(3, "float32"), 0)
                if odd
                else ring().all_reduce(np.zeros(3, "float32"), "sum")
            )
        elif what == "root":
            ring().broadcast(np.zeros(3, "float32"), RANK % 2)
    except CommunicatorError as error:
        sys.stdout.write(f"{RANK} heard: {error}\n")
        sys.stdout.flush()


def fail(what: str) -> None:
    """Process 1 fails, leaves, or does not come; the others wait for it."""
    if what == "early" and RANK == 1:
        raise ValueError("before anything was said")
    joined(RANK, SIZE)
    if what == "sleep":  # the limit is short only where it should be reached
        session = process_session(False)
        assert isinstance(session, MpiSession)
        session.waiter.deadline = 2.0
    if RANK != 1:
        program = fluid.Program()
        program.global_block().create_var(name="x", shape=[3], dtype="float32")
        program.global_block().append_op(
            type="c_allreduce_sum", inputs={"X": ["x"]}, outputs={"Out": ["x"]}, attrs={"ring_id": 0}
        )
        fluid.Executor(fluid.CPUPlace()).run(program, feed={"x": np.zeros(3, "float32")}, fetch_list=["x"])
    elif what == "raise":
        raise ValueError("as it was told to")
    elif what == "exit":
        sys.exit(3)
    elif what == "sleep":
        time.sleep(60)


def other_program() -> None:
    """Startup programs of a job of two more ranks than there are processes."""
    joined(RANK, SIZE + 2)


def same_program() -> None:
    """All have the program of rank 0."""
    joined(0, SIZE)


def main() -> None:
    what: Any = {
        "table": table,
        "groups": groups,
        "exchange": exchange,
        "overlap": overlap,
        "other_program": other_program,
        "same_program": same_program,
        "disagree": lambda: disagree(sys.argv[2]),
        "fail": lambda: fail(sys.argv[2]),
    }
    what[sys.argv[1]]()
    sys.stdout.write(f"{RANK} is done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
