"""`fluid.input`: the home of `fluid.embedding` and `fluid.one_hot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.layers.tensors.strict import embedding, one_hot

__all__ = ["embedding", "one_hot"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
