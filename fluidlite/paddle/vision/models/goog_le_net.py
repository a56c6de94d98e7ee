"""`paddle.vision.models.googlenet`: Szegedy et al., "Going deeper with convolutions"."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.nn.functional.activation import relu
from fluidlite.paddle.nn.initializer import Uniform
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, AvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import concat, flatten, squeeze
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["GoogLeNet", "googlenet"]

# name -> maps before it, then those of 1 x 1, 3 x 3 (inside, outside), 5 x 5, the pool: table 1 of the paper
_BLOCKS = {
    "_ince3a": (192, 64, 96, 128, 16, 32, 32),
    "_ince3b": (256, 128, 128, 192, 32, 96, 64),
    "_ince4a": (480, 192, 96, 208, 16, 48, 64),
    "_ince4b": (512, 160, 112, 224, 24, 64, 64),
    "_ince4c": (512, 128, 128, 256, 24, 64, 64),
    "_ince4d": (512, 112, 144, 288, 32, 64, 64),
    "_ince4e": (528, 256, 160, 320, 32, 128, 128),
    "_ince5a": (832, 256, 160, 320, 32, 128, 128),
    "_ince5b": (832, 384, 192, 384, 48, 128, 128),
}


def _spread(channels: int, kernel: int) -> ParamAttr:
    bound = math.sqrt(3.0 / (kernel**2 * channels))
    return ParamAttr(initializer=Uniform(-bound, bound))


class ConvLayer(Layer):
    """A convolution that keeps the size of its maps, but for `stride`."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self._conv = Conv2D(inner, outer, kernel, stride, (kernel - 1) // 2, bias_attr=False)

    def forward(self, inputs: Any) -> Any:
        """The maps."""
        return self._conv(inputs)


class Inception(Layer):
    """Maps of four ways: windows of three sizes, and a pool."""

    def __init__(self, inner: int, one: int, in3: int, three: int, in5: int, five: int, pooled: int) -> None:
        super().__init__()
        self._conv1 = ConvLayer(inner, one, 1)
        self._conv3r = ConvLayer(inner, in3, 1)
        self._conv3 = ConvLayer(in3, three, 3)
        self._conv5r = ConvLayer(inner, in5, 1)
        self._conv5 = ConvLayer(in5, five, 5)
        self._pool = MaxPool2D(3, 1, 1)
        self._convprj = ConvLayer(inner, pooled, 1)

    def forward(self, inputs: Any) -> Any:
        """The maps of all ways, above zero."""
        ways = [
            self._conv1(inputs),
            self._conv3(self._conv3r(inputs)),
            self._conv5(self._conv5r(inputs)),
            self._convprj(self._pool(inputs)),
        ]
        return relu(concat(ways, axis=1))


class GoogLeNet(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, 224, 224], and those of its two side exits; without
    classes, the maps there.
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self._conv = ConvLayer(3, 64, 7, 2)
        self._pool = MaxPool2D(3, 2)
        self._conv_1 = ConvLayer(64, 64, 1)
        self._conv_2 = ConvLayer(64, 192, 3)
        for name, widths in _BLOCKS.items():
            self.add_sublayer(name, Inception(*widths))
        if with_pool:
            self._pool_5 = AdaptiveAvgPool2D(1)
            self._pool_o1, self._pool_o2 = AvgPool2D(5, 3), AvgPool2D(5, 3)
        if num_classes > 0:
            self._drop = Dropout(0.4, mode="downscale_in_infer")
            self._fc_out = Linear(1024, num_classes, _spread(1024, 1))
            for exit, inner in (("o1", 512), ("o2", 528)):
                self._add_exit(exit, inner)

    def _add_exit(self, name: str, inner: int) -> None:
        """The layers of a side exit behind `inner` maps."""
        self.add_sublayer(f"_conv_{name}", ConvLayer(inner, 128, 1))
        self.add_sublayer(f"_fc_{name}", Linear(1152, 1024, _spread(2048, 1)))
        self.add_sublayer(f"_drop_{name}", Dropout(0.7, mode="downscale_in_infer"))
        self.add_sublayer(f"_out{name[1:]}", Linear(1024, self.num_classes, _spread(1024, 1)))

    def _blocks(self, x: Any, names: str) -> Any:
        for name in names.split():
            x = getattr(self, f"_ince{name}")(x)
        return x

    def forward(self, inputs: Any) -> Any:
        """Scores or maps: at the end, and at both side exits."""
        x = self._pool(self._conv(inputs))
        x = self._pool(self._conv_2(self._conv_1(x)))
        x = self._pool(self._blocks(x, "3a 3b"))
        first = self._blocks(x, "4a")
        second = self._blocks(first, "4b 4c 4d")
        out = self._blocks(self._pool(self._blocks(second, "4e")), "5a 5b")
        if self.with_pool:
            out, first, second = self._pool_5(out), self._pool_o1(first), self._pool_o2(second)
        if self.num_classes <= 0:
            return [out, first, second]
        out = self._fc_out(squeeze(self._drop(out), [2, 3]))
        first = self._drop_o1(relu(self._fc_o1(flatten(self._conv_o1(first), 1))))
        first = self._out1(first)
        # the paper's second exit is like the first; 2.6.2's has no activation
        second = self._drop_o2(self._fc_o2(flatten(self._conv_o2(second), 1)))
        return [out, first, self._out2(second)]


def googlenet(pretrained: bool = False, **kwargs: Any) -> GoogLeNet:
    """A GoogLeNet; `kwargs` are those of the class."""
    return with_weights(GoogLeNet(**kwargs), "googlenet", pretrained)
