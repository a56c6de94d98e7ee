"""`fluid.contrib.quantize`: training with quantised values, as a rewriting of programs."""

from __future__ import annotations

from fluidlite.contrib.quantize import quantize_transpiler
from fluidlite.contrib.quantize.quantize_transpiler import QuantizeTranspiler

__all__ = ["QuantizeTranspiler", "quantize_transpiler"]
