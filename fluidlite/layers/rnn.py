"""`fluid.layers.rnn`: recurrent layers, gathered from the files that hold them."""
from __future__ import annotations

from fluidlite.layers import recurrent
from fluidlite.layers.recurrent import *  # noqa: F403

__all__ = list(recurrent.__all__)
