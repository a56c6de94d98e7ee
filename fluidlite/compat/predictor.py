"""Running saved inference models as Paddle's inference library does: a configuration, a predictor, tensors
in and out.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FeedError, MissingFileError, NotFoundError, did_you_mean
from fluidlite.base.place import CPUPlace, CUDAPlace, Place
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.ir.trust import check_reach
from fluidlite.ir.variable import Variable
from fluidlite.saving.inference import load_inference_model
from fluidlite.values.scope import Scope, scope_guard
from fluidlite.values.serialize import file_bytes
from fluidlite.values.tensor import LoDTensor, as_lod, host

__all__ = [
    "AnalysisConfig",
    "AnalysisPredictor",
    "NativeConfig",
    "NativePaddlePredictor",
    "PaddleBuf",
    "PaddleDType",
    "PaddlePlace",
    "PaddlePredictor",
    "PaddleTensor",
    "ZeroCopyTensor",
    "create_paddle_predictor",
    "paddle_dtype_size",
]


class PaddleDType(enum.IntEnum):
    """Element types of a predictor's tensors."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2

    __str__ = enum.Enum.__str__


class PaddlePlace(enum.IntEnum):
    """Kinds of devices."""

    UNK = -1
    CPU = 0
    GPU = 1

    __str__ = enum.Enum.__str__


def paddle_dtype_size(dtype: PaddleDType) -> int:
    """Bytes of an element."""
    return 8 if dtype == PaddleDType.INT64 else 4


def dtype_of(array: Array) -> PaddleDType:
    """The element type of an array; FeedError for one that predictors do not take."""
    name = array.dtype.name.upper()
    if name not in PaddleDType.__members__:
        raise FeedError(f"a predictor's tensors are of float32, int64 or int32, not of {array.dtype}")
    return PaddleDType[name]


class AnalysisConfig:
    """The files of a model (a folder, the files of program and parameters, or their bytes) and its device."""

    def __init__(self, model_dir_or_prog_file: str = "", params_file: str | None = None) -> None:
        self.set_model(model_dir_or_prog_file, params_file)
        self._device: int | None = None
        self._buffers: tuple[bytes, bytes] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            methods = [method for method in dir(self) if not method.startswith("_")]
            near = did_you_mean(name, methods)
            raise AttributeError(f"'AnalysisConfig' object has no attribute {name!r}{near}")
        object.__setattr__(self, name, value)

    def set_model(self, model_dir_or_prog_file: str, params_file: str | None = None) -> None:
        """Say where the model lies."""
        # one path is a folder; two are the files of program and parameters
        if params_file is None:
            self._folder = model_dir_or_prog_file
            self._program = ""
            self._params = ""
        else:
            self._folder = ""
            self._program = model_dir_or_prog_file
            self._params = params_file

    def set_prog_file(self, path: str) -> None:
        """Say where the program lies."""
        self._program = path

    def set_params_file(self, path: str) -> None:
        """Say where the parameters lie."""
        self._params = path

    def set_model_buffer(self, program: bytes, program_size: int, params: bytes, params_size: int) -> None:
        """Give the bytes of program and parameters."""
        self._buffers = (program[:program_size], params[:params_size])

    def model_from_memory(self) -> bool:
        """True if the model's bytes were given."""
        return self._buffers is not None

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
        """True if the model runs on a CUDA device."""
        return self._device is not None

    def gpu_device_id(self) -> int:
        """The number of the CUDA device."""
        return self._device or 0

    def place(self) -> Place:
        """The place on which the model runs."""
        return CPUPlace() if self._device is None else CUDAPlace(self._device)

    def source(self) -> tuple[Any, Any, Any]:
        """Folder, program and parameters as `load_inference_model` takes them; the latter two are bytes
        where there is no folder.
        """
        if self._buffers is not None:
            return None, *self._buffers
        if self._folder:
            return self._folder, None, None
        return _files(self._program, self._params)

    def _ignore(self, *unused: Any, **options: Any) -> None:
        """Options of Paddle's own optimizer and libraries: plans here are optimized in any case."""

    switch_use_feed_fetch_ops = switch_specify_input_names = switch_ir_optim = switch_ir_debug = _ignore
    enable_memory_optim = enable_mkldnn = disable_glog_info = set_cpu_math_library_num_threads = (
        enable_profile
    ) = _ignore
    enable_tensorrt_engine = set_mkldnn_cache_capacity = set_mkldnn_op = set_optim_cache_dir = delete_pass = (
        _ignore
    )

    def ir_optim(self) -> bool:
        """True: plans are optimized in any case."""
        return True

    def _not(self) -> bool:
        """False: such an engine is Paddle's own."""
        return False

    tensorrt_engine_enabled = mkldnn_enabled = lite_engine_enabled = _not


