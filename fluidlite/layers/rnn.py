"""`fluid.layers.rnn`: recurrent layers, cells and decoders, gathered from the files that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guarded
from fluidlite.layers.recurrence import decode_helpers, decoders, recurrent
from fluidlite.layers.recurrence.decode_helpers import *  # noqa: F403
from fluidlite.layers.recurrence.decoders import *  # noqa: F403
from fluidlite.layers.recurrence.recurrent import *  # noqa: F403
from fluidlite.layers.recurrence.rnn_cells import GRUCell, LSTMCell, RNNCell, rnn

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "rnn"]
__all__ += decode_helpers.__all__
__all__ += decoders.__all__
__all__ += recurrent.__all__

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
