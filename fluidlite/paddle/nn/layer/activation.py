"""Activations as layers."""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.initializer import Constant
from fluidlite.paddle.nn.layer.base import Function, Layer

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Maxout",
    "PReLU",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "Silu",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Swish",
    "Tanh",
    "Tanhshrink",
    "ThresholdedReLU",
    "CELU",
    "GLU",
    "Mish",
    "RReLU",
    "Softmax2D",
]


class ReLU(Function):
    """max(x, 0), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.relu, name)


class ReLU6(Function):
    """min(max(x, 0), 6), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.relu6, name)


class Sigmoid(Function):
    """1 / (1 + exp(-x)), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.sigmoid, name)


class LogSigmoid(Function):
    """log(sigmoid(x)), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.log_sigmoid, name)


class Softsign(Function):
    """x / (1 + |x|), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.softsign, name)


class Tanh(Function):
    """tanh(x), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.tanh, name)


class Tanhshrink(Function):
    """x - tanh(x), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.tanhshrink, name)


class Silu(Function):
    """x * sigmoid(x), element by element, as the op silu."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.silu, name)


class Swish(Function):
    """x * sigmoid(x), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.swish, name)


class Hardsigmoid(Function):
    """x / 6 + 0.5, kept between 0 and 1, element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.hardsigmoid, name)


class Hardswish(Function):
    """x * min(max(x + 3, 0), 6) / 6, element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.hardswish, name)


class ELU(Function):
    """x where it is positive, else alpha * (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(F.elu, name, alpha=alpha)


class GELU(Function):
    """x times the normal distribution function of x, or its approximation by tanh."""

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__(F.gelu, name, approximate=approximate)


class SELU(Function):
    """scale * (x where it is positive, else alpha * (exp(x) - 1)) (Klambauer et al., 2017)."""

    def __init__(
        self,
        scale: float = 1.0507009873554804934193349852946,
        alpha: float = 1.6732632423543772848170429916717,
        name: str | None = None,
    ) -> None:
        super().__init__(F.selu, name, scale=scale, alpha=alpha)


class Hardshrink(Function):
    """x where |x| > threshold, else 0."""

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(F.hardshrink, name, threshold=threshold)


class Hardtanh(Function):
    """x, kept between `min` and `max`."""

    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None:
        super().__init__(F.hardtanh, name, min=min, max=max)


class LeakyReLU(Function):
    """x where it is positive, else negative_slope * x."""

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__(F.leaky_relu, name, negative_slope=negative_slope)


class LogSoftmax(Function):
    """The logarithm of softmax along `axis`."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(F.log_softmax, name, axis=axis)


class Softmax(Function):
    """exp(x) over its sum along `axis`."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(F.softmax, name, axis=axis)


class Maxout(Function):
    """The largest of each `groups` channels that follow each other; the channels are in dimension `axis`."""

    def __init__(self, groups: int, axis: int = 1, name: str | None = None) -> None:
        super().__init__(F.maxout, name, groups=groups, axis=axis)


class Softplus(Function):
    """log(1 + exp(beta * x)) / beta; x where beta * x is greater than `threshold`."""

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__(F.softplus, name, beta=beta, threshold=threshold)


class Softshrink(Function):
    """x moved towards 0 by `threshold`, and no further than 0."""

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(F.softshrink, name, threshold=threshold)


class ThresholdedReLU(Function):
    """x where it is greater than `threshold`, else 0."""

    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None:
        super().__init__(F.thresholded_relu, name, threshold=threshold)


class PReLU(Layer):
    """x where it is positive, else weight * x, with a learned weight: one, or one a channel."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._data_format = data_format
        self._weight = self.create_parameter(
            [num_parameters], weight_attr, default_initializer=Constant(init)
        )

    def forward(self, x: Any) -> Any:
        """The activation of `x`."""
        return F.prelu(x, self._weight, self._data_format)


class CELU(Function):
    """x where it is positive, else alpha * (exp(x / alpha) - 1)."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(F.celu, name, alpha=alpha)


class GLU(Function):
    """The first half along `axis` times the sigmoid of the second."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(F.glu, name, axis=axis)


class Mish(Function):
    """x * tanh(log(1 + exp(x))), element by element."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(F.mish, name)


class RReLU(Layer):
    """x where it is positive, else times a slope between two limits; see `F.rrelu`."""

    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None) -> None:
        super().__init__()
        self._lower, self._upper, self._name = lower, upper, name

    def forward(self, x: Any) -> Any:
        """Slopes are drawn while the layer trains."""
        return F.rrelu(x, self._lower, self._upper, self.training, self._name)

    def extra_repr(self) -> str:
        """The limits."""
        name = f", name={self._name}" if self._name else ""
        return (
            f"lower={self._lower}, upper={self._upper}, training={self.training}, dtype={self._dtype}{name}"
        )


class Softmax2D(Layer):
    """`Softmax` over the channels of images."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name

    def forward(self, x: Any) -> Any:
        """[batch, channels, height, width], or without the batch."""
        if len(x.shape) not in (3, 4):
            raise AssertionError(f"Softmax2D requires a 3D or 4D tensor as input. Received: {len(x.shape)}D.")
        return F.softmax(x, axis=-3, name=self._name)
