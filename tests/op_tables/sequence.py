"""Rows for the ops on sequences."""
from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(9)


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-1.5, 1.5, shape).astype("float32")


def split(rows: Any, lengths: Any) -> list[Any]:
    """The rows of each sequence."""
    return np.split(rows, np.cumsum(lengths)[:-1])


# ---------------------------------------------------------------------- pooling and softmax
ROWS, LENGTHS = floats(7, 3), [2, 4, 1]
GAPS = [2, 0, 4, 1, 0]
POOLS = {
    "AVERAGE": lambda rows: rows.mean(axis=0), "SUM": lambda rows: rows.sum(axis=0), "MAX": lambda rows: rows.max(axis=0),
    "SQRT": lambda rows: rows.sum(axis=0) / np.sqrt(len(rows)), "LAST": lambda rows: rows[-1], "FIRST": lambda rows: rows[0],
}


def pooled(kind: str, rows: Any, lengths: Any, pad: float = 0.0) -> Any:
    """Each sequence pooled."""
    return np.stack([POOLS[kind](part) if len(part) else np.full(rows.shape[1:], pad, rows.dtype) for part in split(rows, lengths)])


POOL = [Case("sequence_pool", {"X": (ROWS, [LENGTHS])}, pooled(kind, ROWS, LENGTHS), {"pooltype": kind}, grad=["X"], name=kind.lower(),
             ignore=["MaxIndex"]) for kind in POOLS]
POOL += [Case("sequence_pool", {"X": (ROWS, [GAPS])}, pooled(kind, ROWS, GAPS, 0.5), {"pooltype": kind, "pad_value": 0.5}, grad=["X"],
              name=f"{kind.lower()} empty", ignore=["MaxIndex"]) for kind in POOLS]
POOL += [Case("sequence_pool", {"X": (floats(7, 2, 3), [[2, 0, 1], LENGTHS])}, lambda X: pooled("SUM", X, LENGTHS), {"pooltype": "SUM"},
              grad=["X"], lods={"Out": [[2, 0, 1]]}, name="nested"),
         Case("sequence_pool", {"X": (ROWS, [LENGTHS])}, {"Out": pooled("MAX", ROWS, LENGTHS), "MaxIndex": np.stack(
             [part.argmax(axis=0) for part in split(ROWS, LENGTHS)]) + [[0], [2], [6]]}, {"pooltype": "MAX"}, name="index"),
         Case("sequence_pool", {"X": (floats(40, 2), [[30, 0, 10]])}, lambda X: pooled("AVERAGE", X, [30, 0, 10]), grad=["X"], name="long")]


def softmax(X: Any) -> Any:
    """Softmax in each sequence."""
    return np.concatenate([np.exp(part) / np.exp(part).sum() for part in split(X, GAPS)])


SOFTMAX = [Case("sequence_softmax", {"X": (floats(7, 1), [GAPS])}, softmax, grad=["X"], lods={"Out": [GAPS]}),
           Case("sequence_softmax", {"X": (floats(7), [GAPS])}, softmax, grad=["X"], name="vector")]

CASES = POOL + SOFTMAX
