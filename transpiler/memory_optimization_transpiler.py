"""`fluid.memory_optimize` and `fluid.release_memory`: the executor does this by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.warned import warn_user

__all__ = ["memory_optimize", "release_memory"]


def memory_optimize(
    input_program: Any,
    skip_opt_set: Any = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Warn that this does nothing, as fluid 1.8 did: the executor shares buffers by liveness (`exe.explain`
    shows them).
    """
    _say("memory_optimize")


def release_memory(input_program: Any, skip_opt_set: Any = None) -> None:
    """Warn that this does nothing, as fluid 1.8 did: the executor frees what is dead."""
    _say("release_memory")


def _say(name: str) -> None:
    warn_user(
        f"{name} changes nothing: the executor reuses memory by itself, whether it is called or not",
        category=DeprecationWarning,
    )


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
