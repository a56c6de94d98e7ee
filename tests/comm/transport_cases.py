"""One table for all transports: what two processes can do over a link between trainer and server, and over a
ring. A case runs twice, to catch what only goes wrong the first or the second time.

Process 0 is the server or rank 0, process 1 the trainer or rank 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError, ShapeError
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.rings import Ring
from fluidlite.executor.comm.session import Session
from fluidlite.executor.comm.terms import Terms
from fluidlite.values.tensor import SelectedRows

SIZE = 2
Put = Callable[[Any], Any]  # an array of the host, where the ring's arrays lie


@dataclass(frozen=True)
class LinkCase:
    """Both ends of a link at work, until the trainer leaves."""

    name: str
    serve: Callable[[ServerLink], None]
    train: Callable[[TrainerLink, str], None]


@dataclass(frozen=True)
class RingCase:
    """The work of each rank of a ring."""

    name: str
    work: Callable[[Ring, Put], None]


def run_link(case: LinkCase, session: Session, rank: int, endpoint: str) -> None:
    """One process's part in a case."""
    if rank == 0:
        link = session.listen(endpoint, Terms(trainers=1), lambda header: None)
        for _ in range(2):
            case.serve(link)
        take(link, Kind.SEND)
        take(link, Kind.COMPLETE)
        link.close()
        return
    for _ in range(2):
        case.train(session.link, endpoint)
    assert session.link.is_connected(endpoint)
    session.post(endpoint, Message(Kind.SEND, 7, "goodbye"))  # so that `leave` has somebody to tell
    session.leave()


def run_ring(case: RingCase, session: Session, put: Put = lambda array: array) -> None:
    """One rank's part in a case; the ring is number 0 of the session."""
    for _ in range(2):
        case.work(session.ring(0), put)


# ---------------------------------------------------------------------- links
VALUES = [
    np.arange(6, dtype="int64").reshape(2, 3),
    np.zeros((0, 4), "float32"),
    np.float32(1.5) * np.ones(()),
    np.full(1 << 18, 3, "float32"),
    SelectedRows(np.array([4, 1]), 6, np.ones((2, 3), "float32")),
    None,
]


def same(found: Any, value: Any) -> bool:
    if value is None or found is None:
        return found is value
    if isinstance(value, SelectedRows):
        is_same = found.ids.tolist() == value.ids.tolist() and found.height() == value.height()
        return is_same and same(found.array, value.array)
    return bool(found.dtype == value.dtype and found.shape == value.shape and (found == value).all())


def take(link: ServerLink, kind: Kind) -> tuple[Any, Message]:
    found = link.next_message()
    assert found is not None and found[1].kind is kind, found
    return found


def echo(link: ServerLink) -> None:
    for value in VALUES:
        _, sent = take(link, Kind.SEND)
        assert sent.trainer == 7 and sent.name == "v" and same(sent.value, value)
        to, asked = take(link, Kind.GET)
        assert asked.name == "v"
        link.reply(to, sent.value)


def compare(link: TrainerLink, endpoint: str) -> None:
    for value in VALUES:
        link.post(endpoint, Message(Kind.SEND, 7, "v", value))
        link.post(endpoint, Message(Kind.GET, 7, "v"))
        assert same(link.answer(endpoint), value)


def reply_in_order(link: ServerLink) -> None:
    asked = [take(link, Kind.GET) for _ in range(3)]
    for to, message in asked:
        link.reply(to, np.array([int(message.name)]))


def ask_at_once(link: TrainerLink, endpoint: str) -> None:
    for number in range(3):
        link.post(endpoint, Message(Kind.GET, 7, str(number)))
    assert [int(link.answer(endpoint)[0]) for _ in range(3)] == [0, 1, 2]


def reply_small_and_large(link: ServerLink) -> None:
    for size in (3, 1 << 18):
        to, _ = take(link, Kind.GET)
        link.reply(to, np.full(size, 2, "float32"))


def read_into(link: TrainerLink, endpoint: str) -> None:
    for size in (3, 1 << 18):
        place = np.zeros(size, "float32")
        link.post(endpoint, Message(Kind.GET, 7, "w"))
        found = link.answer(endpoint, place)
        assert (found == 2).all() and found.shape == place.shape
        assert found is place or (place == 0).all()  # all of it, or nothing


def refuse(link: ServerLink) -> None:
    to, _ = take(link, Kind.GET)
    link.reply(to, Error("there is no such variable"))


def be_refused(link: TrainerLink, endpoint: str) -> None:
    link.post(endpoint, Message(Kind.GET, 7, "wrong"))
    try:
        link.answer(endpoint)
    except CommunicatorError as error:
        assert str(error) == f"the server at {endpoint} says: there is no such variable"
    else:
        raise AssertionError("an error was answered, and none was raised")


def change_after_reply(link: ServerLink) -> None:
    value = np.zeros(8, "float32")
    to, _ = take(link, Kind.GET)
    link.reply(to, value)
    link.keep_replies()
    value += 1
    take(link, Kind.SEND)


