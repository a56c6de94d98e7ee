"""Ports for the servers of tests: nobody else gets them while the tests run."""

from __future__ import annotations

import atexit

from fluidlite.launching.ports import HeldPorts

__all__ = ["free_endpoint", "free_endpoints", "free_ports"]

_HELD = HeldPorts()
atexit.register(_HELD.close)


def free_ports(count: int) -> list[int]:
    """Free ports of 127.0.0.1, all different."""
    return _HELD.find(count)


def free_endpoints(count: int) -> list[str]:
    """127.0.0.1 with free ports."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def free_endpoint() -> str:
    """127.0.0.1 with a free port."""
    return free_endpoints(1)[0]
