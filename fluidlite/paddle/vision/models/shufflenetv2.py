"""`paddle.vision.models.shufflenetv2`: Ma et al., "ShuffleNet V2: Practical guidelines for efficient CNN
architecture design".
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.paddle.nn.layer.activation import ReLU, Swish
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Linear
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import concat, flatten, reshape, split, transpose
from fluidlite.paddle.vision.blocks import ConvNormActivation
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = [
    "ShuffleNetV2",
    "shufflenet_v2_swish",
    "shufflenet_v2_x0_25",
    "shufflenet_v2_x0_33",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
]

# scale -> maps of the first convolution, of the three stages and of the last convolution
_WIDTHS = {
    0.25: (24, 24, 48, 96, 512),
    0.33: (24, 32, 64, 128, 512),
    0.5: (24, 48, 96, 192, 1024),
    1.0: (24, 116, 232, 464, 1024),
    1.5: (24, 176, 352, 704, 1024),
    2.0: (24, 224, 488, 976, 2048),
}
_REPEATS = (4, 8, 4)
_ACTIVATIONS = {"relu": ReLU, "swish": Swish, None: None}


def channel_shuffle(x: Any, groups: int) -> Any:
    """The maps in the order in which the first of each group come first."""
    _, channels, height, width = x.shape
    apart = reshape(x, [-1, groups, channels // groups, height, width])
    return reshape(transpose(apart, [0, 2, 1, 3, 4]), [-1, channels, height, width])


class ShuffleUnit(Layer):
    """Half of the maps as they are, half through three convolutions."""

    def __init__(self, channels: int, activation_layer: Any) -> None:
        super().__init__()
        half = channels // 2
        self._conv_pw = ConvNormActivation(half, half, 1, activation_layer=activation_layer)
        self._conv_dw = ConvNormActivation(half, half, 3, groups=half, activation_layer=None)
        self._conv_linear = ConvNormActivation(half, half, 1, activation_layer=activation_layer)

    def forward(self, inputs: Any) -> Any:
        """The maps, shuffled."""
        left, right = split(inputs, [inputs.shape[1] // 2] * 2, axis=1)
        right = self._conv_linear(self._conv_dw(self._conv_pw(right)))
        return channel_shuffle(concat([left, right], axis=1), 2)


class HalvingUnit(Layer):
    """Maps of half the size: half of them by one way, half by another."""

    def __init__(self, inner: int, outer: int, activation_layer: Any) -> None:
        super().__init__()
        half = outer // 2
        acted = {"activation_layer": activation_layer}
        self._conv_dw_1 = ConvNormActivation(inner, inner, 3, 2, groups=inner, activation_layer=None)
        self._conv_linear_1 = ConvNormActivation(inner, half, 1, **acted)
        self._conv_pw_2 = ConvNormActivation(inner, half, 1, **acted)
        self._conv_dw_2 = ConvNormActivation(half, half, 3, 2, groups=half, activation_layer=None)
        self._conv_linear_2 = ConvNormActivation(half, half, 1, **acted)

    def forward(self, inputs: Any) -> Any:
        """The maps, shuffled."""
        left = self._conv_linear_1(self._conv_dw_1(inputs))
        right = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(inputs)))
        return channel_shuffle(concat([left, right], axis=1), 2)


class ShuffleNetV2(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width]; without classes, its last maps.

    scale: 0.25, 0.33, 0.5, 1.0, 1.5 or 2.0. act: "relu", "swish" or None.
    """

    def __init__(
        self, scale: float = 1.0, act: str | None = "relu", num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__()
        if scale not in _WIDTHS:
            raise ArgumentError(f"This scale size:[{scale}] is not implemented: it is one of {[*_WIDTHS]}")
        if act not in _ACTIVATIONS:
            raise RuntimeError(f"The activation function is not supported: {act}")
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        activation = _ACTIVATIONS[act]
        inner, *stages, last = _WIDTHS[scale]
        self._conv1 = ConvNormActivation(3, inner, 3, 2, activation_layer=activation)
        self._max_pool = MaxPool2D(3, 2, 1)
        self._block_list: list[Layer] = []
        for stage, (outer, count) in enumerate(zip(stages, _REPEATS)):
            for place in range(count):
                if place == 0:
                    block: Layer = HalvingUnit(inner, outer, activation)
                else:
                    block = ShuffleUnit(outer, activation)
                self._block_list.append(self.add_sublayer(f"{stage + 2}_{place + 1}", block))
            inner = outer
        self._last_conv = ConvNormActivation(inner, last, 1, activation_layer=activation)
        if with_pool:
            self._pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = Linear(last, num_classes)

    def forward(self, inputs: Any) -> Any:
        """The scores, or the last maps."""
        x = self._max_pool(self._conv1(inputs))
        for block in self._block_list:
            x = block(x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        return self._fc(flatten(x, 1)) if self.num_classes > 0 else x


def _shufflenet(scale: float, pretrained: bool, kwargs: dict[str, Any]) -> ShuffleNetV2:
    name = f"shufflenet_v2_x{str(scale).replace('.', '_')}"
    return with_weights(ShuffleNetV2(scale=scale, **kwargs), name, pretrained)


def shufflenet_v2_x0_25(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet with about a quarter of the maps."""
    return _shufflenet(0.25, pretrained, kwargs)


def shufflenet_v2_x0_33(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet with about a third of the maps."""
    return _shufflenet(0.33, pretrained, kwargs)


def shufflenet_v2_x0_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet with about half of the maps."""
    return _shufflenet(0.5, pretrained, kwargs)


def shufflenet_v2_x1_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet."""
    return _shufflenet(1.0, pretrained, kwargs)


def shufflenet_v2_x1_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet with one and a half times the maps."""
    return _shufflenet(1.5, pretrained, kwargs)


def shufflenet_v2_x2_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet with about twice the maps."""
    return _shufflenet(2.0, pretrained, kwargs)


def shufflenet_v2_swish(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """A ShuffleNet whose activation is swish."""
    model = ShuffleNetV2(scale=1.0, act="swish", **kwargs)
    return with_weights(model, "shufflenet_v2_swish", pretrained)
