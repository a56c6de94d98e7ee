"""`paddle.nn`: layers that own their parameters, as classes"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.clip": "ClipGradByGlobalNorm=GradientClipByGlobalNorm ClipGradByNorm=GradientClipByNorm "
        "ClipGradByValue=GradientClipByValue",
        "fluidlite.paddle.attributes": "ParamAttr",
    },
    "functional",
)


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
