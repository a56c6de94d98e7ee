"""Long short-term memory over sequences, plain and with a projection; gates in the order candidate, input,
forget, output. The steps are `kernels.lstm_steps`; the weights' gradients are one product each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import KernelContext, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.activations import ACTIVATIONS, activation
from fluidlite.ops.kernels.lstm_steps import (
    LstmCell,
    LstmLayer,
    LstmRun,
    ProjectedRun,
    Projection,
    run_projected,
    run_projected_back,
    run_rows,
    run_rows_back,
)
from fluidlite.ops.kernels.products import product
from fluidlite.ops.kernels.recurrence import steps_of
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

_ATTRS = {
    "use_peepholes": True,
    "is_reverse": False,
    "gate_activation": limited("sigmoid", one_of(*ACTIVATIONS)),
    "cell_activation": limited("tanh", one_of(*ACTIVATIONS)),
    "candidate_activation": limited("tanh", one_of(*ACTIVATIONS)),
}


def _check(op: str, Input: Spec, Weight: Spec, Bias: Spec, use_peepholes: bool, size: int) -> None:
    columns = 4 * size
    bias = (7 if use_peepholes else 4) * size
    if len(Input.shape) != 2 or not fits(Input.shape[1], columns):
        raise ShapeError(f"op {op!r}: Input has shape {list(Input.shape)}, wanted [rows, 4 x {size}]")
    if len(Weight.shape) != 2 or not fits(Weight.shape[1], columns):
        raise ShapeError(
            f"op {op!r}: Weight has shape {list(Weight.shape)}, wanted {columns} columns, as Input"
        )
    if not fits(Bias.shape, (1, bias)):
        raise ShapeError(
            f"op {op!r}: Bias has shape {list(Bias.shape)}, wanted [1, {bias}] "
            f"{'with' if use_peepholes else 'without'} peepholes"
        )


def _check_initial(op: str, H0: Spec | None, C0: Spec | None, projected: int, size: int) -> None:
    if H0 is not None and C0 is None:
        raise ShapeError(f"op {op!r}: H0 is given without C0")
    for slot, spec, columns in (("H0", H0, projected), ("C0", C0, size)):
        if spec is not None and (len(spec.shape) != 2 or not fits(spec.shape[1], columns)):
            raise ShapeError(f"op {op!r}: {slot} has shape {list(spec.shape)}, wanted {columns} columns")


# ---------------------------------------------------------------------- cells
def _cell(op: str, xp: Any, size: int, Bias: Array, attrs: Mapping[str, Any]) -> LstmCell:
    """The cell of an op, from its attributes and from what its bias holds beyond the gates'."""
    tail = Bias.reshape(-1)[4 * size :]
    with_peepholes = attrs["use_peepholes"]
    peepholes = (tail[:size], tail[size : 2 * size], tail[2 * size :]) if with_peepholes else None
    kinds = (attrs[f"{part}_activation"] for part in ("gate", "cell", "candidate"))
    gate, state, candidate = (activation(op, kind) for kind in kinds)
    return LstmCell(xp, size, gate, state, candidate, peepholes, attrs.get("cell_clip", 0.0))


def _gate_bias(cell: LstmCell, Bias: Array) -> Array:
    """The part of the bias that the gates have."""
    return Bias.reshape(-1)[: 4 * cell.size]


# ---------------------------------------------------------------------- lstm
lstm = Op(
    "lstm",
    "Input. H0? C0? Weight. Bias. -> Hidden Cell BatchGate? BatchCellPreAct?",
    attrs=_ATTRS,
    idle=("is_test",),
    makes_lod=True,
    captured=True,
    alike=("Input", "H0", "C0", "Weight", "Bias"),
)


@lstm.flops
def _(Input: Spec, Weight: Spec) -> int:
    return 2 * math.prod(Input.shape[:1]) * math.prod(Weight.shape)


