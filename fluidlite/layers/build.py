"""The shape that most layers have: one op, one output of the input's dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["check_groups", "one_op", "temporaries"]


def one_op(
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    dtype: DTypeLike,
    name: str | None = None,
    slot: str = "Out",
    layer: str | None = None,
    out: Variable | None = None,
    stop_gradient: bool = False,
    extra: Mapping[str, DTypeLike] | None = None,
) -> Variable:
    """Append `op_type` and return its output, a temporary of the layer (called `layer`, by default like the
    op) unless `out` is given.

    `extra` are further output slots that the op needs, with their dtypes.
    """
    helper = LayerHelper(layer or op_type, name=name)
    result = out if out is not None else helper.create_variable_for_type_inference(dtype=dtype)
    outputs = {
        slot: result,
        **{
            other: helper.create_variable_for_type_inference(dtype=kind)
            for other, kind in (extra or {}).items()
        },
    }
    helper.append_op(type=op_type, inputs=dict(inputs), outputs=outputs, attrs=dict(attrs or {}))
    if stop_gradient:
        result.stop_gradient = True
    return result


def temporaries(
    helper: LayerHelper, count: int, dtype: DTypeLike, stop_gradient: bool = False
) -> list[Variable]:
    """`count` variables of the layer for the outputs of an op, named in this order."""
    return [
        helper.create_variable_for_type_inference(dtype, stop_gradient=stop_gradient) for _ in range(count)
    ]


def check_groups(channels: int, groups: int) -> None:
    """ValueError for groups that are not of one size."""
    if channels > 0 and channels % groups:
        raise ValueError(f"group_norm: groups must divide the {channels} channels of input, but is {groups}")
