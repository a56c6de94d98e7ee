"""`fluid.contrib.slim.nas.search_agent`: the client of a controller's server."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from fluidlite.contrib.slim.nas.controller_server import LONGEST, PATIENCE, join, split

__all__ = ["SearchAgent"]


class SearchAgent:
    """Asks the server at an address for tokens, and tells it rewards, which count only with its key."""

    def __init__(
        self, server_ip: str | None = None, server_port: int | None = None, key: str | None = None
    ) -> None:
        self.server_ip, self.server_port, self._key = server_ip, server_port, key

    def update(self, tokens: Sequence[int], reward: float) -> list[int]:
        """Tell the reward of tokens; the next ones to try."""
        return self._ask(f"{self._key}\t{join(tokens)}\t{reward}")

    def next_tokens(self) -> list[int]:
        """Tokens to try."""
        return self._ask("next_tokens")

    def _ask(self, message: str) -> list[int]:
        address = (self.server_ip or "127.0.0.1", int(self.server_port or 0))
        with socket.create_connection(address, timeout=PATIENCE) as server:
            server.sendall(message.encode())
            answer = server.recv(LONGEST).decode()
        if not answer:
            raise ConnectionError(
                f"the controller's server at {address[0]}:{address[1]} dropped {message!r}: check "
                "that both sides use the same key"
            )
        return split(answer)
