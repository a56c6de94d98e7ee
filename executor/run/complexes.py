"""Complex numbers: ops of them run by their portable kernels, and gradients follow one convention.

The gradient of a real loss L by z = a + ib is dL/da + i dL/db. A function with a complex derivative passes on
the gradient that comes in times the conjugate of that derivative. Kernels multiply by the derivative, as for
real numbers: they are given the conjugate of what comes in, and what they return is conjugated. Kernels of
functions that have none (`real`, `abs`, ...) keep to the convention by themselves (`Op.of_complex`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program

__all__ = ["has_complex", "is_complex", "with_conjugates"]

_COMPLEX = (VarType.COMPLEX64, VarType.COMPLEX128)


def has_complex(program: Program) -> bool:
    """True if a program has complex variables: without, no op has to be asked."""
    every = (var for block in program.blocks for var in block.vars.values())
    return any(var._dtype in _COMPLEX for var in every)


def is_complex(op: Operator) -> bool:
    """True if an op reads or writes complex variables."""
    for name in (*op.input_arg_names, *op.output_arg_names):
        var = None if name == EMPTY_VAR else op.block._find_var_recursive(name)
        if var is not None and var._dtype in _COMPLEX:
            return True
    return False


def with_conjugates(op: Operator, function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel `function` of `op`, which keeps to the convention where it is that of a complex gradient."""
    definition = op.definition
    if definition is None or definition.of_complex:
        return function
    arguments = definition.arguments["kernel"]
    incoming = [name for name, kind, key in arguments if kind == "in" and key.endswith(GRAD_SUFFIX)]
    if not incoming or not is_complex(op):
        return function

    def conjugated(**given: Any) -> dict[str, Any]:
        returned = function(
            **{name: _turned(value) if name in incoming else value for name, value in given.items()}
        )
        return {slot: _turned(value) for slot, value in definition.by_slot(returned).items()}

    return conjugated


def _turned(value: Any) -> Any:
    """The conjugate of a complex array, or of those in a list; anything else as it is."""
    if isinstance(value, list):
        return [_turned(item) for item in value]
    return np.conj(value) if getattr(value, "dtype", np.dtype("float32")).kind == "c" else value
