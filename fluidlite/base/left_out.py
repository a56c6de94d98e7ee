"""Modules of Paddle's that FluidLite leaves out whole: their names are in one table, and a module is made of
its row when a script imports it. Its names can be imported, and say why when they are used.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from fluidlite.base.imperative import STATIC_ONLY
from fluidlite.base.refusals import Refusals

__all__ = ["below", "left_out", "offer"]


class _Row(NamedTuple):
    """A module: its title, why it is left out, and the names of its classes and functions."""

    title: str
    reason: str
    classes: str = ""
    functions: str = ""


_IN_C = (
    "ops in C++ are compiled with Paddle's headers and library, and FluidLite has none: write an op as "
    "CONTRIBUTING.md says, or call a function with paddle.static.py_func"
)
_PSLIB = "Paddle's closed parameter server (pslib) is not here; fluid.DistributeTranspiler has servers"
_QUANTISED = (
    "quantises layers of imperative mode; programs are quantised by fluidlite.contrib.slim.quantization "
    "and fluidlite.contrib.quantize"
)
_SPARSE = (
    "sparse tensors exist in imperative mode only, and FluidLite runs static graphs: rows of a table are "
    "sparse with paddle.nn.Embedding(sparse=True)"
)
_TRAINERS = "Executor.train_from_dataset runs data sets here, without Paddle's C++ trainers"

_MODULES: dict[str, _Row] = {
    "fluid.device_worker": _Row(
        "kinds of threads that train",
        _TRAINERS,
        classes="DeviceWorker Hogwild DownpourSGD DownpourSGDOPT Section",
    ),
    "fluid.distributed.downpour": _Row("the optimizer of pslib", _PSLIB, classes="DownpourSGD"),
    "fluid.distributed.fleet": _Row("the servers of pslib", _PSLIB, classes="Fleet"),
    "fluid.distributed.helper": _Row("helpers of pslib", _PSLIB, classes="FileSystem MPIHelper"),
    "fluid.distributed.ps_instance": _Row("processes of pslib", _PSLIB, classes="PaddlePSInstance"),
    "fluid.dygraph.backward_strategy": _Row(
        "how gradients are added up", STATIC_ONLY, classes="BackwardStrategy"
    ),
    "fluid.dygraph.base": _Row(
        "switches of imperative mode",
        STATIC_ONLY,
        functions="grad guard enable_dygraph enable_imperative to_variable",
    ),
    "fluid.dygraph.checkpoint": _Row(
        "states of layers as files", STATIC_ONLY, functions="save_dygraph load_dygraph"
    ),
    "fluid.dygraph.container": _Row(
        "lists of layers", STATIC_ONLY, classes="Sequential ParameterList LayerList"
    ),
    "fluid.dygraph.dygraph_to_static": _Row(
        "functions turned into programs",
        STATIC_ONLY,
        classes="DygraphToStaticAst ProgramTranslator",
        functions="convert_to_static convert_call",
    ),
    "fluid.dygraph.jit": _Row(
        "functions traced into programs",
        STATIC_ONLY,
        classes="TracedLayer",
        functions="declarative dygraph_to_static_func",
    ),
    "fluid.dygraph.layers": _Row("the base of layers that hold parameters", STATIC_ONLY, classes="Layer"),
    "fluid.dygraph.learning_rate_scheduler": _Row(
        "schedules that count calls",
        STATIC_ONLY,
        classes=(
            "NoamDecay PiecewiseDecay NaturalExpDecay ExponentialDecay InverseTimeDecay PolynomialDecay "
            "CosineDecay LinearLrWarmup ReduceLROnPlateau StepDecay MultiStepDecay LambdaDecay "
            "LearningRateDecay"
        ),
    ),
    "fluid.dygraph.nn": _Row(
        "layers that hold parameters",
        STATIC_ONLY,
        classes=(
            "Conv2D Conv3D Pool2D Linear BatchNorm Dropout Embedding GRUUnit InstanceNorm LayerNorm NCE "
            "PRelu BilinearTensorProduct Conv2DTranspose Conv3DTranspose GroupNorm SpectralNorm TreeConv "
            "MSELoss L1Loss NLLLoss BCELoss"
        ),
    ),
    "fluid.dygraph.parallel": _Row(
        "data parallel layers", STATIC_ONLY, classes="DataParallel", functions="prepare_context"
    ),
    "fluid.dygraph.profiler": _Row(
        "a profiler of imperative mode", STATIC_ONLY, functions="start_gperf_profiler stop_gperf_profiler"
    ),
    "fluid.dygraph.static_runner": _Row(
        "saved models run as layers", STATIC_ONLY, classes="StaticModelRunner"
    ),
    "fluid.dygraph.tracer": _Row("the recorder of what is called", STATIC_ONLY, classes="Tracer"),
    "fluid.trainer_desc": _Row(
        "descriptions of the threads that train",
        _TRAINERS,
        classes="TrainerDesc MultiTrainer DistMultiTrainer PipelineTrainer",
    ),
    "paddle.cost_model": _Row(
        "what ops cost",
        (
            "measures kernels of Paddle's library; `fluidlite.transpiler.estimate` says what a job costs, "
            "and paddle.profiler what ops take"
        ),
        classes="CostModel",
    ),
    "paddle.device.xpu": _Row(
        "Kunlun devices", "there are no kernels for XPU devices here", functions="synchronize"
    ),
    "paddle.distributed.passes": _Row(
        "passes over programs",
        (
            "rewrites programs by Paddle's passes; `fluidlite.transpiler` has the modes of jobs, and the "
            "executor's passes need no call"
        ),
        classes="PassManager PassContext",
        functions="new_pass",
    ),
    "paddle.distributed.sharding": _Row(
        "layers whose states are sharded",
        (
            "shards layers of imperative mode; programs are spread over devices by the modes of "
            "fluidlite.transpiler (fluidlite docs strategies)"
        ),
        functions="group_sharded_parallel save_group_sharded_model",
    ),
    "paddle.nn.quant": _Row(
        "layers that are quantised",
        _QUANTISED,
        classes="Stub",
        functions="weight_only_linear llm_int8_linear weight_quantize weight_dequantize",
    ),
    "paddle.nn.quant.quant_layers": _Row(
        "layers that are quantised",
        _QUANTISED,
        classes=(
            "FakeQuantAbsMax FakeQuantMovingAverageAbsMax FakeQuantChannelWiseAbsMax QuantizedConv2D "
            "QuantizedConv2DTranspose QuantizedLinear MovingAverageAbsMaxScale MAOutputScaleLayer "
            "FakeQuantMAOutputScaleLayer QuantStub QuantizedRowParallelLinear "
            "QuantizedColumnParallelLinear QuantizedMatmul"
        ),
    ),
    "paddle.quantization": _Row(
        "quantisation of layers",
        _QUANTISED,
        classes="QuantConfig BaseQuanter BaseObserver QAT PTQ",
        functions="quanter",
    ),
    "paddle.quantization.observers": _Row(
        "what looks at the values of layers", _QUANTISED, classes="AbsmaxObserver GroupWiseWeightObserver"
    ),
    "paddle.quantization.quanters": _Row(
        "what rounds the values of layers", _QUANTISED, classes="FakeQuanterWithAbsMaxObserver"
    ),
    "paddle.sparse": _Row(
        "tensors that store their nonzero elements only",
        _SPARSE,
        functions=(
            "sparse_coo_tensor sparse_csr_tensor sin tan asin atan sinh tanh asinh atanh sqrt square "
            "log1p abs pow pca_lowrank cast neg deg2rad rad2deg expm1 mv matmul masked_matmul addmm add "
            "subtract transpose sum multiply divide coalesce is_same_shape reshape isnan slice"
        ),
    ),
    "paddle.sparse.creation": _Row(
        "functions that make sparse tensors", _SPARSE, functions="sparse_coo_tensor sparse_csr_tensor"
    ),
    "paddle.sparse.nn": _Row(
        "layers of sparse tensors",
        _SPARSE,
        classes=(
            "ReLU ReLU6 LeakyReLU Softmax BatchNorm SyncBatchNorm Conv2D Conv3D SubmConv2D SubmConv3D "
            "MaxPool3D"
        ),
    ),
    "paddle.sparse.nn.functional": _Row(
        "functions of sparse tensors",
        _SPARSE,
        functions="conv2d conv3d subm_conv2d subm_conv3d max_pool3d relu relu6 leaky_relu softmax attention",
    ),
    "paddle.sysconfig": _Row("where Paddle's C++ library lies", _IN_C, functions="get_include get_lib"),
    "paddle.utils.cpp_extension": _Row(
        "ops in C++", _IN_C, functions="CppExtension CUDAExtension load setup get_build_directory"
    ),
}


@functools.cache
def left_out(module: str) -> Refusals:
    """The names of a module, by the name that Paddle has for it."""
    row = _MODULES[module]
    return Refusals(module, row.reason, row.classes, row.functions)


def below(module: str) -> list[str]:
    """The modules of the table that are directly below one."""
    return [other for other in _MODULES if other.rpartition(".")[0] == module]


def offer() -> None:
    """Have Python find the modules of the table."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def _paddles(name: str) -> str:
    """The name that Paddle has for a module of FluidLite."""
    inner = name.removeprefix("fluidlite.")
    return inner if inner.startswith("paddle.") else f"fluid.{inner}"


class _Finder:
    """Finds and makes modules of the table. It comes last: one that has a file is that file."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """How to import a module of the table; None for any other."""
        if not name.startswith("fluidlite.") or _paddles(name) not in _MODULES:
            return None
        return ModuleSpec(name, self, is_package=bool(below(_paddles(name))))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making of the module to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module: modules below it are imported, and its names are refused when they are used."""
        name = _paddles(module.__name__)
        title = _MODULES[name].title
        refused = left_out(name)
        children = [child.rpartition(".")[2] for child in below(name)]
        module.__doc__ = f"`{name}`: {title}. Refused when used."
        for child in children:
            setattr(module, child, importlib.import_module(f"{module.__name__}.{child}"))
        names: dict[str, Any] = {"__all__": [*children, *refused.names], "__getattr__": refused.get}
        vars(module).update(names)
