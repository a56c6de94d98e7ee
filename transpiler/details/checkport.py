"""Waiting until servers listen."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fluidlite.base.errors import TranspilerError
from fluidlite.base.imported_names import imported_names

__all__ = ["wait_server_ready"]


def wait_server_ready(endpoints: Sequence[str], timeout: float = 600.0, pause: float = 0.1) -> None:
    """Return when all endpoints accept connections; TranspilerError, with those that do not, after
    `timeout` seconds.
    """
    end = time.monotonic() + timeout
    missing = list(endpoints)
    while True:
        missing = [endpoint for endpoint in missing if not _listens(endpoint)]
        if not missing:
            return
        if time.monotonic() >= end:
            raise TranspilerError(f"these servers do not listen after {timeout:g} s: {', '.join(missing)}")
        time.sleep(pause)


def _listens(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2.0).close()
    except OSError:
        return False
    return True


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
