"""What users write: functions that append ops to the default main program, under fluid 1.8's names and signatures."""
from __future__ import annotations

from fluidlite.layers import (
    control_flow,
    device,
    io,
    learning_rate_scheduler,
    loss,
    math_op_patch,
    metric_op,
    nn,
    ops,
    rnn,
    sequence_lod,
    tensor,
    utils,
)
from fluidlite.layers.control_flow import *  # noqa: F403
from fluidlite.layers.device import *  # noqa: F403
from fluidlite.layers.io import *  # noqa: F403
from fluidlite.layers.learning_rate_scheduler import *  # noqa: F403
from fluidlite.layers.loss import *  # noqa: F403
from fluidlite.layers.metric_op import *  # noqa: F403
from fluidlite.layers.nn import *  # noqa: F403
from fluidlite.layers.ops import *  # noqa: F403
from fluidlite.layers.rnn import *  # noqa: F403
from fluidlite.layers.sequence_lod import *  # noqa: F403
from fluidlite.layers.tensor import *  # noqa: F403

math_op_patch.monkey_patch_variable()
__all__ = [name for module in (control_flow, device, io, learning_rate_scheduler, loss, metric_op, nn, ops, rnn, sequence_lod, tensor)
           for name in module.__all__]
__all__ += ["utils"]
