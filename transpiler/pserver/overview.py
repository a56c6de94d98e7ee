"""A layout in fluid's form: every parameter and accumulator, its parts, and their servers."""

from __future__ import annotations

import math

from fluidlite.ir.distribution import Distribution, VarsDistributed, VarStruct
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.placement import Layout, distributed_tables

__all__ = ["add_parameters", "describe", "overview"]


def overview(layout: Layout) -> VarsDistributed:
    """The parameters in the order in which servers were given out, then each server's accumulators."""
    found = VarsDistributed()
    add_parameters(found, layout)
    accumulators = {param: _accumulators(layout, param) for param in layout.placed}
    for held in layout.by_endpoint.values():
        for param, piece in held.items():
            for name in accumulators[param]:
                _add(found, layout, name, piece, "Optimizer")
    return found


def add_parameters(found: VarsDistributed, layout: Layout) -> None:
    """Write down where each slice of each parameter is."""
    for piece in layout.slices:
        _add(found, layout, piece.param, piece, "RemotePrefetch" if piece.sparse else "Param")


def describe(layout: Layout, parts: VarsDistributed, chief: bool, endpoint: str) -> Distribution:
    """The facts that a program of the job carries: what saves and loads its variables needs them."""
    return Distribution(
        distributed=True,
        chief=chief,
        servers=layout.endpoints,
        endpoint=endpoint,
        table=next(iter(distributed_tables(layout.training.program)), None),
        parts=parts,
    )


def _accumulators(layout: Layout, param: str) -> list[str]:
    """The persistable variables that the update of a parameter reads and writes, apart from it and its
    gradient.
    """
    update, block = layout.updates[param], layout.training.program.global_block()
    written = {name for op in update.ops for name in op.output_arg_names}
    names = dict.fromkeys(name for slot in sorted(update.step.inputs) for name in update.step.inputs[slot])
    return [
        name
        for name in names
        if name not in (param, update.grad) and name in written and block._var_recursive(name).persistable
    ]


def _add(found: VarsDistributed, layout: Layout, name: str, piece: Slice, kind: str) -> None:
    block = layout.training.program.global_block()
    var, whole = block._var_recursive(name), block._var_recursive(piece.param).shape
    origin = VarStruct(name, var.shape, var.dtype, var.type, var.lod_level, var.persistable)
    cut = piece.count > 1 and var.shape == whole
    mine = name if name != piece.param else piece.param_name
    part = VarStruct(
        mine,
        piece.shape if cut else var.shape,
        var.dtype,
        var.type,
        var.lod_level,
        var.persistable and not (cut and name == piece.param),
    )
    offset = piece.first_row * math.prod(piece.shape[1:]) if cut else 0
    found.add_distributed_var(origin, part, cut, piece.index if cut else 0, offset, kind, piece.endpoint)
