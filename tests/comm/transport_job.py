"""One process of a job under mpirun that does the cases of `transport_cases`: `mpiexec -n 2 python
transport_job.py`. Each says which it has done.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI
from transport_cases import LINK_CASES, RING_CASES, SIZE, LinkCase, RingCase, run_link, run_ring

from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.transports import process_session

# MPI reads a reply's memory when the trainer takes it: see `MpiServerLink.keep_replies`
MPI_LINK_CASES = [case for case in LINK_CASES if case.name != "replies_stay"]
RANK = MPI.COMM_WORLD.rank
ENDPOINT = "server:1"


def say(case: LinkCase | RingCase) -> None:
    sys.stdout.write(f"{case.name}: process {RANK} is done\n")
    sys.stdout.flush()


def main() -> None:
    session = process_session(needs_servers=True)
    assert session is not None
    if RANK == 0:  # a server tells who it is at the first meeting
        session.listen(ENDPOINT, Terms(trainers=SIZE - 1), lambda header: None)
    else:
        session.link.post(ENDPOINT, Message(Kind.SEND, 7, "begin"))
        session.link.post(ENDPOINT, Message(Kind.COMPLETE, 7))
    if RANK == 0:
        link = session.listen(ENDPOINT, Terms(trainers=SIZE - 1), lambda header: None)
        assert [link.next_message()[1].kind for _ in range(2)] == [Kind.SEND, Kind.COMPLETE]  # type: ignore[index]
    session.join(0, RANK, SIZE)
    for ring_case in RING_CASES:
        run_ring(ring_case, session)
        say(ring_case)
    session.join(1, RANK, SIZE)
    large = np.full(1 << 19, RANK, "float32")
    if RANK == 0:
        name = session.agree_on_id([ENDPOINT], 0, lambda: b"x" * 128)
        session.join(2, 0, 1, name)  # a ring of one rank, whose parts nobody else reduces
        assert (session.ring(2).all_reduce(large + 2, "sum") == 2).all()
    assert (session.ring(1).all_reduce(large, "sum") == 1).all()
    for link_case in MPI_LINK_CASES:
        run_link(link_case, session, RANK, ENDPOINT)
        say(link_case)


if __name__ == "__main__":
    main()
