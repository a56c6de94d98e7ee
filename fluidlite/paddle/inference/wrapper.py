"""`paddle.inference.wrapper`: a saved model in float32 as one that computes in half precision."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.place import CPUPlace
from fluidlite.compat.inference.config import PrecisionType
from fluidlite.compat.inference.sources import of_files
from fluidlite.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.ir.proto import serialize_program
from fluidlite.paddle.inference.kinds import PlaceType
from fluidlite.paddle.static.amp.fp16_lists import CustomOpLists
from fluidlite.paddle.static.amp.fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16
from fluidlite.saving.inference import load_inference_model
from fluidlite.saving.variables import combined_bytes, get_program_persistable_vars, is_persistable, values_of
from fluidlite.values.scope import Scope, scope_guard
from fluidlite.values.serialize import replace_file

__all__ = ["convert_to_mixed_precision"]

_HALVES = {PrecisionType.Half: VarType.FP16, PrecisionType.Bfloat16: VarType.BF16}


def convert_to_mixed_precision(
    model_file: str,
    params_file: str,
    mixed_model_file: str,
    mixed_params_file: str,
    mixed_precision: PrecisionType,
    backend: PlaceType,
    keep_io_types: bool = True,
    black_list: Collection[str] = (),
    **kwargs: Any,
) -> None:
    """Write a model that computes in half precision, with weights of half the size.

    Inputs and outputs keep their dtypes; `keep_io_types=False` is a ValueError. Ops of `black_list` compute
    in float32, those of the keyword `white_list` in half precision. `backend` is taken as it is: the file
    runs on every place, on the CPU slower than in float32.
    """
    precision = PrecisionType(mixed_precision)
    if precision not in _HALVES:
        raise ValueError(
            f"mixed_precision is PrecisionType.Half or PrecisionType.Bfloat16, and not {precision}"
        )
    PlaceType(backend)
    if not keep_io_types:
        raise ValueError(
            "convert_to_mixed_precision keeps the dtypes of inputs and outputs: keep_io_types=True"
        )
    half = _HALVES[precision]
    lists = CustomOpLists(set(kwargs.get("white_list") or ()) or None, set(black_list) or None, dtype=half)
    with scope_guard(Scope()):
        found = load_inference_model(*_named(of_files(model_file, params_file)))
        program: Program = found[0]
        names = _halved(program, lists, half)
        cast_parameters_to_fp16(CPUPlace(), program, to_fp16_var_names=names, dest_type=half)
        values = values_of(get_program_persistable_vars(program))
        for path, pieces in (
            (mixed_model_file, [serialize_program(program)]),
            (mixed_params_file, list(combined_bytes(values))),
        ):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            replace_file(path, pieces)


def _named(source: Any) -> tuple[Any, Executor, Any, Any]:
    folder, program, params = source
    return folder, Executor(CPUPlace()), program, params


def _halved(program: Program, lists: AutoMixedPrecisionLists, half: VarType) -> set[str]:
    """Rewrite a program to half precision; the names of the weights that it wants so."""
    block = program.global_block()
    kept = filter(is_persistable, list(block.vars.values()))
    weights = [var for var in kept if var.dtype == VarType.FP32]
    for var in weights:
        block.create_parameter(name=var.name, shape=var.shape, dtype=var.dtype)
    return cast_model_to_fp16(program, lists, use_fp16_guard=False, dest_type=half, level="O1")
