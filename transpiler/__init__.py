"""Program -> Programs, one for each role of a cluster. Also `fluid.transpiler`, under the names that
programs use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.lazy import LazyNames

# looked up at their first use: a program that trains alone does not load the transpiler
_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.transpiler.distribute_transpiler": "DistributeTranspiler",
        "fluidlite.transpiler.config": "DistributeTranspilerConfig",
        "fluidlite.transpiler.ps_dispatcher": "HashName RoundRobin",
        "fluidlite.transpiler.geo_sgd_transpiler": "GeoSgdTranspiler",
        "fluidlite.transpiler.memory_optimization_transpiler": "memory_optimize release_memory",
        "fluidlite.transpiler.parts.roles": "JobRole Programs Slice",
        "fluidlite.transpiler.modes": "Job TrainingMode make_job mode_names",
        "fluidlite.transpiler.cost.estimate": "estimate",
    },
    "collective details distribute_transpiler geo_sgd_transpiler memory_optimization_transpiler "
    "ps_dispatcher",
)
__all__ = sorted(_NAMES.homes)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _NAMES.load, _NAMES.names
