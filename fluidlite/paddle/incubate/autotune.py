"""`paddle.incubate.autotune`: what is measured to choose among kernels."""

from __future__ import annotations

import json
from typing import Any

from fluidlite.base.errors import ArgumentError

__all__ = ["set_config"]

_PARTS = ("kernel", "layout", "dataloader")


def set_config(config: dict[str, Any] | str | None = None) -> None:
    """Take the settings of 2.6.2, as a dict or as a file of JSON: which kernel of several runs is measured by
    rules of its own here (docs/EXECUTOR.md). ArgumentError for a part that is not known.
    """
    if isinstance(config, str):
        with open(config, encoding="utf8") as source:
            config = json.load(source)
    unknown = sorted(set(config or {}) - {*_PARTS})
    if unknown:
        raise ArgumentError(f"autotune.set_config: {', '.join(unknown)} is not one of {', '.join(_PARTS)}")
