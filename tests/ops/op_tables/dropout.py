"""Rows for fluidlite.ops.dropout; the mask of seed 3 is PaddlePaddle 1.8.5's."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

X = np.arange(1, 13).reshape(3, 4).astype("float32")
MASK = np.array([[0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 0, 1]], "uint8")


def dropped(name: str, prob: float, mask: Any, upscale: bool = False, seed: Any = None) -> Case:
    factor = np.float32(1 / (1 - prob) if upscale and prob < 1 else 1)
    attrs = {
        "dropout_prob": prob,
        "fix_seed": seed is None,
        "seed": 3,
        "dropout_implementation": "upscale_in_train" if upscale else "downgrade_in_infer",
    }
    inputs = {"X": X} if seed is None else {"X": X, "Seed": seed}
    return Case(
        "dropout", inputs, {"Out": X * mask * factor, "Mask": mask}, attrs=attrs, grad=["X"], name=name
    )


def tested(name: str, factor: float, implementation: str) -> Case:
    return Case(
        "dropout",
        {"X": (X, [[1, 2]])},
        X * np.float32(factor),
        lods={"Out": [[1, 2]]},
        name=name,
        attrs={"dropout_prob": 0.4, "is_test": True, "dropout_implementation": implementation},
    )


CASES: list[Case] = [
    dropped("downgrade", 0.4, MASK),
    dropped("upscale", 0.4, MASK, upscale=True),
    dropped("seed from a tensor", 0.4, MASK, seed=np.array([3], "int32")),
    dropped("none", 0.0, np.ones_like(MASK)),
    dropped("all", 1.0, np.zeros_like(MASK), upscale=True),
    tested("test downgrade", 0.6, "downgrade_in_infer"),
    tested("test upscale", 1.0, "upscale_in_train"),
]
