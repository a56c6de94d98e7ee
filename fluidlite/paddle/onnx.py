"""`paddle.onnx`: a layer as an ONNX file (extra `[onnx]`)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fluidlite import unique_name
from fluidlite.ir.program import program_guard
from fluidlite.ir.variable import Variable
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.programs import Program
from fluidlite.paddle.static.inputs import InputSpec, data
from fluidlite.saving.onnx.export import OPSET, onnx_model
from fluidlite.values.serialize import replace_file

__all__ = ["export"]

_NAMED = 9  # the opset that 2.6.2 writes without another one; the oldest that is written here is 13


@contextmanager
def _for_inference(layer: Layer) -> Iterator[None]:
    """The layer and those inside with the ops of inference."""
    inside = layer.sublayers(include_self=True)
    before = [each.training for each in inside]
    layer.eval()
    try:
        yield
    finally:
        for each, training in zip(inside, before, strict=True):
            each.training = training


def _fed(spec: Any, number: int) -> Variable:
    """The variable that is fed for one of `input_spec`."""
    if isinstance(spec, Variable):
        spec = InputSpec.from_tensor(spec)
    if not isinstance(spec, InputSpec):
        raise TypeError(
            f"input_spec has InputSpecs or Variables, but its entry {number} is of type {type(spec)}"
        )
    return data(spec.name or f"x{number}", spec.shape, spec.dtype)


def export(
    layer: Layer,
    path: str,
    input_spec: Sequence[Any] | None = None,
    opset_version: int = _NAMED,
    **configs: Any,
) -> None:
    """Write `path`.onnx, which computes what `layer` does for inputs as `input_spec` says. Parameters are
    those of the global scope.

    An `opset_version` of 9, the default of 2.6.2, is the newest that is written without being asked for.
    configs: `output_spec`, those of the outputs that are wanted, and `enable_onnx_checker`.
    """
    if not isinstance(layer, Layer):
        raise TypeError(f"paddle.onnx.export takes a Layer, not {type(layer)}")
    if os.path.basename(path) == "":
        raise ValueError(
            "The input path MUST be format of `dirname/file_prefix`, but the file_prefix received in path is "
            "empty string."
        )
    if input_spec is None:
        raise ValueError("paddle.onnx.export needs input_spec: a program declares what it is fed")
    main = Program()
    with unique_name.guard(), program_guard(main, Program()), _for_inference(layer):
        inputs = [_fed(*pair) for pair in zip(input_spec, itertools.count())]
        outputs = layer(*inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    wanted = configs.get("output_spec")
    names = [var.name for var in outputs]
    if wanted is not None:
        names = (
            [names[place] for place in wanted]
            if all(isinstance(one, int) for one in wanted)
            else [getattr(one, "name", one) for one in wanted]
        )
    opset = OPSET if opset_version == _NAMED else opset_version
    replace_file(
        f"{path}.onnx", [onnx_model(main, [var.name for var in inputs], names, trust=True, opset=opset)]
    )
