"""`fluid.layers.rnn`: recurrent layers, cells and decoders, gathered from the files that hold them."""
from __future__ import annotations

from fluidlite.layers import decode_helpers, decoders, recurrent
from fluidlite.layers.decode_helpers import *  # noqa: F403
from fluidlite.layers.decoders import *  # noqa: F403
from fluidlite.layers.recurrent import *  # noqa: F403
from fluidlite.layers.rnn_cells import GRUCell, LSTMCell, RNNCell, rnn

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "rnn"]
__all__ += [*decode_helpers.__all__, *decoders.__all__, *recurrent.__all__]
