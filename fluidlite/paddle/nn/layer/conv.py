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
    """A convolution that is not transposed."""

    def __init__(
        self,
        function: Any,
        dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        padding_mode: str,
        weight_attr: Any,
        bias_attr: Any,
        data_format: str,
    ) -> None:
        super().__init__(dims, in_channels, out_channels, kernel_size, groups, weight_attr, bias_attr)
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {', '.join(_MODES)}, but got {padding_mode!r}")
        self._function, self._padding_mode, self._data_format = function, padding_mode, data_format
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


class _Transposed(_Filters):
    """The gradient of a convolution by its input, as a layer."""

    def __init__(
        self,
        function: Any,
        dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        groups: int,
        weight_attr: Any,
        bias_attr: Any,
        output_padding: Any,
        **settings: Any,
    ) -> None:
        super().__init__(dims, in_channels, out_channels, kernel_size, groups, weight_attr, bias_attr, True)
        self._function, self._settings = function, {**settings, "groups": groups}
        self._output_padding = output_padding

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """The transposed convolution of `x`; `output_size` chooses among the sizes that are possible."""
        beyond = self._output_padding if output_size is None else 0
        return self._function(
            x, self.weight, self.bias, output_padding=beyond, output_size=output_size, **self._settings
        )


def _of_dims(dims: int, function: Any, layout: str) -> type[_Plain]:
    """The class of convolutions over `dims` dimensions: three that differ in the layout they assume."""

    class Sliding(_Plain):
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
            super().__init__(function, dims, *sizes, *steps, weight_attr, bias_attr, data_format)

    Sliding.__name__ = Sliding.__qualname__ = f"Conv{dims}D"
    Sliding.__doc__ = f"The convolution of [batch, channels, ...]; see `F.conv{dims}d`."
    return Sliding


Conv1D = _of_dims(1, F.conv1d, "NCL")
Conv2D = _of_dims(2, F.conv2d, "NCHW")
Conv3D = _of_dims(3, F.conv3d, "NCDHW")


class Conv1DTranspose(_Transposed):
    """The transposed convolution of [batch, channels, length]; see `F.conv1d_transpose`."""

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
        super().__init__(
            F.conv1d_transpose,
            1,
            in_channels,
            out_channels,
            kernel_size,
            groups,
            weight_attr,
            bias_attr,
            output_padding,
            stride=stride,
            padding=padding,
            dilation=dilation,
            data_format=data_format,
        )


def _transposed_of_dims(dims: int, function: Any, layout: str) -> type[_Transposed]:
    """The class of transposed convolutions over `dims` dimensions; that of one has `groups` earlier."""

    class ConvTranspose(_Transposed):
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
            data_format: str = layout,
        ) -> None:
            sizes = (in_channels, out_channels, kernel_size, groups)
            steps = {"stride": stride, "padding": padding, "dilation": dilation}
            attrs = (weight_attr, bias_attr, output_padding)
            super().__init__(function, dims, *sizes, *attrs, **steps, data_format=data_format)

    ConvTranspose.__name__ = ConvTranspose.__qualname__ = f"Conv{dims}DTranspose"
    ConvTranspose.__doc__ = f"The gradient of a convolution, as a layer; see `F.conv{dims}d_transpose`."
    return ConvTranspose


Conv2DTranspose = _transposed_of_dims(2, F.conv2d_transpose, "NCHW")
Conv3DTranspose = _transposed_of_dims(3, F.conv3d_transpose, "NCDHW")
