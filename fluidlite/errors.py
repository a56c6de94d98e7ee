"""Every error that FluidLite raises on purpose; the body is in `fluidlite.base.errors`."""

from __future__ import annotations

from fluidlite.base.errors import *  # noqa: F403
from fluidlite.base.errors import __all__ as __all__
