"""`fluid.contrib.slim.nas.controller_server`: a controller that several processes search with.

A client connects, sends one line of text and reads one: `next_tokens`, or the key, tokens and their reward,
`key<TAB>1,2,3<TAB>0.5`; the answer to both are the next tokens, `1,2,0`. Messages with another key are
dropped.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any

__all__ = ["ControllerServer"]

LONGEST = 1 << 16  # bytes of a message
PATIENCE = 5.0  # seconds that a connected client may stay silent
POLL = 0.2  # seconds between looks at whether the server is closed


def join(tokens: Sequence[int]) -> str:
    """Tokens as text."""
    return ",".join(str(token) for token in tokens)


def split(text: str) -> list[int]:
    """The tokens in a text; ValueError where there are none."""
    return [int(token) for token in text.split(",")]


class ControllerServer:
    """Serves a controller's proposals from a thread.

    Parameters
    ----------
    controller: proposes tokens, and learns from their rewards.
    address: (host, port); an empty host is this machine alone, and port 0 any that is free.
    max_client_num: clients that may wait.
    search_steps: the server stops after so many rewards; never by default.
    key: clients' rewards count only with it.
    """

    def __init__(
        self,
        controller: Any = None,
        address: tuple[str, int] = ("", 0),
        max_client_num: int = 100,
        search_steps: int | None = None,
        key: str | None = None,
    ) -> None:
        self._controller, self._key = controller, key
        self._address = (address[0] or "127.0.0.1", int(address[1]))
        self._max_client_num, self._search_steps = max_client_num, search_steps
        self._closed = threading.Event()
        self._socket: socket.socket | None = None
        self._port, self._ip = self._address[1], self._address[0]

    def start(self) -> threading.Thread:
        """Listen, and serve in a thread, which is returned."""
        self._socket = socket.create_server(self._address, backlog=self._max_client_num)
        self._socket.settimeout(POLL)
        self._ip, self._port = self._socket.getsockname()[:2]
        thread = threading.Thread(target=self.run, name="controller server", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Stop serving."""
        self._closed.set()

    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def ip(self) -> str:
        """The address that it listens on."""
        return self._ip

    def run(self) -> None:
        """Serve one client after the other until the server is closed or has all its rewards."""
        assert self._socket is not None, "call ControllerServer.start first: it opens the socket"
        steps = 0
        with self._socket:
            while not self._closed.is_set() and (self._search_steps is None or steps < self._search_steps):
                with contextlib.suppress(TimeoutError):
                    client, _ = self._socket.accept()
                    with client, contextlib.suppress(OSError):
                        steps += self._serve(client)
        self._closed.set()

    def _serve(self, client: socket.socket) -> int:
        """Answer one client; 1 where it brought a reward."""
        client.settimeout(PATIENCE)
        message = client.recv(LONGEST).decode(errors="replace").strip()
        learnt = 0
        if message != "next_tokens":
            try:
                key, tokens, reward = message.split("\t")
                given, value = split(tokens), float(reward)
            except ValueError:
                return 0
            if key != str(self._key):
                return 0
            self._controller.update(given, value)
            learnt = 1
        client.sendall(join(self._controller.next_tokens()).encode())
        return learnt
