"""The checks that operands have the data types that kernels of 1.8.5 demand, one type, or floats, and that
attributes have values that the kernels know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.base import registry
from fluidlite.base.attr_limits import check_limits
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import Op
from fluidlite.ir.fused import check_plain
from fluidlite.ir.operator import Operator

__all__ = ["check_attributes", "check_operand_types", "checked_slots", "class_slot"]


def checked_slots(op: Operator) -> tuple[str, ...]:
    """The input slots of an op whose values have to be of certain data types: in programs of 2.x of one."""
    known = op.definition
    if known is None:
        return ()
    if op.block.program.is_of_2x:
        return known.alike
    labels = class_slot(op, known)
    return tuple(dict.fromkeys((*known.alike, *known.floating, *([labels] if labels else []))))


def class_slot(op: Operator, definition: Op) -> str:
    """The input slot whose labels are numbers of classes, not a probability for each; "" if none is."""
    is_soft = "soft_label" in definition.attr_defs and op.value_for_kernels("soft_label")
    return "" if is_soft else definition.classes


def check_attributes(op: Operator) -> None:
    """KernelError where an attribute has a value that the op's kernels do not know (`Op.only`), ShapeError
    for a value with which the op means nothing (`Attr.limit`): ops of files were never built here.
    """
    check_plain(op)
    if op.definition is None:
        return
    try:
        check_limits(op.type, op.definition.attr_defs, op.attrs)
    except ShapeError as error:
        raise ShapeError(f"{error}\n  {op.call_text()}\n  built at {op.where}") from None
    for name, known in op.definition.only.items():
        found = op.attrs.get(name, known)
        if found != known:
            raise KernelError(
                f"op {op.type!r}: its attribute {name!r} is {found!r}, and only {known!r} is supported\n  "
                f"{op.call_text()}\n  built at {op.where}"
            )


def check_operand_types(op: Operator, found: Iterable[tuple[str, str, Any]]) -> None:
    """KernelError where operands (slot, name, dtype or None) differ in their types, or no kernel has them."""
    definition = registry.get(op.type)
    known = [(slot, name, dtype) for slot, name, dtype in found if dtype is not None]
    _check_alike(op, [(name, dtype) for slot, name, dtype in known if slot in definition.alike])
    labels = class_slot(op, definition)
    for slot, name, dtype in known:
        if slot == labels and dtype.kind == "f":
            hint = ", or set soft_label" if "soft_label" in definition.attr_defs else ""
            raise KernelError(
                f"Tensor holds the wrong type: op {op.type!r} takes class indices, but {name!r} is "
                f"{dtype}; feed int64{hint}\n  {op.call_text()}\n  built at {op.where}"
            )
        # single bytes belong to quantised programs
        is_whole = dtype.kind in "iub" and (dtype.itemsize > 1 or dtype.kind == "b")
        if is_whole and slot in definition.floating:
            raise KernelError(
                f"Operator {op.type} does not have kernel for {dtype}, as which {name!r} comes; cast it to a "
                f"floating-point type (fluid.layers.cast)\n  {op.call_text()}\n  built at {op.where}"
            )


def _check_alike(op: Operator, found: list[tuple[str, Any]]) -> None:
    """KernelError where two operands (name, dtype) differ in their types.

    Half precision is left to `half`, which computes in a wider type on purpose.
    """
    known = [(name, dtype) for name, dtype in found if dtype.itemsize != 2]
    for name, dtype in known[1:]:
        first, expected = known[0]
        if dtype != expected:
            raise KernelError(
                f"Tensor holds the wrong type: op {op.type!r} takes {first!r} as {expected} and {name!r} as "
                f"{dtype}; cast one of them (fluid.layers.cast)\n  {op.call_text()}\n  built at {op.where}"
            )
