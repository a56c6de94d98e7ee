"""`paddle.text.datasets`: texts as numbers of words, and two tables."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.text.datasets"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.words": "Conll05st Imdb Imikolov",
        f"{_HOME}.tables": "Movielens UCIHousing",
        f"{_HOME}.translations": "WMT14 WMT16",
    },
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
