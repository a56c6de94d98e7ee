"""`paddle.dataset.mq2007`: queries, and documents that fit them more or less, to learn rankings from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingFileError
from fluidlite.paddle.dataset import common
from fluidlite.paddle.dataset.common import download

__all__ = [
    "Query",
    "QueryList",
    "fetch",
    "gen_list",
    "gen_pair",
    "gen_plain_txt",
    "gen_point",
    "load_from_text",
    "query_filter",
    "test",
    "train",
]

URL = (
    "http://www.bigdatalab.ac.cn/benchmark/upload/download_source/"
    "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar"
)
MD5 = "7be1640ae95c6408dab0ae7207bdc706"
_FEATURES = 46


class Query:
    """A document for a query: how well it fits, and its features."""

    def __init__(
        self,
        query_id: int = -1,
        relevance_score: int = -1,
        feature_vector: list[float] | None = None,
        description: str = "",
    ) -> None:
        self.query_id = query_id
        self.relevance_score = relevance_score
        self.feature_vector = [] if feature_vector is None else feature_vector
        self.description = description

    def __str__(self) -> str:
        features = " ".join(map(str, self.feature_vector))
        return f"{self.relevance_score} {self.query_id} {features}"

    def _parse_(self, text: str) -> Query | None:
        """Read a line; None where it has not the form "0 qid:10 1:0.5 ... 46:0 #docid = ..."."""
        place = text.find("#")
        parts = text[:place].split()
        self.description = text[place + 1 :].strip()
        if len(parts) != _FEATURES + 2:
            sys.stdout.write(f"expect 48 space split parts, get {len(parts)}")
            return None
        self.relevance_score = int(parts[0])
        self.query_id = int(parts[1].split(":")[1])
        self.feature_vector += [float(part.split(":")[1]) for part in parts[2:]]
        return self


class QueryList:
    """The documents for one query."""

    def __init__(self, querylist: Iterable[Query] | None = None) -> None:
        self.query_id = -1
        self.querylist: list[Query] = []
        for query in querylist or ():
            self._add_query(query)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.querylist)

    def __len__(self) -> int:
        return len(self.querylist)

    def __getitem__(self, i: int) -> Query:
        return self.querylist[i]

    def _correct_ranking_(self) -> None:
        """The best documents first."""
        self.querylist.sort(key=lambda query: query.relevance_score, reverse=True)

    def _add_query(self, query: Query) -> None:
        if self.query_id == -1:
            self.query_id = query.query_id
        elif self.query_id != query.query_id:
            raise ValueError("query in list must be same query_id")
        self.querylist.append(query)


def _ranked(querylist: QueryList | Iterable[Query]) -> QueryList:
    found = querylist if isinstance(querylist, QueryList) else QueryList(querylist)
    found._correct_ranking_()
    return found


def gen_plain_txt(querylist: QueryList | Iterable[Query]) -> Iterator[Any]:
    """Query, score and features of each document, the best first."""
    ranked = _ranked(querylist)
    for query in ranked:
        yield ranked.query_id, query.relevance_score, np.array(query.feature_vector)


def gen_point(querylist: QueryList | Iterable[Query]) -> Iterator[Any]:
    """Score and features of each document, the best first."""
    for query in _ranked(querylist):
        yield query.relevance_score, np.array(query.feature_vector)


def gen_pair(querylist: QueryList | Iterable[Query], partial_order: str = "full") -> Iterator[Any]:
    """A label 1 and the features of two documents, of every two of which the first is the better one."""
    ranked = _ranked(querylist)
    for place, better in enumerate(ranked):
        for worse in ranked.querylist[place + 1 :]:
            if better.relevance_score > worse.relevance_score:
                yield np.array([1]), np.array(better.feature_vector), np.array(worse.feature_vector)


def gen_list(querylist: QueryList | Iterable[Query]) -> Iterator[Any]:
    """The scores and the features of all documents, the best first."""
    ranked = _ranked(querylist)
    scores = [[query.relevance_score] for query in ranked]
    yield np.array(scores), np.array([query.feature_vector for query in ranked])


def query_filter(querylists: Iterable[QueryList]) -> list[QueryList]:
    """The queries for which there is a document that fits."""
    return [each for each in querylists if sum(query.relevance_score for query in each) != 0]


def load_from_text(filepath: str, shuffle: bool = False, fill_missing: int = -1) -> list[QueryList]:
    """The queries of a file below the data set's folder."""
    found: list[QueryList] = []
    with open(_unpacked(filepath), encoding="utf8") as source:
        for line in source:
            query = Query()._parse_(line)
            if query is None:
                continue
            if not found or found[-1].query_id != query.query_id:
                found.append(QueryList())
            found[-1]._add_query(query)
    return found


def _unpacked(filepath: str) -> str:
    """The path of a file out of the archive, which is a RAR file: Python does not read them."""
    path = os.path.join(common.DATA_HOME, "MQ2007", filepath)
    if not os.path.exists(path):
        archive = download(URL, "MQ2007", MD5)
        raise MissingFileError(f"file {path} not found: unpack {archive} in its folder (unrar x, or 7z x)")
    return path


def _samples(filepath: str, format: str) -> Iterator[Any]:
    for querylist in query_filter(load_from_text(filepath)):
        if format == "pairwise":
            yield from gen_pair(querylist)
        elif format in _FORMATS:
            yield next(_FORMATS[format](querylist))


# the first document alone in two of them, as in 1.8.5
_FORMATS = {"plain_txt": gen_plain_txt, "pointwise": gen_point, "listwise": gen_list}


def train(
    filepath: str = "MQ2007/MQ2007/Fold1/train.txt",
    format: str = "pairwise",
    shuffle: bool = False,
    fill_missing: int = -1,
) -> Iterator[Any]:
    """Samples to learn from, themselves and not a reader of them, as in 1.8.5."""
    return _samples(filepath, format)


def test(
    filepath: str = "MQ2007/MQ2007/Fold1/test.txt",
    format: str = "pairwise",
    shuffle: bool = False,
    fill_missing: int = -1,
) -> Iterator[Any]:
    """Samples to test with."""
    return _samples(filepath, format)


def fetch() -> str:
    """See that the file is there; its path."""
    return download(URL, "MQ2007", MD5)
