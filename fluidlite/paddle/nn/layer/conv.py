"""Convolutions as layers: filters [out, in / groups, ...], of transposed ones [in, out / groups, ...]."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.functional.windows import window
from fluidlite.paddle.nn.initializer import Normal
from fluidlite.paddle.nn.layer.base import Layer

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Filters(Layer):
    """Filters and a bias, one number a filter."""

    def __init__(
        self,
        dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        groups: int,
        weight_attr: Any,
        bias_attr: Any,
        transposed: bool = False,
    ) -> None:
        super().__init__()
        if in_channels % groups != 0:
            raise ValueError(f"in_channels {in_channels} must be divisible by groups {groups}.")
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size = window(kernel_size, dims, "kernel_size")
        spread = math.sqrt(2.0 / (math.prod(self._kernel_size) * in_channels))
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = self.create_parameter(
            [outer, inner // groups, *self._kernel_size],
            weight_attr,
            default_initializer=None if transposed else Normal(0.0, spread),
        )
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"


class _Plain(_Filters):
    """A convolution that is not transposed; its class says over how many dimensions."""

    _dims = 2
    _function: Any = staticmethod(F.conv2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        dims = self._dims
        super().__init__(dims, in_channels, out_channels, kernel_size, groups, weight_attr, bias_attr)
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {', '.join(_MODES)}, but got {padding_mode!r}")
        self._padding_mode, self._data_format = padding_mode, data_format
        self._border = []
        if padding_mode != "zeros":
            sides = window(padding, dims, "padding")
            # a border has two numbers a dimension, the last dimension first
            self._border = [side for side in reversed(sides) for _ in range(2)]
            padding = 0
        self._settings = (stride, padding, dilation, groups, data_format)

    def forward(self, x: Any) -> Any:
        """The convolution of `x`."""
        if self._border:
            x = F.pad(x, self._border, self._padding_mode, data_format=self._data_format)
        return self._function(x, self.weight, self.bias, *self._settings)


class Conv2D(_Plain):
    """The convolution of [batch, channels, height, width]; see `F.conv2d`."""


def _of_dims(dims: int, function: Any, layout: str) -> type[_Plain]:
    """The class of convolutions over `dims` dimensions, which assumes another layout."""

    class Sliding(_Plain):
        _dims, _function = dims, staticmethod(function)

        def __init__(
            self,
            in_channels: int,
            out_channels: int,
            kernel_size: Any,
            stride: Any = 1,
            padding: Any = 0,
            dilation: Any = 1,
            groups: int = 1,
            padding_mode: str = "zeros",
            weight_attr: Any = None,
            bias_attr: Any = None,
            data_format: str = layout,
        ) -> None:
            sizes = (in_channels, out_channels, kernel_size)
            steps = (stride, padding, dilation, groups, padding_mode)
            super().__init__(*sizes, *steps, weight_attr, bias_attr, data_format)

    Sliding.__name__ = Sliding.__qualname__ = f"Conv{dims}D"
    Sliding.__doc__ = f"The convolution of [batch, channels, ...]; see `F.conv{dims}d`."
    return Sliding


Conv1D = _of_dims(1, F.conv1d, "NCL")
Conv3D = _of_dims(3, F.conv3d, "NCDHW")


class _Transposed(_Filters):
    """The gradient of a convolution by its input, as a layer; its class says over how many dimensions."""

    _dims = 2
    _function: Any = staticmethod(F.conv2d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        sizes = (self._dims, in_channels, out_channels, kernel_size)
        super().__init__(*sizes, groups, weight_attr, bias_attr, transposed=True)
        self._settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._data_format, self._output_padding = data_format, output_padding

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """The transposed convolution of `x`; `output_size` chooses among the sizes that are possible."""
        settings = {**self._settings, "data_format": self._data_format, "output_size": output_size}
        beyond = self._output_padding if output_size is None else 0
        return self._function(x, self.weight, self.bias, output_padding=beyond, **settings)


class Conv2DTranspose(_Transposed):
    """The gradient of a convolution, as a layer; see `F.conv2d_transpose`."""


class Conv1DTranspose(_Transposed):
    """The transposed convolution of [batch, channels, length]; see `F.conv1d_transpose`."""

    _dims, _function = 1, staticmethod(F.conv1d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        sizes = (in_channels, out_channels, kernel_size, stride, padding, output_padding)
        super().__init__(*sizes, dilation, groups, weight_attr, bias_attr, data_format)


class Conv3DTranspose(_Transposed):
    """The gradient of a convolution, as a layer; see `F.conv3d_transpose`."""

    _dims, _function = 3, staticmethod(F.conv3d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
    ) -> None:
        sizes = (in_channels, out_channels, kernel_size, stride, padding, output_padding)
        super().__init__(*sizes, dilation, groups, weight_attr, bias_attr, data_format)
