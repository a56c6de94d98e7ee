"""Rows for fluidlite.ops.activation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from optest import Case
from scipy import special

RNG = np.random.RandomState(1)
# away from every kink that the default attributes put at 0, 0.5, 1, 3, 6 and 24
X = np.array([[-40.3, -7.2, -3.6], [-2.4, -0.8, -0.3], [0.2, 0.7, 1.4], [2.6, 5.1, 27.3]], "float32")
POSITIVE = RNG.uniform(0.3, 4, (3, 4)).astype("float32")
UNIT = RNG.uniform(-0.8, 0.8, (3, 4)).astype("float32")
IMAGE = RNG.uniform(0.2, 1, (2, 3, 2, 2)).astype("float32") * RNG.choice([-1, 1], (2, 3, 2, 2)).astype(
    "float32"
)


def row(
    op: str,
    reference: Callable[..., Any],
    attrs: Mapping[str, Any] | None = None,
    x: Any = X,
    grad: bool = True,
    name: str = "",
    **options: Any,
) -> Case:
    """A row for an element-wise op: `reference` in float64."""
    return Case(
        op,
        {"X": x},
        lambda X: reference(X.astype("float64")),
        attrs=attrs or {},
        grad=["X"] if grad else [],
        name=name,
        **options,
    )


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return np.logaddexp(0, x)


def swish(x: Any, beta: float = 1.0) -> Any:
    """x times the sigmoid of beta x."""
    return x * special.expit(beta * x)


def tanh_gelu(x: Any) -> Any:
    """GELU by its approximation with tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


