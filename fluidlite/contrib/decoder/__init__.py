"""`fluid.contrib.decoder`: one step of a decoder, written once for training and for beam search."""

from __future__ import annotations

from fluidlite.contrib.decoder import beam_search_decoder
from fluidlite.contrib.decoder.beam_search_decoder import (
    BeamSearchDecoder,
    InitState,
    StateCell,
    TrainingDecoder,
)

__all__ = ["BeamSearchDecoder", "InitState", "StateCell", "TrainingDecoder", "beam_search_decoder"]
