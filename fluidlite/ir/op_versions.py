"""Versions of ops' meanings, which files of PaddlePaddle 2.x name for each op type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.errors import FormatError
from fluidlite.base.kept_attrs import IDLE, kept_attrs
from fluidlite.ir.attributes import COMMON_TYPES
from fluidlite.ir.warned import warn_user

if TYPE_CHECKING:
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program

__all__ = ["check_op_versions"]

# attributes of optimizers that kernels look up by name
_LOOKED_UP = {"always_adapt", "regularization_coeff", "regularization_method", "use_global_beta_pow"}


def check_op_versions(program: Program) -> None:
    """Look at ops that have a newer meaning in the program's file than in any release up to 3.0.0.

    Where all that such an op says is known here, it is a warning at the op's line; FormatError where one of
    its slots or attributes is not, and for attributes that a known version brought and that FluidLite's op
    cannot follow. The file lists all ops that its writer knew, of which those of the program matter.
    """
    for block in program.blocks:
        for op in block.ops:
            if op.definition is None:
                continue
            _check_brought(op)
            version, newest = program.op_versions.get(op.type, 0), op.definition.version
            if version > newest:
                _check_newer(op, version, newest)


def _check_brought(op: Operator) -> None:
    assert op.definition is not None
    for name, plain in op.definition.root.newer.items():
        if name not in op.definition.attr_defs and op.attrs.get(name, plain) != plain:
            raise FormatError(
                f"op {op.type!r} of this program has the attribute {name!r} of a later version, with the "
                f"value {op.attrs[name]!r}: FluidLite's op computes with {plain!r}\n  built at {op.where}"
            )


def _check_newer(op: Operator, version: int, newest: int) -> None:
    text = f"op {op.type!r} of this program has version {version}, and known are those up to {newest}"
    unknown = _unknown(op)
    if unknown:
        raise FormatError(
            f"{text}: a later PaddlePaddle than 3.0.0 wrote it, with {', '.join(unknown)}, which FluidLite "
            f"does not know\n  built at {op.where}"
        )
    warn_user(f"{text}: it may mean something else than it does here", op.where)


def _unknown(op: Operator) -> list[str]:
    """The slots and attributes of an op that nothing here reads."""
    definition = op.definition
    assert definition is not None
    found = [
        f"the slot {slot!r}" for slot, names in op.inputs.items() if names and slot not in definition.inputs
    ]
    found += [
        f"the slot {slot!r}" for slot, names in op.outputs.items() if names and slot not in definition.outputs
    ]
    known = {*definition.attr_defs, *definition.only, *definition.idle}
    known.update(COMMON_TYPES, kept_attrs(op.type), IDLE, _LOOKED_UP, definition.newer)
    return found + [f"the attribute {name!r}" for name in op.attrs if name not in known]
