"""`paddle.vision.models.densenet`: Huang et al., "Densely connected convolutional networks"."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.nn.initializer import Uniform
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.norm import BatchNorm
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, AvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import concat, flatten
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201", "densenet264"]

# layers -> (first maps, maps that a layer adds, layers of the blocks): table 1 of the paper, and its website
_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
    264: (64, 32, (6, 12, 64, 48)),
}


class BNACConvLayer(Layer):
    """A normalisation, an activation and a convolution."""

    def __init__(self, inner: int, outer: int, kernel: int, padding: int = 0) -> None:
        super().__init__()
        self._batch_norm = BatchNorm(inner, act="relu")
        self._conv = Conv2D(inner, outer, kernel, padding=padding, bias_attr=False)

    def forward(self, input: Any) -> Any:
        """The maps."""
        return self._conv(self._batch_norm(input))


class DenseLayer(Layer):
    """Maps, and `growth` more that two convolutions make of them."""

    def __init__(self, inner: int, growth: int, bn_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.bn_ac_func1 = BNACConvLayer(inner, bn_size * growth, 1)
        self.bn_ac_func2 = BNACConvLayer(bn_size * growth, growth, 3, padding=1)
        if dropout:
            self.dropout_func = Dropout(dropout, mode="downscale_in_infer")

    def forward(self, input: Any) -> Any:
        """All maps."""
        new = self.bn_ac_func2(self.bn_ac_func1(input))
        return concat([input, self.dropout_func(new) if self.dropout else new], axis=1)


class DenseBlock(Layer):
    """Layers, each of which sees the maps of all before it."""

    def __init__(self, inner: int, layers: int, bn_size: int, growth: int, dropout: float, name: str) -> None:
        super().__init__()
        self.dropout = dropout
        self.dense_layer_func = []
        for place in range(layers):
            layer = DenseLayer(inner + place * growth, growth, bn_size, dropout)
            self.dense_layer_func.append(self.add_sublayer(f"{name}_{place + 1}", layer))

    def forward(self, input: Any) -> Any:
        """All maps."""
        for layer in self.dense_layer_func:
            input = layer(input)
        return input


class TransitionLayer(Layer):
    """Half the maps at half the size."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.conv_ac_func = BNACConvLayer(inner, outer, 1)
        self.pool2d_avg = AvgPool2D(2, 2)

    def forward(self, input: Any) -> Any:
        """The maps."""
        return self.pool2d_avg(self.conv_ac_func(input))


class ConvBNLayer(Layer):
    """A convolution, a normalisation and an activation."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self._conv = Conv2D(inner, outer, kernel, stride, padding, bias_attr=False)
        self._batch_norm = BatchNorm(outer, act="relu")

    def forward(self, input: Any) -> Any:
        """The maps."""
        return self._batch_norm(self._conv(input))


class DenseNet(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width]; without classes, its last maps.

    layers: 121, 161, 169, 201 or 264. bn_size: maps inside a layer, as a multiple of those that it adds.
    """

    def __init__(
        self,
        layers: int = 121,
        bn_size: int = 4,
        dropout: float = 0.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        if layers not in _SIZES:
            raise AssertionError(f"supported layers are {[*_SIZES]} but input layer is {layers}")
        self.num_classes, self.with_pool = num_classes, with_pool
        inner, growth, blocks = _SIZES[layers]
        self.conv1_func = ConvBNLayer(3, inner, 7, 2, 3)
        self.pool2d_max = MaxPool2D(3, 2, 1)
        self._parts: list[Layer] = []
        for place, count in enumerate(blocks):
            name = f"conv{place + 2}"
            block = DenseBlock(inner, count, bn_size, growth, dropout, name)
            self._parts.append(self.add_sublayer(f"db_conv_{place + 2}", block))
            inner += count * growth
            if place < len(blocks) - 1:
                transition = TransitionLayer(inner, inner // 2)
                self._parts.append(self.add_sublayer(f"tr_{name}_blk", transition))
                inner //= 2
        self.batch_norm = BatchNorm(inner, act="relu")
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            bound = 1.0 / math.sqrt(inner)
            self.out = Linear(inner, num_classes, ParamAttr(initializer=Uniform(-bound, bound)))

    def forward(self, input: Any) -> Any:
        """The scores, or the last maps."""
        x = self.pool2d_max(self.conv1_func(input))
        for part in self._parts:
            x = part(x)
        x = self.batch_norm(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.out(flatten(x, 1)) if self.num_classes > 0 else x


def _densenet(layers: int, pretrained: bool, kwargs: dict[str, Any]) -> DenseNet:
    return with_weights(DenseNet(layers=layers, **kwargs), f"densenet{layers}", pretrained)


def densenet121(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """A DenseNet of 121 layers."""
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """A DenseNet of 161 layers."""
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """A DenseNet of 169 layers."""
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """A DenseNet of 201 layers."""
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """A DenseNet of 264 layers."""
    return _densenet(264, pretrained, kwargs)
