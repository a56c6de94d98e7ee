"""Half precision: the one place that decides how it is computed.

NumPy stores float16, but computes in it element by element and has no BLAS for it (a product of two matrices
of 256 x 256 takes 75 times as long as in float32), and it has no bfloat16 at all. So on the host an op of
half precision computes in float32: its inputs are widened, its kernel runs, and the outputs that are declared
to be of half precision are rounded. A GPU does the same inside of a product or a sum.

bfloat16 is float32 with 16 bits cut off. Its values are held in float32 arrays and rounded after each op,
which saves no memory. On a device, float16 is left to CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import EMPTY_VAR, WithLod
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.tensor import SelectedRows

__all__ = ["HALVES", "HalfCode", "as_bfloat16", "as_float16", "computes_in_single", "has_half", "in_single"]

_LEAST_NORMAL = np.float32(2.0**-14)


class HalfCode(Protocol):
    """Conversions that are faster than NumPy's; None where it has to do one."""

    def widen(self, value: Array) -> Array | None:
        """A float16 array as float32."""

    def round(self, value: Array) -> Array | None:
        """A float32 array as float16."""


class _Halves:
    """The way in which this process converts: `executor/fast/loops/halves.py` puts code in."""

    code: HalfCode | None = None

    def widen(self, value: Array) -> Array:
        """A float16 array as float32."""
        found = None if self.code is None else self.code.widen(value)
        return value.astype(np.float32) if found is None else found

    def round(self, value: Array) -> Array:
        """A float32 array as float16."""
        found = None if self.code is None else self.code.round(value)
        return _rounded_by_numpy(value) if found is None else found


HALVES = _Halves()


def has_half(program: Program) -> bool:
    """True if a program has variables of half precision: without, no op has to be asked."""
    every = (var for block in program.blocks for var in block.vars.values())
    return any(var._dtype in (VarType.FP16, VarType.BF16) for var in every)


def computes_in_single(op: Operator) -> bool:
    """True if an op has variables of half precision, and computes with them."""
    # what only moves elements needs no rounding; gradients that are views of a buffer stay such views
    if op.definition is not None and op.definition.moves:
        return False
    names = (*op.input_arg_names, *op.output_arg_names)
    return any(_dtype(op, name) in (VarType.FP16, VarType.BF16) for name in names)


def _dtype(op: Operator, name: str) -> VarType | None:
    var = None if name == EMPTY_VAR else op.block._find_var_recursive(name)
    return None if var is None else var._dtype


def in_single(op: Operator, function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel `function` of `op`, computing in float32 where that is of half precision."""
    definition = op.definition
    if definition is None or not computes_in_single(op):
        return function
    dtypes = {slot: [_dtype(op, name) for name in names] for slot, names in op.outputs.items()}

    def computed(**arguments: Any) -> dict[str, Any]:
        returned = function(**{name: _widened(value) for name, value in arguments.items()})
        return {
            slot: _rounded_slot(value, dtypes.get(slot, []))
            for slot, value in definition.by_slot(returned).items()
        }

    return computed


def _widened(value: Any) -> Any:
    """A float16 array, or those in a list or in rows of a gradient, as float32; anything else as it is."""
    if isinstance(value, np.ndarray):
        return HALVES.widen(value) if value.dtype == np.float16 else value
    if isinstance(value, SelectedRows):
        return SelectedRows(value.ids, value.height(), _widened(value.array))
    return [_widened(item) for item in value] if isinstance(value, list) else value


def _rounded_slot(value: Any, dtypes: list[VarType | None]) -> Any:
    if isinstance(value, list):
        return [_rounded(item, dtype) for item, dtype in zip(value, dtypes, strict=False)]
    return _rounded(value, dtypes[0] if dtypes else None)


def _rounded(value: Any, dtype: VarType | None) -> Any:
    """An output as its variable's type has it."""
    if isinstance(value, WithLod):
        return WithLod(_rounded(value.value, dtype), value.lod)
    if isinstance(value, SelectedRows):
        return SelectedRows(value.ids, value.height(), _rounded(value.array, dtype))
    if getattr(value, "dtype", None) != np.float32:
        return value
    if dtype == VarType.FP16:
        return as_float16(value)
    return as_bfloat16(value) if dtype == VarType.BF16 else value


def as_float16(value: Any) -> Any:
    """A float32 array rounded to the nearest numbers of float16, ties to even; beyond 65504 is infinity."""
    return HALVES.round(value)


def _rounded_by_numpy(value: Any) -> Any:
    size = np.abs(value)
    small = (size < _LEAST_NORMAL) & (size > 0)
    with np.errstate(over="ignore"):  # the scale of the loss watches for infinity
        if not small.any():
            return value.astype(np.float16)
        # NumPy takes 80 ns for a number below the least normal one, of which gradients have many, and 1.5 ns
        # for any other: beside 0.5 the last bit of a float32 is worth that of these
        rounded = np.where(small, np.float32(0), value).astype(np.float16)
    steps = (size + np.float32(0.5)).view(np.uint32) - np.uint32(0x3F000000)
    signs = np.signbit(value).astype(np.uint16) << np.uint16(15)
    np.copyto(rounded.view(np.uint16), steps.astype(np.uint16) | signs, where=small)
    return rounded


def as_bfloat16(value: Any) -> Any:
    """A float32 array rounded to the nearest numbers of bfloat16, ties to even, in a new float32 array."""
    bits = value.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    # adding may carry a NaN over into infinity or zero
    return np.where(value == value, rounded.astype(np.uint32).view(np.float32), value)
