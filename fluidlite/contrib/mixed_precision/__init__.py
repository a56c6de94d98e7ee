"""`fluid.contrib.mixed_precision`: training in half precision with parameters of single precision."""

from __future__ import annotations

from fluidlite.contrib.mixed_precision import decorator, fp16_lists, fp16_utils
from fluidlite.contrib.mixed_precision.decorator import decorate
from fluidlite.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from fluidlite.ir.guarded import guarded

__all__ = ["AutoMixedPrecisionLists", "decorate", "decorator", "fp16_lists", "fp16_utils"]

globals().update(guarded(__name__, __all__))
