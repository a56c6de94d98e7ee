"""`paddle.utils`: what surrounds training"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite": "unique_name",
        "fluidlite.base.flags": "require_version",
        "fluidlite.install_check": "run_check",
        "fluidlite.paddle.utils.deprecation": "deprecated try_import",
        "fluidlite.paddle.utils.plot": "Ploter",
    },
    "cpp_extension dlpack download plot",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
