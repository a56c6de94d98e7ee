"""`fluid.contrib.slim.quantization.qat_int8_mkldnn_pass`: refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.contrib.slim.quantization.mkldnn import REFUSED

__all__ = ["QatInt8MkldnnPass"]

QatInt8MkldnnPass: Any = REFUSED.get("QatInt8MkldnnPass")
