"""`paddle.tensor`: functions of tensors, each an op or a few"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames
from fluidlite.paddle.tensor.names import FUNCTIONS

_NAMES = LazyNames(__name__, FUNCTIONS)


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
