"""Layers that networks of images are made of."""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn.layer.activation import ReLU
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.container import Sequential
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.norm import BatchNorm2D

__all__ = ["ConvNormActivation"]


class ConvNormActivation(Sequential):
    """A convolution, a normalisation and an activation; the last two may be None. Without `padding` the size
    of the maps stays, but for `stride`; without a normalisation the convolution has a bias.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Any = BatchNorm2D,
        activation_layer: Any = ReLU,
        dilation: int = 1,
        bias: bool | None = None,
    ) -> None:
        around = (kernel_size - 1) // 2 * dilation if padding is None else padding
        has_bias = norm_layer is None if bias is None else bias
        windows = (kernel_size, stride, around, dilation, groups)
        layers: list[Layer] = [
            Conv2D(in_channels, out_channels, *windows, bias_attr=None if has_bias else False)
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)
