"""Weights of a saved model as integers of 8 or 16 bits: smaller files, for engines that scale them back."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite import io
from fluidlite.base.place import CPUPlace
from fluidlite.contrib.slim.quantization.edits import levels, load, store
from fluidlite.contrib.slim.quantization.thresholds import tail_threshold
from fluidlite.executor.executor import Executor, scope_guard
from fluidlite.framework import Operator
from fluidlite.values.scope import Scope

__all__ = ["WeightQuantization"]

# the dimension of a weight that counts its output channels
CHANNELS = {"conv2d": 0, "depthwise_conv2d": 0, "mul": 1}


class WeightQuantization:
    """Makes the weights of a saved model integers.

    Parameters
    ----------
    model_dir, model_filename, params_filename: the model, as `fluid.io.save_inference_model` left it.
    """

    _supported_quantizable_op_type = tuple(CHANNELS)
    _supported_weight_quantize_type = ("channel_wise_abs_max", "abs_max")

    def __init__(
        self, model_dir: str, model_filename: str | None = None, params_filename: str | None = None
    ) -> None:
        self._model = (model_dir, model_filename, params_filename)

    def quantize_weight_to_int(
        self,
        save_model_dir: str,
        save_model_filename: str | None = None,
        save_params_filename: str | None = None,
        quantizable_op_type: Sequence[str] = ("conv2d", "mul"),
        weight_bits: int = 8,
        weight_quantize_type: str = "channel_wise_abs_max",
        generate_test_model: bool = False,
        threshold_rate: float = 0.0,
    ) -> None:
        """Save the model with integer weights, as `quantized_model` in the folder.

        With `generate_test_model` there is one with the real numbers that they stand for, too: `test_model`.
        A scale is the largest magnitude of a channel or, with `abs_max`, of the weight, where a share of
        `threshold_rate` of its numbers is not looked at, over the largest integer. Ops keep theirs in the
        attribute `<weight>_quant_scale`.
        """
        for op_type in quantizable_op_type:
            assert op_type in CHANNELS, f"Input error:{op_type} is not supported for weight quantization."
        assert weight_bits in (8, 16), "Input error: weight_bits should be 8 or 16."
        kinds = list(self._supported_weight_quantize_type)
        assert weight_quantize_type in kinds, f"Input error: weight_quantize_type should in {kinds}"
        rounding = _Rounding(tuple(quantizable_op_type), weight_bits, weight_quantize_type, threshold_rate)
        for name, real in (("quantized_model", False), ("test_model", True))[: 1 + generate_test_model]:
            folder = pathlib.Path(save_model_dir) / name
            self._save(rounding, real, str(folder), save_model_filename, save_params_filename)

    def _save(
        self, rounding: _Rounding, real: bool, folder: str, model: str | None, params: str | None
    ) -> None:
        executor, scope = Executor(CPUPlace()), Scope()
        directory, model_filename, params_filename = self._model
        with scope_guard(scope):
            program, feeds, fetches = io.load_inference_model(
                directory, executor, model_filename, params_filename
            )
            block = program.global_block()
            for op in block.ops:
                if op.type in rounding.op_types:
                    for name in op.input_arg_names:
                        if block.var(name).persistable:
                            rounding.apply(op, name, scope, real)
            io.save_inference_model(
                folder, feeds, fetches, executor, program, model_filename=model, params_filename=params
            )


class _Rounding:
    """A way of rounding weights."""

    def __init__(self, op_types: tuple[str, ...], bits: int, kind: str, threshold_rate: float) -> None:
        self.op_types, self.bits, self.kind = op_types, bits, kind
        self.threshold_rate = threshold_rate

    def apply(self, op: Operator, name: str, scope: Any, real: bool) -> None:
        """Round the weight `name` of an op in the scope: to integers, or to the real numbers of these."""
        weight = load(scope, name)
        scales = self._scales(op.type, weight)
        most = levels(self.bits)
        rounded = np.clip(np.around(weight / scales), -most, most)
        value = rounded * scales if real else rounded
        store(scope, CPUPlace(), name, value.astype(weight.dtype if real else f"int{self.bits}"))
        op._set_attr("quantization_type", f"post_weight_{self.kind}")
        op._set_attr("quantize_weight_bits", self.bits)
        op._set_attr(f"{name}_quant_scale", [float(scale) for scale in np.ravel(scales)])

    def _scales(self, op_type: str, weight: Any) -> Any:
        """The scale, or a scale for each channel, in a shape that the weight can be divided by."""
        if self.kind == "channel_wise_abs_max":
            others = tuple(axis for axis in range(weight.ndim) if axis != CHANNELS[op_type])
            return np.abs(weight).max(axis=others, keepdims=True) / levels(self.bits)
        largest = np.abs(weight).max()
        if self.threshold_rate > 1e-10:
            largest = tail_threshold(weight, self.threshold_rate)
        return np.asarray(largest / levels(self.bits), weight.dtype)
