"""Warnings of feeds whose shapes are let through, as 1.8.5 does, and are hardly what was meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fluidlite.base.errors import FluidError
from fluidlite.base.registry import Spec
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user

__all__ = ["doubt_shapes"]


def doubt_shapes(ops: Sequence[Operator], variables: Sequence[Variable], shapes: Sequence[Any]) -> None:
    """Warn of feeds of other sizes than declared, and of those with dimensions left out (8 numbers for
    [-1, 1]) where an op then broadcasts what belongs row to row.
    """
    specs: dict[str, Spec] = {}
    for var, shape in zip(variables, shapes, strict=True):
        if shape is None:
            continue
        # a size that varies from run to run is as good as unknown
        shape = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
        if 0 < len(shape) < len(var.shape):
            specs[var.name] = var.spec._replace(shape=shape)
        elif len(shape) == len(var.shape) and any(
            declared not in (-1, dim) and dim != -1 for declared, dim in zip(var.shape, shape, strict=True)
        ):
            warn_user(f"{var.name!r} is fed as {list(shape)}, but declared as {list(var.shape)}")
    if specs:
        _follow(ops, {var.name: var for var in variables}, specs)


def _follow(ops: Sequence[Operator], fed: Mapping[str, Variable], specs: dict[str, Spec]) -> None:
    sources = {name: name for name in specs}
    for op in ops:
        touched = [name for name in op.input_arg_names if name in specs]
        if not touched or op.definition is None or op.sub_blocks() or op.type.endswith("_grad"):
            continue
        if op.type.startswith("elementwise_"):
            _doubt_broadcast(op, fed[sources[touched[0]]], specs)
        for name, spec in _results(op, specs).items():
            specs[name] = spec
            sources[name] = sources[touched[0]]


def _spec(op: Operator, name: str, specs: Mapping[str, Spec]) -> Spec | None:
    var = op.block._find_var_recursive(name)
    return specs.get(name) or (None if var is None else var.spec)


def _results(op: Operator, specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """The outputs of an op that have fewer dimensions than they declare."""
    assert op.definition is not None
    inputs = {slot: [_spec(op, name, specs) for name in names] for slot, names in op.inputs.items()}
    try:
        found = op.definition.infer(inputs, op.attrs)
    # the run will say what does not fit
    except (FluidError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return {}
    results: dict[str, Spec] = {}
    for slot, names in op.outputs.items():
        for name, spec in zip(names, found.get(slot, ()), strict=False):
            declared = op.block._find_var_recursive(name)
            if spec is not None and declared is not None and len(spec.shape) < len(declared.shape):
                results[name] = spec
    return results


def _doubt_broadcast(op: Operator, fed: Variable, specs: Mapping[str, Spec]) -> None:
    """Warn where a dimension of 1 meets another one that was left out of a feed."""
    x, y = (_spec(op, op.input(slot)[0], specs) for slot in ("X", "Y"))
    if x is None or y is None or len(x.shape) == len(y.shape):
        return
    longer, shorter = (x.shape, y.shape) if len(x.shape) > len(y.shape) else (y.shape, x.shape)
    axis = op.attr("axis")
    start = len(longer) - len(shorter) if axis < 0 else axis
    facing = zip(longer[start:], shorter, strict=False)
    if any(1 in (one, other) and one != other for one, other in facing):
        pair = f"{op.input('X')[0]}{list(x.shape)} and {op.input('Y')[0]}{list(y.shape)}"
        warn_user(
            f"{fed.name!r}, declared {list(fed.shape)}, is fed with {len(specs[fed.name].shape)} dimensions: "
            f"op {op.type!r} broadcasts {pair} to a matrix; feed all dimensions (reshape(-1, 1))",
            op.where,
        )
