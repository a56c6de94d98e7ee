"""Pixels and channels in another order, windows put together, places of pools, noisy activations."""

from __future__ import annotations

import numpy as np
from optest import Case

rng = np.random.RandomState(33)


def f(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


def _unshuffled(X: np.ndarray) -> np.ndarray:
    parts = [X[:, :, i::2, j::2] for i in range(2) for j in range(2)]
    return np.stack(parts, 2).reshape(len(X), -1, X.shape[2] // 2, X.shape[3] // 2)


def _added(X: np.ndarray) -> np.ndarray:
    """Windows of 2 x 2 in steps of 1 over pictures of 3 x 4 with a border of 1 above."""
    out = np.zeros((1, 2, 4, 4), "float32")
    windows = X.reshape(1, 2, 2, 2, 3, 3)
    for i in range(2):
        for j in range(2):
            out[:, :, i : i + 3, j : j + 3] += windows[:, :, i, j]
    return out[:, :, 1:]


WINDOWS = {
    "output_sizes": [3, 4],
    "kernel_sizes": [2, 2],
    "strides": [1, 1],
    "paddings": [1, 0, 0, 0],
    "dilations": [1, 1],
}
PICTURES = f(2, 6, 2, 2)
PLACES = np.array([[[[1, 6], [8, 15]]]], "int32")
SOLIDS = np.array([[[[[1, 30]]]]], "int32")


def _put(places: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, "float32")
    out.reshape(-1)[places.ravel()] = values.ravel()
    return out


CASES = [
    Case("pixel_unshuffle", {"X": f(2, 3, 4, 6)}, _unshuffled, {"downscale_factor": 2}, grad=["X"]),
    Case(
        "pixel_unshuffle",
        {"X": f(2, 4, 6, 3)},
        lambda X: _unshuffled(X.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1),
        {"downscale_factor": 2, "data_format": "NHWC"},
        grad=["X"],
        name="channels last",
    ),
    Case("channel_shuffle", {"X": PICTURES}, lambda X: X[:, [0, 2, 4, 1, 3, 5]], {"groups": 3}, grad=["X"]),
    Case(
        "channel_shuffle",
        {"X": PICTURES.transpose(0, 2, 3, 1)},
        lambda X: X[..., [0, 3, 1, 4, 2, 5]],
        {"groups": 2, "data_format": "NHWC"},
        grad=["X"],
        name="channels last",
    ),
    Case("fold", {"X": f(1, 8, 9)}, _added, WINDOWS, grad=["X"]),
    Case(
        "unpool",
        {"X": f(1, 1, 2, 2), "Indices": PLACES},
        lambda X, Indices: _put(Indices, X, (1, 1, 4, 5)),
        {"ksize": [2, 2], "strides": [2, 2], "unpooling_type": "max", "output_size": [4, 5]},
        grad=["X"],
        name="output_size",
        of_2x=True,
    ),
    Case(
        "unpool3d",
        {"X": f(1, 1, 1, 1, 2), "Indices": SOLIDS},
        lambda X, Indices: _put(Indices, X, (1, 1, 2, 4, 4)),
        {"ksize": [2, 4, 2], "strides": [2, 4, 2]},
        grad=["X"],
    ),
    Case(
        "celu",
        {"X": f(3, 4)},
        lambda X: np.where(X > 0, X, 0.7 * np.expm1(X / 0.7)),
        {"alpha": 0.7},
        grad=["X"],
    ),
    Case(
        "rrelu",
        {"X": PICTURES},
        lambda X: (np.where(X < 0, 0.25 * X, X), np.where(X < 0, np.float32(0.25), 1)),
        {"lower": 0.1, "upper": 0.4, "is_test": True},
        grad=["X"],
    ),
    Case(
        "rrelu",
        {"X": PICTURES},
        lambda X: np.where(X < 0, 0.25 * X, X),
        {"lower": 0.25, "upper": 0.25},
        ignore=["Noise"],
        name="drawn",
    ),
]
