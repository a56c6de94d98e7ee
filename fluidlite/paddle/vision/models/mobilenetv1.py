"""`paddle.vision.models.mobilenetv1`: Howard et al., "MobileNets: Efficient convolutional neural networks for
mobile vision applications".
"""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Linear
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D
from fluidlite.paddle.tensor.manipulation import flatten
from fluidlite.paddle.vision.blocks import ConvNormActivation
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["MobileNetV1", "mobilenet_v1"]

# name, maps, stride
_BLOCKS = (
    ("conv2_1", 64, 1),
    ("conv2_2", 128, 2),
    ("conv3_1", 128, 1),
    ("conv3_2", 256, 2),
    ("conv4_1", 256, 1),
    ("conv4_2", 512, 2),
    *((f"conv5_{place}", 512, 1) for place in range(1, 6)),
    ("conv5_6", 1024, 2),
    ("conv6", 1024, 1),
)


class DepthwiseSeparable(Layer):
    """A convolution of each map by itself, and one across the maps."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self._depthwise_conv = ConvNormActivation(inner, inner, 3, stride, groups=inner)
        self._pointwise_conv = ConvNormActivation(inner, outer, 1)

    def forward(self, x: Any) -> Any:
        """The maps."""
        return self._pointwise_conv(self._depthwise_conv(x))


class MobileNetV1(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width]; without classes, its last maps.
    Numbers of maps are multiplied by `scale`.
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        inner = int(32 * scale)
        self.conv1 = ConvNormActivation(3, inner, 3, 2)
        self.dwsl = []
        for name, width, stride in _BLOCKS:
            outer = int(width * scale)
            self.dwsl.append(self.add_sublayer(name, DepthwiseSeparable(inner, outer, stride)))
            inner = outer
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = Linear(inner, num_classes)

    def forward(self, x: Any) -> Any:
        """The scores, or the last maps."""
        x = self.conv1(x)
        for block in self.dwsl:
            x = block(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """A MobileNet of the first version."""
    model = MobileNetV1(scale=scale, **kwargs)
    return with_weights(model, f"mobilenetv1_{scale}", pretrained, trained=scale == 1.0)
