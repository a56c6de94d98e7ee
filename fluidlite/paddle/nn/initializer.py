"""`paddle.nn.initializer`: what parameters hold before training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite import initializer as fluid
from fluidlite.initializer import BilinearInitializer as Bilinear
from fluidlite.initializer import Initializer

__all__ = [
    "Assign",
    "Bilinear",
    "Constant",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "calculate_gain",
]


class Constant(fluid.ConstantInitializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__(value)


class Uniform(fluid.UniformInitializer):
    """Uniform numbers in [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        super().__init__(low, high)


class Normal(fluid.NormalInitializer):
    """Normal numbers with this mean and standard deviation."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        super().__init__(mean, std)


class TruncatedNormal(fluid.TruncatedNormalInitializer):
    """Normal numbers of which none is more than two standard deviations from the mean."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        super().__init__(mean, std)


class XavierNormal(fluid.XavierInitializer):
    """Normal numbers of variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(False, fan_in, fan_out)


class XavierUniform(fluid.XavierInitializer):
    """Uniform numbers of variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(True, fan_in, fan_out)


class _Kaiming(fluid.MSRAInitializer):
    """Numbers of variance gain ** 2 / fan_in (He et al., 2015)."""

    def __init__(self, uniform: bool, fan_in: float | None, slope: float, nonlinearity: str) -> None:
        super().__init__(uniform, fan_in)
        self._gain = calculate_gain(nonlinearity, slope)

    def __call__(self, var: Any, block: Any) -> Any:
        """Prepend a uniform_random or a gaussian_random; a seed of 0 becomes the program's."""
        fan_in = self._compute_fans(var)[0] if self._fan_in is None else self._fan_in
        return self._draw(var, block, self._gain**2 / fan_in, "masra_init")


class KaimingNormal(_Kaiming):
    """Normal numbers of variance gain ** 2 / fan_in (He et al., 2015); the gain is `calculate_gain`'s."""

    def __init__(
        self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu"
    ) -> None:
        super().__init__(False, fan_in, negative_slope, nonlinearity)


class KaimingUniform(_Kaiming):
    """Uniform numbers of variance gain ** 2 / fan_in (He et al., 2015); the gain is `calculate_gain`'s."""

    def __init__(
        self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu"
    ) -> None:
        super().__init__(True, fan_in, negative_slope, nonlinearity)


class Assign(Initializer):
    """The numbers of an array, a list, or a Variable of the startup program."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        super().__init__()
        if not isinstance(value, (np.ndarray, list, tuple)):
            raise TypeError(
                f"The type of 'value' in Assign must be an array or a list, but received {type(value)}"
            )
        self._value = np.array(value)

    def __call__(self, var: Any, block: Any) -> Any:
        """Prepend an assign_value."""
        if math.prod(var.shape) != self._value.size:
            raise ValueError(
                f"Assign: {self._value.size} numbers for {var.name!r}, whose shape is {list(var.shape)}"
            )
        return fluid.NumpyArrayInitializer(self._value)(var, block)


_GAINS = {
    "sigmoid": 1.0,
    "linear": 1.0,
    **{f"conv{dims}d": 1.0 for dims in (1, 2, 3)},
    **{f"conv{dims}d_transpose": 1.0 for dims in (1, 2, 3)},
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights must grow so that variances stay the same through `nonlinearity`; `param`
    is the slope of leaky_relu.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"nonlinearity function {nonlinearity} is not supported now; known are "
            f"{', '.join(sorted([*_GAINS, 'leaky_relu']))}"
        )
    return _GAINS[nonlinearity]