class NativeConfig:
    """The older configuration: its attributes say where a model lies."""

    def __init__(self) -> None:
        self.model_dir = self.prog_file = self.param_file = ""
        self.use_gpu = False
        self.device = 0
        self.fraction_of_gpu_memory = -1.0
        self.specify_input_name = False

    def place(self) -> Place:
        """The place on which the model runs."""
        return CUDAPlace(self.device) if self.use_gpu else CPUPlace()

    def source(self) -> tuple[Any, Any, Any]:
        """See `AnalysisConfig.source`."""
        if self.model_dir:
            return self.model_dir, None, None
        return _files(self.prog_file, self.param_file)

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """BLAS takes its threads from the environment (OMP_NUM_THREADS)."""


def _files(program: str, params: str) -> tuple[Any, Any, Any]:
    """The files of a model as `load_inference_model` takes them."""
    program, params = os.fspath(program), os.fspath(params)
    for path in (program, params):
        if not os.path.isfile(path):
            raise MissingFileError(f"Cannot open file {path}")
    folder = os.path.dirname(program)
    if folder == os.path.dirname(params):
        # by name: of bytes, the values of the model would lie in memory twice
        return folder or ".", os.path.basename(program), os.path.basename(params)
    return None, file_bytes(program), file_bytes(params)


def _numbers(data: Any) -> Array:
    array = np.asarray(data)
    # a list of Python floats stands for float32, the only floating type that a predictor takes
    return array.astype(np.float32) if isinstance(data, list) and array.dtype.kind == "f" else array


class PaddleBuf:
    """The values of a tensor: an array, a list of numbers, or room for a number of bytes."""

    def __init__(self, data: Any) -> None:
        self.array: Array = np.zeros(data, np.uint8) if isinstance(data, int) else _numbers(data)

    def reset(self, data: Any) -> None:
        """Hold other values."""
        self.array = _numbers(data)

    def resize(self, size: int) -> None:
        """Hold room for `size` bytes."""
        self.array = np.zeros(size, np.uint8)

    def empty(self) -> bool:
        """True if nothing is held."""
        return self.length() == 0

    def length(self) -> int:
        """Bytes held."""
        return int(self.array.nbytes)

    def tolist(self, dtype: str) -> list[Any]:
        """The values, read as `dtype`."""
        found: list[Any] = np.ascontiguousarray(self.array).reshape(-1).view(dtype).tolist()
        return found

    def float_data(self) -> list[float]:
        """The values, read as float32."""
        return self.tolist("float32")

    def int64_data(self) -> list[int]:
        """The values, read as int64."""
        return self.tolist("int64")

    def int32_data(self) -> list[int]:
        """The values, read as int32."""
        return self.tolist("int32")


class PaddleTensor:
    """A named array that goes into a predictor or comes out of it."""

    def __init__(self, data: Any = None, name: str = "", lod: Sequence[Sequence[int]] = ()) -> None:
        self.name = name
        self._array: Array = np.asarray([] if data is None else data)
        self.lod: list[list[int]] = [list(level) for level in lod]

    @property
    def data(self) -> PaddleBuf:
        """The values."""
        return PaddleBuf(self._array)

    @data.setter
    def data(self, value: Any) -> None:
        self._array = value.array if isinstance(value, PaddleBuf) else np.asarray(value)

    @property
    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self._array.shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._array = self._array.reshape(shape)

    @property
    def dtype(self) -> PaddleDType:
        """The element type."""
        return dtype_of(self._array)

    @dtype.setter
    def dtype(self, dtype: PaddleDType) -> None:
        # Paddle's buffer is bytes, which only the dtype gives a meaning: the shape need not fit them any more
        wanted = np.dtype(PaddleDType(dtype).name.lower())
        same_size = wanted.itemsize == self._array.itemsize
        self._array = self._array.view(wanted) if same_size else self._array.astype(wanted)

    def as_ndarray(self) -> Array:
        """The array."""
        return self._array


