"""Rows for pairs of sequences and images of differing sizes; references go image by image."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(4)


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-1.5, 1.5, shape).astype("float32")


def split(rows: Any, lengths: Any) -> list[Any]:
    """The rows of each sequence."""
    return np.split(rows, np.cumsum(lengths)[:-1])


# ---------------------------------------------------------------------- all pairs of rows
LEFT, RIGHT = [2, 1, 3], [3, 2, 1]
X, Y, W = floats(6, 2), floats(6, 3), floats(2, 4, 3)
PAIRS = [
    np.einsum("id,dce,je->cij", x, W, y).ravel() for x, y in zip(split(X, LEFT), split(Y, RIGHT), strict=True)
]
CASES = [
    Case(
        "match_matrix_tensor",
        {"X": (X, [LEFT]), "Y": (Y, [RIGHT]), "W": W},
        {"Out": np.concatenate(PAIRS)[:, None], "Tmp": (X @ W.reshape(2, -1)).reshape(-1, 1)},
        {"dim_t": 4},
        grad=["X", "Y", "W"],
        lods={"Out": [[len(pair) for pair in PAIRS]]},
    ),
    Case(
        "match_matrix_tensor",
        {"X": (X, [[6, 0]]), "Y": (Y, [[2, 4]]), "W": W},
        {
            "Out": np.einsum("id,dce,je->cij", X, W, Y[:2]).reshape(-1, 1),
            "Tmp": (X @ W.reshape(2, -1)).reshape(-1, 1),
        },
        {"dim_t": 4},
        grad=["X", "Y", "W"],
        lods={"Out": [[48, 0]]},
        name="empty",
    ),
]


# ---------------------------------------------------------------------- images of differing sizes
def convolved(image: Any, w: Any, kernel: tuple[int, int], stride: tuple[int, int]) -> tuple[Any, Any]:
    """One image [channels, height, width]: the result, and the windows that it was made from."""
    (kh, kw), (down, right) = kernel, stride
    padded = np.pad(image, ((0, 0), (kh // 2, kh), (kw // 2, kw)))
    windows = [
        padded[:, y : y + kh, x : x + kw].ravel()
        for y in range(0, image.shape[1], down)
        for x in range(0, image.shape[2], right)
    ]
    unfolded = np.stack(windows, axis=1)
    return (w @ unfolded).ravel(), unfolded.ravel()


def images(
    channels: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int], sizes: Any, name: str
) -> Case:
    """A row for images of the given heights and widths."""
    parts = [floats(channels, height, width) for height, width in sizes]
    heights, widths = zip(*sizes, strict=True)
    w = floats(outputs, channels * kernel[0] * kernel[1])
    found = [convolved(part, w, kernel, stride) for part in parts]
    column = np.concatenate([part.ravel() for part in parts])[:, None]
    return Case(
        "var_conv_2d",
        {
            "X": (column, [[part.size for part in parts]]),
            "ROW": (np.ones((sum(heights), 1), "float32"), [list(heights)]),
            "COLUMN": (np.ones((sum(widths), 1), "float32"), [list(widths)]),
            "W": w,
        },
        {
            "Out": np.concatenate([out for out, _ in found])[:, None],
            "Col": np.concatenate([unfolded for _, unfolded in found])[:, None],
        },
        {
            "InputChannel": channels,
            "OutputChannel": outputs,
            "KernelH": kernel[0],
            "KernelW": kernel[1],
            "StrideH": stride[0],
            "StrideW": stride[1],
        },
        grad=["X", "W"],
        lods={"Out": [[len(out) for out, _ in found]]},
        rtol=1e-4,
        name=name,
    )


CASES += [
    images(2, 3, (3, 3), (1, 1), [(2, 3), (4, 1), (3, 3)], "same size"),
    images(1, 2, (2, 3), (1, 2), [(3, 4), (2, 5)], "even kernel, stride"),
    images(2, 1, (1, 1), (2, 2), [(3, 3)], "one by one"),
]
