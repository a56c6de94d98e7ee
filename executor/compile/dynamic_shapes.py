"""Ops whose outputs' shapes depend on numbers that only a run knows."""

from __future__ import annotations

from fluidlite.ir.operator import Operator

__all__ = ["data_dependent"]

# slots whose numbers decide about the shape of what comes out
_SIZES = (
    "AxesTensor",
    "AxesTensorList",
    "AxisTensor",
    "EndsTensor",
    "EndsTensorList",
    "ExpandTimes",
    "K",
    "MaxLenTensor",
    "OutSize",
    "OutputShape",
    "Paddings",
    "SectionsTensorList",
    "Shape",
    "ShapeTensor",
    "ShapeTensorList",
    "SizeTensor",
    "StartsTensor",
    "StartsTensorList",
    "StridesTensor",
    "StridesTensorList",
    "depth_tensor",
    "expand_times_tensor",
)


def data_dependent(op: Operator) -> bool:
    """True if an op's outputs may have another shape than its rule says, because they depend on the data."""
    if op.definition is not None and op.definition.dynamic:
        return True
    return any(op.inputs.get(slot) for slot in _SIZES)
