"""Parts of a network whose activations are computed a second time in the backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Variable

__all__ = ["checkpoints_of", "recompute"]

_kept: weakref.WeakKeyDictionary[Program, list[str]] = weakref.WeakKeyDictionary()


def recompute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `function(*args)`, built so that the program keeps only what goes into it and what comes
    out of it: `fleet.minimize` then lets the backward pass compute the rest again.

    2.6.2 has this in imperative mode alone; `use_reentrant` and `preserve_rng_state` speak of that.
    """
    for name in ("use_reentrant", "preserve_rng_state"):
        kwargs.pop(name, None)
    found = function(*args, **kwargs)
    kept = _kept.setdefault(default_main_program(), [])
    for value in (*args, *(found if isinstance(found, (list, tuple)) else [found])):
        if isinstance(value, Variable) and value.name not in kept:
            kept.append(value.name)
    return found


def checkpoints_of(program: Program) -> list[str]:
    """The variables that `recompute` asks to keep, in the order of their making."""
    return list(_kept.get(program, ()))
