"""`fluid.contrib.slim.quantization.qat2_int8_mkldnn_pass`: refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.contrib.slim.quantization.mkldnn import REFUSED

__all__ = ["Qat2Int8MkldnnPass"]

Qat2Int8MkldnnPass: Any = REFUSED.get("Qat2Int8MkldnnPass")
