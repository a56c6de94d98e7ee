"""Rows for the op that changes the level of detail."""

from __future__ import annotations

import numpy as np
from optest import Case

ROWS = np.arange(12, dtype="float32").reshape(6, 2) / 7
OFFSETS = np.array([0, 1, 6], "int32")

CASES = [
    Case(
        "lod_reset",
        {"X": (ROWS, [[2, 4]])},
        ROWS,
        {"target_lod": [0, 3, 6]},
        grad=["X"],
        lods={"Out": [[3, 3]]},
    ),
    Case(
        "lod_reset",
        {"X": ROWS},
        ROWS,
        {"target_lod": [0, 0, 6]},
        grad=["X"],
        lods={"Out": [[0, 6]]},
        name="plain",
    ),
    Case(
        "lod_reset",
        {"X": (ROWS, [[2, 4]]), "Y": OFFSETS},
        ROWS,
        grad=["X"],
        lods={"Out": [[1, 5]]},
        name="offsets",
    ),
    Case(
        "lod_reset",
        {"X": (ROWS, [[2, 4]]), "Y": (ROWS, [[1, 1], [1, 5]])},
        ROWS,
        grad=["X"],
        lods={"Out": [[1, 1], [1, 5]]},
        name="like",
    ),
    Case(
        "lod_reset",
        {"X": (ROWS, [[1, 5]]), "Y": (ROWS, [[1, 1, 1, 2, 1, 0]])},
        ROWS,
        {"append": True},
        lods={"Out": [[1, 1, 1, 2, 1, 0]]},
        name="append like",
    ),
    Case(
        "lod_reset",
        {"X": (ROWS, [[1, 5]])},
        ROWS,
        {"target_lod": [0, 1, 2, 3, 4, 5, 6], "append": True},
        grad=["X"],
        lods={"Out": [[1, 5], [1, 1, 1, 1, 1, 1]]},
        name="append",
    ),
]
