"""`paddle.reader`: readers made of other readers, as fluid's scripts and 2.x's older ones have them."""

from __future__ import annotations

from fluidlite.paddle.reader import decorator as decorator
from fluidlite.reading.decorators import *  # noqa: F403
from fluidlite.reading.decorators import __all__ as __all__
