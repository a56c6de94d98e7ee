"""`paddle.vision`: what images need"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {"fluidlite.paddle.vision.image": "get_image_backend image_load set_image_backend"},
    "datasets image models ops transforms",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