def see_the_old_value(link: TrainerLink, endpoint: str) -> None:
    link.post(endpoint, Message(Kind.GET, 7, "w"))
    assert (link.answer(endpoint) == 0).all()
    link.post(endpoint, Message(Kind.SEND, 7, "seen"))


def change_after_post(link: TrainerLink, endpoint: str) -> None:
    value = np.zeros(1 << 16, "float32")
    link.post(endpoint, Message(Kind.SEND, 7, "g", value))
    value += 1
    link.post(endpoint, Message(Kind.GET, 7, "g"))
    assert (link.answer(endpoint) == 0).all()


def echo_one(link: ServerLink) -> None:
    _, sent = take(link, Kind.SEND)
    to, _ = take(link, Kind.GET)
    link.reply(to, sent.value)


def wait_and_be_interrupted(link: ServerLink) -> None:
    to, _ = take(link, Kind.GET)
    assert link.next_message(0.05) is None
    link.reply(to, np.ones(1))


def ask_once(link: TrainerLink, endpoint: str) -> None:
    link.post(endpoint, Message(Kind.GET, 7, "w"))
    assert link.answer(endpoint)[0] == 1
    assert link.terms(endpoint) is None or link.terms(endpoint) == Terms(trainers=1)


LINK_CASES = [
    LinkCase("values", echo, compare),
    LinkCase("order", reply_in_order, ask_at_once),
    LinkCase("into", reply_small_and_large, read_into),
    LinkCase("errors", refuse, be_refused),
    LinkCase("replies_stay", change_after_reply, see_the_old_value),
    LinkCase("posts_stay", echo_one, change_after_post),
    LinkCase("time_limit", wait_and_be_interrupted, ask_once),
]


# ---------------------------------------------------------------------- rings
def array(rank: int) -> Any:
    return (np.arange(12, dtype="float32") + 100 * rank).reshape(4, 3)


def reductions(ring: Ring, put: Put) -> None:
    mine, others = put(array(ring.rank)), array(1 - ring.rank)
    wanted = {"sum": mine + others, "prod": mine * others, "max": array(1), "min": array(0)}
    for reduce_op, want in wanted.items():
        assert (ring.all_reduce(mine, reduce_op) == want).all()
        found = ring.reduce(mine, reduce_op, 1)
        assert (found == (want if ring.rank == 1 else mine)).all()
        place = put(array(ring.rank))
        request = ring.start_all_reduce(place, place, reduce_op)
        request.poll()
        request.wait()
        assert (place == want).all()
    rows = slice(2 * ring.rank, 2 * ring.rank + 2)
    assert (ring.reduce_scatter(mine) == wanted["sum"][rows]).all()


def types(ring: Ring, put: Put) -> None:
    for dtype in ("float64", "float16", "int64", "int32", "int8", "uint8"):
        found = ring.all_reduce(put(np.array([1 + ring.rank], dtype)), "sum")
        assert found.dtype == dtype and found[0] == 3
    assert ring.all_reduce(put(np.array([ring.rank == 1, False])), "sum").tolist() == [True, False]


def moves(ring: Ring, put: Put) -> None:
    assert (ring.broadcast(put(array(ring.rank)), 1) == array(1)).all()
    ragged = [part.tolist() for part in ring.all_gather(put(np.arange(ring.rank + 1)))]
    assert ragged == [[0], [0, 1]]
    assert (ring.scatter(put(array(ring.rank)), 0) == array(0)[2 * ring.rank : 2 * ring.rank + 2]).all()
    ring.barrier()


def from_rank_to_rank(ring: Ring, put: Put) -> None:
    for size in (0, 5, 1 << 17):
        ring.send(put(np.full(size, ring.rank, "float32")), 1 - ring.rank)
        found = ring.receive(1 - ring.rank)
        assert found.size == size and (found == 1 - ring.rank).all()


def mistakes(ring: Ring, put: Put) -> None:
    calls: list[tuple[type[Exception], Callable[[], Any]]] = [
        (CommunicatorError, lambda: ring.broadcast(put(np.zeros(2)), 2)),
        (CommunicatorError, lambda: ring.reduce(put(np.zeros(2)), "sum", -1)),
        (CommunicatorError, lambda: ring.send(put(np.zeros(2)), ring.rank)),
        (ShapeError, lambda: ring.reduce_scatter(put(np.zeros(3)))),
        (ShapeError, lambda: ring.scatter(put(np.zeros(3)), 0)),
    ]
    for error, call in calls:
        try:
            call()
        except error:
            continue
        raise AssertionError(f"no {error.__name__}")


RING_CASES = [
    RingCase("reductions", reductions),
    RingCase("types", types),
    RingCase("moves", moves),
    RingCase("from_rank_to_rank", from_rank_to_rank),
    RingCase("mistakes", mistakes),
]
