"""Names of `paddle.inference` that steer or describe engines which are not here."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fluidlite.ir.warned import warn_user
from fluidlite.paddle import __version__
from fluidlite.paddle.inference.config import Config

__all__ = ["InternalUtils", "XpuConfig", "get_trt_compile_version", "get_trt_runtime_version", "get_version"]


class InternalUtils:
    """Switches of TensorRT that 2.x keeps apart; they change nothing."""

    @staticmethod
    def disable_tensorrt_half_ops(config: Config, ops: Collection[str]) -> None:
        """Name the ops that TensorRT computes in float32."""
        _without_effect("disable_tensorrt_half_ops")

    @staticmethod
    def set_transformer_maskid(config: Config, name: str) -> None:
        """Name the input that masks."""
        _without_effect("set_transformer_maskid")

    @staticmethod
    def set_transformer_posid(config: Config, name: str) -> None:
        """Name the input of positions."""
        _without_effect("set_transformer_posid")


def _without_effect(switch: str) -> None:
    warn_user(f"InternalUtils.{switch} changes nothing here: TensorRT is not here")


class XpuConfig:
    """The fields that describe an XPU. `Config.set_xpu_config` refuses it, since models run on the CPU or
    on a CUDA device.
    """

    def __init__(self) -> None:
        self.context: Any = None
        self.context_gm_size = -1
        self.conv_autotune_file = ""
        self.conv_autotune_file_writeback = False
        self.conv_autotune_level = 0
        self.device_id = 0
        self.fc_autotune_file = ""
        self.fc_autotune_file_writeback = False
        self.fc_autotune_level = 0
        self.gemm_compute_precision = 1
        self.l3_autotune_size = 0
        self.l3_ptr: Any = None
        self.l3_size = 0
        self.quant_post_dynamic_activation_method = 0
        self.quant_post_dynamic_op_types: list[str] = []
        self.quant_post_dynamic_weight_precision = 1
        self.quant_post_static_gelu_out_threshold = 10.0
        self.stream: Any = None
        self.transformer_encoder_adaptive_seqlen = True
        self.transformer_softmax_optimize_level = 0


def get_version() -> str:
    """The version of 2.x whose interface this is, in a line that says so."""
    return f"version: {__version__}\n"


def get_trt_compile_version() -> tuple[int, int, int]:
    """Zeros: nothing was compiled for TensorRT."""
    return 0, 0, 0


def get_trt_runtime_version() -> tuple[int, int, int]:
    """Zeros: TensorRT is not here."""
    return 0, 0, 0
