"""Modes, default dtype and random seed of the 2.x door; `paddle.framework` has some of them too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.data_feeder import convert_dtype
from fluidlite.paddle import defaults
from fluidlite.paddle.programs import begin, default_main_program, default_startup_program

__all__ = [
    "disable_static",
    "enable_static",
    "get_default_dtype",
    "in_dynamic_mode",
    "no_grad",
    "seed",
    "set_default_dtype",
]


def enable_static() -> None:
    """Write programs and run them: what the door does from the start."""
    begin()


def disable_static(place: Any = None) -> None:
    """RuntimeError: values do not exist before a program runs."""
    raise RuntimeError(
        "paddle.disable_static() asks for imperative mode, and FluidLite has none: it is the static graph, "
        "in which a program is written first and run by paddle.static.Executor afterwards"
    )


def in_dynamic_mode() -> bool:
    """False: FluidLite is the static graph."""
    return False


def set_default_dtype(d: DTypeLike) -> None:
    """Set the dtype of what is made without saying one: float16, bfloat16, float32 or float64. TypeError for
    others.
    """
    kind = to_vartype(d)
    if kind not in (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64):
        raise TypeError(
            f"set_default_dtype only supports [float16, float32, float64, bfloat16], but received {d!r}"
        )
    defaults.set_dtype(kind)


def get_default_dtype() -> str:
    """The dtype of what is made without saying one, "float32" from the start."""
    return str(convert_dtype(defaults.dtype()))


def seed(seed: int) -> None:
    """Make random ops that are written to the default programs from now on repeat their numbers."""
    for program in (default_main_program(), default_startup_program()):
        program.random_seed = int(seed)


class no_grad(contextlib.ContextDecorator):
    """A context, or a decorator, that changes nothing: programs say by `stop_gradient` what gets no gradient,
    and imperative mode alone records ops by itself.
    """

    def __init__(self, func: Callable[..., Any] | None = None) -> None:
        self._func = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._func is not None:
            return self._func(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *unused: Any) -> None:
        return None
