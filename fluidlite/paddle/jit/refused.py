"""Names of `paddle.jit` that trace imperative code: refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.imperative import STATIC_ONLY
from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.jit",
    f"{STATIC_ONLY}; paddle.static.save_inference_model saves a program, and paddle.jit.load runs a "
    "saved one",
    functions="enable_to_static ignore_module not_to_static save set_code_level set_verbosity to_static",
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
