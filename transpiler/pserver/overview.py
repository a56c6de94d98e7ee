"""A placement in fluid's form: every parameter and accumulator, its parts, and their servers."""

from __future__ import annotations

import math

from fluidlite.ir.distribution import Distribution, VarsDistributed, VarStruct
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.placement import Placement, distributed_tables

__all__ = ["describe", "overview", "parameters_only"]


def overview(placement: Placement) -> VarsDistributed:
    """The parameters in the order in which servers were given out, then each server's accumulators."""
    found = parameters_only(placement)
    accumulators = {param: _accumulators(placement, param) for param in placement.placed}
    for held in placement.by_endpoint.values():
        for param, piece in held.items():
            for name in accumulators[param]:
                _add(found, placement, name, piece, "Optimizer")
    return found


def parameters_only(placement: Placement) -> VarsDistributed:
    """The slices of the parameters, in the order in which servers were given out."""
    found = VarsDistributed()
    for piece in placement.slices:
        _add(found, placement, piece.param, piece, "RemotePrefetch" if piece.sparse else "Param")
    return found


def describe(placement: Placement, parts: VarsDistributed, chief: bool, endpoint: str) -> Distribution:
    """The facts that a program of the job carries: what saves and loads its variables needs them."""
    return Distribution(
        distributed=True,
        chief=chief,
        servers=placement.endpoints,
        endpoint=endpoint,
        table=next(iter(distributed_tables(placement.training.program)), None),
        parts=parts,
        kept=_kept(placement),
    )


def _kept(placement: Placement) -> VarsDistributed:
    """Parts of all that updates use and keep besides parameters, gradients and their steps' accumulators."""
    found = VarsDistributed()
    block = placement.training.program.global_block()
    for piece in placement.slices:
        ops = placement.updates[piece.param].ops
        known = {piece.param, piece.grad, *_accumulators(placement, piece.param)} if ops else set()
        names = dict.fromkeys(name for op in ops for name in (*op.input_arg_names, *op.output_arg_names))
        for name in names:
            if name not in known and block._var_recursive(name).persistable:
                _add(found, placement, name, piece, "Kept")
    return found


def _accumulators(placement: Placement, param: str) -> list[str]:
    """The persistable variables that the update of a parameter reads and writes, apart from it and its
    gradient.
    """
    update = placement.updates[param]
    block = placement.training.program.global_block()
    written = {name for op in update.ops for name in op.output_arg_names}
    names = dict.fromkeys(name for slot in sorted(update.step.inputs) for name in update.step.inputs[slot])
    return [
        name
        for name in names
        if name not in (param, update.grad) and name in written and block._var_recursive(name).persistable
    ]


def _add(found: VarsDistributed, placement: Placement, name: str, piece: Slice, kind: str) -> None:
    block = placement.training.program.global_block()
    var = block._var_recursive(name)
    whole = block._var_recursive(piece.param).shape
    origin = VarStruct(name, var.shape, var.dtype, var.type, var.lod_level, var.persistable)
    # an accumulator of one number is whole on each server that has a slice
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
