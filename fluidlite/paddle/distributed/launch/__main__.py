"""`python -m fluidlite.paddle.distributed.launch`."""

from __future__ import annotations

from fluidlite.paddle.distributed.launch.main import launch

launch()
