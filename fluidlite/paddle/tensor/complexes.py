"""Complex numbers from real ones, and back."""

from __future__ import annotations

from fluidlite.base.dtypes import REAL_PARTS, VarType
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_variable
from fluidlite.paddle.tensor.math import cos, sin

__all__ = ["as_complex", "as_real", "complex", "polar"]

_COMPLEX = {VarType.FP32: VarType.COMPLEX64, VarType.FP64: VarType.COMPLEX128}


def complex(real: Variable, imag: Variable, name: str | None = None) -> Variable:
    """real + i imag, laid over each other as NumPy does it."""
    return append("complex", {"X": [real], "Y": [imag]}, dtype=_kind("complex", real, _COMPLEX), name=name)


def as_complex(x: Variable, name: str | None = None) -> Variable:
    """The pairs of the last dimension as complex numbers."""
    return append("as_complex", {"X": [x]}, dtype=_kind("as_complex", x, _COMPLEX), name=name)


def as_real(x: Variable, name: str | None = None) -> Variable:
    """Real and imaginary parts as a last dimension of pairs."""
    return append("as_real", {"X": [x]}, dtype=_kind("as_real", x, REAL_PARTS), name=name)


def polar(abs: Variable, angle: Variable, name: str | None = None) -> Variable:
    """The complex numbers of these sizes and angles."""
    need_variable(abs, "abs", "polar")
    need_variable(angle, "angle", "polar")
    return complex(abs * cos(angle), abs * sin(angle))


def _kind(function: str, x: Variable, kinds: dict[VarType, VarType]) -> VarType:
    need_variable(x, "x", function)
    if x.dtype not in kinds:
        wanted = " or ".join(kind.name.lower() for kind in kinds)
        raise TypeError(f"{function}: {x.name!r} has the dtype {x.dtype.name}, wanted {wanted}")
    return kinds[x.dtype]
