"""Special functions, functions of pairs, running values, places in an order: ops of PaddlePaddle 2.x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from optest import Case
from scipy import special

rng = np.random.RandomState(31)


def f(*shape: int, low: float = -1, high: float = 1) -> np.ndarray:
    return rng.uniform(low, high, shape).astype("float32")


X, Y, P = f(3, 4), f(3, 4), f(3, 4, low=0.2, high=0.9)
TIES = np.array([[1, 3, 3, 2], [5, 4, 4, 5]], "float32")
HOLES = np.array([[1, np.nan, 3, 2, 7], [np.nan, 4, 6, np.nan, 5], [np.nan] * 5], "float32")


def _one(op: str, x: np.ndarray, expect: Callable[..., Any], **attrs: Any) -> Case:
    return Case(op, {"X": x}, lambda X: expect(X).astype("float32"), attrs, grad=["X"], rtol=2e-5)


def _later(op: str, expect: Callable[..., Any], **attrs: Any) -> Case:
    return Case(op, {"x": P * 2 - 1}, lambda x: expect(x).astype("float32"), attrs, grad=["x"], rtol=2e-5)


def _pair(op: str, expect: Callable[..., Any], other: np.ndarray, grad: tuple[str, ...] = ("X", "Y")) -> Case:
    return Case(op, {"X": X, "Y": other}, expect, grad=grad, name=str(other.shape))


def _running_product(X: np.ndarray) -> np.ndarray:
    return np.cumprod(X, axis=1)


CASES = [
    _one("acosh", P + 1, np.arccosh),
    _one("asinh", X, np.arcsinh),
    _one("atanh", X, np.arctanh),
    _one("lgamma", P, special.gammaln),
    _one("digamma", P, special.digamma),
    _one("erfinv", X, special.erfinv),
    _one("logit", P, special.logit, eps=0.0),
    _one("logit", P, lambda x: special.logit(np.clip(x, 0.4, 0.6)), eps=0.4),
    Case("trunc", {"X": X * 3}, lambda X: np.trunc(X)),
    _later("i0", special.i0),
    _later("i0e", special.i0e),
    _later("i1", special.i1),
    _later("i1e", special.i1e),
    Case(
        "polygamma",
        {"x": P},
        lambda x: special.polygamma(2, x).astype("float32"),
        {"n": 2},
        grad=["x"],
        rtol=2e-5,
    ),
    _pair("elementwise_fmax", lambda X, Y: np.fmax(X, Y), Y),
    _pair("elementwise_fmax", lambda X, Y: np.fmax(X, Y), Y[0]),
    _pair("elementwise_fmin", lambda X, Y: np.fmin(X, Y), Y[:, :1]),
    _pair("elementwise_heaviside", lambda X, Y: np.heaviside(X, Y), Y),
    Case("atan2", {"X1": X, "X2": Y}, lambda X1, X2: np.arctan2(X1, X2), grad=["X1", "X2"]),
    Case("nextafter", {"x": X, "y": Y}, lambda x, y: np.nextafter(x, y)),
    Case(
        "lerp", {"X": X, "Y": Y[0], "Weight": P}, lambda X, Y, Weight: X + Weight * (Y - X), grad=["X", "Y"]
    ),
    Case("cumprod", {"X": P}, _running_product, {"dim": 1}, grad=["X"]),
    Case("cumprod", {"X": np.where(X > 0, 0, X)}, _running_product, {"dim": -1}, grad=["X"], name="zeros"),
    Case(
        "logcumsumexp",
        {"X": X * 20},
        lambda X: np.logaddexp.accumulate(X, axis=0),
        {"axis": 0},
        grad=["X"],
        grad_tol=1e-3,
    ),
    Case(
        "logcumsumexp",
        {"X": X},
        lambda X: np.logaddexp.accumulate(X.ravel()[::-1])[::-1],
        {"flatten": True, "reverse": True},
        grad=["X"],
        name="from the end",
    ),
    Case(
        "logcumsumexp",
        {"X": X},
        lambda X: np.concatenate([np.full((3, 1), -np.inf), np.logaddexp.accumulate(X, 1)[:, :-1]], 1),
        {"axis": 1, "exclusive": True},
        name="exclusive",
    ),
    Case(
        "cummax",
        {"x": TIES},
        {"out": np.maximum.accumulate(TIES, 1), "indices": np.array([[0, 1, 2, 2], [0, 0, 0, 3]])},
        {"axis": 1},
    ),
    Case("cummax", {"x": X}, lambda x: np.maximum.accumulate(x, 0), {"axis": 0}, grad=["x"], name="rows"),
    Case(
        "cummin",
        {"x": TIES},
        {"out": np.minimum.accumulate(TIES, 0), "indices": np.array([[0] * 4, [0] * 4], "int32")},
        {"axis": 0, "dtype": 2},
    ),
    Case("reduce_amax", {"X": X}, lambda X: X.max(1), {"dim": [1]}, grad=["X"]),
    Case("reduce_amin", {"X": X}, lambda X: X.min(keepdims=True), {"reduce_all": True, "keep_dim": True}),
    Case("kthvalue", {"X": X}, lambda X: (np.sort(X, 1)[:, 1], np.argsort(X, 1)[:, 1]), {"k": 2}, grad=["X"]),
    Case(
        "mode",
        {"X": TIES},
        {"Out": np.array([[3], [4]], "float32"), "Indices": np.array([[2], [2]])},
        {"axis": 1, "keepdim": True},
    ),
    Case("mode", {"X": X}, lambda X: (X.min(0), X.argmin(0)), {"axis": 0}, grad=["X"], name="each once"),
    Case(
        "nanmedian",
        {"X": HOLES},
        {"Out": np.array([2.5, 5, np.nan], "float32"), "MedianIndex": np.array([[3, 2], [4, 4], [0, 0]])},
        {"axis": [1]},
    ),
    Case(
        "nanmedian",
        {"X": X},
        {"Out": np.median(X, keepdims=True)},
        {"axis": [], "keepdim": True},
        grad=["X"],
        ignore=["MedianIndex"],
        name="all",
    ),
    Case(
        "searchsorted",
        {"SortedSequence": np.sort(X[0]), "Values": Y},
        lambda SortedSequence, Values: np.searchsorted(SortedSequence, Values, "right"),
        {"right": True},
    ),
    Case(
        "searchsorted",
        {"SortedSequence": TIES[:, [0, 3, 1, 2]] * [[1], [0]], "Values": TIES},
        {"Out": np.array([[0, 2, 2, 1], [4, 4, 4, 4]], "int32")},
        {"out_int32": True},
        name="rows",
    ),
    Case(
        "searchsorted",
        {"SortedSequence": TIES[:, :0], "Values": TIES},
        {"Out": np.zeros(TIES.shape, "int64")},
        name="in rows without elements",
    ),
    Case(
        "searchsorted",
        {"SortedSequence": TIES[:0], "Values": TIES[:0]},
        {"Out": np.zeros((0, TIES.shape[1]), "int64")},
        name="in no rows",
    ),
    Case(
        "bincount",
        {"X": np.array([3, 1, 1]), "Weights": np.array([2, 3, 4], "float32")},
        {"Out": np.array([0, 7, 0, 2, 0, 0], "float32")},
        {"minlength": 6},
    ),
    Case("bincount", {"X": np.array([3, 1, 1])}, {"Out": np.array([0, 2, 0, 1])}, name="counts"),
    Case(
        "unique_consecutive",
        {"X": np.array([1, 1, 2, 2, 2, 1])},
        {"Out": np.array([1, 2, 1]), "Index": np.array([0, 0, 1, 1, 1, 2]), "Counts": np.array([2, 3, 1])},
        {"return_inverse": True, "return_counts": True},
    ),
    Case(
        "unique_consecutive",
        {"X": np.array([[1, 1, 2], [3, 3, 3]])},
        {"Out": np.array([[1, 2], [3, 3]])},
        {"axis": [1]},
        ignore=["Index", "Counts"],
        name="columns",
    ),
    Case("diagonal", {"Input": X}, lambda Input: np.diagonal(Input, 1), {"offset": 1}, grad=["Input"]),
    Case(
        "diagonal",
        {"Input": f(2, 3, 4)},
        lambda Input: np.diagonal(Input, -1, 2, 0),
        {"offset": -1, "axis1": 2, "axis2": 0},
        grad=["Input"],
        name="turned",
    ),
    Case(
        "tril_indices", {}, {"out": np.stack(np.tril_indices(3, -1, 4))}, {"rows": 3, "cols": 4, "offset": -1}
    ),
    Case("triu_indices", {}, {"out": np.stack(np.triu_indices(3, 1, 4))}, {"row": 3, "col": 4, "offset": 1}),
    Case(
        "repeat_interleave",
        {"X": X, "RepeatsTensor": np.array([2, 0, 1])},
        lambda X, RepeatsTensor: np.repeat(X, RepeatsTensor, 0),
        grad=["X"],
    ),
    Case("repeat_interleave", {"X": X}, lambda X: np.repeat(X, 3, 1), {"Repeats": 3, "dim": 1}, grad=["X"]),
    Case(
        "renorm",
        {"X": X},
        lambda X: X * np.minimum(1, 0.7 / np.linalg.norm(X, axis=1, keepdims=True)),
        {"p": 2.0, "axis": 0, "max_norm": 0.7},
        grad=["X"],
    ),
]
PLACES = [np.array([0, 2, 0]), np.array([1, 1, 1])]


def _put(x: np.ndarray, indices: list[np.ndarray], value: np.ndarray) -> np.ndarray:
    out = x.copy()
    np.add.at(out, tuple(indices), value)
    return out


def _with_diagonal(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    out = X.copy()
    out[:, range(3), range(1, 4)] = Y
    return out


def _set(x: np.ndarray, indices: list[np.ndarray], value: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[indices[0]] = value
    return out


CASES += [
    Case("angle", {"X": X}, lambda X: np.angle(X)),
    Case(
        "logspace",
        {slot: np.array([number], "float32") for slot, number in zip(("Start", "Stop", "Base"), (1, 3, 2))}
        | {"Num": np.array([5], "int32")},
        {"Out": np.logspace(1, 3, 5, base=2).astype("float32")},
    ),
    Case(
        "fill_diagonal_tensor",
        {"X": f(2, 3, 4), "Y": f(2, 3)},
        _with_diagonal,
        {"dim1": 1, "dim2": 2, "offset": 1},
        grad=["X"],
    ),
    Case(
        "index_put",
        {"x": X, "indices": PLACES, "value": f(3)},
        _put,
        {"accumulate": True},
        grad=["x", "value"],
    ),
    Case("index_put", {"x": X, "indices": [X > 0], "value": f(1)}, _set, grad=["x", "value"], name="mask"),
    Case("index_put", {"x": X, "indices": [np.array([2, 0])], "value": f(2, 4)}, _set, grad=["x", "value"]),
    Case(
        "index_put",
        {"x": X, "indices": [np.array([2, 0, 2])], "value": f(3, 4)},
        _set,
        grad=["x", "value"],
        name="twice",
    ),
]

SEVEN = np.arange(21, dtype="float32").reshape(7, 3)


def _filled(x: np.ndarray, places: list[tuple[int, ...]]) -> np.ndarray:
    x = x.copy()
    for place in places:
        x[place] = 5
    return x


# (name, X, attributes, what 2.6.2 fills)
_DIAGONALS = [
    ("square", SEVEN[:3], {}, [(0, 0), (1, 1), (2, 2)]),
    ("tall", SEVEN, {}, [(0, 0), (1, 1), (2, 2)]),
    ("wrapped", SEVEN, {"wrap": True}, [(0, 0), (1, 1), (2, 2), (4, 0), (5, 1), (6, 2)]),
    ("above", SEVEN, {"offset": 1, "wrap": True}, [(0, 1), (1, 2), (4, 1), (5, 2)]),
    ("below", SEVEN, {"offset": -1}, [(1, 0), (2, 1)]),
    ("below-wrapped", SEVEN, {"offset": -1, "wrap": True}, [(1, 0), (2, 1), (5, 0), (6, 1)]),
    ("wide", SEVEN.reshape(3, 7), {"offset": 5}, [(0, 5), (1, 6)]),
    ("outside", SEVEN, {"offset": 9}, []),
    ("cube", f(3, 3, 3), {"wrap": True}, [(0, 0, 0), (1, 1, 1), (2, 2, 2)]),
    ("one-dimension", SEVEN[0], {}, []),
]
NUMBERS = np.array([[0, -2.5], [4, 1.5]], "float32")
CASES += [
    *(
        Case(
            "fill_diagonal",
            {"X": x},
            lambda X, places=places: _filled(X, places),
            {"value": 5.0, **attrs},
            grad=["X"],
            name=name,
        )
        for name, x, attrs, places in _DIAGONALS
    ),
    Case(
        "fill_diagonal",
        {"X": np.ones((2, 2), "int64")},
        np.array([[5, 1], [1, 5]]),
        {"value": 5.7},
        name="int64",
    ),
    # the rates of 2.6.2
    *(
        Case(
            "pow2_decay_with_linear_warmup",
            {"LearningRate": np.array([0.5], "float32"), "Step": np.array([step], "int64")},
            {"LearningRateOut": np.array([rate], "float32"), "StepOut": np.array([step + 1], "int64")},
            {"warmup_steps": 3, "total_steps": 10, "base_lr": 1.0, "end_lr": 0.1},
            name=str(step),
        )
        for step, rate in (
            *((0, 0.3333333432674408), (1, 0.6666666865348816), (2, 1.0), (3, 0.7612245082855225)),
            *((5, 0.3938775658607483), (8, 0.11836735159158707), (9, 0.1), (11, 0.1)),
        )
    ),
    Case(
        "check_numerics",
        {"tensor": NUMBERS},
        {"stats": np.array([0, 0, 1]), "values": np.array([4, -2.5, 0.75], "float32")},
    ),
    Case(
        "check_numerics",
        {"tensor": np.array([[1, np.nan], [np.inf, 0]], "float32")},
        {"stats": np.array([1, 1, 1]), "values": np.array([np.inf, 0, np.nan], "float32")},
        {"check_nan_inf_level": 1},
        name="nan",
    ),
]
