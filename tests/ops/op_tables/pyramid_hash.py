"""Rows for embeddings of windows by hashes; the positions are PaddlePaddle's, recorded from 1.8.5."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

TABLE = np.arange(14, dtype="float32").reshape(14, 1)
WORDS = (np.array([[1], [2], [3], [4], [5], [7], [8], [9], [9], [9], [9], [9]], "int32"), [[5, 2, 5]])
BITS = 512


def listed(*bits: int) -> Any:
    """A Bloom filter of three rounds with these bits set, as PaddlePaddle keeps it."""
    content = np.zeros(BITS, np.uint8)
    content[list(bits)] = 1
    header = np.array([17070416, BITS, 3, 1], np.uint64).view(np.uint8)
    return np.concatenate([header, np.packbits(content)]).view("float32").reshape(-1, 1)


def rows(*starts: tuple[int, int]) -> Any:
    """An embedding of two pieces of four numbers each from these places of the table; none for (-1, -1)."""
    return np.array(
        [[*range(a, a + 4), *range(b, b + 4)] if a >= 0 else [0] * 8 for a, b in starts], "float32"
    )


ATTRS = {"num_emb": 8, "space_len": 10, "rand_len": 4, "drop_out_percent": 1.0, "seed": 1}
EVERY = listed(*range(BITS))
# bits that the windows [1, 2] and [7, 8] set
ONE_TWO, SEVEN_EIGHT = (119, 25, 5, 309, 402, 79), (232, 374, 44, 510, 405, 468)
NONE = np.zeros((4, 1), "float32")
CASES = [
    Case(
        "pyramid_hash",
        {"X": (WORDS[0][:5], [[3, 1, 1]]), "W": TABLE, "WhiteList": NONE, "BlackList": NONE},
        {
            "Out": rows((3, 5), (4, 2), (6, 8), (-1, -1), (-1, -1)),
            "X_Temp_Out": WORDS[0][:5].astype("float32"),
        },
        {**ATTRS, "pyramid_layer": 3, "use_filter": False},
        lods={"Out": [[3, 1, 1]]},
        ignore=["DropPos"],  # 1.8.5 declares no shape for it
    ),
    *(
        Case(
            "pyramid_hash",
            {"X": WORDS, "W": TABLE, "WhiteList": white, "BlackList": listed(*SEVEN_EIGHT)},
            {"Out": out},
            {
                **ATTRS,
                "pyramid_layer": 2,
                "use_filter": True,
                "white_list_len": len(white),
                "black_list_len": len(EVERY),
            },
            lods={"Out": [lengths]},
            ignore=["DropPos", "X_Temp_Out"],
            name=name,
        )
        for name, white, out, lengths in (
            ("listed", listed(*ONE_TWO, *SEVEN_EIGHT), rows((3, 5), (-1, -1), (-1, -1)), [1, 1, 1]),
            ("all but one", EVERY, rows((3, 5), (4, 2), (3, 6), (6, 7), (-1, -1), *[(2, 0)] * 4), [4, 1, 4]),
        )
    ),
]
