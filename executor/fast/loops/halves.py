"""Numbers of float16 as float32, and back: vectors at a time, by the instructions that processors have.

NumPy takes 1.9 ns for a number on the way there, and 3.1 back; these take 0.1 to 0.2.
"""

from __future__ import annotations

import numpy as np

from fluidlite.base import flags
from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.loops.compiler import LoopCode, cpu_flags, is_available, loop_of
from fluidlite.executor.run.half import HALVES

__all__ = ["converts_halves"]

_LANES = 16
_LEAST = 1 << 12  # numbers from which a call of compiled code pays


def _text(source: str, target: str, instruction: str) -> str:
    """A loop over vectors, and one over the numbers behind the last one."""

    def turn(name: str, step: int, start: str, end: str, kinds: tuple[str, str]) -> str:
        given, made = kinds
        return f"""
{name}.head:
  br label %{name}
{name}:
  %{name}.at = phi i64 [ {start}, %{name}.head ], [ %{name}.next, %{name}.body ]
  %{name}.goes = icmp slt i64 %{name}.at, {end}
  br i1 %{name}.goes, label %{name}.body, label %{name}.end
{name}.body:
  %{name}.from = getelementptr {source}, ptr %x, i64 %{name}.at
  %{name}.to = getelementptr {target}, ptr %out, i64 %{name}.at
  %{name}.given = load {given}, ptr %{name}.from, align 1
  %{name}.made = {instruction} {given} %{name}.given to {made}
  store {made} %{name}.made, ptr %{name}.to, align 1
  %{name}.next = add i64 %{name}.at, {step}
  br label %{name}
{name}.end:"""

    vectors = f"<{_LANES} x {source}>", f"<{_LANES} x {target}>"
    return f"""
define void @LOOP(i64 %first, i64 %last, ptr %arguments) {{
  %x = load ptr, ptr %arguments
  %second = getelementptr i64, ptr %arguments, i64 1
  %out = load ptr, ptr %second
  %left = and i64 %last, {_LANES - 1}
  %whole = sub i64 %last, %left
  br label %wide.head
{turn("wide", _LANES, "%first", "%whole", vectors)}
  br label %tail.head
{turn("tail", 1, "%whole", "%last", (source, target))}
  ret void
}}
"""


class CompiledHalves:
    """Conversions by compiled code, as soon as it is there."""

    def __init__(self) -> None:
        self._widen = loop_of(_text("half", "float", "fpext"))
        self._round = loop_of(_text("float", "half", "fptrunc"))
        self._runs = 0

    def widen(self, value: Array) -> Array | None:
        """A float16 array as float32; None where NumPy has to do it."""
        return self._converted(self._widen, value, np.float32)

    def round(self, value: Array) -> Array | None:
        """A float32 array as float16, ties to even; None where NumPy has to do it."""
        return self._converted(self._round, value, np.float16)

    def _converted(self, code: LoopCode, value: Array, dtype: type) -> Array | None:
        if value.size < _LEAST or not value.flags.c_contiguous or flags.fast_loops() == "off":
            return None
        self._runs += 1
        if not code.ready(min(self._runs, 2), flags.fast_loops() == "wait"):
            return None
        out: Array = np.empty(value.shape, dtype)
        words = np.array([address_of(value), address_of(out)], np.int64)
        code.function(0, value.size, address_of(words))
        return out


def converts_halves(is_asked: bool) -> bool:
    """The same again; where it is True, compiled code converts from here on, if there can be such."""
    if is_asked and HALVES.code is None and is_available() and "f16c" in cpu_flags():
        HALVES.code = CompiledHalves()
    return is_asked
