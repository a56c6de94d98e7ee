"""`paddle.incubate.asp`: weights with zeros among every few neighbours, and training that keeps them."""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.paddle.incubate.asp.pruning": "add_supported_layer calculate_density decorate prune_model "
        "reset_excluded_layers set_excluded_layers"
    },
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
