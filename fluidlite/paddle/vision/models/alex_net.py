"""`paddle.vision.models.alexnet`: Krizhevsky et al., "ImageNet classification with deep convolutional neural
networks", with the widths of "One weird trick for parallelizing convolutional neural networks".
"""

from __future__ import annotations

import math
from typing import Any

from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.nn.functional.activation import relu
from fluidlite.paddle.nn.initializer import Uniform
from fluidlite.paddle.nn.layer.activation import ReLU
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.pooling import MaxPool2D
from fluidlite.paddle.tensor.manipulation import flatten
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["AlexNet", "alexnet"]


def _conv(inner: int, outer: int, kernel: int, stride: int, padding: int) -> Conv2D:
    """A convolution whose filters and biases lie in one interval."""
    bound = 1.0 / math.sqrt(inner * kernel * kernel)
    attrs = [ParamAttr(initializer=Uniform(-bound, bound)) for _ in range(2)]
    return Conv2D(inner, outer, kernel, stride, padding, weight_attr=attrs[0], bias_attr=attrs[1])


def _linear(inner: int, outer: int) -> Linear:
    """A product with a matrix; its numbers lie in one interval, that of the first of them in all three."""
    bound = 1.0 / math.sqrt(9216)
    attrs = [ParamAttr(initializer=Uniform(-bound, bound)) for _ in range(2)]
    return Linear(inner, outer, weight_attr=attrs[0], bias_attr=attrs[1])


class ConvPoolLayer(Layer):
    """A convolution, an activation and a pool over 3 x 3."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self.relu = ReLU()
        self._conv = _conv(inner, outer, kernel, stride, padding)
        self._pool = MaxPool2D(3, 2)

    def forward(self, inputs: Any) -> Any:
        """The pooled maps."""
        return self._pool(self.relu(self._conv(inputs)))


class AlexNet(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, 224, 224]; without classes, its last maps."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = ConvPoolLayer(3, 64, 11, 4, 2)
        self._conv2 = ConvPoolLayer(64, 192, 5, 1, 2)
        self._conv3 = _conv(192, 384, 3, 1, 1)
        self._conv4 = _conv(384, 256, 3, 1, 1)
        self._conv5 = ConvPoolLayer(256, 256, 3, 1, 1)
        if num_classes > 0:
            self._drop1 = Dropout(0.5, mode="downscale_in_infer")
            self._fc6 = _linear(9216, 4096)
            self._drop2 = Dropout(0.5, mode="downscale_in_infer")
            self._fc7 = _linear(4096, 4096)
            self._fc8 = _linear(4096, num_classes)

    def forward(self, inputs: Any) -> Any:
        """The scores, or the last maps."""
        maps = self._conv2(self._conv1(inputs))
        maps = relu(self._conv4(relu(self._conv3(maps))))
        maps = self._conv5(maps)
        if self.num_classes <= 0:
            return maps
        found = relu(self._fc6(self._drop1(flatten(maps, 1))))
        return self._fc8(relu(self._fc7(self._drop2(found))))


def alexnet(pretrained: bool = False, **kwargs: Any) -> AlexNet:
    """An AlexNet; `kwargs` are those of the class."""
    return with_weights(AlexNet(**kwargs), "alexnet", pretrained)
