"""`paddle.utils.dlpack`: tensors that are shared with other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.values.tensor import LoDTensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(x: LoDTensor) -> Any:
    """A capsule with the memory of a tensor, such as an executor gives with `return_numpy=False`."""
    if not isinstance(x, LoDTensor):
        raise TypeError(f"The type of 'x' in to_dlpack must be {LoDTensor}, but received {type(x)}.")
    # the protocol has no arrays that may not be written
    return np.require(np.asarray(x), requirements="W").__dlpack__()


class _Capsule:
    """A capsule as what NumPy takes one from."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, *unused: Any, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the host


def from_dlpack(dlpack: Any) -> LoDTensor:
    """A tensor with the memory of a capsule, or of another library's tensor."""
    source = dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack)
    tensor = LoDTensor()
    tensor.set(np.from_dlpack(source))
    return tensor