class ZeroCopyTensor:
    """An input or output of a predictor that keeps its place between runs."""

    def __init__(self, tensor: LoDTensor) -> None:
        self._tensor = tensor

    def copy_from_cpu(self, array: Array) -> None:
        """Set an input."""
        self._tensor.set(array)

    def copy_to_cpu(self) -> Array:
        """A copy of the value."""
        return np.array(self._tensor)

    def reshape(self, shape: Sequence[int]) -> None:
        """`copy_from_cpu` brings the shape with it, so nothing has to be set aside."""

    def shape(self) -> list[int]:
        """The dimensions."""
        return self._tensor.shape()

    def type(self) -> PaddleDType:
        """The element type."""
        return dtype_of(np.asarray(self._tensor))

    def lod(self) -> list[list[int]]:
        """The level of detail as offsets."""
        return self._tensor.lod()

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Set the level of detail as offsets."""
        self._tensor.set_lod(lod)


@dataclass(frozen=True)
class _LoadedModel:
    """A model in a scope of its own (two models may hold parameters of the same names), and what runs it."""

    executor: Executor
    scope: Scope
    program: Program
    feeds: list[str]
    targets: list[Variable]

    @classmethod
    def read(cls, config: AnalysisConfig | NativeConfig, trust: bool) -> _LoadedModel:
        """The model that `config` names."""
        scope, executor = Scope(), Executor(config.place())
        with scope_guard(scope):
            folder, program, params = config.source()
            if folder is not None and not os.path.isdir(folder):
                raise MissingFileError(
                    f"Cannot open file {os.path.join(folder, '__model__')}: there is no such folder"
                )
            found = load_inference_model(folder, executor, program, params)
        check_reach(found[0], trust)
        # nobody else sees it
        scope.freeze()
        return cls(executor, scope, *found)


class PaddlePredictor:
    """A loaded model, with tensors that go in and come out."""

    def __init__(self, config: AnalysisConfig | NativeConfig, *, trust: bool = False) -> None:
        self._hold(_LoadedModel.read(config, trust))

    def _hold(self, model: _LoadedModel) -> None:
        self._model = model
        self._inputs = {name: LoDTensor() for name in model.feeds}
        self._outputs = {target.name: LoDTensor() for target in model.targets}

    def run(self, inputs: Sequence[PaddleTensor]) -> list[PaddleTensor]:
        """The outputs for inputs in the order of `get_input_names`, or in any order where all have names."""
        names = self._model.feeds
        if len(inputs) != len(names):
            raise FeedError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), and {len(inputs)} were given"
            )
        if all(tensor.name for tensor in inputs):
            names = [tensor.name for tensor in inputs]
        feed = {
            name: LoDTensor(tensor.as_ndarray(), as_lod(tensor.lod))
            for name, tensor in zip(names, inputs, strict=True)
        }
        return [
            PaddleTensor(host(tensor.array), target.name, tensor.lod())
            for tensor, target in zip(self._run(feed), self._model.targets, strict=True)
        ]

    def _run(self, feed: dict[str, LoDTensor]) -> list[LoDTensor]:
        """Arrays that nobody else holds: the executor copies what it gives."""
        model = self._model
        found: list[LoDTensor] = model.executor.run(
            model.program, feed, model.targets, scope=model.scope, return_numpy=False
        )
        return found

    def zero_copy_run(self) -> bool:
        """Run on what the input tensors hold; the output tensors hold the results."""
        for name, tensor in zip(self._outputs, self._run(self._inputs), strict=True):
            self._outputs[name].array, self._outputs[name]._lod = tensor.array, tensor._lod
        return True

    def clone(self) -> PaddlePredictor:
        """Another predictor of the same model, for another thread: its parameters are the same arrays, and
        only its inputs and outputs are its own.
        """
        # not by the constructor, which is Paddle's: it takes a configuration
        made = object.__new__(type(self))
        made._hold(self._model)
        return made

    def get_input_names(self) -> list[str]:
        """Names of the inputs."""
        return list(self._model.feeds)

    def get_input_tensor_shape(self) -> dict[str, list[int]]:
        """Name -> declared shape of the inputs."""
        block = self._model.program.global_block()
        return {name: list(block.var(name).shape) for name in self._model.feeds}

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


def create_paddle_predictor(config: AnalysisConfig | NativeConfig, *, trust: bool = False) -> PaddlePredictor:
    """A predictor of the model that `config` names; UntrustedError for one that does more than to compute,
    such as to write files, unless its maker is trusted.
    """
    if not isinstance(config, (AnalysisConfig, NativeConfig)):
        raise TypeError(f"a predictor is made from an AnalysisConfig or a NativeConfig, not from {config!r}")
    return PaddlePredictor(config, trust=trust)


AnalysisPredictor = NativePaddlePredictor = PaddlePredictor
