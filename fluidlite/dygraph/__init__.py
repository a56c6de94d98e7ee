"""`fluid.dygraph`: imperative mode, which FluidLite has not. Its names can be imported, and old scripts that
keep a branch for it run; calling one is an UnsupportedError.
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.imperative import STATIC_ONLY
from fluidlite.base.left_out import below, left_out
from fluidlite.dygraph.base import disable_dygraph, disable_imperative, enabled, no_grad
from fluidlite.dygraph.parallel import Env, ParallelEnv

_REFUSED = [left_out(module) for module in below("fluid.dygraph")]
_HOME = {name: refusals for refusals in _REFUSED for name in refusals.names}

__all__ = ["Env", "ParallelEnv", "disable_dygraph", "disable_imperative", "enabled", "no_grad", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return _HOME[name].get(name)
    raise AttributeError(f"module 'fluid.dygraph' has no attribute {name!r}; {STATIC_ONLY}")
