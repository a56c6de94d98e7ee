"""Ops whose outputs' shapes depend on numbers that only a run knows."""

from __future__ import annotations

from collections.abc import Mapping

from fluidlite.base.registry import OF_2X_ATTR, Spec
from fluidlite.ir.operator import Operator

__all__ = ["as_planned", "data_dependent"]

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
    if op.type == "squeeze2" and op.attrs.get(OF_2X_ATTR) and _names_open_sizes(op):
        return True
    return any(op.inputs.get(slot) for slot in _SIZES)


def _names_open_sizes(op: Operator) -> bool:
    """True if a squeeze of 2.x names a dimension of open size, which stays where it turns out not to be 1."""
    (name,) = op.inputs["X"]
    var = op.block._find_var_recursive(name)
    if var is None:
        return False
    rank = len(var.shape)
    open_axes = [axis for axis in range(-rank, rank) if var.shape[axis] < 0]
    named = op.attrs.get("axes", ())
    return not set(named).isdisjoint(open_axes)


def as_planned(
    op: Operator, inputs: Mapping[str, list[Spec | None]], found: dict[str, list[Spec]]
) -> dict[str, list[Spec]]:
    """Output specs for a plan, where a rule declares other sizes or types for the sake of agreeing with
    1.8.5.
    """
    for slot, dtype in op.definition.held_as.items() if op.definition is not None else ():
        found = {**found, slot: [spec._replace(dtype=dtype) for spec in found.get(slot, [])]}
    if op.type == "affine_grid" and not op.inputs.get("OutputShape"):
        (grid,) = found["Output"]
        size = op.value_for_kernels("output_shape")
        # declared open, although the attribute says it
        return {"Output": [grid.with_shape((grid.shape[0], *size[2:], len(size) - 2))]}
    if op.type == "grid_sampler":
        (sampled,) = found["Output"]
        (places,) = inputs["Grid"]
        # declared to be as large as the image where the grid is open
        size = (-1,) * (len(sampled.shape) - 2) if places is None else places.shape[1:-1]
        return {"Output": [sampled.with_shape((*sampled.shape[:2], *size))]}
    return found
