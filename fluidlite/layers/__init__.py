"""Layers: functions that append ops to the default main program, under fluid 1.8's names and signatures.

In the examples `np` is numpy, `fluid` is fluidlite, and `exe` is `fluid.Executor(fluid.CPUPlace())`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names

# Every file is loaded before the stars: importing one later would put the module in the place of a function
# of its name.
for _file in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_file.name}")

from fluidlite.layers import math_op_patch, utils  # noqa: E402
from fluidlite.layers.control_flow import *  # noqa: E402, F403
from fluidlite.layers.detection import *  # noqa: E402, F403
from fluidlite.layers.device import *  # noqa: E402, F403
from fluidlite.layers.distributions import *  # noqa: E402, F403
from fluidlite.layers.io import *  # noqa: E402, F403
from fluidlite.layers.learning_rate_scheduler import *  # noqa: E402, F403
from fluidlite.layers.loss import *  # noqa: E402, F403
from fluidlite.layers.metric_op import *  # noqa: E402, F403
from fluidlite.layers.nn import *  # noqa: E402, F403
from fluidlite.layers.ops import *  # noqa: E402, F403
from fluidlite.layers.rnn import *  # noqa: E402, F403
from fluidlite.layers.sequence_lod import *  # noqa: E402, F403
from fluidlite.layers.tensor import *  # noqa: E402, F403

math_op_patch.monkey_patch_variable()
_FILES = (
    "control_flow",
    "detection",
    "device",
    "distributions",
    "io",
    "learning_rate_scheduler",
    "loss",
    "metric_op",
    "nn",
    "ops",
    "rnn",
    "sequence_lod",
    "tensor",
)
__all__ = [name for file in _FILES for name in sys.modules[f"{__name__}.{file}"].__all__] + ["utils"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__, _FILES)
