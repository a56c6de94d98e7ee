"""`fluid.layers.detection`: the layers of detectors, gathered from the files that hold them by subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guarded
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

__all__ = ["sigmoid_focal_loss"]
__all__ += coding.__all__
__all__ += heads.__all__
__all__ += matching.__all__
__all__ += perspective.__all__
__all__ += priors.__all__
__all__ += proposals.__all__
__all__ += suppression.__all__
__all__ += targets.__all__
__all__ += yolo.__all__

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
