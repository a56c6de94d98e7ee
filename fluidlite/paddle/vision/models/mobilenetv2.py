"""`paddle.vision.models.mobilenetv2`: Sandler et al., "MobileNetV2: Inverted residuals and linear
bottlenecks".
"""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn.layer.activation import ReLU6
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.container import Sequential
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.norm import BatchNorm2D
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D
from fluidlite.paddle.tensor.manipulation import flatten
from fluidlite.paddle.vision.blocks import ConvNormActivation
from fluidlite.paddle.vision.models.weights import with_weights
from fluidlite.paddle.vision.models.widths import divisible

__all__ = ["MobileNetV2", "mobilenet_v2"]

# expansion, maps, blocks, stride of the first: table 2 of the paper
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(Layer):
    """A convolution of each of many maps, between few; beside a short cut where sizes stay."""

    def __init__(
        self, inp: int, oup: int, stride: int, expand_ratio: float, norm_layer: Any = BatchNorm2D
    ) -> None:
        super().__init__()
        self.stride, self.use_res_connect = stride, stride == 1 and inp == oup
        many = round(inp * expand_ratio)
        common = {"norm_layer": norm_layer, "activation_layer": ReLU6}
        layers: list[Layer] = []
        if expand_ratio != 1:
            layers.append(ConvNormActivation(inp, many, 1, **common))
        layers.append(ConvNormActivation(many, many, 3, stride, groups=many, **common))
        self.conv = Sequential(*layers, Conv2D(many, oup, 1, bias_attr=False), norm_layer(oup))

    def forward(self, x: Any) -> Any:
        """The maps."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width]; without classes, its last maps.
    Numbers of maps are multiplied by `scale`.
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        inner, last = divisible(32 * scale), divisible(1280 * max(1.0, scale))
        layers: list[Layer] = [ConvNormActivation(3, inner, stride=2, activation_layer=ReLU6)]
        for expansion, width, count, stride in _STAGES:
            outer = divisible(width * scale)
            for place in range(count):
                layers.append(InvertedResidual(inner, outer, 1 if place else stride, expansion))
                inner = outer
        layers.append(ConvNormActivation(inner, last, 1, activation_layer=ReLU6))
        self.features = Sequential(*layers)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(Dropout(0.2), Linear(last, num_classes))

    def forward(self, x: Any) -> Any:
        """The scores, or the last maps."""
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v2(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """A MobileNet of the second version."""
    model = MobileNetV2(scale=scale, **kwargs)
    return with_weights(model, f"mobilenetv2_{scale}", pretrained, trained=scale == 1.0)
