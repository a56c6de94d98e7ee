"""`paddle.text`: texts as data sets, and decoding of sequences of tags"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.text"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.viterbi": "ViterbiDecoder viterbi_decode",
        f"{_HOME}.datasets": "Conll05st Imdb Imikolov Movielens UCIHousing WMT14 WMT16",
    },
    "datasets",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
