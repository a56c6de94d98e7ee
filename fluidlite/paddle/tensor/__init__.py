"""`paddle.tensor`: functions of tensors, each an op or a few"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames
from fluidlite.paddle.tensor.names import FUNCTIONS

_NAMES = LazyNames(
    __name__,
    {**FUNCTIONS, "fluidlite.paddle.tensor.array": "array_length array_read array_write create_array"},
    modules="array creation linalg logic manipulation math random search",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
