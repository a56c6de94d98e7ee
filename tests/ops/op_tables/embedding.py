"""Rows for fluidlite.ops.embedding."""

from __future__ import annotations

import numpy as np
from optest import Case

TABLE = np.random.RandomState(5).uniform(-1, 1, (7, 3)).astype("float32")
IDS = np.array([[1], [4], [1], [0], [6]], "int64")
GRID = np.array([[1, 4, 4], [0, 6, 2]], "int64")


def rows(ids: np.ndarray, padding: int) -> np.ndarray:
    return np.where((ids == padding)[..., None], np.float32(0), TABLE[ids])


CASES: list[Case] = [
    Case("lookup_table", {"W": TABLE, "Ids": IDS}, TABLE[IDS[:, 0]], grad=["W"]),
    Case(
        "lookup_table",
        {"W": TABLE, "Ids": IDS},
        rows(IDS[:, 0], 4),
        attrs={"padding_idx": 4},
        grad=["W"],
        name="padding",
    ),
    Case(
        "lookup_table",
        {"W": TABLE, "Ids": IDS},
        TABLE[IDS[:, 0]],
        attrs={"is_sparse": True},
        grad=["W"],
        name="sparse",
    ),
    Case(
        "lookup_table",
        {"W": TABLE, "Ids": (IDS, [[2, 3]])},
        TABLE[IDS[:, 0]],
        lods={"Out": [[2, 3]]},
        grad=["W"],
        name="lod",
    ),
    Case("lookup_table", {"W": TABLE, "Ids": GRID[..., None]}, TABLE[GRID], name="grid"),
    Case("lookup_table_v2", {"W": TABLE, "Ids": GRID}, TABLE[GRID], grad=["W"]),
    Case(
        "lookup_table_v2",
        {"W": TABLE, "Ids": GRID[0]},
        TABLE[GRID[0]],
        attrs={"is_sparse": True},
        grad=["W"],
        name="sparse",
    ),
    Case(
        "lookup_table_v2",
        {"W": TABLE, "Ids": GRID},
        rows(GRID, 6),
        attrs={"padding_idx": 6},
        grad=["W"],
        name="padding",
    ),
]
