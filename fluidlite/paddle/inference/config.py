"""`paddle.inference.Config`: which model is run, where, and how."""

from __future__ import annotations

from typing import Any

from fluidlite.compat.inference.config import PrecisionType
from fluidlite.paddle.inference.engines import EngineSwitches

__all__ = ["Config"]

_RULE = "-" * 60


class Config(EngineSwitches):
    """The files of a model, its device, and switches: `AnalysisConfig` with all that 2.6.2 has.

    Config(folder), Config("path/of/model") for `model.pdmodel` and `model.pdiparams`, or Config(file of the
    program, file of the parameters); `set_model_buffer` takes their bytes. A configuration may be used again.
    """

    Bfloat16 = PrecisionType.Bfloat16

    def __init__(self, model_dir_or_prog_file: str | Config = "", params_file: str | None = None) -> None:
        super().__init__(model_dir_or_prog_file, params_file)
        if not isinstance(model_dir_or_prog_file, Config):
            self._uses_feed_ops = False

    def enable_use_gpu(
        self,
        memory_pool_init_size_mb: int,
        device_id: int = 0,
        precision_mode: PrecisionType = PrecisionType.Float32,
    ) -> None:
        """Run on a CUDA device, in the precision of the model's files. Without a device it stays the CPU."""
        super().enable_use_gpu(memory_pool_init_size_mb, device_id)
        if precision_mode != PrecisionType.Float32:
            self._without_effect(
                f"enable_use_gpu(precision_mode={PrecisionType(precision_mode)})",
                "the model computes in the precision of its files",
            )

    def enable_memory_optim(self, x: bool = True) -> None:
        """Reuse the memory of intermediate results, which happens in any case."""
        if not x:
            self._without_effect("enable_memory_optim(False)", "buffers are shared in any case")

    def enable_new_executor(self, x: bool = True) -> None:
        """Note which of Paddle's executors should run; plans do."""

    def enable_low_precision_io(self, x: bool = True) -> None:
        """UnsupportedError if `x`: inputs and outputs have the dtypes that the model's files say."""
        if x:
            self._refused(
                "enable_low_precision_io", "inputs and outputs have the dtypes that the model's files say"
            )

    def enable_save_optim_model(self, save_optimized_model: bool = False) -> None:
        """UnsupportedError if asked for: there is no optimized program, but a plan."""
        if save_optimized_model:
            self._refused("enable_save_optim_model", "plans are made in memory, and kept in no files")

    def summary(self) -> str:
        """The files, the place and the switches that count, as a table."""
        files: list[tuple[str, Any]] = [
            ("model_dir", self.model_dir()),
            ("model_file", self.prog_file()),
            ("params_file", self.params_file()),
            ("model_from_memory", self.model_from_memory()),
        ]
        runs: list[tuple[str, Any]] = [
            ("use_gpu", self.use_gpu()),
            ("gpu_device_id", self.gpu_device_id()),
            ("cpu_math_thread", self.cpu_math_library_num_threads()),
            ("ir_optim", True),
            ("memory_optim", True),
        ]
        parts = ["\n".join(f"{name:20} {value}" for name, value in part) for part in (files, runs)]
        return f"\n{_RULE}\n".join(["", *parts, ""])
