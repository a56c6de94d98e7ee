"""Rows for fluidlite.ops.norm and fluidlite.ops.batch_norm."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(13)


def values(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype("float32")


def positive(*shape: int) -> Any:
    return RNG.uniform(0.5, 1.5, shape).astype("float32")


def normal(x: Any, axes: Any, epsilon: float) -> tuple[Any, Any, Any]:
    """(x - mean) / sqrt(variance + epsilon), mean, variance, over `axes`."""
    x = x.astype("float64")
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon), mean.reshape(-1), variance.reshape(-1)


# ------------------------------------------------------------------ batch_norm
def batch(
    name: str,
    shape: tuple[int, ...],
    layout: str = "NCHW",
    op: str = "batch_norm",
    frozen: bool = False,
    momentum: Any = None,
    **attrs: Any,
) -> Case:
    """A row that also checks running and saved statistics; `frozen`: it normalises with the running ones."""
    channel = len(shape) - 1 if layout == "NHWC" else 1
    axes = tuple(i for i in range(len(shape)) if i != channel)
    sizes = [shape[i] if i == channel else 1 for i in range(len(shape))]
    c = shape[channel]

    def reference(
        X: Any, Scale: Any, Bias: Any, Mean: Any, Variance: Any, MomentumTensor: Any = None
    ) -> dict[str, Any]:
        m = 0.9 if MomentumTensor is None else MomentumTensor[0]
        unit, mean, variance = normal(X, axes, 1e-5)
        if frozen:
            unit = (X - Mean.reshape(sizes)) / np.sqrt(Variance.reshape(sizes) + 1e-5)
        found = {"Y": unit * Scale.reshape(sizes) + Bias.reshape(sizes)}
        if frozen:
            return found | {"MeanOut": Mean, "VarianceOut": Variance}
        return found | {
            "MeanOut": Mean * m + mean * (1 - m),
            "VarianceOut": Variance * m + variance * (1 - m),
            "SavedMean": mean,
            "SavedVariance": 1 / np.sqrt(variance + 1e-5),
        }

    inputs = {
        "X": values(*shape),
        "Scale": positive(c),
        "Bias": values(c),
        "Mean": values(c),
        "Variance": positive(c),
    }
    if momentum is not None:
        inputs["MomentumTensor"] = momentum
    expect = {slot: value.astype("float32") for slot, value in reference(**inputs).items()}
    return Case(
        op,
        inputs,
        expect,
        attrs={"data_layout": layout, **attrs},
        name=name,
        atol=1e-5,
        rtol=1e-4,
        grad=["X", "Scale", "Bias"],
        ignore=["SavedMean", "SavedVariance"],
        grad_tol=3e-4,
    )


def activated(name: str, activation: str, alpha: float, function: Any) -> Case:
    def reference(X: Any, Scale: Any, Bias: Any, Mean: Any, Variance: Any) -> Any:
        unit, _, _ = normal(X, (0, 2), 1e-5)
        return function(unit * Scale.reshape(1, -1, 1) + Bias.reshape(1, -1, 1))

    inputs = {
        "X": values(3, 2, 4),
        "Scale": positive(2),
        "Bias": values(2),
        "Mean": values(2),
        "Variance": positive(2),
    }
    return Case(
        "inplace_abn",
        inputs,
        reference,
        attrs={"activation": activation, "alpha": alpha},
        name=name,
        grad_tol=3e-4,
        grad=["X", "Scale", "Bias"],
        ignore=["SavedMean", "SavedVariance"],
        rtol=1e-4,
        atol=1e-5,
    )


# ------------------------------------------------------------------ the others
def layer(name: str, shape: tuple[int, ...], axis: int, factors: bool = True, lengths: Any = None) -> Case:
    def reference(X: Any, Scale: Any = None, Bias: Any = None) -> dict[str, Any]:
        x = X.reshape(int(np.prod(X.shape[:axis])), -1)
        unit, mean, variance = normal(x, 1, 1e-5)
        y = (unit * Scale + Bias if factors else unit).reshape(X.shape)
        return {
            "Y": y.astype("float32"),
            "Mean": mean.astype("float32"),
            "Variance": variance.astype("float32"),
        }

    columns = int(np.prod(shape[axis:]))
    inputs = {"X": values(*shape)} | (
        {"Scale": positive(columns), "Bias": values(columns)} if factors else {}
    )
    expect = reference(**inputs)
    if lengths:
        inputs["X"] = (inputs["X"], lengths)
    return Case(
        "layer_norm",
        inputs,
        expect,
        attrs={"begin_norm_axis": axis},
        grad=list(inputs),
        name=name,
        rtol=1e-4,
        atol=1e-5,
        lods={"Y": lengths} if lengths else {},
        grad_tol=3e-4,
    )


def group(name: str, shape: tuple[int, ...], groups: int, layout: str = "NCHW", factors: bool = True) -> Case:
    last = layout == "NHWC"

    def reference(X: Any, Scale: Any = None, Bias: Any = None) -> dict[str, Any]:
        x = np.moveaxis(X, -1, 1) if last else X
        size = -(-x.shape[1] // groups)
        parts = [x[:, start : start + size] for start in range(0, groups * size, size)]
        found = [normal(part.reshape(len(x), -1), 1, 1e-5) for part in parts]
        units, means, variances = zip(*found, strict=True)
        mean, variance = np.stack(means, 1), np.stack(variances, 1)
        y = np.concatenate(units, 1).reshape(x.shape)
        if factors:
            y = y * Scale.reshape(-1, 1, 1) + Bias.reshape(-1, 1, 1)
        return {
            "Y": (np.moveaxis(y, 1, -1) if last else y).astype("float32"),
            "Mean": mean.reshape(-1, groups).astype("float32"),
            "Variance": variance.reshape(-1, groups).astype("float32"),
        }

    channels = shape[-1 if last else 1]
    inputs = {"X": values(*shape)} | (
        {"Scale": positive(channels), "Bias": values(channels)} if factors else {}
    )
    return Case(
        "group_norm",
        inputs,
        reference(**inputs),
        attrs={"groups": groups, "data_layout": layout},
        grad=list(inputs) if factors else [],
        name=name,
        rtol=1e-4,
        atol=1e-5,
        grad_tol=3e-4,
    )


def instance(X: Any, Scale: Any, Bias: Any) -> dict[str, Any]:
    unit, mean, variance = normal(X, (2, 3), 1e-5)
    y = unit * Scale.reshape(1, -1, 1, 1) + Bias.reshape(1, -1, 1, 1)
    return {
        "Y": y.astype("float32"),
        "SavedMean": mean.astype("float32"),
        "SavedVariance": (1 / np.sqrt(variance + 1e-5)).astype("float32"),
    }


INSTANCE = {"X": values(2, 3, 3, 4), "Scale": positive(3), "Bias": values(3)}
DATA = {
    "X": values(4, 6),
    "BatchSize": positive(6) * 10,
    "BatchSum": values(6),
    "BatchSquareSum": positive(6) * 20,
}
SHOWN = np.array(DATA["X"])
SHOWN[1, 2] = SHOWN[2, 4] = SHOWN[2, 5] = 0


def data(X: Any, BatchSize: Any, BatchSum: Any, BatchSquareSum: Any, scale_w: Any = 1, bias: Any = 0) -> Any:
    means, scales = BatchSum / BatchSize, np.sqrt(BatchSize / BatchSquareSum)
    return (X - means) * scales * scale_w + bias, means, scales


def shown(**inputs: Any) -> Any:
    y, means, scales = data(**inputs)
    return y * (abs(inputs["X"][:, ::2]) >= 1e-7).repeat(2, axis=1), means, scales


def responses(n: int, axis: int, k: float, alpha: float, beta: float) -> Any:
    def reference(X: Any) -> tuple[Any, Any]:
        x = np.moveaxis(X, axis, 0).astype("float64")
        middle = np.stack(
            [k + alpha * (x[max(i - n // 2, 0) : i + n // 2 + 1] ** 2).sum(0) for i in range(len(x))]
        )
        return np.moveaxis(x / middle**beta, 0, axis).astype("float32"), np.moveaxis(middle, 0, axis).astype(
            "float32"
        )

    return reference


def spectral(name: str, shape: tuple[int, ...], dim: int, iterations: int) -> Case:
    def reference(Weight: Any, U: Any, V: Any) -> Any:
        matrix = np.moveaxis(Weight, dim, 0).reshape(Weight.shape[dim], -1)
        u, v = U, V
        for _ in range(iterations):
            v = matrix.T @ u / np.linalg.norm(matrix.T @ u)
            u = matrix @ v / np.linalg.norm(matrix @ v)
        return Weight / (u @ matrix @ v)

    u, v = values(shape[dim]), values(int(np.prod(shape)) // shape[dim])
    return Case(
        "spectral_norm",
        {"Weight": values(*shape), "U": u / np.linalg.norm(u), "V": v / np.linalg.norm(v)},
        reference,
        attrs={"dim": dim, "power_iters": iterations},
        name=name,
        rtol=1e-4,
    )


# Gradients as PaddlePaddle 1.8.5 computes them, which are not the derivatives; recorded from it.
SPECTRAL = {
    "Weight": np.array([[0, 0.125, 0.25, 0.375], [-0.5, -0.625, -0.75, -0.875]], "float32"),
    "U": np.array([0.6, 0.8], "float32"),
    "V": np.array([0.5, -0.5, 0.5, 0.5], "float32"),
    "Out@GRAD": np.linspace(-1, 1, 8).reshape(2, 4).astype("float32"),
}
SPECTRAL_GRADIENT = {
    "Weight@GRAD": np.array(
        [
            [-0.7713127, -0.57142824, -0.35515127, -0.12248188],
            [0.05572928, 0.1271185, 0.14508188, 0.10961945],
        ],
        "float32",
    )
}
GROUPED = {
    "Y": np.array(
        [-0.9998955, -0.7142111, 0.14284222, 1.5712644, -1.2561728, -0.52678216, 0.36469534, 1.4182596],
        "float32",
    ).reshape(1, 4, 1, 2),
    "Variance": np.array([[0.04785156, 0.59472656]], "float32"),
    "Y@GRAD": np.linspace(-1, 2, 8).reshape(1, 4, 1, 2).astype("float32"),
}
GROUPED_GRADIENT = {
    "X@GRAD": np.array(
        [-2.4724834, -1.1130667, -0.9527741, -1.9916058, 1.7041227, 1.808158, 1.8118173, 1.7151009], "float32"
    ).reshape(1, 4, 1, 2)
}


CASES: list[Case] = [
    batch("images", (2, 3, 2, 4)),
    batch("rows", (4, 3)),
    batch("volumes", (2, 2, 2, 3, 2)),
    batch("channels last", (2, 3, 2, 3), "NHWC"),
    batch("test", (2, 3, 2, 2), frozen=True, is_test=True),
    batch("global", (2, 3, 2, 2), frozen=True, use_global_stats=True),
    batch("trainable", (2, 3, 2, 2), is_test=True, trainable_statistics=True),
    batch("momentum", (3, 2, 3), momentum=np.array([0.7], "float32")),
    batch("images", (2, 3, 2, 4), op="sync_batch_norm"),
    activated("identity", "", 1.0, lambda y: y),
    activated("leaky", "leaky_relu", 0.3, lambda y: np.where(y > 0, y, 0.3 * y)),
    activated("elu", "elu", 0.5, lambda y: np.where(y > 0, y, 0.5 * np.expm1(y))),
    layer("rows", (3, 5), 1),
    layer("plain", (2, 3, 4), 2, factors=False),
    layer("wide", (2, 3, 4), 1),
    layer("lod", (4, 3), 1, lengths=[[1, 3]]),
    group("images", (2, 4, 2, 3), 2),
    group("plain", (2, 4, 2, 3), 4, factors=False),
    group("channels last", (2, 2, 3, 6), 3, "NHWC"),
    group("uneven", (2, 5, 2, 3), 3),
    group("uneven, channels last", (2, 2, 3, 7), 3, "NHWC"),
    Case(
        "group_norm",
        {"X": np.array([[[1.0], [3.0], [2.0], [6.0]]], "float32")},
        # 1.8.5 gives the third group, which has no channels, the mean 0 / 0
        {
            "Y": np.array([[[-1.0], [1.0], [-1.0], [1.0]]], "float32"),
            "Mean": np.array([[2.0, 4.0, np.nan]], "float32"),
            "Variance": np.array([[1.0, 4.0, np.nan]], "float32"),
        },
        attrs={"groups": 3},
        rtol=1e-4,
        name="a group without channels",
    ),
    Case(
        "instance_norm",
        INSTANCE,
        instance(**INSTANCE),
        grad=["X", "Scale", "Bias"],
        rtol=1e-4,
        atol=1e-5,
        grad_tol=3e-4,
    ),
    Case("data_norm", DATA, data, grad=["X"]),
    Case("data_norm", {**DATA, "X": SHOWN}, shown, attrs={"slot_dim": 2}, name="slots"),
    Case(
        "data_norm",
        {**DATA, "X": SHOWN, "scale_w": values(6), "bias": values(6)},
        shown,
        attrs={"slot_dim": 2, "enable_scale_and_shift": True},
        grad=["scale_w", "bias"],
        name="scaled slots",
    ),
    Case(
        "data_norm",
        {**DATA, "scale_w": values(6), "bias": values(6)},
        data,
        attrs={"enable_scale_and_shift": True},
        grad=["X", "scale_w", "bias"],
        name="scaled",
    ),
    Case(
        "lrn", {"X": values(2, 6, 2, 2)}, responses(5, 1, 2.0, 1e-2, 0.75), attrs={"alpha": 1e-2}, grad=["X"]
    ),
    Case(
        "lrn",
        {"X": values(2, 2, 2, 4)},
        responses(3, 3, 1.0, 0.5, 0.5),
        grad=["X"],
        name="last",
        attrs={"n": 3, "k": 1.0, "alpha": 0.5, "beta": 0.5, "data_format": "NHWC"},
    ),
    Case(
        "norm",
        {"X": values(2, 3, 4)},
        lambda X: (
            X / np.sqrt((X * X).sum(1, keepdims=True) + 1e-10),
            np.sqrt((X * X).sum(1, keepdims=True) + 1e-10),
        ),
        attrs={"axis": 1},
        grad=["X"],
    ),
    Case(
        "norm",
        {"X": values(2, 3)},
        lambda X: X / np.sqrt((X * X).sum(-1, keepdims=True) + 0.1),
        grad=["X"],
        name="last",
        attrs={"axis": -1, "epsilon": 0.1},
    ),
    spectral("matrix", (3, 4), 0, 2),
    spectral("filters", (2, 3, 2, 2), 1, 3),
    Case(
        "spectral_norm_grad", SPECTRAL, SPECTRAL_GRADIENT, attrs={"dim": 0, "power_iters": 2}, name="recorded"
    ),
    Case("group_norm_grad", GROUPED, GROUPED_GRADIENT, attrs={"groups": 2}, name="recorded, no factors"),
    Case(
        "affine_channel",
        {"X": values(2, 3, 2, 2), "Scale": values(3), "Bias": values(3)},
        grad=["X", "Scale", "Bias"],
        expect=lambda X, Scale, Bias: X * Scale.reshape(3, 1, 1) + Bias.reshape(3, 1, 1),
        attrs={"data_layout": "NCHW"},
    ),
    Case(
        "affine_channel",
        {"X": values(2, 2, 2, 3), "Scale": values(3), "Bias": values(3)},
        lambda X, Scale, Bias: X * Scale + Bias,
        grad=["X", "Scale", "Bias"],
        attrs={"data_layout": "NHWC"},
        name="last",
    ),
]
