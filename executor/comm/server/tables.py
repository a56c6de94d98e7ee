"""The sparse tables of a geo-SGD server: which rows have changed since each trainer asked last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fluidlite.executor.comm.background.merging import distinct
from fluidlite.values import row_sums
from fluidlite.values.tensor import SelectedRows

__all__ = ["ChangedRows", "add_rows"]

_FEW = 64  # lists of rows that are kept before they are put together


class ChangedRows:
    """Rows that have changed: for each table a list for each trainer. Memory is bounded by the rows of the
    tables.
    """

    def __init__(self, tables: Iterable[str], trainers: int) -> None:
        self.rows: dict[str, list[list[Any]]] = {table: [[] for _ in range(trainers)] for table in tables}

    def __contains__(self, table: str) -> bool:
        return table in self.rows

    def note(self, table: str, ids: Any, height: int) -> None:
        """Rows of a table of `height` rows have changed."""
        for mine in self.rows[table]:
            mine.append(ids)
            if len(mine) > _FEW:
                mine[:] = [distinct(mine, height)]

    def take(self, table: str, trainer: int, height: int) -> Any:
        """The rows that this trainer has not seen, in order; it is told of each change once."""
        mine = self.rows[table][trainer]
        ids = distinct(mine, height)
        mine.clear()
        return ids


def add_rows(table: Any, change: SelectedRows) -> None:
    """Add to rows of a table in place: a sum of the whole table would touch all of it."""
    row_sums.add_rows(np, table, change.ids, change.array)
