"""Errors of a run with the op, the shapes that it ran with and the user's line, where they lack them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fluidlite.base.dtypes import to_vartype
from fluidlite.base.errors import CommunicatorError, FluidError
from fluidlite.base.registry import Spec
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable

__all__ = ["failure", "locate", "specs_at"]

_TRIPPED = (FluidError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def locate(error: FluidError, op: Operator) -> None:
    """Add the op and the user's line to the text of an error that says neither."""
    text = str(error)
    if "built at" in text or (isinstance(error, CommunicatorError) and error.names_op):
        return
    named = text if f"'{op.type}'" in text else f"op {op.type!r}: {text}"
    error.args = (f"{named}\n  {op.call_text()}\n  built at {op.where}", *error.args[1:])


def failure(error: Exception, op: Operator, found: Mapping[str, Sequence[Any]]) -> str:
    """The message for an exception inside a kernel: op, shapes found, the user's line.

    found: the values of each input slot, or what is known of them: `shape` and `dtype` are read.
    """
    # kernels raise ValueError where they know what is wrong; other classes tell something themselves
    text = str(error) if type(error) is ValueError else f"{error} ({type(error).__name__})"
    reason = _unlike_rows(op, found) or (_zeros(op) if isinstance(error, ZeroDivisionError) else "")
    text = f"{reason}: {text}" if reason else text
    shapes = ", ".join(f"{slot}={' '.join(map(_shown, values))}" for slot, values in found.items() if values)
    ran = f"\n  ran with {shapes}" if shapes else ""
    return f"op {op.type!r}: {text}\n  {op.call_text()}{ran}\n  built at {op.where}"


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{value.dtype}{list(shape)}"


def _unlike_rows(op: Operator, found: Mapping[str, Sequence[Any]]) -> str:
    """The inputs that have a row for each sample, and not as many rows: labels that lack one, for example."""
    counts: dict[int, str] = {}
    for slot, names in op.inputs.items():
        for name, value in zip(names, found.get(slot, ()), strict=False):
            var = op.block._find_var_recursive(name)
            shape = getattr(value, "shape", None)
            if shape and var is not None and var.shape[:1] == (-1,) and not var.lod_level:
                counts.setdefault(shape[0], f"{slot} ({name})")
    if len(counts) < 2:
        return ""
    (one, first), (other, second), *_ = counts.items()
    return f"{first} has {_rows(one)}, but {second} has {_rows(other)}"


def _zeros(op: Operator) -> str:
    """The attributes that are 0, where an op divides by one."""
    zeros = [name for name, value in op.attrs.items() if isinstance(value, float) and value == 0]
    return ", ".join(f"attribute {name!r} is 0" for name in zeros)


def _rows(count: int) -> str:
    return f"{count} row{'s' if count != 1 else ''}"


def specs_at(op: Operator, fed: Mapping[str, Any]) -> dict[str, list[Spec | None]]:
    """Specs of an op's inputs for these feeds, as far as the shape rules of the ops before it can tell."""
    specs = {name: _fed(op.block._find_var_recursive(name), value) for name, value in fed.items()}

    def spec(name: str) -> Spec | None:
        var = op.block._find_var_recursive(name)
        return specs.get(name) or (None if var is None else var.spec)

    for each in op.block.ops:
        inputs = {slot: [spec(name) for name in names] for slot, names in each.inputs.items()}
        if each is op:
            return inputs
        specs.update(_results(each, inputs))
    return {}


def _fed(var: Variable | None, value: Any) -> Spec | None:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if var is None or shape is None or dtype is None:
        return None
    return var.spec._replace(shape=tuple(shape), dtype=to_vartype(dtype))


def _results(op: Operator, inputs: Mapping[str, list[Spec | None]]) -> dict[str, Spec | None]:
    """The specs of an op's outputs; nothing where its rule cannot tell."""
    if op.definition is None or op.sub_blocks():
        return {}
    try:
        found = op.definition.infer(inputs, op.attrs)
    except _TRIPPED:
        return {}
    return {
        name: spec
        for slot, names in op.outputs.items()
        for name, spec in zip(names, found.get(slot, ()), strict=False)
    }
