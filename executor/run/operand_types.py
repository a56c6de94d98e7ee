"""The check that the operands of one op have one data type, as kernels of 1.8.5 demand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.base.errors import KernelError
from fluidlite.ir.operator import Operator

__all__ = ["check_operand_types", "slots_of_one_type"]

# with operands of several types NumPy would compute in a third one, which no variable declares
_PAIRS = ("add", "div", "floordiv", "max", "min", "mod", "mul", "pow", "sub")
_ONE_TYPE = (
    *(f"elementwise_{name}" for name in _PAIRS),
    *("equal", "greater_equal", "greater_than", "less_equal", "less_than", "not_equal"),
    *("logical_and", "logical_or", "logical_xor", "matmul", "mul", "concat", "stack", "sum"),
)
_CONVOLUTIONS = (
    *("conv2d", "depthwise_conv2d", "conv3d"),
    *("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose"),
)
_OPERANDS = {**dict.fromkeys(_ONE_TYPE, ("X", "Y")), **dict.fromkeys(_CONVOLUTIONS, ("Input", "Filter"))}


def slots_of_one_type(op: Operator) -> tuple[str, ...]:
    """The input slots of an op of fluid whose values have to be of one data type."""
    return () if op.block.program.is_of_2x else _OPERANDS.get(op.type, ())


def check_operand_types(op: Operator, found: Iterable[tuple[str, Any]]) -> None:
    """KernelError where two of the operands (name, dtype or None) of an op differ in their types.

    Half precision is left to `half`, which computes in a wider type on purpose.
    """
    known = [(name, dtype) for name, dtype in found if dtype is not None and dtype.itemsize != 2]
    for name, dtype in known[1:]:
        first, expected = known[0]
        if dtype != expected:
            raise KernelError(
                f"Tensor holds the wrong type: op {op.type!r} takes {first!r} as {expected} and {name!r} as "
                f"{dtype}; cast one of them (fluid.layers.cast)\n  {op.call_text()}\n  built at {op.where}"
            )
