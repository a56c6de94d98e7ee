"""Op table: how gradients are cut for servers, and what servers read. Ops on ids and rows are in
test_sparse_jobs.
"""

from __future__ import annotations

import numpy as np
from optest import Case

MATRIX = np.arange(15, dtype="float32").reshape(5, 3)

CASES: list[Case] = [
    Case(
        "split_byref",
        {"X": MATRIX},
        {"Out": [MATRIX[:2], MATRIX[2:]]},
        {"sections": [2, 3]},
        outputs={"Out": 2},
        grad=["X"],
    ),
    Case(
        "split_byref",
        {"X": MATRIX[:4]},
        {"Out": [MATRIX[:2], MATRIX[2:4]]},
        {"num": 2},
        outputs={"Out": 2},
        name="evenly",
    ),
    Case(
        "ref_by_trainer_id",
        {"X": [MATRIX, MATRIX + 1, MATRIX + 2], "TrainerId": np.array([1])},
        {"Out": MATRIX + 1},
    ),
]
