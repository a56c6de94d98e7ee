"""Program -> Programs, one for each role of a cluster. Also `fluid.transpiler`, under the names that
programs use.
"""

from __future__ import annotations

import importlib
from typing import Any

# looked up at their first use: a program that trains alone does not load the transpiler
_HOMES = {
    "DistributeTranspiler": "distribute_transpiler",
    "DistributeTranspilerConfig": "config",
    "HashName": "ps_dispatcher",
    "RoundRobin": "ps_dispatcher",
    "GeoSgdTranspiler": "geo_sgd_transpiler",
    "memory_optimize": "memory_optimization_transpiler",
    "release_memory": "memory_optimization_transpiler",
    "JobRole": "parts.roles",
    "Programs": "parts.roles",
    "Slice": "parts.roles",
    "Job": "modes",
    "TrainingMode": "modes",
    "make_job": "modes",
    "mode_names": "modes",
    "estimate": "cost.estimate",
}
_MODULES = (
    "collective",
    "details",
    "distribute_transpiler",
    "geo_sgd_transpiler",
    "memory_optimization_transpiler",
    "ps_dispatcher",
)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
