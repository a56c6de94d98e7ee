"""Switches of 2.6.2's configurations for engines and devices that are not here, by what they are for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from fluidlite.compat.inference.config import AnalysisConfig, PrecisionType

__all__ = ["EngineSwitches"]

_OWN_PRECISION = "the model computes in the precision of its files"
_KERNELS = "plans choose the kernel of each step themselves, oneDNN's among them"
_TENSORRT = "TensorRT is not here"
_DEVICES = "models run on the CPU or on a CUDA device"


class _TensorRTSwitches(AnalysisConfig):
    """TensorRT computes the same by other kernels: its switches are accepted with a warning."""

    def enable_tensorrt_engine(
        self,
        workspace_size: int = 1 << 30,
        max_batch_size: int = 1,
        min_subgraph_size: int = 3,
        precision_mode: PrecisionType = PrecisionType.Float32,
        use_static: bool = False,
        use_calib_mode: bool = True,
        use_cuda_graph: bool = False,
    ) -> None:
        """Compute parts of the model by TensorRT."""
        self._without_effect("enable_tensorrt_engine", f"{_TENSORRT}; {_OWN_PRECISION}")

    def enable_tensorrt_dla(self, dla_core: int = 0) -> None:
        """Let TensorRT use a DLA core."""
        self._without_effect("enable_tensorrt_dla", _TENSORRT)

    def enable_tensorrt_explicit_quantization(self) -> None:
        """Let TensorRT take scales from the model."""
        self._without_effect("enable_tensorrt_explicit_quantization", f"{_TENSORRT}; {_OWN_PRECISION}")

    def enable_tensorrt_inspector(self, inspector_serialize: bool = False) -> None:
        """Show TensorRT's engines."""
        self._without_effect("enable_tensorrt_inspector", _TENSORRT)

    def enable_tensorrt_memory_optim(
        self, engine_memory_sharing: bool = True, sharing_identifier: int = 0
    ) -> None:
        """Let TensorRT's engines share memory."""
        self._without_effect("enable_tensorrt_memory_optim", _TENSORRT)

    def enable_tensorrt_varseqlen(self) -> None:
        """Let TensorRT take sequences of several lengths."""
        self._without_effect("enable_tensorrt_varseqlen", _TENSORRT)

    def enable_tuned_tensorrt_dynamic_shape(
        self, shape_range_info_path: str = "", allow_build_at_runtime: bool = True
    ) -> None:
        """Give TensorRT a file of shapes."""
        self._without_effect("enable_tuned_tensorrt_dynamic_shape", f"{_TENSORRT}; inputs may have any shape")

    def exp_disable_tensorrt_ops(self, ops: Sequence[str]) -> None:
        """Name ops that TensorRT leaves alone."""
        self._without_effect("exp_disable_tensorrt_ops", _TENSORRT)

    def mark_trt_engine_outputs(self, output_tensor_names: Sequence[str] = ()) -> None:
        """Name tensors that TensorRT's engines give out."""
        self._without_effect("mark_trt_engine_outputs", _TENSORRT)

    def set_tensorrt_optimization_level(self, level: int) -> None:
        """Say how long TensorRT looks for kernels."""
        self._without_effect("set_tensorrt_optimization_level", _TENSORRT)

    def tensorrt_optimization_level(self) -> int:
        """3, Paddle's default."""
        return 3

    def tensorrt_precision_mode(self) -> PrecisionType:
        """Float32, Paddle's default."""
        return PrecisionType.Float32

    def _no_tensorrt(self) -> bool:
        """False: TensorRT is not here."""
        return False

    tensorrt_dla_enabled = tensorrt_dynamic_shape_enabled = tensorrt_inspector_enabled = _no_tensorrt
    tensorrt_explicit_quantization_enabled = tensorrt_varseqlen_enabled = _no_tensorrt
    trt_allow_build_at_runtime = tuned_tensorrt_dynamic_shape = _no_tensorrt

    def collect_shape_range_info(self, path: str) -> NoReturn:
        """UnsupportedError: the file is for TensorRT."""
        self._refused(
            "collect_shape_range_info", f"writes a file of shapes for TensorRT, and {_TENSORRT.lower()}"
        )

    def shape_range_info_collected(self) -> bool:
        """False: no shapes are collected."""
        return False

    def shape_range_info_path(self) -> str:
        """Empty: no shapes are collected."""
        return ""


