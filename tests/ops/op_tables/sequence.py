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
TIES = np.where(np.arange(140).reshape(70, 2) % 97 == 90, np.float32(np.nan), np.floor(4 * floats(70, 2)))
POOLS = {
    "AVERAGE": lambda rows: rows.mean(axis=0),
    "SUM": lambda rows: rows.sum(axis=0),
    "MAX": lambda rows: rows.max(axis=0),
    "SQRT": lambda rows: rows.sum(axis=0) / np.sqrt(len(rows)),
    "LAST": lambda rows: rows[-1],
    "FIRST": lambda rows: rows[0],
}


def pooled(kind: str, rows: Any, lengths: Any, pad: float = 0.0) -> Any:
    """Each sequence pooled."""
    return np.stack(
        [
            POOLS[kind](part) if len(part) else np.full(rows.shape[1:], pad, rows.dtype)
            for part in split(rows, lengths)
        ]
    )


POOL = [
    Case(
        "sequence_pool",
        {"X": (ROWS, [LENGTHS])},
        pooled(kind, ROWS, LENGTHS),
        {"pooltype": kind},
        grad=["X"],
        name=kind.lower(),
        ignore=["MaxIndex"],
    )
    for kind in POOLS
]
POOL += [
    Case(
        "sequence_pool",
        {"X": (ROWS, [GAPS])},
        pooled(kind, ROWS, GAPS, 0.5),
        {"pooltype": kind, "pad_value": 0.5},
        grad=["X"],
        name=f"{kind.lower()} empty",
        ignore=["MaxIndex"],
    )
    for kind in POOLS
]
POOL += [
    Case(
        "sequence_pool",
        {"X": (floats(7, 2, 3), [[2, 0, 1], LENGTHS])},
        lambda X: pooled("SUM", X, LENGTHS),
        {"pooltype": "SUM"},
        grad=["X"],
        lods={"Out": [[2, 0, 1]]},
        name="nested",
    ),
    Case(
        "sequence_pool",
        {"X": (ROWS, [LENGTHS])},
        {
            "Out": pooled("MAX", ROWS, LENGTHS),
            "MaxIndex": np.stack([part.argmax(axis=0) for part in split(ROWS, LENGTHS)]) + [[0], [2], [6]],
        },
        {"pooltype": "MAX"},
        name="index",
    ),
    Case(
        "sequence_pool",
        {"X": (TIES, [[3, 0, 40, 27]])},
        {
            "Out": pooled("MAX", TIES, [3, 0, 40, 27]),
            "MaxIndex": np.stack(
                [TIES[:3].argmax(0), [-1] * 2, TIES[3:43].argmax(0) + 3, TIES[43:].argmax(0) + 43]
            ),
        },
        {"pooltype": "MAX"},
        name="index of equal ones and of NaN",
    ),
    Case(
        "sequence_pool",
        {"X": (floats(40, 2), [[30, 0, 10]])},
        lambda X: pooled("AVERAGE", X, [30, 0, 10]),
        grad=["X"],
        name="long",
    ),
]


def softmax(X: Any) -> Any:
    """Softmax in each sequence."""
    return np.concatenate([np.exp(part) / np.exp(part).sum() for part in split(X, GAPS)])


SOFTMAX = [
    Case("sequence_softmax", {"X": (floats(7, 1), [GAPS])}, softmax, grad=["X"], lods={"Out": [GAPS]}),
    Case("sequence_softmax", {"X": (floats(7), [GAPS])}, softmax, grad=["X"], name="vector"),
]


# ---------------------------------------------------------------------- convolution
def context(parts: Any, start: int, length: int, padding: Any = None) -> Any:
    """The rows around each row, side by side."""
    found = []
    for part in parts:
        for t in range(len(part)):
            around = []
            for o in range(t + start, t + start + length):
                if 0 <= o < len(part):
                    around.append(part[o])
                elif padding is None:
                    around.append(np.zeros_like(part[0]))
                else:
                    around.append(padding[max(0, -start) + (o if o < 0 else o - len(part))])
            found.append(np.concatenate(around))
    return np.stack(found)


