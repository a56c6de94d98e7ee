"""Mode "pserver": parameter servers, and trainers that take each step together."""

from __future__ import annotations

from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes.async_ import Async
from fluidlite.transpiler.modes.half_async import HalfAsync
from fluidlite.transpiler.modes.job import TrainingMode
from fluidlite.transpiler.modes.servers import ServerMode

__all__ = ["Pserver"]


class Pserver(ServerMode):
    """Synchronous servers: barriers before and after the update of a step."""

    name = "pserver"
    about = "servers update the parameters with the mean gradient of all trainers, once a step"
    config_mode = "pserver"
    scaled_as = "pserver"
    in_step = True

    def asynchronous(self, config: DistributeTranspilerConfig) -> TrainingMode:
        """The mode of the same servers when trainers do not wait for each other."""
        return HalfAsync() if config.runtime_split_send_recv and config.half_async else Async()