class _LibrarySwitches(AnalysisConfig):
    """oneDNN, ONNX Runtime, Paddle Lite, DLNNE, CUTLASS: other kernels for the same results, so accepted."""

    def disable_mkldnn(self) -> None:
        """Let plans choose their kernels, which they do in any case."""

    def disable_mkldnn_fc_passes(self) -> None:
        """Let plans choose their kernels, which they do in any case."""

    def enable_mkldnn_bfloat16(self) -> None:
        """Let oneDNN compute in bfloat16."""
        self._without_effect("enable_mkldnn_bfloat16", _OWN_PRECISION)

    def enable_mkldnn_int8(self, mkldnn_int8_enabled_op_types: Collection[str] = ()) -> None:
        """Let oneDNN compute in int8."""
        self._without_effect("enable_mkldnn_int8", _OWN_PRECISION)

    def mkldnn_int8_enabled(self) -> bool:
        """False: a model computes in the precision of its files."""
        return False

    def set_bfloat16_op(self, ops: Collection[str]) -> None:
        """Name the ops that oneDNN computes in bfloat16."""
        self._without_effect("set_bfloat16_op", _OWN_PRECISION)

    def exp_disable_mixed_precision_ops(self, ops: Collection[str]) -> None:
        """Name ops that keep float32 in mixed precision."""
        self._without_effect("exp_disable_mixed_precision_ops", _OWN_PRECISION)

    def exp_enable_mixed_precision_ops(self, ops: Collection[str]) -> None:
        """Name ops that compute in mixed precision."""
        self._without_effect("exp_enable_mixed_precision_ops", _OWN_PRECISION)

    def exp_enable_use_cutlass(self) -> None:
        """Compute by CUTLASS."""
        self._without_effect("exp_enable_use_cutlass", _KERNELS)

    def enable_onnxruntime(self) -> None:
        """Run the model by ONNX Runtime."""
        self._without_effect("enable_onnxruntime", "`fluidlite-run --to-onnx` exports a model")

    def enable_ort_optimization(self) -> None:
        """Let ONNX Runtime optimize."""
        self._without_effect("enable_ort_optimization", "plans are optimized in any case")

    def disable_onnxruntime(self) -> None:
        """Run without ONNX Runtime, which happens in any case."""

    def onnxruntime_enabled(self) -> bool:
        """False: plans run the model."""
        return False

    def enable_dlnne(
        self,
        min_subgraph_size: int = 3,
        max_batch_size: int = 1,
        use_static_batch: bool = False,
        weight_share_mode: str = "0",
        disable_nodes_by_outputs: Collection[str] = (),
        input_shape_dict: Mapping[str, Sequence[int]] | None = None,
        use_calib_mode: bool = False,
        precision_mode: PrecisionType = PrecisionType.Float32,
    ) -> None:
        """Compute parts of the model by DLNNE."""
        self._without_effect("enable_dlnne", f"DLNNE is not here; {_OWN_PRECISION}")

    def nnadapter(self) -> NoReturn:
        """UnsupportedError: Paddle Lite's devices are not here."""
        self._refused("nnadapter", f"Paddle Lite's devices are not here: {_DEVICES}")


class _DeviceSwitches(AnalysisConfig):
    """XPU, IPU and other devices, and jobs of several processes: refused, as nothing would run there."""

    def enable_xpu(
        self,
        l3_size: int = 1 << 24,
        l3_locked: bool = False,
        conv_autotune: bool = False,
        conv_autotune_file: str = "",
        transformer_encoder_precision: str = "int16",
        transformer_encoder_adaptive_seqlen: bool = False,
        enable_multi_stream: bool = False,
    ) -> NoReturn:
        """UnsupportedError: there are no XPUs."""
        self._refused("enable_xpu", _DEVICES)

    def set_xpu_config(self, config: Any) -> NoReturn:
        """UnsupportedError: there are no XPUs."""
        self._refused("set_xpu_config", _DEVICES)

    def set_xpu_device_id(self, device_id: int = 0) -> NoReturn:
        """UnsupportedError: there are no XPUs."""
        self._refused("set_xpu_device_id", _DEVICES)

    def xpu_config(self) -> NoReturn:
        """UnsupportedError: there are no XPUs."""
        self._refused("xpu_config", _DEVICES)

    def xpu_device_id(self) -> int:
        """0: there are no XPUs."""
        return 0

    def use_xpu(self) -> bool:
        """False: there are no XPUs."""
        return False

    def enable_custom_device(
        self, device_type: str, device_id: int = 0, precision: PrecisionType = PrecisionType.Float32
    ) -> NoReturn:
        """UnsupportedError: there are no custom devices."""
        self._refused("enable_custom_device", f"there is no device {device_type!r}: {_DEVICES}")

    def enable_opencl(self) -> NoReturn:
        """UnsupportedError: OpenCL is not here."""
        self._refused("enable_opencl", _DEVICES)

    def use_opencl(self) -> bool:
        """False: OpenCL is not here."""
        return False

    def enable_ipu(
        self,
        ipu_device_num: int = 1,
        ipu_micro_batch_size: int = 1,
        ipu_enable_pipelining: bool = False,
        ipu_batches_per_step: int = 1,
    ) -> NoReturn:
        """UnsupportedError: there are no IPUs."""
        self._refused("enable_ipu", _DEVICES)

    def load_ipu_config(self, config_path: str) -> NoReturn:
        """UnsupportedError: there are no IPUs."""
        self._refused("load_ipu_config", _DEVICES)

    def set_ipu_config(
        self,
        ipu_enable_fp16: bool = False,
        ipu_replica_num: int = 1,
        ipu_available_memory_proportion: float = 1.0,
        ipu_enable_half_partial: bool = False,
        ipu_enable_model_runtime_executor: bool = False,
    ) -> NoReturn:
        """UnsupportedError: there are no IPUs."""
        self._refused("set_ipu_config", _DEVICES)

    def set_ipu_custom_info(
        self,
        ipu_custom_ops_info: Sequence[Sequence[str]] = (),
        ipu_custom_patterns: Mapping[str, bool] | None = None,
    ) -> NoReturn:
        """UnsupportedError: there are no IPUs."""
        self._refused("set_ipu_custom_info", _DEVICES)

    def dist_config(self) -> NoReturn:
        """UnsupportedError: a predictor runs in one process."""
        self._refused("dist_config", "a predictor runs in one process")

    def set_dist_config(self, config: Any) -> NoReturn:
        """UnsupportedError: a predictor runs in one process."""
        self._refused("set_dist_config", "a predictor runs in one process")


class EngineSwitches(_TensorRTSwitches, _LibrarySwitches, _DeviceSwitches):
    """All switches of engines and devices."""
