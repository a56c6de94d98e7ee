"""`paddle.reader.decorator`; the body is in `fluidlite.reading.decorators`."""

from __future__ import annotations

from fluidlite.reading.decorators import *  # noqa: F403
from fluidlite.reading.decorators import __all__ as __all__
