"""`fluid.layers.detection`: the layers of detectors, gathered from the files that hold them by subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.layers.boxes import (
    coding,
    heads,
    matching,
    perspective,
    priors,
    proposals,
    suppression,
    targets,
    yolo,
)
from fluidlite.layers.boxes.coding import *  # noqa: F403
from fluidlite.layers.boxes.heads import *  # noqa: F403
from fluidlite.layers.boxes.matching import *  # noqa: F403
from fluidlite.layers.boxes.perspective import *  # noqa: F403
from fluidlite.layers.boxes.priors import *  # noqa: F403
from fluidlite.layers.boxes.proposals import *  # noqa: F403
from fluidlite.layers.boxes.suppression import *  # noqa: F403
from fluidlite.layers.boxes.targets import *  # noqa: F403
from fluidlite.layers.boxes.yolo import *  # noqa: F403
from fluidlite.layers.neural.criteria import sigmoid_focal_loss
from fluidlite.layers.neural.detection_map import detection_map as detection_map

_FILES = (coding, heads, matching, perspective, priors, proposals, suppression, targets, yolo)
__all__ = [name for module in _FILES for name in module.__all__]
__all__ += ["sigmoid_focal_loss"]

if not TYPE_CHECKING:
    __getattr__ = imported_names(__name__)
