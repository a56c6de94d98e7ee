"""`paddle.vision.models.squeezenet`: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer
parameters".
"""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn.functional.activation import relu
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import concat, squeeze
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# maps inside and on each of the two ways out
_FIRE_PAIRS = ((16, 64), (32, 128), (48, 192), (64, 256))
_FIRES = tuple(fire for fire in _FIRE_PAIRS for _ in range(2))
# version -> (the first convolution's maps and size, fires behind which a pool stands)
_VERSIONS = {"1.0": ((96, 7), (2, 6)), "1.1": ((64, 3), (1, 3))}


class MakeFireConv(Layer):
    """A convolution, above zero."""

    def __init__(self, inner: int, outer: int, kernel: int, padding: int = 0) -> None:
        super().__init__()
        self._conv = Conv2D(inner, outer, kernel, padding=padding)

    def forward(self, x: Any) -> Any:
        """The maps."""
        return relu(self._conv(x))


class MakeFire(Layer):
    """Few maps, from which two convolutions make many."""

    def __init__(self, inner: int, few: int, many: int) -> None:
        super().__init__()
        self._conv = MakeFireConv(inner, few, 1)
        self._conv_path1 = MakeFireConv(few, many, 1)
        self._conv_path2 = MakeFireConv(few, many, 3, padding=1)

    def forward(self, inputs: Any) -> Any:
        """Both ways' maps."""
        few = self._conv(inputs)
        return concat([self._conv_path1(few), self._conv_path2(few)], axis=1)


class SqueezeNet(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width], or maps of them. version: "1.0" or
    "1.1", which is smaller.
    """

    def __init__(self, version: str, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        if version not in _VERSIONS:
            raise AssertionError(f"supported versions are {[*_VERSIONS]} but input version is {version}")
        self.version, self.num_classes, self.with_pool = version, num_classes, with_pool
        (inner, kernel), self._pooled = _VERSIONS[version]
        self._conv = Conv2D(3, inner, kernel, 2, 1 if version == "1.1" else 0)
        self._pool = MaxPool2D(3, 2)
        for place, (few, many) in enumerate(_FIRES):
            self.add_sublayer(f"_conv{place + 1}", MakeFire(inner, few, many))
            inner = 2 * many
        self._drop = Dropout(0.5, mode="downscale_in_infer")
        self._conv9 = Conv2D(inner, num_classes, 1)
        self._avg_pool = AdaptiveAvgPool2D(1)

    def forward(self, inputs: Any) -> Any:
        """The scores, or maps of them."""
        x = self._pool(relu(self._conv(inputs)))
        for place in range(len(_FIRES)):
            x = getattr(self, f"_conv{place + 1}")(x)
            x = self._pool(x) if place in self._pooled else x
        x = self._conv9(self._drop(x))
        return squeeze(self._avg_pool(relu(x)), [2, 3]) if self.with_pool else x


def squeezenet1_0(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """A SqueezeNet of the paper."""
    return with_weights(SqueezeNet("1.0", **kwargs), "squeezenet1_0", pretrained)


def squeezenet1_1(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """A SqueezeNet that needs less than half the operations."""
    return with_weights(SqueezeNet("1.1", **kwargs), "squeezenet1_1", pretrained)