def conv(start: int, length: int) -> Any:
    """The reference for a sequence_conv."""
    return lambda X, Filter, PaddingData=None: context(split(X, LENGTHS), start, length, PaddingData) @ Filter


CONV = [
    Case(
        "sequence_conv",
        {"X": (ROWS, [LENGTHS]), "Filter": floats(3 * length, 4)},
        conv(start, length),
        {"contextStart": start, "contextLength": length},
        grad=["X", "Filter"],
        lods={"Out": [LENGTHS]},
        name=f"{start} {length}",
    )
    for start, length in [(-1, 3), (0, 2), (-3, 2), (2, 1), (-4, 8)]
]
CONV += [
    Case(
        "sequence_conv",
        {"X": (ROWS, [LENGTHS]), "Filter": floats(3 * length, 2), "PaddingData": floats(rows, 3)},
        conv(start, length),
        {"contextStart": start, "contextLength": length, "paddingTrainable": True},
        grad=["X", "Filter", "PaddingData"],
        name=f"padding {start} {length}",
    )
    for start, length, rows in [(-1, 3, 2), (-2, 3, 2), (0, 2, 1)]
]


def ahead(parts: Any, weights: Any) -> Any:
    """The reference for a row_conv."""
    return np.concatenate(
        [
            [
                sum(part[t + w] * weights[w] for w in range(min(len(weights), len(part) - t)))
                for t in range(len(part))
            ]
            for part in parts
        ]
    )


CONV += [
    Case(
        "row_conv",
        {"X": (ROWS, [LENGTHS]), "Filter": floats(3, 3)},
        lambda X, Filter: ahead(split(X, LENGTHS), Filter),
        grad=["X", "Filter"],
        lods={"Out": [LENGTHS]},
    ),
    Case(
        "row_conv",
        {"X": floats(2, 4, 3), "Filter": floats(2, 3)},
        lambda X, Filter: ahead(X, Filter).reshape(X.shape),
        grad=["X", "Filter"],
        name="batch",
    ),
    Case(
        "row_conv",
        {"X": floats(2, 3, 3), "Filter": floats(5, 3)},
        lambda X, Filter: ahead(X, Filter).reshape(X.shape),
        grad=["X", "Filter"],
        name="batch, long",
    ),
    Case(
        "row_conv",
        {"X": (ROWS, [LENGTHS]), "Filter": floats(9, 3)},
        lambda X, Filter: ahead(split(X, LENGTHS), Filter),
        grad=["X", "Filter"],
        name="long",
    ),
]

