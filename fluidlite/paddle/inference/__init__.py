"""`paddle.inference`: saved models that are run by a predictor"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.compat.inference.config": "PrecisionType",
        "fluidlite.paddle.inference.config": "Config",
        "fluidlite.paddle.inference.kinds": "DataType=ElementType PlaceType get_num_bytes_of_data_type",
        "fluidlite.paddle.inference.others": "InternalUtils XpuConfig get_trt_compile_version "
        "get_trt_runtime_version get_version",
        "fluidlite.paddle.inference.predictor": "Predictor PredictorPool Tensor=InferenceTensor "
        "create_predictor",
        "fluidlite.paddle.inference.wrapper": "convert_to_mixed_precision",
    },
    "wrapper",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
