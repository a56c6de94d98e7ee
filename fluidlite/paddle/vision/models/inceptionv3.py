"""`paddle.vision.models.inceptionv3`: Szegedy et al., "Rethinking the Inception architecture for computer
vision".
"""

from __future__ import annotations

import math
from typing import Any

from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.nn.initializer import Uniform
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.container import LayerList
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, AvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import concat, reshape
from fluidlite.paddle.vision.blocks import ConvNormActivation
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["InceptionV3", "inception_v3"]

Conv = ConvNormActivation


class InceptionStem(Layer):
    """The first convolutions: maps [batch, 192, 35, 35] of pictures of 299 x 299."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1a_3x3 = Conv(3, 32, 3, 2, 0)
        self.conv_2a_3x3 = Conv(32, 32, 3, padding=0)
        self.conv_2b_3x3 = Conv(32, 64, 3)
        self.max_pool = MaxPool2D(3, 2)
        self.conv_3b_1x1 = Conv(64, 80, 1)
        self.conv_4a_3x3 = Conv(80, 192, 3, padding=0)

    def forward(self, x: Any) -> Any:
        """The maps."""
        x = self.max_pool(self.conv_2b_3x3(self.conv_2a_3x3(self.conv_1a_3x3(x))))
        return self.max_pool(self.conv_4a_3x3(self.conv_3b_1x1(x)))


class _Ways(Layer):
    """Ways whose maps are joined; `_way` calls convolutions one after another."""

    def _way(self, x: Any, *names: str) -> Any:
        for name in names:
            x = getattr(self, name)(x)
        return x


class InceptionA(_Ways):
    """Windows of 5 x 5, also as two of 3 x 3: figure 5 of the paper."""

    def __init__(self, inner: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(inner, 64, 1)
        self.branch5x5_1 = Conv(inner, 48, 1)
        self.branch5x5_2 = Conv(48, 64, 5)
        self.branch3x3dbl_1 = Conv(inner, 64, 1)
        self.branch3x3dbl_2 = Conv(64, 96, 3)
        self.branch3x3dbl_3 = Conv(96, 96, 3)
        self.branch_pool = AvgPool2D(3, 1, 1, exclusive=False)
        self.branch_pool_conv = Conv(inner, pooled, 1)

    def forward(self, x: Any) -> Any:
        """The maps of all ways."""
        ways = [
            self.branch1x1(x),
            self._way(x, "branch5x5_1", "branch5x5_2"),
            self._way(x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"),
            self._way(x, "branch_pool", "branch_pool_conv"),
        ]
        return concat(ways, axis=1)


class InceptionB(_Ways):
    """Maps of half the size."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.branch3x3 = Conv(inner, 384, 3, 2, 0)
        self.branch3x3dbl_1 = Conv(inner, 64, 1)
        self.branch3x3dbl_2 = Conv(64, 96, 3)
        self.branch3x3dbl_3 = Conv(96, 96, 3, 2, 0)
        self.branch_pool = MaxPool2D(3, 2)

    def forward(self, x: Any) -> Any:
        """The maps of all ways."""
        ways = [
            self.branch3x3(x),
            self._way(x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"),
            self.branch_pool(x),
        ]
        return concat(ways, axis=1)


class InceptionC(_Ways):
    """Windows of 7 x 7 as rows and columns: figure 6 of the paper."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        row: Any = {"kernel_size": (1, 7), "padding": (0, 3)}
        column: Any = {"kernel_size": (7, 1), "padding": (3, 0)}
        self.branch1x1 = Conv(inner, 192, 1)
        self.branch7x7_1 = Conv(inner, width, 1)
        self.branch7x7_2 = Conv(width, width, **row)
        self.branch7x7_3 = Conv(width, 192, **column)
        self.branch7x7dbl_1 = Conv(inner, width, 1)
        self.branch7x7dbl_2 = Conv(width, width, **column)
        self.branch7x7dbl_3 = Conv(width, width, **row)
        self.branch7x7dbl_4 = Conv(width, width, **column)
        self.branch7x7dbl_5 = Conv(width, 192, **row)
        self.branch_pool = AvgPool2D(3, 1, 1, exclusive=False)
        self.branch_pool_conv = Conv(inner, 192, 1)

    def forward(self, x: Any) -> Any:
        """The maps of all ways."""
        ways = [
            self.branch1x1(x),
            self._way(x, *(f"branch7x7_{place}" for place in range(1, 4))),
            self._way(x, *(f"branch7x7dbl_{place}" for place in range(1, 6))),
            self._way(x, "branch_pool", "branch_pool_conv"),
        ]
        return concat(ways, axis=1)


class InceptionD(_Ways):
    """Maps of half the size, behind windows of 7 x 7."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        row: Any = {"kernel_size": (1, 7), "padding": (0, 3)}
        column: Any = {"kernel_size": (7, 1), "padding": (3, 0)}
        self.branch3x3_1 = Conv(inner, 192, 1)
        self.branch3x3_2 = Conv(192, 320, 3, 2, 0)
        self.branch7x7x3_1 = Conv(inner, 192, 1)
        self.branch7x7x3_2 = Conv(192, 192, **row)
        self.branch7x7x3_3 = Conv(192, 192, **column)
        self.branch7x7x3_4 = Conv(192, 192, 3, 2, 0)
        self.branch_pool = MaxPool2D(3, 2)

    def forward(self, x: Any) -> Any:
        """The maps of all ways."""
        ways = [
            self._way(x, "branch3x3_1", "branch3x3_2"),
            self._way(x, *(f"branch7x7x3_{place}" for place in range(1, 5))),
            self.branch_pool(x),
        ]
        return concat(ways, axis=1)


class InceptionE(_Ways):
    """Rows and columns side by side: figure 7 of the paper."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        row: Any = {"kernel_size": (1, 3), "padding": (0, 1)}
        column: Any = {"kernel_size": (3, 1), "padding": (1, 0)}
        self.branch1x1 = Conv(inner, 320, 1)
        self.branch3x3_1 = Conv(inner, 384, 1)
        self.branch3x3_2a = Conv(384, 384, **row)
        self.branch3x3_2b = Conv(384, 384, **column)
        self.branch3x3dbl_1 = Conv(inner, 448, 1)
        self.branch3x3dbl_2 = Conv(448, 384, 3)
        self.branch3x3dbl_3a = Conv(384, 384, **row)
        self.branch3x3dbl_3b = Conv(384, 384, **column)
        self.branch_pool = AvgPool2D(3, 1, 1, exclusive=False)
        self.branch_pool_conv = Conv(inner, 192, 1)

    def forward(self, x: Any) -> Any:
        """The maps of all ways."""
        one = self.branch1x1(x)
        three = self.branch3x3_1(x)
        three = concat([self.branch3x3_2a(three), self.branch3x3_2b(three)], axis=1)
        double = self._way(x, "branch3x3dbl_1", "branch3x3dbl_2")
        double = concat([self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)], axis=1)
        pooled = self._way(x, "branch_pool", "branch_pool_conv")
        return concat([one, three, double, pooled], axis=1)


class InceptionV3(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, 299, 299]; without classes, its last maps."""

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self.inception_stem = InceptionStem()
        blocks = [InceptionA(192, 32), InceptionA(256, 64), InceptionA(288, 64), InceptionB(288)]
        blocks += [InceptionC(768, width) for width in (128, 160, 160, 192)]
        blocks += [InceptionD(768), InceptionE(1280), InceptionE(2048)]
        self.inception_block_list = LayerList(blocks)
        if with_pool:
            self.avg_pool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            bound = 1.0 / math.sqrt(2048)
            self.dropout = Dropout(0.2, mode="downscale_in_infer")
            self.fc = Linear(2048, num_classes, ParamAttr(initializer=Uniform(-bound, bound)))

    def forward(self, x: Any) -> Any:
        """The scores, or the last maps."""
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        if self.with_pool:
            x = self.avg_pool(x)
        return self.fc(self.dropout(reshape(x, [-1, 2048]))) if self.num_classes > 0 else x


def inception_v3(pretrained: bool = False, **kwargs: Any) -> InceptionV3:
    """An Inception of the third version."""
    return with_weights(InceptionV3(**kwargs), "inception_v3", pretrained)
