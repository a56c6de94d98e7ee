"""Pools as layers."""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.layer.base import Function

__all__ = [
    "AdaptiveAvgPool1D",
    "AdaptiveAvgPool2D",
    "AdaptiveAvgPool3D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "MaxUnPool1D",
    "MaxUnPool2D",
    "MaxUnPool3D",
]


class AvgPool1D(Function):
    """Means of windows of [batch, channels, length]; see `F.avg_pool1d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.avg_pool1d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            exclusive=exclusive,
            ceil_mode=ceil_mode,
        )


class AvgPool2D(Function):
    """Means of windows of images; see `F.avg_pool2d`."""

    _pool: Any = staticmethod(F.avg_pool2d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        windows = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
        means = {"exclusive": exclusive, "divisor_override": divisor_override}
        rest = {"ceil_mode": ceil_mode, "data_format": data_format}
        super().__init__(self._pool, name, **windows, **means, **rest)


class AvgPool3D(AvgPool2D):
    """Means of windows of volumes; see `F.avg_pool3d`."""

    _pool = staticmethod(F.avg_pool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        windows = (kernel_size, stride, padding, ceil_mode)
        super().__init__(*windows, exclusive, divisor_override, data_format, name)


class MaxPool1D(Function, takes="input"):
    """The largest of windows of [batch, channels, length]; see `F.max_pool1d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.max_pool1d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
        )


class MaxPool2D(Function):
    """The largest of windows of images; see `F.max_pool2d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.max_pool2d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            data_format=data_format,
        )


class MaxPool3D(Function):
    """The largest of windows of volumes; see `F.max_pool3d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.max_pool3d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            data_format=data_format,
        )


class AdaptiveAvgPool1D(Function, takes="input"):
    """Means of `output_size` parts of [batch, channels, length]."""

    def __init__(self, output_size: Any, name: str | None = None) -> None:
        super().__init__(F.adaptive_avg_pool1d, name, output_size=output_size)


class AdaptiveAvgPool2D(Function):
    """Means of `output_size` parts of images."""

    def __init__(self, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(F.adaptive_avg_pool2d, name, output_size=output_size, data_format=data_format)


class AdaptiveAvgPool3D(Function):
    """Means of `output_size` parts of volumes."""

    def __init__(self, output_size: Any, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(F.adaptive_avg_pool3d, name, output_size=output_size, data_format=data_format)


class AdaptiveMaxPool1D(Function, takes="input"):
    """The largest of `output_size` parts of [batch, channels, length]."""

    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__(F.adaptive_max_pool1d, name, output_size=output_size, return_mask=return_mask)


class AdaptiveMaxPool2D(Function):
    """The largest of `output_size` parts of images."""

    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__(F.adaptive_max_pool2d, name, output_size=output_size, return_mask=return_mask)


class AdaptiveMaxPool3D(Function):
    """The largest of `output_size` parts of volumes."""

    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__(F.adaptive_max_pool3d, name, output_size=output_size, return_mask=return_mask)


class MaxUnPool1D(Function, takes="x indices"):
    """Elements put back to where `MaxPool1D` found them, among zeros."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCL",
        output_size: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.max_unpool1d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            data_format=data_format,
            output_size=output_size,
        )


class MaxUnPool2D(Function, takes="x indices"):
    """Elements put back to where `MaxPool2D` found them, among zeros."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCHW",
        output_size: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.max_unpool2d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            data_format=data_format,
            output_size=output_size,
        )


class MaxUnPool3D(Function, takes="x indices"):
    """Elements put back to where `MaxPool3D` found them, among zeros."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCDHW",
        output_size: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.max_unpool3d,
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            data_format=data_format,
            output_size=output_size,
        )