@lstm.shape
def _(
    Input: Spec, H0: Spec | None, C0: Spec | None, Weight: Spec, Bias: Spec, use_peepholes: bool
) -> tuple[Spec, Spec, Spec, Spec]:
    _check("lstm", Input, Weight, Bias, use_peepholes, Weight.shape[0])
    _check_initial("lstm", H0, C0, Weight.shape[0], Weight.shape[0])
    hidden = Spec((Input.shape[0], Weight.shape[0]), Input.dtype, Input.lod_level)
    return hidden, hidden, Spec(Input.shape, Input.dtype), Spec(hidden.shape, Input.dtype)


@lstm.kernel
@with_attrs(_ATTRS)
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    Input_lod: Lod,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    Bias: Array,
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    steps = steps_of("lstm", "Input", xp, Input_lod, len(Input), attrs["is_reverse"])
    cell = _cell("lstm", xp, len(Weight), Bias, attrs)
    layer = LstmLayer(cell, steps, Weight, steps.initial(H0), steps.initial(C0))
    saves = not ctx.unread.issuperset(("BatchGate", "BatchCellPreAct"))
    fixed = "Weight" if "Weight" in ctx.fixed else None
    made = run_rows(ctx, layer, Input, _gate_bias(cell, Bias), saves, fixed)
    return (
        WithLod(made.hidden, Input_lod),
        WithLod(made.cells, Input_lod),
        WithLod(made.gates, ()) if saves else None,
        WithLod(made.active, ()) if saves else None,
    )


# 1.8.5 drops what comes in for Cell
@lstm.grad("Input H0 C0 Weight Bias", beyond=("Cell@GRAD",))
@with_attrs(_ATTRS)
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    Input_lod: Lod,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    Bias: Array,
    Hidden: Array,
    Cell: Array,
    BatchGate: Array,
    BatchCellPreAct: Array,
    dHidden: Maybe,
    dCell: Maybe,
    wants: frozenset[str],
    attrs: dict[str, Any],
) -> tuple[Maybe, ...]:
    steps = steps_of("lstm_grad", "Input", xp, Input_lod, len(Input), attrs["is_reverse"])
    cell = _cell("lstm_grad", xp, len(Weight), Bias, attrs)
    layer = LstmLayer(cell, steps, Weight, steps.initial(H0), steps.initial(C0))
    made = LstmRun(Hidden, Cell, BatchGate, BatchCellPreAct)
    found = run_rows_back(ctx, layer, made, dHidden, dCell, wants_weight="Weight@GRAD" in wants)
    first_states = None
    if H0 is not None:
        first_rows = found.gates[xp.asarray(steps.rows[: steps.running])]
        first_states = steps.initial_gradient(product(xp, first_rows, Weight.T), H0)
    return (
        found.gates if "Input@GRAD" in wants else None,
        first_states,
        None if C0 is None else steps.initial_gradient(found.first_cells, C0),
        found.weight,
        found.bias.reshape(1, -1) if "Bias@GRAD" in wants else None,
    )


# ---------------------------------------------------------------------- lstmp
_LSTMP_ATTRS = {
    **_ATTRS,
    "cell_clip": 0.0,
    "proj_clip": 0.0,
    "proj_activation": limited("tanh", one_of(*ACTIVATIONS)),
}
lstmp = Op(
    "lstmp",
    "Input. H0? C0? Weight. ProjWeight. Bias. -> Projection Cell BatchGate? BatchCellPreAct? BatchHidden?",
    attrs=_LSTMP_ATTRS,
    dynamic=True,
    makes_lod=True,
    alike=("Input", "H0", "C0", "Weight", "ProjWeight", "Bias"),
)


