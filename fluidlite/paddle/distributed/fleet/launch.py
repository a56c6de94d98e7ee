"""`python -m fluidlite.paddle.distributed.fleet.launch`: the name that 2.0 had for `distributed.launch`."""

from __future__ import annotations

from fluidlite.paddle.distributed.launch.main import launch

__all__ = ["launch"]

if __name__ == "__main__":
    launch()
