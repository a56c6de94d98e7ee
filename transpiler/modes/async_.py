"""Mode "async": parameter servers that take each gradient as it comes."""

from __future__ import annotations

from fluidlite.transpiler.modes.job import Reference
from fluidlite.transpiler.modes.servers import ServerMode

__all__ = ["Async"]


class Async(ServerMode):
    """Asynchronous servers; with `runtime_split_send_recv` a communicator sends beside the trainer."""

    name = "async"
    about = "servers update the parameters with each gradient when it arrives; trainers do not wait"
    options = (*ServerMode.options, "enable_dc_asgd", "runtime_split_send_recv")
    scaled_as = "async"
    reference = Reference.SERVERS_IN_ORDER
