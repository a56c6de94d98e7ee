"""A trainer's number claimed a second time: a living process keeps it, one whose host is silent loses it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tcp_clusters import Cluster
from test_hostile_messages import peer, table_job
from waiting import LIMIT, until

from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp import takeover
from fluidlite.executor.comm.tcp.stream import ConnectionLost, Stream


def ask(sock: Any, number: int) -> Stream:
    """A connection that asks for a parameter under a trainer's number."""
    stream = Stream(sock, LIMIT)
    stream.put(Message(Kind.GET, number, "w"))
    stream.send_all()
    return stream


@pytest.fixture
def endpoint() -> Iterator[str]:
    cluster = Cluster(table_job("pserver"), deadline=LIMIT)
    cluster.serve()
    until(lambda: cluster.sessions["server"].listener is not None)
    yield cluster.endpoint
    cluster.sessions["server"].listener.interrupt("the test ends")  # type: ignore[union-attr]
    cluster.join()


def test_a_host_that_is_silent_loses_its_number(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "SILENCE", 0.5)
    monkeypatch.setattr(takeover, "silence_of", lambda sock: 1e6)
    with peer(endpoint) as first, peer(endpoint) as second, peer(endpoint) as third:
        old = ask(first, 0)
        assert old.next().shape == (8, 1)
        start = time.monotonic()
        new, other = ask(second, 0), ask(third, 1)
        assert other.next().shape == (8, 1)
        assert time.monotonic() - start < 0.5  # nobody else waits for the claim
        assert new.next().shape == (8, 1)
        assert time.monotonic() - start >= 0.5
        word = old.next()
        assert isinstance(word, Error)
        assert f"that at 127.0.0.1:{first.getsockname()[1]} did not answer" in word.text
        assert f"that at 127.0.0.1:{second.getsockname()[1]} took over" in word.text
        with pytest.raises(ConnectionLost):
            old.next()


def test_the_one_that_lost_its_number_is_refused_by_both_addresses(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "SILENCE", 0.2)
    monkeypatch.setattr(takeover, "silence_of", lambda sock: 1e6)
    with peer(endpoint) as first, peer(endpoint) as second, peer(endpoint) as again:
        assert ask(first, 0).next().shape == (8, 1)
        assert ask(second, 0).next().shape == (8, 1)
        monkeypatch.undo()
        text = ask(again, 0).next().text
        assert f"that at 127.0.0.1:{second.getsockname()[1]} is connected" in text
        assert f"that at 127.0.0.1:{again.getsockname()[1]} is refused" in text


def test_a_silent_process_of_a_living_host_keeps_its_number(endpoint: str) -> None:
    with peer(endpoint) as first, peer(endpoint) as second:
        old = ask(first, 0)
        assert old.next().shape == (8, 1)
        time.sleep(1.5)  # it says nothing; its kernel answers the probe
        start = time.monotonic()
        assert "two processes claim to be trainer 0" in ask(second, 0).next().text
        assert time.monotonic() - start < takeover.SILENCE / 2
        old.put(Message(Kind.GET, 0, "w"))
        old.send_all()
        assert old.next().shape == (8, 1)


def test_a_claim_is_met_when_the_old_connection_ends(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "silence_of", lambda sock: 1e6)
    with peer(endpoint) as second:
        with peer(endpoint) as first:
            assert ask(first, 0).next().shape == (8, 1)
            new = ask(second, 0)
            time.sleep(0.3)
        assert new.next().shape == (8, 1)


def test_a_claim_that_goes_away_leaves_no_trace(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "SILENCE", 0.3)
    monkeypatch.setattr(takeover, "silence_of", lambda sock: 1e6)
    with peer(endpoint) as first, peer(endpoint) as third:
        assert ask(first, 0).next().shape == (8, 1)
        with peer(endpoint) as second:
            ask(second, 0)
        time.sleep(0.6)
        assert ask(third, 0).next().shape == (8, 1)


def test_the_kernel_says_when_it_heard_of_a_host(endpoint: str) -> None:
    with peer(endpoint) as sock:
        stream = ask(sock, 0)
        stream.next()
        silence = takeover.silence_of(sock)
        assert silence is None or silence < 1.0
