"""Programs that compute in half precision with parameters of half precision too: for inference."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.base.place import Place
from fluidlite.contrib.mixed_precision import fp16_lists as of_fluid
from fluidlite.contrib.mixed_precision.fp16_utils import rewrite_program
from fluidlite.framework import name_scope
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program
from fluidlite.paddle.static.amp.fp16_lists import CustomOpLists, half_of, with_the_rest_in_half
from fluidlite.values.scope import Scope, global_scope

__all__ = ["GUARD", "cast_model_to_fp16", "cast_parameters_to_fp16", "fp16_guard"]

GUARD = "__use_fp16__"  # 2.6.2's name scope: its programs keep the guard when they are saved


def fp16_guard() -> AbstractContextManager[None]:
    """Ops that are written inside compute in half precision where the guard is asked for."""
    return name_scope(GUARD)


def cast_model_to_fp16(
    program: Program,
    amp_lists: of_fluid.AutoMixedPrecisionLists | None = None,
    use_fp16_guard: bool = True,
    dest_type: DTypeLike = VarType.FP16,
    level: str = "O2",
    use_promote: bool = False,
) -> set[str]:
    """Rewrite a program in place to half precision; gives the names of the parameters that it wants so.

    use_fp16_guard: only ops written under `fp16_guard` change.
    level: "O1" casts the white list's ops, "O2" all but the black list's.
    use_promote: must be False; a gray op takes its inputs' precision.
    """
    half = half_of(dest_type)
    lists = CustomOpLists(dtype=half) if amp_lists is None else amp_lists
    need_level(level, use_promote)
    if level == "O2":
        lists = with_the_rest_in_half(lists)
    rewrite_program(program, lists, half, GUARD if use_fp16_guard else "")
    return _halve_parameters(program.global_block(), half)


def need_level(level: str, use_promote: bool = False) -> None:
    """ValueError unless the level is "O1" or "O2", and nothing is promoted."""
    if level not in ("O1", "O2"):
        raise ValueError(f"level must be 'O1' or 'O2', not {level!r}")
    if use_promote:
        raise ValueError("use_promote must be False: a gray op computes in the precision of its inputs")


def _halve_parameters(block: Block, half: VarType) -> set[str]:
    """Declare those parameters of half precision that are read through casts alone, and drop the casts."""
    names = set()
    for param in block.program.all_parameters():
        readers = [op for op in block.ops if param.name in op.input_arg_names]
        casts = [op for op in readers if op.type == "cast" and op.attr("out_dtype") == int(half)]
        if not readers or len(casts) != len(readers):
            continue
        for cast in casts:
            copy = cast.output("Out")[0]
            for op in block.ops:
                op._rename_input(copy, param.name)
        block.set_ops([op for op in block.ops if all(op is not cast for cast in casts)])
        param.dtype = half
        names.add(param.name)
    return names


def cast_parameters_to_fp16(
    place: Place | None,
    program: Program,
    scope: Scope | None = None,
    to_fp16_var_names: Iterable[str] | None = None,
    dest_type: DTypeLike = VarType.FP16,
    rewrite_master_weight: bool = False,
    master_weights: Any = None,
) -> None:
    """Round the values of parameters to half precision: those that `cast_model_to_fp16` names, or all.

    `rewrite_master_weight` must be False: there is one copy of each parameter.
    """
    if rewrite_master_weight or master_weights:
        raise ValueError("cast_parameters_to_fp16() keeps no master weights: a parameter has one copy")
    half = half_of(dest_type)
    every = [param.name for param in program.all_parameters()]
    where = global_scope() if scope is None else scope
    for name in every if to_fp16_var_names is None else sorted(set(to_fp16_var_names) & set(every)):
        held = where.find_var(name)
        if held is None:
            raise ValueError(f"parameter {name!r} has no value: run the startup program first")
        tensor = held.get_tensor()
        tensor.set(_rounded(np.array(tensor), half), place)


def _rounded(values: Any, half: VarType) -> Any:
    if half == VarType.FP16:
        return values.astype(np.float16)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    # to the nearest, halves to even; bfloat16 is held in float32, whose lower 16 bits are then zero
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
