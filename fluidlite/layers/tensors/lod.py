"""Layers that change a level of detail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layers.build import one_op

__all__ = ["lod_append", "lod_reset"]

_NUMBERS = ["float32", "float64", "int32", "int64"]


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Any = None) -> Variable:
    """`x` with other sequences; its values stay.

    Parameters
    ----------
    x: a Variable of rows.
    y: a Variable whose sequences are taken or, if it has none, whose int32 values are offsets.
    target_lod: offsets as a list, such as [0, 2, 3], where `y` is None.

    Returns
    -------
    A Variable of the same values.

    >>> x = fluid.layers.assign(np.array([[1], [2], [6]], "float32"))
    >>> out = fluid.layers.lod_reset(x, target_lod=[0, 2, 3])
    >>> exe.run(fetch_list=[out], return_numpy=False)[0].recursive_sequence_lengths()
    [[2, 1]]
    """
    check_variable_and_dtype(x, "x", _NUMBERS, "lod_reset")
    if y is not None:
        check_type(y, "y", Variable, "lod_reset")
        return one_op("lod_reset", {"X": x, "Y": y}, dtype=x.dtype)
    if target_lod is None:
        raise ValueError("y and target_lod should not be both none.")
    return one_op("lod_reset", {"X": x}, {"target_lod": target_lod}, dtype=x.dtype)


def lod_append(x: Variable, level: Iterable[int] | Variable) -> Variable:
    """The rows of `x` with one more, finest level of detail: offsets, or a Variable that holds them."""
    if x is None:
        raise ValueError("Input(x) can't be None.")
    if not isinstance(level, (Iterable, Variable)):
        raise ValueError("Input(level) must be list, tuple or Variable.")
    check_variable_and_dtype(x, "x", _NUMBERS, "lod_append")
    if isinstance(level, Variable):
        return one_op("lod_reset", {"X": x, "Y": level}, {"append": True}, dtype=x.dtype, layer="lod_append")
    return one_op(
        "lod_reset", {"X": x}, {"append": True, "target_lod": list(level)}, dtype=x.dtype, layer="lod_append"
    )
