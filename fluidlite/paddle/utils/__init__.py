"""`paddle.utils`: what surrounds training."""

from __future__ import annotations

from fluidlite.paddle.utils.plot import Ploter

__all__ = ["Ploter"]
