"""Every transport does the cases of `transport_cases`, or says that it cannot. A new one is a row here."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fake_nccl import device, modules
from mpi_jobs import run
from ports import free_endpoint, free_endpoints
from test_tcp import KEY
from toy_transport import Queues, ToySession
from transport_cases import LINK_CASES, RING_CASES, SIZE, LinkCase, RingCase, run_link, run_ring
from waiting import LIMIT

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm import traced
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import LocalSession, run_roles
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.nccl import rings as nccl
from fluidlite.executor.comm.session import Session, current
from fluidlite.executor.comm.tcp.session import TcpSession
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.transports import TRANSPORTS
from fluidlite.executor.devices.ring import DeviceSession

Work = Callable[[Session, int], Any]


def in_roles(work: Work) -> None:
    """Both processes as roles of a local network."""

    def body(rank: int) -> None:
        session = current()
        assert session is not None
        work(session, rank)

    run_roles(LocalNetwork(), [(f"process{rank}", functools.partial(body, rank)) for rank in range(SIZE)])


def in_threads(make: Callable[[], Session], work: Work) -> None:
    """Both processes as threads with sessions of their own."""
    errors: list[BaseException] = []

    def body(rank: int, session: Session) -> None:
        try:
            work(session, rank)
        except BaseException as error:
            errors.append(error)

    sessions = [make() for _ in range(SIZE)]
    threads = [threading.Thread(target=body, args=pair) for pair in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    for session in sessions:
        session.leave()
    if errors:
        raise errors[0]


def over_tcp(work: Work) -> None:
    in_threads(lambda: TcpSession(LIMIT, KEY), work)


def over_queues(work: Work) -> None:
    queues = Queues()
    in_threads(lambda: ToySession(queues), work)


def joined(together: Callable[[Work], None], work: Work) -> None:
    """Both processes in ring 0."""

    def body(session: Session, rank: int) -> None:
        session.join(0, rank, SIZE)
        work(session, rank)

    together(body)


@dataclass(frozen=True)
class Row:
    """A transport: how two processes of it run together, and whether they have servers and rings."""

    name: str
    together: Callable[[Work], None]
    servers: bool
    rings: bool


ROWS = [
    Row("local", in_roles, servers=True, rings=True),
    Row("tcp", over_tcp, servers=True, rings=False),
    Row("toy", over_queues, servers=True, rings=True),
]


@pytest.mark.parametrize("case", LINK_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_links(row: Row, case: LinkCase) -> None:
    endpoint = free_endpoint()
    row.together(lambda session, rank: run_link(case, session, rank, endpoint))


@pytest.mark.parametrize("case", RING_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rings(row: Row, case: RingCase) -> None:
    if row.rings:
        joined(row.together, lambda session, rank: run_ring(case, session))
        return
    with pytest.raises(CommunicatorError, match="it has no connection to other ranks"):
        joined(row.together, lambda session, rank: run_ring(case, session))


@pytest.mark.parametrize("case", RING_CASES, ids=lambda case: case.name)
def test_rings_of_nccl(case: RingCase, monkeypatch: pytest.MonkeyPatch) -> None:
    found = modules()
    monkeypatch.setattr(nccl, "cupy_and_nccl", lambda: found)

    def work(session: Session, rank: int) -> None:
        session.replace_ring(nccl.NcclRing(session.ring(0)))
        run_ring(case, session, device)

    joined(in_roles, work)


# ---------------------------------------------------------------------- MPI: one job for the whole table
@functools.cache
def mpi_job() -> str:
    done = run(SIZE, "comm/transport_job.py", deadline=20.0)
    return done.stdout + done.stderr


@pytest.mark.mpi
@pytest.mark.parametrize(
    "case",
    [*RING_CASES, *(case for case in LINK_CASES if case.name != "replies_stay")],
    ids=lambda case: case.name,
)
def test_mpi(case: LinkCase | RingCase) -> None:
    for rank in range(SIZE):
        assert f"{case.name}: process {rank} is done" in mpi_job(), mpi_job()


# ---------------------------------------------------------------------- what all declare
@pytest.mark.parametrize("row", [row for row in ROWS if row.servers], ids=lambda row: row.name)
def test_a_server_can_be_interrupted(row: Row) -> None:
    endpoint, ready = free_endpoint(), threading.Event()
    serving: list[ServerLink] = []

    def work(session: Session, rank: int) -> None:
        if rank == 0:
            serving.append(session.listen(endpoint, Terms(trainers=1), lambda header: None))
            ready.set()
            with pytest.raises(CommunicatorError, match="^enough$"):
                serving[0].next_message()
            serving[0].close("enough")
        else:
            assert ready.wait(LIMIT)
            serving[0].interrupt("enough")

    row.together(work)


def test_every_transport_defines_every_method() -> None:
    sessions = {row.connect for row in TRANSPORTS} | {LocalSession, ToySession, DeviceSession}
    found = [*sessions, *TrainerLink.__subclasses__(), *ServerLink.__subclasses__(), nccl.NcclRing]
    for each in found:
        assert not getattr(each, "__abstractmethods__", None), each
    # a traced link says what the link says that it watches
    for link in (one for one in ServerLink.__subclasses__() if one.__module__ != traced.__name__):
        assert isinstance(link.ends_waits, bool) and isinstance(link.takes_signals, bool)


def test_a_server_that_has_gone_keeps_no_goodbye_from_the_others() -> None:
    places = free_endpoints(2)
    servers = [TcpSession(LIMIT, KEY) for _ in places]
    links = [
        server.listen(place, Terms(), lambda header: None)
        for server, place in zip(servers, places, strict=True)
    ]
    trainer, heard = TcpSession(LIMIT, KEY), []

    def train() -> None:
        for place in places:
            trainer.post(place, Message(Kind.SEND, 0, "g", np.ones(1)))

    thread = threading.Thread(target=train)
    thread.start()
    heard += [link.next_message() for link in links]
    thread.join(LIMIT)
    # a socket that is closed over unread bytes resets its connection, which the trainer hears at once
    trainer.post(places[0], Message(Kind.SEND, 0, "g", np.ones(1 << 16)))
    links[0].close()
    time.sleep(0.1)
    trainer.leave()
    found = links[1].next_message(LIMIT)
    assert found is not None and found[1].kind is Kind.COMPLETE
    links[1].close()
