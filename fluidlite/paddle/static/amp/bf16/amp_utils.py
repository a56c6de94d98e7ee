"""bfloat16 under the names that 2.x has for that: guards, casts of programs and of values."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.place import Place
from fluidlite.contrib.mixed_precision.fp16_utils import rewrite_program
from fluidlite.ir.program import Program
from fluidlite.paddle.static.amp.bf16.amp_lists import AutoMixedPrecisionListsBF16
from fluidlite.paddle.static.amp.fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16, fp16_guard
from fluidlite.values.scope import Scope

__all__ = [
    "bf16_guard",
    "cast_model_to_bf16",
    "cast_parameters_to_bf16",
    "convert_float_to_uint16",
    "rewrite_program_bf16",
]


def bf16_guard() -> AbstractContextManager[None]:
    """Ops that are written inside compute in bfloat16 where the guard is asked for."""
    return fp16_guard()


def rewrite_program_bf16(main_prog: Program, amp_lists: AutoMixedPrecisionListsBF16 | None = None) -> None:
    """Cast the inputs of each op to the precision that the lists give it."""
    rewrite_program(
        main_prog, AutoMixedPrecisionListsBF16() if amp_lists is None else amp_lists, VarType.BF16
    )


def cast_model_to_bf16(
    program: Program,
    startup_prog: Program | None = None,
    amp_lists: AutoMixedPrecisionListsBF16 | None = None,
    use_bf16_guard: bool = True,
) -> set[str]:
    """Rewrite a program in place to bfloat16; gives the names of the parameters that it wants so.

    `startup_prog` stays as it is: `cast_parameters_to_bf16` rounds what it has made.
    """
    lists = AutoMixedPrecisionListsBF16() if amp_lists is None else amp_lists
    return cast_model_to_fp16(program, lists, use_bf16_guard, VarType.BF16)


def cast_parameters_to_bf16(
    place: Place | None,
    program: Program,
    scope: Scope | None = None,
    to_bf16_var_names: Iterable[str] | None = None,
) -> None:
    """Round the values of parameters to bfloat16: those that `cast_model_to_bf16` names, or all."""
    cast_parameters_to_fp16(place, program, scope, to_bf16_var_names, VarType.BF16)


def convert_float_to_uint16(in_list: Any) -> Any:
    """The upper 16 bits of each number as float32: bfloat16 without rounding, as uint16."""
    return (np.ascontiguousarray(in_list, np.float32).view(np.uint32) >> 16).astype(np.uint16)
