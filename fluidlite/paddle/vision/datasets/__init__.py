"""`paddle.vision.datasets`: pictures with labels, as data sets for loaders."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.vision.datasets"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.cifar": "Cifar10 Cifar100",
        f"{_HOME}.flowers": "Flowers",
        f"{_HOME}.folder": "DatasetFolder ImageFolder",
        f"{_HOME}.mnist": "FashionMNIST MNIST",
        f"{_HOME}.voc2012": "VOC2012",
    },
    "cifar flowers folder mnist voc2012",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
