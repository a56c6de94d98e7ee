"""`paddle.vision.models.mobilenetv3`: Howard et al., "Searching for MobileNetV3"."""

from __future__ import annotations

import functools
from typing import Any

from fluidlite.paddle.nn.layer.activation import Hardsigmoid, Hardswish, ReLU
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

__all__ = ["MobileNetV3Large", "MobileNetV3Small", "mobilenet_v3_large", "mobilenet_v3_small"]

# size of the window, maps inside, maps, squeeze and excitation, activation, stride: table 1 of the paper
# fmt: off
_LARGE = (
    (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hardswish", 2), (3, 200, 80, False, "hardswish", 1),
    (3, 184, 80, False, "hardswish", 1), (3, 184, 80, False, "hardswish", 1),
    (3, 480, 112, True, "hardswish", 1), (3, 672, 112, True, "hardswish", 1),
    (5, 672, 160, True, "hardswish", 2), (5, 960, 160, True, "hardswish", 1),
    (5, 960, 160, True, "hardswish", 1),
)
# table 2
_SMALL = (
    (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
    (5, 96, 40, True, "hardswish", 2), (5, 240, 40, True, "hardswish", 1),
    (5, 240, 40, True, "hardswish", 1), (5, 120, 48, True, "hardswish", 1),
    (5, 144, 48, True, "hardswish", 1), (5, 288, 96, True, "hardswish", 2),
    (5, 576, 96, True, "hardswish", 1), (5, 576, 96, True, "hardswish", 1),
)
# fmt: on
_Norm = functools.partial(BatchNorm2D, momentum=0.99, epsilon=0.001)


class SqueezeExcitation(Layer):
    """Each map times a number that the means of all maps give."""

    def __init__(self, input_channels: int, squeeze_channels: int) -> None:
        super().__init__()
        self.avgpool = AdaptiveAvgPool2D(1)
        self.fc1 = Conv2D(input_channels, squeeze_channels, 1)
        self.fc2 = Conv2D(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = ReLU(), Hardsigmoid()

    def forward(self, input: Any) -> Any:
        """The maps."""
        found = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(found)) * input


class MobileBlock(Layer):
    """A convolution of each of many maps, between few; beside a short cut where sizes stay."""

    def __init__(
        self, kernel: int, inner: int, many: int, outer: int, use_se: bool, activation: str, stride: int
    ) -> None:
        super().__init__()
        self.use_res_connect, self.use_se = stride == 1 and inner == outer, use_se
        self.expand = inner != many
        common: dict[str, Any] = {
            "norm_layer": _Norm,
            "activation_layer": ReLU if activation == "relu" else Hardswish,
        }
        if self.expand:
            self.expand_conv = ConvNormActivation(inner, many, 1, **common)
        self.bottleneck_conv = ConvNormActivation(many, many, kernel, stride, groups=many, **common)
        if use_se:
            self.mid_se = SqueezeExcitation(many, divisible(many // 4))
        self.linear_conv = ConvNormActivation(many, outer, 1, norm_layer=_Norm, activation_layer=None)

    def forward(self, x: Any) -> Any:
        """The maps."""
        out = self.expand_conv(x) if self.expand else x
        out = self.bottleneck_conv(out)
        if self.use_se:
            out = self.mid_se(out)
        out = self.linear_conv(out)
        return x + out if self.use_res_connect else out


class MobileNetV3(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width]; without classes, its last maps.
    Numbers of maps are multiplied by `scale`.
    """

    def __init__(
        self, blocks: Any, last_channel: int, scale: float, num_classes: int, with_pool: bool
    ) -> None:
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        first = inner = divisible(16 * scale)
        layers = []
        for kernel, many, width, *others in blocks:
            outer = divisible(width * scale)
            layers.append((kernel, inner, divisible(many * scale), outer, *others))
            inner = outer
        end: dict[str, Any] = {"norm_layer": _Norm, "activation_layer": Hardswish}
        self.conv = ConvNormActivation(3, first, 3, 2, **end)
        self.blocks = Sequential(*(MobileBlock(*layer) for layer in layers))
        self.lastconv = ConvNormActivation(inner, 6 * inner, 1, **end)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            last = [Linear(6 * inner, last_channel), Hardswish(), Dropout(0.2)]
            self.classifier = Sequential(*last, Linear(last_channel, num_classes))

    def forward(self, x: Any) -> Any:
        """The scores, or the last maps."""
        x = self.lastconv(self.blocks(self.conv(x)))
        if self.with_pool:
            x = self.avgpool(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


class MobileNetV3Small(MobileNetV3):
    """The smaller of the two networks."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__(_SMALL, divisible(1024 * scale), scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    """The larger of the two networks."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__(_LARGE, divisible(1280 * scale), scale, num_classes, with_pool)


def mobilenet_v3_small(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV3Small:
    """A small MobileNet of the third version."""
    model = MobileNetV3Small(scale=scale, **kwargs)
    return with_weights(model, f"mobilenet_v3_small_x{scale}", pretrained, trained=scale == 1.0)


def mobilenet_v3_large(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV3Large:
    """A large MobileNet of the third version."""
    model = MobileNetV3Large(scale=scale, **kwargs)
    return with_weights(model, f"mobilenet_v3_large_x{scale}", pretrained, trained=scale == 1.0)
