"""`paddle.vision.models.vgg`: Simonyan and Zisserman, "Very deep convolutional networks for large-scale image
recognition".
"""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn.layer.activation import ReLU
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.container import Sequential
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.norm import BatchNorm2D
from fluidlite.paddle.nn.layer.pooling import AdaptiveAvgPool2D, MaxPool2D
from fluidlite.paddle.tensor.manipulation import flatten
from fluidlite.paddle.vision.models.weights import with_weights

__all__ = ["VGG", "make_layers", "vgg11", "vgg13", "vgg16", "vgg19"]

_WIDTHS = (64, 128, 256, 512, 512)
# convolutions before each of the five pools
_DEPTHS = {
    11: (1, 1, 2, 2, 2),  # configuration A of the paper
    13: (2, 2, 2, 2, 2),  # B
    16: (2, 2, 3, 3, 3),  # D
    19: (2, 2, 4, 4, 4),  # E
}


class VGG(Layer):
    """Scores [batch, num_classes] of pictures [batch, 3, 224, 224], which `features` make to 512 maps."""

    def __init__(self, features: Layer, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.features, self.num_classes, self.with_pool = features, num_classes, with_pool
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = Sequential(
                *(Linear(512 * 7 * 7, 4096), ReLU(), Dropout()),
                *(Linear(4096, 4096), ReLU(), Dropout()),
                Linear(4096, num_classes),
            )

    def forward(self, x: Any) -> Any:
        """The scores, or the last maps."""
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


def make_layers(cfg: Any, batch_norm: bool = False) -> Sequential:
    """Convolutions of the widths in `cfg`, and a pool for each "M"."""
    layers: list[Layer] = []
    inner = 3
    for width in cfg:
        if width == "M":
            layers.append(MaxPool2D(2, 2))
            continue
        layers.append(Conv2D(inner, width, 3, padding=1))
        layers += [BatchNorm2D(width), ReLU()] if batch_norm else [ReLU()]
        inner = width
    return Sequential(*layers)


def _vgg(depth: int, pretrained: bool, batch_norm: bool, kwargs: dict[str, Any]) -> VGG:
    widths: list[Any] = []
    for width, count in zip(_WIDTHS, _DEPTHS[depth]):
        widths += [width] * count + ["M"]
    model = VGG(make_layers(widths, batch_norm), **kwargs)
    return with_weights(model, f"vgg{depth}{'_bn' * batch_norm}", pretrained, trained=not batch_norm)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """A VGG of 11 layers with weights."""
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """A VGG of 13 layers with weights."""
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """A VGG of 16 layers with weights."""
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """A VGG of 19 layers with weights."""
    return _vgg(19, pretrained, batch_norm, kwargs)
