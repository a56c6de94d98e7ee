"""Waiting until servers listen."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fluidlite.base.errors import TranspilerError
from fluidlite.base.imported_names import imported_names

__all__ = ["wait_server_ready"]

_QUIET = 2.0  # seconds that servers may take to come up before that is said
_ATTEMPT = 2.0  # seconds for one connection

_log = logging.getLogger("fluidlite.trainer")


def wait_server_ready(endpoints: Sequence[str], timeout: float = 600.0, pause: float = 0.1) -> None:
    """Return when all endpoints accept connections; TranspilerError, with those that do not, after
    `timeout` seconds.
    """
    begin = time.monotonic()
    missing = list(endpoints)
    is_said = False
    while True:
        seen = {endpoint: _wrong_with(endpoint) for endpoint in missing}
        missing = [endpoint for endpoint, wrong in seen.items() if wrong]
        waited = time.monotonic() - begin
        if not missing:
            return
        found = ", ".join(f"{endpoint} ({seen[endpoint]})" for endpoint in missing)
        if waited >= timeout:
            raise TranspilerError(f"these servers do not listen after {timeout:g} s: {found}")
        if waited >= _QUIET and not is_said:
            is_said = True
            text = "waiting for the servers at %s, up to %g s more: check that they are started"
            _log.warning(text, found, timeout - waited)
        time.sleep(pause)


def _wrong_with(endpoint: str) -> str:
    """The reason for which an endpoint takes no connection; "" where it takes one."""
    host, _, port = endpoint.rpartition(":")
    try:
        # what silently drops the attempt must not keep the notice of the others back
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ATTEMPT).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