# ---------- expand, concat, slice, reverse, reshape
NUMBERS = np.arange(1, 8, dtype="float32")[:, None] * [1, 10]
COUNTS = floats(6, 1)
EXPAND = [
    Case(
        "sequence_expand",
        {"X": (NUMBERS[:4], [[2, 2]]), "Y": (floats(8, 1), [[2, 2], [3, 3, 1, 1]])},
        NUMBERS[[0, 1, 0, 1, 2, 3, 2, 3]],
        {"ref_level": 0},
        grad=["X"],
        lods={"Out": [[2, 2, 2, 2]]},
    ),
    Case(
        "sequence_expand",
        {"X": NUMBERS[:3], "Y": (floats(5, 1), [[2, 0, 3]])},
        NUMBERS[[0, 0, 2, 2, 2]],
        grad=["X"],
        lods={"Out": []},
        name="rows",
    ),
    Case(
        "sequence_expand",
        {"X": (NUMBERS[:6], [[1, 2, 3]]), "Y": (floats(5, 1), [[2, 0, 3]])},
        NUMBERS[[0, 0, 3, 4, 5, 3, 4, 5, 3, 4, 5]],
        grad=["X"],
        lods={"Out": [[1, 1, 3, 3, 3]]},
        name="dropped",
    ),
    Case(
        "sequence_expand",
        {"X": (NUMBERS[:4], [[1, 3]]), "Y": (floats(3, 1), [[0, 2], [2, 1]])},
        NUMBERS[[1, 2, 3, 1, 2, 3]],
        {"ref_level": 0},
        grad=["X"],
        lods={"Out": [[3, 3]]},
        name="level",
    ),
    Case(
        "sequence_expand_as",
        {"X": floats(3, 2), "Y": (COUNTS, [[2, 0, 4]])},
        lambda X, Y: X[[0, 0, 2, 2, 2, 2]],
        grad=["X"],
        lods={"Out": [[2, 0, 4]]},
    ),
    Case(
        "sequence_concat",
        {"X": [(NUMBERS[:3], [[1, 2]]), (NUMBERS[3:7], [[3, 1]])]},
        NUMBERS[[0, 3, 4, 5, 1, 2, 6]],
        grad=["X"],
        lods={"Out": [[4, 3]]},
    ),
    Case(
        "sequence_concat",
        {"X": [(NUMBERS[:2], [[2, 0]]), (NUMBERS[2:3], [[0, 1]]), (NUMBERS[3:6], [[1, 2]])]},
        NUMBERS[[0, 1, 3, 2, 4, 5]],
        grad=["X"],
        lods={"Out": [[3, 3]]},
        name="three",
    ),
    Case(
        "sequence_slice",
        {
            "X": (floats(7, 2), [LENGTHS]),
            "Offset": np.array([[0], [1], [0]]),
            "Length": np.array([[1], [3], [1]]),
        },
        lambda X, Offset, Length: X[[0, 3, 4, 5, 6]],
        grad=["X"],
        lods={"Out": [[1, 3, 1]]},
    ),
    Case(
        "sequence_reverse",
        {"X": (floats(7, 2), [GAPS])},
        lambda X: X[[1, 0, 5, 4, 3, 2, 6]],
        grad=["X"],
        lods={"Y": [GAPS]},
    ),
    Case(
        "sequence_reshape",
        {"X": (floats(6, 4), [[2, 1, 3]])},
        lambda X: X.reshape(12, 2),
        {"new_dim": 2},
        grad=["X"],
        lods={"Out": [[4, 2, 6]]},
    ),
    Case(
        "sequence_reshape",
        {"X": (floats(6, 2), [[2, 4]])},
        lambda X: X.reshape(3, 4),
        {"new_dim": 4},
        grad=["X"],
        lods={"Out": [[1, 2]]},
        name="wider",
    ),
]


# ---------------------------------------------------------------------- pad, unpad, mask
def padded(X: Any, steps: int, value: Any) -> Any:
    """The batch."""
    out = np.empty((len(GAPS), steps, *X.shape[1:]), X.dtype)
    out[...] = value
    for row, part in zip(out, split(X, GAPS), strict=True):
        row[: len(part)] = part
    return out


