"""The names of imperative mode, by the modules that fluid had them in."""

from __future__ import annotations

from fluidlite.base.imperative import STATIC_ONLY
from fluidlite.base.refusals import Refusals

__all__ = ["REFUSED", "WHY"]

WHY = STATIC_ONLY

_SCHEDULES = (
    "NoamDecay PiecewiseDecay NaturalExpDecay ExponentialDecay InverseTimeDecay PolynomialDecay CosineDecay "
    "LinearLrWarmup ReduceLROnPlateau StepDecay MultiStepDecay LambdaDecay LearningRateDecay"
)
_LAYERS = (
    "Conv2D Conv3D Pool2D Linear BatchNorm Dropout Embedding GRUUnit InstanceNorm LayerNorm NCE PRelu "
    "BilinearTensorProduct Conv2DTranspose Conv3DTranspose GroupNorm SpectralNorm TreeConv MSELoss L1Loss "
    "NLLLoss BCELoss"
)

# module -> (classes, functions)
_NAMES = {
    "backward_strategy": ("BackwardStrategy", ""),
    "base": ("", "grad guard enable_dygraph enable_imperative to_variable"),
    "checkpoint": ("", "save_dygraph load_dygraph"),
    "container": ("Sequential ParameterList LayerList", ""),
    "dygraph_to_static": ("DygraphToStaticAst ProgramTranslator", "convert_to_static convert_call"),
    "jit": ("TracedLayer", "declarative dygraph_to_static_func"),
    "layers": ("Layer", ""),
    "learning_rate_scheduler": (_SCHEDULES, ""),
    "nn": (_LAYERS, ""),
    "parallel": ("DataParallel", "prepare_context"),
    "profiler": ("", "start_gperf_profiler stop_gperf_profiler"),
    "static_runner": ("StaticModelRunner", ""),
    "tracer": ("Tracer", ""),
}
REFUSED = {
    module: Refusals(f"fluid.dygraph.{module}", WHY, classes, functions)
    for module, (classes, functions) in _NAMES.items()
}
