"""`paddle.static`: programs, executors, and models as files"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.framework": "Variable device_guard name_scope program_guard",
        "fluidlite.base.place": "cpu_places cuda_places",
        "fluidlite.values.scope": "Scope global_scope scope_guard",
        "fluidlite.backward": "gradients",
        "fluidlite.layers": "py_func",
        "fluidlite.optimizer": "ExponentialMovingAverage",
        "fluidlite.io": "load_program_state set_program_state",
        "fluidlite.paddle.static.io": (
            "deserialize_persistables deserialize_program load load_from_file load_inference_model "
            "normalize_program save save_inference_model save_to_file serialize_persistables "
            "serialize_program"
        ),
        "fluidlite.paddle.static.variables": (
            "Print accuracy append_backward auc create_global_var create_parameter "
            "ctr_metric_bundle xpu_places"
        ),
        "fluidlite.paddle.static.build_strategy": "BuildStrategy",
        "fluidlite.compiler": "CompiledProgram ExecutionStrategy",
        "fluidlite.parallel_executor": "ParallelExecutor",
        "fluidlite.paddle.attributes": "WeightNormParamAttr",
        "fluidlite.paddle.programs": "Program default_main_program default_startup_program",
        "fluidlite.paddle.static.executor": "Executor",
        "fluidlite.paddle.static.inputs": "InputSpec data",
        "fluidlite.paddle.indexing": "setitem",
    },
    "amp nn",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
