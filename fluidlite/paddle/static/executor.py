"""`paddle.static.Executor`: fluid's, on the place that `paddle.set_device` chose."""

from __future__ import annotations

from fluidlite.base.place import Place
from fluidlite.executor import executor as fluid
from fluidlite.paddle.device import current_place, place_of

__all__ = ["Executor"]


class Executor(fluid.Executor):
    """Runs programs on `place`: CPUPlace(), "cpu", CUDAPlace(0), "gpu:0"; or where `set_device` says."""

    def __init__(self, place: Place | str | None = None) -> None:
        if isinstance(place, str):
            place = place_of(place)
        super().__init__(current_place() if place is None else place)
