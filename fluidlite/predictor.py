"""Running saved inference models as Paddle's inference library does: a configuration, a predictor, tensors in and out."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.dtypes import Array
from fluidlite.errors import FeedError, NotFoundError, did_you_mean
from fluidlite.io_inference import load_inference_model
from fluidlite.place import CPUPlace, CUDAPlace, Place
from fluidlite.scope import Scope, scope_guard
from fluidlite.tensor import LoDTensor, as_lod

__all__ = ["AnalysisConfig", "PaddlePredictor", "PaddleTensor", "ZeroCopyTensor", "create_paddle_predictor"]


class AnalysisConfig:
    """Where a model lies and on what it runs: a folder, or the files of program and parameters."""

    def __init__(self, model_dir_or_prog_file: str = "", params_file: str | None = None) -> None:
        self.set_model(model_dir_or_prog_file, params_file)
        self._device: int | None = None

    def set_model(self, model_dir_or_prog_file: str, params_file: str | None = None) -> None:
        """Say where the model lies."""
        single = params_file is None
        self._folder = model_dir_or_prog_file if single else ""
        self._program, self._params = ("", "") if params_file is None else (model_dir_or_prog_file, params_file)

    def model_dir(self) -> str:
        """The folder; "" where files were given."""
        return self._folder

    def prog_file(self) -> str:
        """The file of the program; "" where a folder was given."""
        return self._program

    def params_file(self) -> str:
        """The file of the parameters; "" where a folder was given."""
        return self._params

    def enable_use_gpu(self, memory_pool_init_size_mb: int, device_id: int = 0) -> None:
        """Run on a CUDA device; CuPy sizes its own memory pool."""
        self._device = device_id

    def disable_gpu(self) -> None:
        """Run on the CPU."""
        self._device = None

    def use_gpu(self) -> bool:
        """Whether the model runs on a CUDA device."""
        return self._device is not None

    def gpu_device_id(self) -> int:
        """The number of the CUDA device."""
        return self._device or 0

    def place(self) -> Place:
        """Where the model runs."""
        return CPUPlace() if self._device is None else CUDAPlace(self._device)

    def _ignore(self, *unused: Any) -> None:
        """Options of Paddle's own optimizer and libraries: plans here are optimized in any case."""

    switch_use_feed_fetch_ops = switch_specify_input_names = switch_ir_optim = switch_ir_debug = _ignore
    enable_memory_optim = enable_mkldnn = disable_glog_info = set_cpu_math_library_num_threads = enable_profile = _ignore


class PaddleTensor:
    """A named array that goes into a predictor or comes out of it."""

    def __init__(self, data: Any = None, name: str = "") -> None:
        self.name = name
        self.data: Array = np.asarray([] if data is None else data)
        self.lod: list[list[int]] = []

    @property
    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.data.dtype

    def as_ndarray(self) -> Array:
        """The array."""
        return self.data


class ZeroCopyTensor:
    """An input or output of a predictor that keeps its place between runs."""

    def __init__(self, tensor: LoDTensor) -> None:
        self._tensor = tensor

    def copy_from_cpu(self, array: Array) -> None:
        """Set an input."""
        self._tensor.array = np.array(array, order="C")

    def copy_to_cpu(self) -> Array:
        """A copy of the value."""
        return np.array(self._tensor)

    def reshape(self, shape: Sequence[int]) -> None:
        """`copy_from_cpu` brings the shape with it, so nothing has to be set aside."""

    def shape(self) -> list[int]:
        """The dimensions."""
        return self._tensor.shape()

    def lod(self) -> list[list[int]]:
        """The level of detail as offsets."""
        return self._tensor.lod()

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Set the level of detail as offsets."""
        self._tensor.set_lod(lod)


class PaddlePredictor:
    """A loaded model with a scope of its own."""

    def __init__(self, config: AnalysisConfig) -> None:
        from fluidlite.executor.executor import Executor
        self._config, self._scope, self._executor = config, Scope(), Executor(config.place())
        with scope_guard(self._scope):
            self._program, self._feeds, self._targets = load_inference_model(*_arguments(config, self._executor))
        self._inputs = {name: LoDTensor() for name in self._feeds}
        self._outputs = {target.name: LoDTensor() for target in self._targets}

    def run(self, inputs: Sequence[PaddleTensor]) -> list[PaddleTensor]:
        """The outputs for inputs in the order of `get_input_names`, or in any order where all have names."""
        if len(inputs) != len(self._feeds):
            raise FeedError(f"the model takes {len(self._feeds)} inputs ({', '.join(self._feeds)}), and {len(inputs)} were given")
        names = [tensor.name for tensor in inputs] if all(tensor.name for tensor in inputs) else self._feeds
        found = self._run({name: LoDTensor(tensor.data, as_lod(tensor.lod)) for name, tensor in zip(names, inputs, strict=True)})
        outputs = [PaddleTensor(np.asarray(tensor), target.name) for tensor, target in zip(found, self._targets, strict=True)]
        for output, tensor in zip(outputs, found, strict=True):
            output.lod = tensor.lod()
        return outputs

    def _run(self, feed: dict[str, LoDTensor]) -> list[LoDTensor]:
        found: list[LoDTensor] = self._executor.run(self._program, feed, self._targets, scope=self._scope, return_numpy=False)
        return found

    def zero_copy_run(self) -> bool:
        """Run on what the input tensors hold; the output tensors hold the results."""
        for name, tensor in zip(self._outputs, self._run(self._inputs), strict=True):
            self._outputs[name].array, self._outputs[name]._lod = tensor.array, tensor._lod
        return True

    def clone(self) -> PaddlePredictor:
        """Another predictor of the same model."""
        return PaddlePredictor(self._config)

    def get_input_names(self) -> list[str]:
        """Names of the inputs."""
        return list(self._feeds)

    def get_output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._outputs)

    def get_input_tensor(self, name: str) -> ZeroCopyTensor:
        """The input called `name`."""
        return ZeroCopyTensor(_named(self._inputs, name))

    def get_output_tensor(self, name: str) -> ZeroCopyTensor:
        """The output called `name`."""
        return ZeroCopyTensor(_named(self._outputs, name))


def _named(tensors: dict[str, LoDTensor], name: str) -> LoDTensor:
    if name not in tensors:
        raise NotFoundError(f"the model has no tensor {name!r}{did_you_mean(name, tensors)}")
    return tensors[name]


def _arguments(config: AnalysisConfig, executor: Any) -> tuple[Any, ...]:
    """The arguments of `load_inference_model`."""
    if config.model_dir():
        return config.model_dir(), executor
    parts = []
    for path in (config.prog_file(), config.params_file()):
        with open(os.fspath(path), "rb") as file:
            parts.append(file.read())
    return None, executor, *parts


def create_paddle_predictor(config: AnalysisConfig) -> PaddlePredictor:
    """A predictor of the model that `config` names."""
    return PaddlePredictor(config)