KEPT = [0, 1, 8, 9, 10, 11, 12]
PAD = [
    Case(
        "sequence_pad",
        {"X": (ROWS, [GAPS]), "PadValue": np.array([0.5], "float32")},
        lambda X, PadValue: (padded(X, 4, 0.5), np.array(GAPS)),
        grad=["X"],
        lods={"Out": []},
    ),
    Case(
        "sequence_pad",
        {"X": (ROWS, [GAPS]), "PadValue": floats(3)},
        lambda X, PadValue: padded(X, 6, PadValue),
        {"padded_length": 6},
        grad=["X"],
        name="length",
    ),
    Case(
        "sequence_pad",
        {"X": (floats(7, 2, 1), [GAPS]), "PadValue": floats(2, 1)},
        lambda X, PadValue: padded(X, 4, PadValue),
        grad=["X"],
        name="images",
    ),
    Case(
        "sequence_unpad",
        {"X": floats(5, 4, 2), "Length": np.array(GAPS)},
        lambda X, Length: X.reshape(20, 2)[KEPT],
        grad=["X"],
        lods={"Out": [GAPS]},
    ),
    Case(
        "sequence_unpad",
        {"X": floats(5, 4), "Length": np.array(GAPS)},
        lambda X, Length: X.reshape(20, 1)[KEPT],
        grad=["X"],
        name="numbers",
    ),
    Case(
        "sequence_mask",
        {"X": np.array([2, 0, 3])},
        np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]),
        {"maxlen": 4, "out_dtype": 3},
    ),
    Case(
        "sequence_mask",
        {"X": np.array([[2], [3]])},
        np.array([[[1, 1, 0]], [[1, 1, 1]]]),
        {"out_dtype": 5},
        name="longest",
    ),
    Case(
        "sequence_mask",
        {"X": np.array([2, 3]), "MaxLenTensor": np.array([2], "int32")},
        np.ones((2, 2)),
        {"out_dtype": 2},
        name="tensor",
    ),
]

# ---------------------------------------------------------------------- ids
IDS = np.array([3, 1, 5, 2, 2, 4, 7])
FIRST_IDS, LAST_IDS = np.array([0, 2, 1, 1]), np.array([4, 0])
IDENTIFIERS = [
    Case(
        "sequence_enumerate",
        {"X": (IDS[:, None], [GAPS])},
        np.array([[3, 1], [1, 9], [5, 2], [2, 2], [2, 4], [4, 9], [7, 9]]),
        {"win_size": 2, "pad_value": 9},
        lods={"Out": [GAPS]},
    ),
    Case(
        "sequence_erase",
        {"X": (IDS[:, None].astype("int32"), [LENGTHS])},
        np.array([[3], [1], [4], [7]]),
        {"tokens": [2, 5]},
        lods={"Out": [[2, 1, 1]]},
    ),
    Case(
        "sequence_erase",
        {"X": (IDS[:, None], [[2, 1], LENGTHS])},
        np.array([[5], [2], [2], [4]]),
        {"tokens": [1, 3, 7]},
        lods={"Out": [[2, 1], [0, 4, 0]]},
        name="nested",
    ),
    Case(
        "sequence_scatter",
        {
            "X": np.ones((2, 5), "float32"),
            "Ids": (np.concatenate([FIRST_IDS, LAST_IDS])[:, None], [[4, 2]]),
            "Updates": (np.array([[1], [2], [3], [4], [5], [6]], "float32"), [[4, 2]]),
        },
        np.array([[2, 8, 3, 1, 1], [7, 1, 1, 1, 6]]),
        grad=["X", "Updates"],
    ),
]


def best_averages(X: Any, ROW: Any, COLUMN: Any) -> Any:
    """The sums of the 1 and of the 3 highest of each row, divided by 1 and 3."""
    rows, start = [], 0
    for height, width in [(2, 3), (1, 2)]:
        scores = X[start : start + 2 * height * width].reshape(2, height, width)
        start += 2 * height * width
        ordered = np.sort(scores, axis=2)[:, :, ::-1]
        rows.append(
            np.stack([ordered[:, :, 0], ordered[:, :, :3].sum(axis=2) / 3], axis=2)
            .swapaxes(0, 1)
            .reshape(height, -1)
        )
    return np.concatenate(rows)


IDENTIFIERS += [
    Case(
        "sequence_topk_avg_pooling",
        {
            "X": (floats(16, 1), [[12, 4]]),
            "ROW": (floats(3, 1), [[2, 1]]),
            "COLUMN": (floats(5, 1), [[3, 2]]),
        },
        best_averages,
        {"topks": [1, 3], "channel_num": 2},
        grad=["X"],
        lods={"Out": [[2, 1]]},
    )
]

CASES = POOL + SOFTMAX + CONV + EXPAND + PAD + IDENTIFIERS
