"""1.8.5's configurations of predictors: the files of a model, its device, and switches."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from fluidlite.base.errors import UnsupportedError, did_you_mean
from fluidlite.base.place import CPUPlace, CUDAPlace, Place, is_compiled_with_cuda
from fluidlite.compat.inference.passes import PaddlePassBuilder
from fluidlite.compat.inference.sources import Source, in_folder, of_files
from fluidlite.executor.run.feeding import blas_threads
from fluidlite.ir.warned import warn_user

__all__ = ["AnalysisConfig", "NativeConfig", "PrecisionType"]

Shapes = Mapping[str, Sequence[int]]
_KERNELS = "plans choose the kernel of each step themselves, oneDNN's among them"


class PrecisionType(enum.IntEnum):
    """The precisions that an engine may be asked to compute in."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3

    __str__ = enum.Enum.__str__


class AnalysisConfig:
    """The files of a model (a folder, a prefix of .pdmodel and .pdiparams, the files of program and
    parameters, or their bytes), its device, and switches.

    A switch that asks for what happens in any case, such as to reuse memory, does nothing. One that asks for
    an engine or a way that is not here leaves the results as they are, and says so by a FluidWarning at the
    line that calls it. A switch that would give other results, or files, is an UnsupportedError.
    """

    Precision = PrecisionType
    Float32 = PrecisionType.Float32
    Int8 = PrecisionType.Int8
    Half = PrecisionType.Half

    def __init__(
        self, model_dir_or_prog_file: str | AnalysisConfig = "", params_file: str | None = None
    ) -> None:
        if isinstance(model_dir_or_prog_file, AnalysisConfig):
            self.__dict__.update(model_dir_or_prog_file.__dict__)
            return
        self.set_model(model_dir_or_prog_file, params_file)
        self._device: int | None = None
        self._buffers: tuple[bytes, bytes] | None = None
        self._threads: int | None = None
        self._pool = 100  # Paddle's default, in MB
        self._uses_feed_ops = True
        self._specifies_names = False
        self._optimizes = True
        self._is_quiet = False

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            methods = [method for method in dir(self) if not method.startswith("_")]
            near = did_you_mean(name, methods)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{near}")
        object.__setattr__(self, name, value)

    def _without_effect(self, switch: str, why: str) -> None:
        """Say at the user's line that a switch changes nothing."""
        warn_user(f"{type(self).__name__}.{switch} changes nothing here: {why}")

    def _refused(self, switch: str, why: str) -> NoReturn:
        raise UnsupportedError(f"{type(self).__name__}.{switch}: {why}")

    # ------------------------------------------------------------------ the model
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
        if not isinstance(program, bytes) or not isinstance(params, bytes):
            raise TypeError("set_model_buffer takes bytes, as a file opened by open(path, 'rb') gives them")
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

    def source(self) -> Source:
        """Folder, program and parameters as `load_inference_model` takes them; the latter two are bytes
        where there is no folder.
        """
        if self._buffers is not None:
            return None, *self._buffers
        if self._program or self._params:
            return of_files(self._program, self._params)
        if self._folder:
            return in_folder(self._folder)
        raise UnsupportedError(
            f"{type(self).__name__} names no model: give it a folder, or the files of program and parameters"
        )

    # ------------------------------------------------------------------ where it runs
    def enable_use_gpu(self, memory_pool_init_size_mb: int, device_id: int = 0) -> None:
        """Run on a CUDA device; CuPy sizes its own memory pool. Without a device it stays the CPU."""
        if not is_compiled_with_cuda():
            self._without_effect("enable_use_gpu", "there is no CUDA device, so the model runs on the CPU")
            return
        self._pool = memory_pool_init_size_mb
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

    def memory_pool_init_size_mb(self) -> int:
        """The size of the memory pool that `enable_use_gpu` was given."""
        return self._pool

    def fraction_of_gpu_memory_for_pool(self) -> float:
        """0: CuPy's pool grows as it is used."""
        return 0.0

    def place(self) -> Place:
        """The place on which the model runs."""
        return CPUPlace() if self._device is None else CUDAPlace(self._device)

    @property
    def threads(self) -> int | None:
        """The threads of a run; None for as many as BLAS has."""
        return self._threads

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """Share the work of a run among that many threads; without it, among as many as BLAS has."""
        self._threads = max(1, threads)

    def cpu_math_library_num_threads(self) -> int:
        """The threads of a run."""
        return self._threads or blas_threads()

    # ------------------------------------------------------------------ how it is fed
    def switch_use_feed_fetch_ops(self, x: bool = True) -> None:
        """Note whether a run goes through feed and fetch ops; both ways of running work in any case."""
        self._uses_feed_ops = bool(x)

    def use_feed_fetch_ops_enabled(self) -> bool:
        """The last value of `switch_use_feed_fetch_ops`."""
        return self._uses_feed_ops

    def switch_specify_input_names(self, x: bool = True) -> None:
        """Let the names of PaddleTensors say which inputs they are; without it, their order does where they
        have no names, or other ones.
        """
        self._specifies_names = bool(x)

    def specify_input_name(self) -> bool:
        """True if the names of PaddleTensors say which inputs they are."""
        return self._specifies_names

    # ------------------------------------------------------------------ how it is optimized
    def switch_ir_optim(self, x: bool = True) -> None:
        """Optimize the program, which happens in any case."""
        self._optimizes = bool(x)
        if not x:
            self._without_effect("switch_ir_optim(False)", "plans are optimized in any case")

    def ir_optim(self) -> bool:
        """The last value of `switch_ir_optim`."""
        return self._optimizes

    def switch_ir_debug(self, x: bool = True) -> None:
        """Have Paddle's graphs written, of which there are none."""
        if x:
            self._without_effect("switch_ir_debug", "Executor.explain and `fluidlite-show` show what runs")

    def enable_memory_optim(self) -> None:
        """Reuse the memory of intermediate results, which happens in any case."""

    def pass_builder(self) -> PaddlePassBuilder:
        """A list of Paddle's passes, which can be edited and changes nothing."""
        return PaddlePassBuilder(type(self).__name__)

    def delete_pass(self, name: str) -> None:
        """Take one of Paddle's own passes out, of which there are none."""
        self._without_effect("delete_pass", "Paddle's passes are not here; plans have their own")

    def set_optim_cache_dir(self, path: str) -> None:
        """Keep what is optimized in a folder."""
        self._without_effect("set_optim_cache_dir", "plans are made in memory, and kept in no files")

    def enable_profile(self) -> None:
        """Measure ops while the model runs."""
        self._without_effect("enable_profile", "`with fluidlite.profiler.profiler():` around runs measures")

    def disable_glog_info(self) -> None:
        """Write no log, which happens in any case."""
        self._is_quiet = True

    def glog_info_disabled(self) -> bool:
        """True if `disable_glog_info` was called."""
        return self._is_quiet

    # ------------------------------------------------------------------ engines that are not here
    def enable_mkldnn(self) -> None:
        """Compute by oneDNN, which plans do by themselves where it is faster."""
        self._without_effect("enable_mkldnn", _KERNELS)

    def mkldnn_enabled(self) -> bool:
        """False: which kernels are oneDNN's is not for a switch to say."""
        return False

    def set_mkldnn_cache_capacity(self, capacity: int = 0) -> None:
        """Bound oneDNN's cache of shapes."""
        self._without_effect("set_mkldnn_cache_capacity", _KERNELS)

    def set_mkldnn_op(self, ops: Collection[str]) -> None:
        """Name the ops that oneDNN computes."""
        self._without_effect("set_mkldnn_op", _KERNELS)

    def enable_quantizer(self) -> None:
        """Let oneDNN quantize a model."""
        self._without_effect("enable_quantizer", "the model computes in the precision of its files")

    def quantizer_config(self) -> NoReturn:
        """UnsupportedError: oneDNN's quantizer is not here."""
        self._refused("quantizer_config", "oneDNN's quantizer is not here")

    def enable_tensorrt_engine(
        self,
        workspace_size: int = 1 << 20,
        max_batch_size: int = 1,
        min_subgraph_size: int = 3,
        precision_mode: PrecisionType = PrecisionType.Float32,
        use_static: bool = False,
        use_calib_mode: bool = True,
    ) -> None:
        """Compute parts of the model by TensorRT."""
        self._without_effect(
            "enable_tensorrt_engine", "TensorRT is not here; the model computes in the precision of its files"
        )

    def tensorrt_engine_enabled(self) -> bool:
        """False: TensorRT is not here."""
        return False

    def set_trt_dynamic_shape_info(
        self,
        min_input_shape: Shapes | None = None,
        max_input_shape: Shapes | None = None,
        optim_input_shape: Shapes | None = None,
        disable_trt_plugin_fp16: bool = False,
    ) -> None:
        """Say which shapes TensorRT has to expect."""
        self._without_effect("set_trt_dynamic_shape_info", "TensorRT is not here; inputs may have any shape")

    def enable_lite_engine(
        self,
        precision_mode: PrecisionType = PrecisionType.Float32,
        zero_copy: bool = False,
        passes_filter: Sequence[str] = (),
        ops_filter: Sequence[str] = (),
    ) -> None:
        """Compute parts of the model by Paddle Lite."""
        self._without_effect("enable_lite_engine", "Paddle Lite is not here; the results are the same")

    def lite_engine_enabled(self) -> bool:
        """False: Paddle Lite is not here."""
        return False

    def to_native_config(self) -> NativeConfig:
        """The older configuration of the same files and device."""
        made = NativeConfig()
        made.model_dir, made.prog_file, made.param_file = self._folder, self._program, self._params
        made.use_gpu, made.device = self.use_gpu(), self.gpu_device_id()
        made.specify_input_name = self._specifies_names
        return made


class NativeConfig:
    """The older configuration: its attributes say where a model lies."""

    def __init__(self) -> None:
        self.model_dir = self.prog_file = self.param_file = ""
        self.use_gpu = False
        self.device = 0
        self.fraction_of_gpu_memory = -1.0
        self.specify_input_name = False
        self.threads: int | None = None

    def place(self) -> Place:
        """The place on which the model runs."""
        return CUDAPlace(self.device) if self.use_gpu else CPUPlace()

    def source(self) -> Source:
        """See `AnalysisConfig.source`."""
        if self.model_dir:
            return in_folder(self.model_dir)
        return of_files(self.prog_file, self.param_file)

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """Share the work of a run among that many threads."""
        self.threads = max(1, threads)

    def cpu_math_library_num_threads(self) -> int:
        """The threads of a run."""
        return self.threads or blas_threads()
