"""`paddle.static`: programs, executors, and models as files"""

from __future__ import annotations

from typing import Any

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.framework": "Variable device_guard name_scope program_guard",
        "fluidlite.base.place": "cpu_places cuda_places",
        "fluidlite.values.scope": "Scope global_scope scope_guard",
        "fluidlite.backward": "gradients",
        "fluidlite.compiler": "BuildStrategy CompiledProgram ExecutionStrategy",
        "fluidlite.parallel_executor": "ParallelExecutor",
        "fluidlite.paddle.attributes": "WeightNormParamAttr",
        "fluidlite.paddle.programs": "Program default_main_program default_startup_program",
        "fluidlite.paddle.static.executor": "Executor",
        "fluidlite.paddle.static.inputs": "InputSpec data",
    },
    "nn",
)


def __getattr__(name: str) -> Any:
    return _NAMES.load(name)


def __dir__() -> list[str]:
    return _NAMES.names()
