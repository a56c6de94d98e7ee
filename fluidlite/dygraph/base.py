"""`fluid.dygraph.base`: the switches of imperative mode, which stays off."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fluidlite.base.left_out import left_out

_REFUSED = left_out("fluid.dygraph.base")
__all__ = ["disable_dygraph", "disable_imperative", "enabled", "no_grad", *_REFUSED.names]


def enabled() -> bool:
    """False: programs are built, and run later."""
    return False


def disable_dygraph() -> None:
    """Do nothing: static graphs are what there is."""


disable_imperative = disable_dygraph


def no_grad(func: Callable[..., Any] | None = None) -> Any:
    """The function itself, or without one a context that changes nothing: only imperative mode records."""
    return contextlib.nullcontext() if func is None else func


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
