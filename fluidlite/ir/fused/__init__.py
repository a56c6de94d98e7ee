"""Ops that hold several: what PaddlePaddle's inference passes fused is written out when a program is read.

Those passes put a bias, a residual, an activation, transpositions and the scales of 8-bit numbers into slots
and attributes of the op before them, or make one op of a layer. Written out as ops of their own they have one
meaning: kernels, gradients, exports and pictures see plain ops. An op with an activation or in a form that is
not known stays as it is, and runs refuse it (`check_plain`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.errors import KernelError
from fluidlite.ir.fused.onednn import ONEDNN
from fluidlite.ir.fused.plain_ops import PlainOps, UnknownForm
from fluidlite.ir.fused.renamed import RENAMED
from fluidlite.ir.fused.transformers import TRANSFORMERS
from fluidlite.ir.operator import Operator

if TYPE_CHECKING:
    from fluidlite.ir.program import Program

__all__ = ["FUSED_TYPES", "check_plain", "unfuse"]

_RULES = {
    type: (is_fused, write)
    for types, is_fused, write in (*ONEDNN, *TRANSFORMERS, *RENAMED)
    for type in types.split()
}
FUSED_TYPES = frozenset(_RULES)
"""Op types that may hold several ops."""


def unfuse(program: Program) -> None:
    """Write the fused ops of a program out as plain ones, in place."""
    for block in program.blocks:
        plain = [one for op in block.ops for one in _plain(op)]
        if plain != block.ops:
            block.set_ops(plain)


def _plain(op: Operator) -> list[Operator]:
    """The ops in place of `op`: itself, where it is not fused, or fused in an unknown form."""
    if not _is_fused(op):
        return [op]
    try:
        plain = _written(op)
    except UnknownForm:
        return [op]
    slot = next(one for one in ("Output", "Y", "Out", "out") if one in op.outputs)
    others = {name: names for name, names in op.outputs.items() if name not in (slot, "XShape") and names}
    return plain.ops(op.output(slot)[0], others)


def _is_fused(op: Operator) -> bool:
    return op.type in _RULES and _RULES[op.type][0](op)


def _written(op: Operator) -> PlainOps:
    plain = PlainOps(op)
    _RULES[op.type][1](plain)
    return plain


def check_plain(op: Operator) -> None:
    """KernelError for an op that holds others: no kernel computes those."""
    if not _is_fused(op):
        return
    why = (
        "holds a bias, an activation or another op: fluid.Program.parse_from_string(program.desc."
        "serialize_to_string()) writes them out as ops of their own"
    )
    try:
        _written(op)
    except UnknownForm as error:
        why = str(error)
    raise KernelError(f"op {op.type!r} {why}\n  {op.call_text()}\n  built at {op.where}")