@lstmp.shape
def _(
    Input: Spec,
    H0: Spec | None,
    C0: Spec | None,
    Weight: Spec,
    ProjWeight: Spec,
    Bias: Spec,
    use_peepholes: bool,
) -> tuple[Spec, ...]:
    size, projected = ProjWeight.shape
    _check("lstmp", Input, Weight, Bias, use_peepholes, size)
    if not fits(Weight.shape[0], projected):
        raise ShapeError(f"op 'lstmp': Weight has {Weight.shape[0]} rows but ProjWeight {projected} columns")
    _check_initial("lstmp", H0, C0, projected, size)
    cells = Spec((Input.shape[0], size), Input.dtype, Input.lod_level)
    inner = Spec(cells.shape, Input.dtype)
    return (
        cells._replace(shape=(Input.shape[0], projected)),
        cells,
        Spec(Input.shape, Input.dtype),
        inner,
        inner,
    )


def _projection(op: str, ProjWeight: Array, attrs: Mapping[str, Any]) -> Projection:
    # a slip of 1.8.5 that its trained models depend on: the projection takes the cell's activation, and
    # proj_activation only says whether there is one
    linear = attrs["proj_activation"] == "identity"
    name = "identity" if linear else attrs["cell_activation"]
    return Projection(ProjWeight, activation(op, name), attrs["proj_clip"])


@lstmp.kernel
@with_attrs(_LSTMP_ATTRS)
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    Input_lod: Lod,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    ProjWeight: Array,
    Bias: Array,
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    size = len(ProjWeight)
    steps = steps_of("lstmp", "Input", xp, Input_lod, len(Input), attrs["is_reverse"])
    cell = _cell("lstmp", xp, size, Bias, attrs)
    projection = _projection("lstmp", ProjWeight, attrs)
    layer = LstmLayer(cell, steps, Weight, steps.initial(H0), steps.initial(C0), projection)
    fixed = "weights" if ctx.fixed.issuperset(("Weight", "ProjWeight")) else None
    made = run_projected(ctx, layer, Input, _gate_bias(cell, Bias), fixed)
    return (
        WithLod(made.hidden, Input_lod),
        WithLod(made.cells, Input_lod),
        WithLod(made.gates, ()),
        WithLod(made.active, ()),
        WithLod(made.inner, ()),
    )


@lstmp.grad(
    "Input H0 C0 Weight ProjWeight Bias",
    shape=lambda BatchGate, H0, C0, Weight, ProjWeight, Bias: (BatchGate, H0, C0, Weight, ProjWeight, Bias),
    beyond=("Cell@GRAD",),
    makes_lod=True,
)
@with_attrs(_LSTMP_ATTRS)
def _(
    xp: Any,
    ctx: KernelContext,
    H0: Maybe,
    C0: Maybe,
    Weight: Array,
    ProjWeight: Array,
    Bias: Array,
    Projection: Array,
    Projection_lod: Lod,
    Cell: Array,
    BatchGate: Array,
    BatchCellPreAct: Array,
    BatchHidden: Array,
    dProjection: Maybe,
    dCell: Maybe,
    wants: frozenset[str],
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    steps = steps_of("lstmp_grad", "Projection", xp, Projection_lod, len(Projection), attrs["is_reverse"])
    cell = _cell("lstmp_grad", xp, len(ProjWeight), Bias, attrs)
    projection = _projection("lstmp_grad", ProjWeight, attrs)
    layer = LstmLayer(cell, steps, Weight, steps.initial(H0), steps.initial(C0), projection)
    made = ProjectedRun(Projection, Cell, BatchGate, BatchCellPreAct, BatchHidden)
    d = xp.zeros_like(Projection) if dProjection is None else dProjection
    wanted = "Weight@GRAD" in wants, "ProjWeight@GRAD" in wants
    found = run_projected_back(ctx, layer, made, d, dCell, wanted)
    return (
        WithLod(found.gates, Projection_lod),
        None if H0 is None else steps.initial_gradient(found.first_states, H0),
        None if C0 is None else steps.initial_gradient(found.first_cells, C0),
        found.weight,
        found.projection,
        found.bias.reshape(1, -1) if "Bias@GRAD" in wants else None,
    )
