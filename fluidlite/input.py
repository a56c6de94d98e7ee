"""`fluid.input`: the home of `fluid.embedding` and `fluid.one_hot`."""

from __future__ import annotations

from fluidlite.layers.tensors.strict import embedding, one_hot

__all__ = ["embedding", "one_hot"]