CASES: list[Case] = [
    row("exp", np.exp, x=UNIT),
    row("log", np.log, x=POSITIVE),
    row("log1p", np.log1p, x=POSITIVE),
    row("expm1", np.expm1),
    row("log2", np.log2, x=POSITIVE),
    row("log10", np.log10, x=POSITIVE),
    row("sqrt", np.sqrt, x=POSITIVE),
    row("rsqrt", lambda x: x**-0.5, x=POSITIVE),
    row("square", np.square),
    row("reciprocal", np.reciprocal),
    row("abs", np.abs),
    row("ceil", np.ceil),
    row("floor", np.floor),
    row("round", np.rint),
    row("round", lambda x: x, x=np.array([-0.0, 1, -3], "float32"), name="whole"),
    row(
        "round",
        lambda x: np.array([-3, -1, 1, 3]),
        x=np.array([-2.5, -0.5, 0.5, 2.5], "float32"),
        grad=False,
        name="halves",
    ),
    row("cos", np.cos),
    row("sin", np.sin),
    row("tan", np.tan, x=UNIT),
    row("acos", np.arccos, x=UNIT),
    row("asin", np.arcsin, x=UNIT),
    row("atan", np.arctan),
    row("sinh", np.sinh, x=UNIT),
    row("cosh", np.cosh, x=UNIT),
    row("erf", special.erf),
    row("sign", np.sign),
    row("pow", lambda x: x, x=POSITIVE),
    row("pow", lambda x: x**2.5, {"factor": 2.5}, x=POSITIVE, name="2.5"),
    row("pow", lambda x: x**2, {"factor": 2.0}, name="2"),
    Case(
        "pow",
        {"X": POSITIVE, "FactorTensor": np.array([3], "float32")},
        lambda X, FactorTensor: X**3,
        grad=["X"],
        name="tensor",
    ),
    row("sigmoid", special.expit),
    row("logsigmoid", lambda x: -softplus(-x)),
    row("tanh", np.tanh),
    row("tanh_shrink", lambda x: x - np.tanh(x)),
    row("stanh", lambda x: 1.7159 * np.tanh(0.67 * x)),
    row("stanh", lambda x: 2 * np.tanh(0.3 * x), {"scale_a": 0.3, "scale_b": 2.0}, name="attrs"),
    row("softplus", softplus),
    row("softsign", lambda x: x / (1 + abs(x))),
    row("soft_relu", lambda x: softplus(np.clip(x, -40, 40)), grad=False),
    row("soft_relu", lambda x: softplus(np.clip(x, -3, 3)), {"threshold": 3.0}, name="threshold"),
    row("soft_relu", softplus, x=POSITIVE, name="inside"),
    row("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    row("elu", lambda x: np.where(x > 0, x, 0.3 * np.expm1(x)), {"alpha": 0.3}, name="alpha"),
    row("selu", lambda x: 1.0507010 * np.where(x > 0, x, 1.6732632 * np.expm1(x))),
    row(
        "selu",
        lambda x: 1.5 * np.where(x > 0, x, 0.5 * np.expm1(x)),
        {"scale": 1.5, "alpha": 0.5},
        name="attrs",
    ),
    row("swish", swish),
    row("swish", lambda x: swish(x, 2), {"beta": 2.0}, name="beta"),
    row("silu", swish),
    row("gelu", lambda x: x * special.ndtr(x)),
    row("gelu", tanh_gelu, {"approximate": True}, name="tanh"),
    row("mish", lambda x: x * np.tanh(softplus(x))),
    row(
        "mish",
        lambda x: x * np.tanh(np.where(x > 1, x, np.where(x < -1, np.exp(x), softplus(x)))),
        {"threshold": 1.0},
        name="threshold",
    ),
    row("relu", lambda x: np.maximum(x, 0)),
    row("relu6", lambda x: np.clip(x, 0, 6)),
    row("relu6", lambda x: np.clip(x, 0, 2), {"threshold": 2.0}, name="threshold"),
    row("brelu", lambda x: np.clip(x, 0, 24)),
    row("brelu", lambda x: np.clip(x, -1, 2), {"t_min": -1.0, "t_max": 2.0}, name="attrs"),
    row("leaky_relu", lambda x: np.where(x > 0, x, 0.02 * x)),
    row("leaky_relu", lambda x: np.where(x > 0, x, 0.3 * x), {"alpha": 0.3}, name="alpha"),
    row("leaky_relu", lambda x: np.maximum(x, -0.4 * x), {"alpha": -0.4}, name="alpha below 0"),
    row("leaky_relu", lambda x: np.maximum(x, 1.7 * x), {"alpha": 1.7}, name="alpha above 1"),
    row("thresholded_relu", lambda x: np.where(x > 1, x, 0)),
    row("thresholded_relu", lambda x: np.where(x > -1, x, 0), {"threshold": -1.0}, name="threshold"),
    row("hard_shrink", lambda x: np.where(abs(x) > 0.5, x, 0)),
    row("hard_shrink", lambda x: np.where(abs(x) > 1.5, x, 0), {"threshold": 1.5}, name="threshold"),
    row("softshrink", lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
    row("softshrink", lambda x: np.sign(x) * np.maximum(abs(x) - 1.5, 0), {"lambda": 1.5}, name="lambda"),
    row("hard_sigmoid", lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    row("hard_sigmoid", lambda x: np.clip(0.5 * x + 0.1, 0, 1), {"slope": 0.5, "offset": 0.1}, name="attrs"),
    row("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    row(
        "hard_swish",
        lambda x: x * np.clip(x + 1, 0, 4) / 4,
        {"threshold": 4.0, "scale": 4.0, "offset": 1.0},
        name="attrs",
    ),
    row(
        "hard_swish",
        lambda x: x * np.clip(x + 1, 0, 1.3) / 4,
        {"threshold": 1.3, "scale": 4.0, "offset": 1.0},
        name="a slope of its own beyond the kinks",
    ),
    Case(
        "prelu",
        {"X": IMAGE, "Alpha": np.array([0.1], "float32")},
        lambda X, Alpha: np.where(X > 0, X, 0.1 * X),
        grad=["X", "Alpha"],
    ),
    Case(
        "prelu",
        {"X": IMAGE, "Alpha": np.array([[[[0.1]], [[0.2]], [[-0.3]]]], "float32")},
        lambda X, Alpha: np.where(X > 0, X, Alpha * X),
        attrs={"mode": "channel"},
        grad=["X", "Alpha"],
        name="channel",
    ),
    Case(
        "prelu",
        {"X": IMAGE, "Alpha": UNIT.reshape(1, 3, 2, 2)},
        lambda X, Alpha: np.where(X > 0, X, Alpha * X),
        attrs={"mode": "element"},
        grad=["X", "Alpha"],
        name="element",
    ),
]
