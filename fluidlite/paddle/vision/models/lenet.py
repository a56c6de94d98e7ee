"""`paddle.vision.models.lenet`: LeCun et al., "Gradient-based learning applied to document recognition"."""

from __future__ import annotations

from typing import Any

from fluidlite.paddle.nn.layer.activation import ReLU
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Linear
from fluidlite.paddle.nn.layer.container import Sequential
from fluidlite.paddle.nn.layer.conv import Conv2D
from fluidlite.paddle.nn.layer.pooling import MaxPool2D
from fluidlite.paddle.tensor.manipulation import flatten

__all__ = ["LeNet"]


class LeNet(Layer):
    """Scores [batch, num_classes] of pictures [batch, 1, 28, 28]; without classes, its last maps."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.features = Sequential(
            *(Conv2D(1, 6, 3, padding=1), ReLU(), MaxPool2D(2, 2)),
            *(Conv2D(6, 16, 5), ReLU(), MaxPool2D(2, 2)),
        )
        if num_classes > 0:
            self.fc = Sequential(Linear(400, 120), Linear(120, 84), Linear(84, num_classes))

    def forward(self, inputs: Any) -> Any:
        """The scores, or the last maps."""
        maps = self.features(inputs)
        return self.fc(flatten(maps, 1)) if self.num_classes > 0 else maps
