"""`paddle.tensor.random`: random numbers, drawn anew in each run."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append
from fluidlite.paddle.defaults import dtype_or_default
from fluidlite.paddle.tensor.manipulation import reshape
from fluidlite.paddle.tensor.math import cast
from fluidlite.paddle.tensor.shapes import shape_arguments, shape_of

__all__ = [
    "bernoulli",
    "exponential_",
    "gaussian",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "randint",
    "randint_like",
    "randn",
    "randperm",
    "standard_normal",
    "uniform",
]


def uniform(
    shape: Any,
    dtype: DTypeLike | None = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Numbers that are uniform in [min, max)."""
    kind = dtype_or_default(dtype)
    inputs, attrs = shape_arguments(shape)
    attrs.update(seed=seed, min=float(min), max=float(max), dtype=kind)
    return append("uniform_random", inputs, attrs, dtype=kind, layer="uniform", name=name, stop_gradient=True)


def rand(shape: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Numbers that are uniform in [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0, name=name)


def gaussian(
    shape: Any,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Variable:
    """Numbers of the normal distribution of one mean and standard deviation."""
    kind = dtype_or_default(dtype)
    inputs, attrs = shape_arguments(shape)
    attrs.update(mean=float(mean), std=float(std), seed=seed, dtype=kind)
    return append(
        "gaussian_random", inputs, attrs, dtype=kind, layer="gaussian", name=name, stop_gradient=True
    )


def randn(shape: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Numbers of the standard normal distribution."""
    return gaussian(shape, dtype=dtype, name=name)


standard_normal = randn


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Variable:
    """Normal numbers; `mean` and `std` are numbers, or Variables with one for each element."""
    if isinstance(mean, Variable):
        if isinstance(std, Variable):
            std = reshape(std, shape_of(mean))
        return gaussian(shape_of(mean), dtype=mean.dtype, name=name) * std + mean
    if isinstance(std, Variable):
        return gaussian(shape_of(std), dtype=std.dtype, name=name) * std + mean
    return gaussian([1] if shape is None else shape, mean, std, name=name)


def randint(
    low: int = 0,
    high: int | None = None,
    shape: Any = (1,),
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Variable:
    """Integers that are uniform in [low, high), or in [0, low) without `high`."""
    if high is None:
        low, high = 0, low
    kind = VarType.INT64 if dtype is None else to_vartype(dtype)
    inputs, attrs = shape_arguments(shape)
    attrs.update(low=low, high=high, seed=0, dtype=kind)
    return append("randint", inputs, attrs, dtype=kind, name=name, stop_gradient=True)


def randint_like(
    x: Variable,
    low: int = 0,
    high: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Variable:
    """Integers in the shape of x, and in its dtype, that are uniform in [low, high), or in [0, low)."""
    if high is None:
        low, high = 0, low
    shape = shape_of(x)
    attrs = {"low": low, "high": high, "seed": 0, "dtype": int(VarType.INT64), "shape": []}
    inputs = {"ShapeTensor": [shape]}
    out = append("randint", inputs, attrs, dtype=VarType.INT64, name=name, stop_gradient=True)
    return cast(out, x.dtype if dtype is None else dtype)


def poisson(x: Variable, name: str | None = None) -> Variable:
    """Counts of events that have the rates x."""
    return append("poisson", {"X": [x]}, dtype=x.dtype, name=name)


def exponential_(x: Variable, lam: float = 1.0, name: str | None = None) -> Variable:
    """x, in place of whose elements stand waiting times for events of the rate `lam`."""
    if x.dtype not in (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64):
        raise TypeError(
            f"The data type of 'x' in exponential must be float16, float32, float64 or bfloat16, but "
            f"received {x.dtype.name}."
        )
    return append("exponential", {"X": [x]}, {"lambda": float(lam)}, dtype=x.dtype, name=name, out=x)


def randperm(n: int, dtype: DTypeLike = "int64", name: str | None = None) -> Variable:
    """The numbers from 0 to n - 1 in random order."""
    kind = to_vartype(dtype)
    attrs = {"n": n, "dtype": int(kind)}
    return append("randperm", {}, attrs, dtype=kind, name=name, stop_gradient=True)


def bernoulli(x: Variable, name: str | None = None) -> Variable:
    """Ones with the probabilities x, zeros otherwise."""
    return append("bernoulli", {"X": [x]}, dtype=x.dtype, layer="randint", name=name)


def multinomial(
    x: Variable, num_samples: int = 1, replacement: bool = False, name: str | None = None
) -> Variable:
    """`num_samples` places of each row of weights, drawn in proportion to these."""
    attrs = {"num_samples": num_samples, "replacement": replacement}
    return append("multinomial", {"X": [x]}, attrs, dtype=VarType.INT64, name=name, stop_gradient=True)
