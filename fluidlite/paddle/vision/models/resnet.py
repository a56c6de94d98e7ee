"""`paddle.vision.models.resnet`: He et al., "Deep residual learning for image recognition", with the groups
of "Aggregated residual transformations" and the widths of "Wide residual networks".
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.paddle.nn.layer.activation import ReLU
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Linear
from fluidlite.paddle.nn.layer.container import Sequential
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.norm import BatchNorm2D
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import flatten
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = [
    "BasicBlock",
    "BottleneckBlock",
    "ResNet",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext101_32x4d",
    "resnext101_64x4d",
    "resnext152_32x4d",
    "resnext152_64x4d",
    "resnext50_32x4d",
    "resnext50_64x4d",
    "wide_resnet101_2",
    "wide_resnet50_2",
]

# blocks in each of the four stages
_DEPTHS = {
    # two convolutions a block
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    # three
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


class BasicBlock(Layer):
    """Two convolutions over 3 x 3 beside a short cut."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        if dilation > 1:
            raise ArgumentError("Dilation > 1 not supported in BasicBlock")
        norm = norm_layer or BatchNorm2D
        self.conv1 = Conv2D(inplanes, planes, 3, stride, 1, bias_attr=False)
        self.bn1 = norm(planes)
        self.relu = ReLU()
        self.conv2 = Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Any) -> Any:
        """The sum of both ways, above zero."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class BottleneckBlock(Layer):
    """A convolution over 3 x 3 between two that change the number of maps, beside a short cut."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or BatchNorm2D
        width, outer = int(planes * (base_width / 64.0)) * groups, planes * self.expansion
        self.conv1 = Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm(width)
        self.conv2 = Conv2D(width, width, 3, stride, dilation, dilation, groups, bias_attr=False)
        self.bn2 = norm(width)
        self.conv3 = Conv2D(width, outer, 1, bias_attr=False)
        self.bn3 = norm(outer)
        self.relu = ReLU()
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Any) -> Any:
        """The sum of both ways, above zero."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, height, width]; without classes, 512 (2048) maps.

    block: `BasicBlock` or `BottleneckBlock`. depth: 18, 34, 50, 101 or 152. width: of a group, for 64 maps.
    """

    def __init__(
        self,
        block: Any,
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.groups, self.base_width = groups, width
        self.num_classes, self.with_pool = num_classes, with_pool
        self.inplanes = 64
        self.conv1 = Conv2D(3, 64, 7, 2, 3, bias_attr=False)
        self.bn1 = BatchNorm2D(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2D(3, 2, 1)
        for stage, count in enumerate(_DEPTHS[depth]):
            layers = self._make_layer(block, 64 << stage, count, 1 if stage == 0 else 2)
            self.add_sublayer(f"layer{stage + 1}", layers)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = Linear(512 * block.expansion, num_classes)

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1) -> Sequential:
        """A stage: the first of its blocks has `stride`."""
        downsample, outer = None, planes * block.expansion
        if stride != 1 or self.inplanes != outer:
            short = Conv2D(self.inplanes, outer, 1, stride, bias_attr=False)
            downsample = Sequential(short, BatchNorm2D(outer))
        layers = [block(self.inplanes, planes, stride, downsample, self.groups, self.base_width)]
        self.inplanes = outer
        for _ in range(1, blocks):
            layers.append(block(outer, planes, groups=self.groups, base_width=self.base_width))
        return Sequential(*layers)

    def forward(self, x: Any) -> Any:
        """The scores, or the last maps."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in ("layer1", "layer2", "layer3", "layer4"):
            x = getattr(self, stage)(x)
        if self.with_pool:
            x = self.avgpool(x)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def _resnet(name: str, depth: int, pretrained: bool, **kwargs: Any) -> ResNet:
    block = BasicBlock if depth < 50 else BottleneckBlock
    return with_weights(ResNet(block, depth, **kwargs), name, pretrained)


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 18 layers with weights."""
    return _resnet("resnet18", 18, pretrained, **kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 34 layers with weights."""
    return _resnet("resnet34", 34, pretrained, **kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 50 layers with weights."""
    return _resnet("resnet50", 50, pretrained, **kwargs)


def resnet101(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 101 layers with weights."""
    return _resnet("resnet101", 101, pretrained, **kwargs)


def resnet152(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 152 layers with weights."""
    return _resnet("resnet152", 152, pretrained, **kwargs)


def _resnext(depth: int, groups: int, pretrained: bool, kwargs: dict[str, Any]) -> ResNet:
    """A ResNet whose blocks have groups of 4 maps."""
    kwargs |= {"groups": groups, "width": 4}
    return _resnet(f"resnext{depth}_{groups}x4d", depth, pretrained, **kwargs)


def resnext50_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNeXt of 50 layers, with 32 groups."""
    return _resnext(50, 32, pretrained, kwargs)


def resnext50_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNeXt of 50 layers, with 64 groups."""
    return _resnext(50, 64, pretrained, kwargs)


def resnext101_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNeXt of 101 layers, with 32 groups."""
    return _resnext(101, 32, pretrained, kwargs)


def resnext101_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNeXt of 101 layers, with 64 groups."""
    return _resnext(101, 64, pretrained, kwargs)


def resnext152_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNeXt of 152 layers, with 32 groups."""
    return _resnext(152, 32, pretrained, kwargs)


def resnext152_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNeXt of 152 layers, with 64 groups."""
    return _resnext(152, 64, pretrained, kwargs)


def wide_resnet50_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 50 layers whose blocks are twice as wide inside."""
    return _resnet("wide_resnet50_2", 50, pretrained, **{**kwargs, "width": 128})


def wide_resnet101_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """A ResNet of 101 layers whose blocks are twice as wide inside."""
    return _resnet("wide_resnet101_2", 101, pretrained, **{**kwargs, "width": 128})
