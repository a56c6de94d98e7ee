"""`paddle.utils`: what surrounds training."""

from __future__ import annotations

from fluidlite import unique_name
from fluidlite.base.flags import require_version
from fluidlite.install_check import run_check
from fluidlite.paddle.utils.plot import Ploter

__all__ = ["Ploter", "require_version", "run_check", "unique_name"]
