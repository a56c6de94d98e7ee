"""Defaults of the 2.x door: the dtype of tensors that are made without saying one."""

from __future__ import annotations

from dataclasses import dataclass

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype

__all__ = ["dtype", "dtype_or_default", "set_dtype"]


@dataclass
class _Defaults:
    dtype: VarType = VarType.FP32


_defaults = _Defaults()


def dtype() -> VarType:
    """The dtype of tensors that are made without saying one."""
    return _defaults.dtype


def set_dtype(value: VarType) -> None:
    """Set the dtype of tensors that are made without saying one."""
    _defaults.dtype = value


def dtype_or_default(value: DTypeLike | None) -> VarType:
    """`value` as a VarType; the default for None."""
    return _defaults.dtype if value is None else to_vartype(value)
