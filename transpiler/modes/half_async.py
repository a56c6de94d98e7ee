"""Mode "half_async": asynchronous servers, and communicators that let trainers wait for what they sent."""

from __future__ import annotations

from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes.job import Reference
from fluidlite.transpiler.modes.servers import ServerMode

__all__ = ["HalfAsync"]


class HalfAsync(ServerMode):
    """A barrier at the end of a step waits until the trainer's communicator has sent its gradients."""

    name = "half_async"
    about = "as async, but a trainer waits at the end of a step until its own gradients are applied"
    options = (*ServerMode.options, "completely_not_async")
    reference = Reference.SERVERS_IN_ORDER

    def configured(self, config: DistributeTranspilerConfig) -> DistributeTranspilerConfig:
        """Gradients are cut up by the communicator, which the trainer waits for."""
        chosen = super().configured(config)
        chosen.runtime_split_send_recv = chosen.half_async = True
        return chosen
