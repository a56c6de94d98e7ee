"""Exchange of small values among the processes of a job, without servers: through files that all of them see,
or through one of them by HTTP.

Each round has a number, and each process writes what it brings under `job.group.round.rank`, then reads what
the others do.
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.tcp.tls import VARIABLES
from fluidlite.executor.comm.tcp.web import FAILURES, JobHttpClient, JobHttpServer

__all__ = ["StoreExchange", "FileStore", "HttpStore", "Store", "serve_store"]

_LIMIT = 10.0  # seconds for one request
_PURPOSE = "values"


class Store(Protocol):
    """Values under names, seen by all processes of a job."""

    def put(self, name: str, value: bytes) -> None:
        """Keep a value; who reads it meanwhile gets the old one or the new one."""

    def get(self, name: str) -> bytes | None:
        """A value; None where there is none yet."""

    def drop(self, name: str) -> None:
        """Forget a value, if there is one."""


class FileStore:
    """Values as files of a folder, which may lie on a file system that several machines share."""

    def __init__(self, folder: str) -> None:
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def __str__(self) -> str:
        return str(self.folder)

    def put(self, name: str, value: bytes) -> None:
        """Keep a value."""
        unfinished = self.folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
        unfinished.write_bytes(value)
        unfinished.replace(self.folder / name)

    def get(self, name: str) -> bytes | None:
        """A value; None where there is none yet."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def drop(self, name: str) -> None:
        """Forget a value."""
        (self.folder / name).unlink(missing_ok=True)


class HttpStore:
    """Values that the process at `ip:port` keeps, for those who hold the job's key."""

    def __init__(self, endpoint: str, key: bytes) -> None:
        self.endpoint = endpoint
        address, _, port = endpoint.rpartition(":")
        self._client = JobHttpClient(address, int(port), key, _PURPOSE)

    def __str__(self) -> str:
        return self.endpoint

    def put(self, name: str, value: bytes) -> None:
        """Keep a value."""
        self._ask("PUT", name, value)

    def get(self, name: str) -> bytes | None:
        """A value; None where there is none yet."""
        return self._ask("GET", name)

    def drop(self, name: str) -> None:
        """Forget a value."""
        self._ask("DELETE", name)

    def _ask(self, method: str, name: str, value: bytes = b"") -> bytes | None:
        """Send one request; None while the other process is not there yet."""
        try:
            status, found = self._client.ask(method, "/" + name, value, _LIMIT)
        except ssl.SSLEOFError:
            return None
        except ssl.SSLError as error:  # to wait would not help
            raise CommunicatorError(
                f"no encrypted connection to {self.endpoint}: {error.reason} ({', '.join(VARIABLES)})"
            ) from error
        except FAILURES:
            return None
        return found if status == HTTPStatus.OK else None


def serve_store(endpoint: str, key: bytes) -> JobHttpServer:
    """Keep values for an `HttpStore` at `ip:port`, in a thread of this process, until `stop()`."""
    values: dict[str, bytes] = {}

    def answer(method: str, path: str, value: bytes) -> bytes | None:
        if method == "PUT":
            values[path] = value
        elif method == "DELETE":
            values.pop(path, None)
        else:
            return values.get(path)
        return b""

    address, _, port = endpoint.rpartition(":")
    server = JobHttpServer((address, int(port)), key, answer, _PURPOSE)
    server.start(f"values at {endpoint}")
    return server


class StoreExchange:
    """Rounds in which each of `size` processes brings a value and gets all of them. Every wait ends after
    `deadline` seconds.
    """

    def __init__(self, store: Store, group: str, rank: int, size: int, deadline: float) -> None:
        self.store, self.group, self.rank, self.size, self.deadline = store, group, rank, size, deadline
        self.job = ""
        self.round = 0

    def gather(self, value: bytes) -> list[bytes]:
        """Values of all processes for this round, by rank; CommunicatorError names the processes that are
        missing.
        """
        if self.size == 1:
            return [value]
        if not self.job:
            self._agree_on_job()
        here, self.round = self.round, self.round + 1
        self.store.put(self._name(here, self.rank), value)
        found = [
            value if rank == self.rank else self._wait(self._name(here, rank), [rank])
            for rank in range(self.size)
        ]
        if here > 0:  # who has come to this round has read the one before
            self.store.drop(self._name(here - 1, self.rank))
        return found

    def _name(self, number: int, rank: int) -> str:
        return f"{self.job}.{self.group}.{number}.{rank}"

    def _wait(self, name: str, ranks: list[int]) -> bytes:
        return self._until(lambda: self.store.get(name), ranks)

    def _until(self, look: Callable[[], Any], ranks: list[int]) -> Any:
        end, pause = time.monotonic() + self.deadline, 0.001
        while (found := look()) is None:
            if time.monotonic() > end:
                raise CommunicatorError(
                    f"rank {self.rank} of {self.group!r} has waited {self.deadline:g} s for rank "
                    f"{', '.join(map(str, ranks))} at {self.store}"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        return found

    # ------------------------------------------------------------------ which job this is
    def _agree_on_job(self) -> None:
        """Agree on a name of this job, so that values left by an earlier one are not taken for its own."""
        mine, others = secrets.token_hex(8), list(range(1, self.size))
        if self.rank == 0:
            self.store.put(f"{self.group}.job", mine.encode())
            come = {rank: self._until(partial(self._greeting, rank, mine), [rank]) for rank in others}
            self.store.put(f"{mine}.{self.group}.come", json.dumps(come).encode())
            self.job = mine
        else:
            self.job = self._until(lambda: self._accepted(mine), [0])

    def _greeting(self, rank: int, job: str) -> str | None:
        said = (self.store.get(f"{self.group}.{rank}") or b"").decode().partition(" ")
        return said[2] if said[0] == job else None

    def _accepted(self, mine: str) -> str | None:
        """Greet the rank 0 that is there; the job's name once it has taken notice."""
        job = (self.store.get(f"{self.group}.job") or b"").decode()
        if not job:
            return None
        self.store.put(f"{self.group}.{self.rank}", f"{job} {mine}".encode())
        come = json.loads(self.store.get(f"{job}.{self.group}.come") or b"{}")
        return job if come.get(str(self.rank)) == mine else None
