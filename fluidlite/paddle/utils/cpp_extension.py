"""`paddle.utils.cpp_extension`: ops in C++, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.utils.cpp_extension",
    "compiles ops with Paddle's headers and library, and FluidLite has none: write an op as "
    "CONTRIBUTING.md says, or call a function with paddle.static.py_func",
    functions=("CppExtension CUDAExtension load setup get_build_directory"),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
