"""Rows for the ops of the collective family that need no other rank."""

from __future__ import annotations

import numpy as np
from optest import Case

A = np.arange(3, dtype="float32")
B = np.arange(4, dtype="float32").reshape(2, 2) + 5
FLAT = np.array([0, 1, 2, 5, 6, 7, 8], "float32")

CASES = [
    Case("c_sync_calc_stream", {"X": B}, B),
    Case("c_sync_comm_stream", {"X": [A, B]}, {"Out": [A, B]}, {"ring_id": 1}, outputs={"Out": 2}),
    Case("depend", {"X": B, "Dep": [A]}, B),
    Case(
        "coalesce_tensor",
        {"Input": [A, B]},
        {"Output": [A, B], "FusedOutput": FLAT},
        {"dtype": 5, "copy_data": True},
        outputs={"Output": 2},
        name="copied",
    ),
    Case(
        "coalesce_tensor",
        {"Input": [A, B]},
        {"Output": [A * 0 + 3, B * 0 + 3], "FusedOutput": FLAT * 0 + 3},
        {"dtype": 5, "set_constant": True, "constant": 3.0},
        outputs={"Output": 2},
        name="constant",
    ),
    Case(
        "coalesce_tensor",
        {"Input": [A, B]},
        {"Output": [A * 0, B * 0], "FusedOutput": FLAT * 0},
        {"dtype": 5},
        outputs={"Output": 2},
        name="zeros",
    ),
]
