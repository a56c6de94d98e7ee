"""Ops that 2.x has for what other ops do, too: copies, casts, sums under names of their own, short chains."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.fused.plain_ops import PlainOps, Rule, UnknownForm
from fluidlite.ir.operator import Operator

__all__ = ["RENAMED"]


def _always(op: Operator) -> bool:
    return True


def _assign(plain: PlainOps) -> None:
    """A copy to where the value is, or to another layout in memory, neither of which programs see."""
    plain.add("assign", {"X": plain.name("X") or plain.name("x")})


def _cast(plain: PlainOps) -> None:
    plain.add("cast", {"X": plain.name("X")}, **plain.given("in_dtype out_dtype"))


def _add(plain: PlainOps) -> None:
    plain.add("elementwise_add", {"X": plain.name("X"), "Y": plain.name("Y")}, axis=plain.attr("axis", -1))


def _two_steps(plain: PlainOps) -> None:
    operands = {"X": plain.name("X"), "Y": plain.name("Y")}
    plain.add("fused_elemwise_activation", operands, **plain.given("axis scale functor_list"))


def _filled(plain: PlainOps) -> None:
    value = plain.attr("value", plain.attr("value_float", 0.0))
    plain.add("fill_any_like", {"X": plain.name("X")}, value=float(value))


def _drawn(plain: PlainOps, type: str, slot: str, names: str) -> None:
    """Numbers of the shape of what is there."""
    shape = plain.add("shape", {"Input": plain.name(slot)})
    plain.add(type, {"ShapeTensor": shape}, dtype=int(plain.dtype(plain.name(slot))), **plain.given(names))


def _uniform(plain: PlainOps) -> None:
    if plain.attr("diag_num", 0):
        raise UnknownForm(f"draws a matrix with a diagonal: its 'diag_num' is {plain.attr('diag_num', 0)}")
    _drawn(plain, "uniform_random", "X", "min max seed")


def _gaussian(plain: PlainOps) -> None:
    _drawn(plain, "gaussian_random", "x", "mean std seed")


def _spectrum(plain: PlainOps) -> None:
    """Frames that overlap, times a window, and the Fourier transform of each."""
    x, size = plain.name("X"), int(plain.attr("n_fft", 0))
    plain.add("frame", {"X": x}, frame_length=size, hop_length=plain.attr("hop_length", 1), axis=-1)
    axis = len(plain.shape(x)) - 1
    plain.add("elementwise_mul", {"X": plain.value, "Y": plain.name("Window")}, axis=axis)
    settings: dict[str, Any] = {
        "axes": [axis],
        "normalization": "ortho" if plain.attr("normalized", False) else "backward",
        "forward": True,
    }
    if plain.dtype(x) in (VarType.COMPLEX64, VarType.COMPLEX128):
        plain.then("fft_c2c", **settings)
    else:
        plain.then("fft_r2c", onesided=bool(plain.attr("onesided", True)), **settings)


RENAMED: tuple[Rule, ...] = (
    ("memcpy_d2h memcpy_h2d transfer_layout npu_identity", _always, _assign),
    ("transfer_dtype", _always, _cast),
    ("grad_add", _always, _add),
    ("fused_elemwise_add_activation", _always, _two_steps),
    ("fill_any", _always, _filled),
    ("uniform_random_inplace", _always, _uniform),
    ("gaussian_inplace", _always, _gaussian),
    ("stft", _always, _spectrum),
)
