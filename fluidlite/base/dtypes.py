"""Paddle's numbering of data types and variable kinds, and their NumPy counterparts."""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.errors import ArgumentError

__all__ = [
    "Array",
    "REAL_PARTS",
    "DTypeLike",
    "VarType",
    "convert_np_dtype_to_dtype_",
    "is_float",
    "is_integer",
    "to_numpy",
    "to_vartype",
]

Array: TypeAlias = "np.ndarray[Any, Any]"
"""A NumPy array, or a CuPy array of the same interface."""


class VarType(enum.IntEnum):
    """`VarDesc.VarType` of Paddle's framework.proto: element types and kinds of variables in one
    enumeration.
    """

    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    TUPLE = 18
    SIZE_T = 19
    UINT8 = 20
    INT8 = 21
    BF16 = 22
    COMPLEX64 = 23
    COMPLEX128 = 24

    def __str__(self) -> str:
        return f"VarType.{self.name}"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


DTypeLike: TypeAlias = "VarType | str | np.dtype[Any] | type"

# no BF16: NumPy has no such type
_TO_NUMPY: dict[VarType, np.dtype[Any]] = {
    VarType.BOOL: np.dtype(np.bool_),
    VarType.INT16: np.dtype(np.int16),
    VarType.INT32: np.dtype(np.int32),
    VarType.INT64: np.dtype(np.int64),
    VarType.FP16: np.dtype(np.float16),
    VarType.FP32: np.dtype(np.float32),
    VarType.FP64: np.dtype(np.float64),
    VarType.SIZE_T: np.dtype(np.uint64),
    VarType.UINT8: np.dtype(np.uint8),
    VarType.INT8: np.dtype(np.int8),
    VarType.BF16: np.dtype(np.float32),  # NumPy has no bfloat16: see fluidlite.executor.run.half
    VarType.COMPLEX64: np.dtype(np.complex64),
    VarType.COMPLEX128: np.dtype(np.complex128),
}
REAL_PARTS = {VarType.COMPLEX64: VarType.FP32, VarType.COMPLEX128: VarType.FP64}
"""The dtype of complex numbers -> that of their parts and their absolute values."""

_TO_VARTYPE = {dtype: vartype for vartype, dtype in _TO_NUMPY.items() if vartype != VarType.BF16}
_TO_VARTYPE[np.dtype(np.uint16)] = VarType.INT16  # as in 1.8


def to_numpy(dtype: DTypeLike) -> np.dtype[Any]:
    """The NumPy dtype of `dtype`; TypeError where there is none."""
    if isinstance(dtype, VarType):
        if dtype not in _TO_NUMPY:
            raise TypeError(f"{dtype} is not an element type that NumPy has")
        return _TO_NUMPY[dtype]
    return np.dtype(dtype)


def to_vartype(dtype: DTypeLike) -> VarType:
    """The `VarType` of a NumPy dtype, a name such as "float32", a number of the enumeration, or a
    `VarType`.
    """
    if isinstance(dtype, VarType):
        return dtype
    # the types `bool` and `int` themselves are dtypes, and True and False are no numbers of the enumeration
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        if dtype not in iter(VarType):
            raise ArgumentError(f"{dtype} is not the number of a dtype")
        return VarType(dtype)
    if isinstance(dtype, str) and dtype == "bfloat16":
        return VarType.BF16
    try:
        return _TO_VARTYPE[np.dtype(dtype)]
    except (KeyError, TypeError, ValueError):
        raise ArgumentError(f"Not supported numpy dtype {dtype}") from None


convert_np_dtype_to_dtype_ = to_vartype


def is_float(dtype: VarType) -> bool:
    """True if `dtype` holds real numbers, so that gradients make sense."""
    return dtype in (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64)


def is_integer(dtype: VarType) -> bool:
    """True if `dtype` holds integers (bool is none)."""
    return dtype in (VarType.INT16, VarType.INT32, VarType.INT64, VarType.UINT8, VarType.INT8)
