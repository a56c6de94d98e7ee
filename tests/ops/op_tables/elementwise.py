"""Element-wise arithmetic, scale, sum, cast, clip."""

from __future__ import annotations

import numpy as np
from optest import Case

rng = np.random.RandomState(1)


def f(*shape: int, low: float = 0.3, high: float = 2.0) -> np.ndarray:
    return rng.uniform(low, high, shape).astype("float32")


_FUNCTIONS = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "elementwise_mul": np.multiply,
    "elementwise_div": np.divide,
    "elementwise_max": np.maximum,
    "elementwise_min": np.minimum,
    "elementwise_pow": np.power,
}
_SHAPES = [
    ((3, 4), (3, 4), -1, (3, 4)),
    ((2, 3, 4), (4,), -1, (4,)),
    ((2, 3, 4), (3,), 1, (3, 1)),
    ((2, 3, 4), (2, 3), 0, (2, 3, 1)),
    ((2, 3, 4), (3, 1), 1, (3, 1)),
    ((2, 3), (1,), -1, (1,)),
    ((2, 1, 4), (2, 3, 4), -1, (2, 3, 4)),
    ((4,), (2, 4), -1, (2, 4)),
]

CASES = [
    Case(
        op,
        {"X": f(*x), "Y": f(*y)},
        lambda X, Y, function=function, stand=stand: function(X, Y.reshape(stand)),
        {"axis": axis},
        grad=["X", "Y"],
        name=f"{list(x)}-{list(y)}-{axis}",
    )
    for op, function in _FUNCTIONS.items()
    for x, y, axis, stand in _SHAPES
]
CASES += [
    # integers are divided towards zero, as in C++
    Case(
        "elementwise_mod",
        {"X": np.array([5, -5, 7], "int64"), "Y": np.array([3, 3, -4], "int64")},
        lambda X, Y: np.fmod(X, Y),
    ),
    Case(
        "elementwise_mod",
        {"X": np.array([7.5, -7.5], "float32"), "Y": np.array([-2, 2], "float32")},
        lambda X, Y: np.mod(X, Y),
        name="real",
    ),
    Case(
        "elementwise_floordiv",
        {"X": np.array([5, -9, 7], "int64"), "Y": np.array([3, 4, -4], "int64")},
        np.array([1, -2, -1]),
    ),
    Case(
        "elementwise_div",
        {"X": np.array([5, -9, 7], "int32"), "Y": np.array([3, 4, -4], "int32")},
        np.array([1, -2, -1]),
        name="integers",
    ),
    Case(
        "elementwise_add",
        {"X": (f(5, 2), [[2, 3]]), "Y": f(2)},
        lambda X, Y: X + Y,
        lods={"Out": [[2, 3]]},
        name="sequences",
    ),
    Case("minus", {"X": f(2, 3), "Y": f(2, 3)}, lambda X, Y: X - Y, grad=["X", "Y"]),
    Case("scale", {"X": f(2, 3)}, lambda X: 2 * X + 1, {"scale": 2.0, "bias": 1.0}, grad=["X"]),
    Case(
        "scale",
        {"X": f(2, 3)},
        lambda X: 2 * (X + 1),
        {"scale": 2.0, "bias": 1.0, "bias_after_scale": False},
        grad=["X"],
        name="before",
    ),
    Case(
        "scale",
        {"X": f(2, 3), "ScaleTensor": np.array([3.0], "float32")},
        lambda X, ScaleTensor: 3 * X,
        grad=["X"],
        name="tensor",
    ),
    Case(
        "scale",
        {"X": np.array([3, -3], "int64")},
        np.array([7, -5]),
        {"scale": 2.0, "bias": 1.0},
        name="integers",
    ),
    Case("sum", {"X": [f(2, 3), f(2, 3), f(2, 3)]}, lambda X: X[0] + X[1] + X[2], grad=["X"]),
    Case(
        "cast",
        {"X": np.array([1.7, -1.7], "float32")},
        lambda X: X.astype("int64"),
        {"in_dtype": 5, "out_dtype": 3},
    ),
    Case("assign", {"X": f(2, 3)}, lambda X: X, grad=["X"]),
    Case("clip", {"X": f(4, 5)}, lambda X: np.clip(X, 0.5, 1.5), {"min": 0.5, "max": 1.5}, grad=["X"]),
    Case("clip_by_norm", {"X": f(4, 5)}, lambda X: X / np.sqrt((X * X).sum()), {"max_norm": 1.0}),
    Case("clip_by_norm", {"X": f(4, 5)}, lambda X: X, {"max_norm": 100.0}, name="below"),
    *(
        Case(
            "dgc_clip_by_norm",
            {"X": f(4, 5), "current_step": np.array([step], "float32")},
            lambda X, current_step, bound=bound: X / np.sqrt((X * X).sum()) if bound else X,
            {"max_norm": 1.0, "rampup_begin_step": begin},
            name=f"step {step} of {begin}",
        )
        for step, begin, bound in ((3.7, 3.0, True), (2.9, 3.0, False), (9.0, -1.0, False))
    ),
    Case("increment", {"X": np.array([3.0], "float32")}, lambda X: X + 2, {"step": 2.0}),
]
