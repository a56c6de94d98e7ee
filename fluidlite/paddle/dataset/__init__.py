"""`paddle.dataset`: readers of data sets.

Their files lie in `~/.cache/paddle/dataset`, as in 1.8.5; nothing is downloaded.
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

__all__ = [
    "cifar",
    "conll05",
    "flowers",
    "image",
    "imdb",
    "imikolov",
    "mnist",
    "movielens",
    "mq2007",
    "sentiment",
    "uci_housing",
    "voc2012",
    "wmt14",
    "wmt16",
]
_NAMES = LazyNames(__name__, {}, " ".join([*__all__, "common"]))


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
