"""Long short-term memory over sequences, plain and with a projection; gates in the order candidate, input,
forget, output. The steps are `kernels.recurrent_steps`; the weights' gradients are one product each.
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
from fluidlite.ops.kernels.cells import CellForm
from fluidlite.ops.kernels.gated_cells import lstm_form, simple_form
from fluidlite.ops.kernels.recurrence import TimeSteps, steps_of
from fluidlite.ops.kernels.recurrent_steps import RecurrentLayer, RecurrentRun, run_rows, run_rows_back
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


# ---------------------------------------------------------------------- layers
def _layer(
    op: str,
    steps: TimeSteps,
    weights: tuple[Array, ...],
    H0: Maybe,
    C0: Maybe,
    Bias: Array,
    attrs: Mapping[str, Any],
) -> RecurrentLayer:
    """The layer of an op, from its attributes and from what its bias holds beyond the gates'."""
    size = weights[0].shape[1] // 4
    parts = ("gate", "cell", "candidate")
    kinds = tuple(activation(op, attrs[f"{part}_activation"]).name for part in parts)
    has_peepholes = attrs["use_peepholes"]
    return RecurrentLayer(
        steps.xp,
        lstm_form(kinds, attrs.get("cell_clip", 0.0), has_peepholes),
        size,
        weights,
        steps,
        steps.initial(H0),
        steps.initial(C0),
        Bias.reshape(-1)[4 * size :] if has_peepholes else None,
        _projection(op, attrs) if len(weights) > 1 else None,
    )


def _projection(op: str, attrs: Mapping[str, Any]) -> CellForm:
    # a slip of 1.8.5 that its trained models depend on: the projection takes the cell's activation, and
    # proj_activation only says whether there is one
    linear = attrs["proj_activation"] == "identity"
    name = "identity" if linear else attrs["cell_activation"]
    return simple_form(activation(op, name).name, attrs["proj_clip"])


def _gate_bias(layer: RecurrentLayer, Bias: Array) -> Array:
    """The part of the bias that the gates have."""
    return Bias.reshape(-1)[: 4 * layer.size]


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
    layer = _layer("lstm", steps, (Weight,), H0, C0, Bias, attrs)
    saves = not ctx.unread.issuperset(("BatchGate", "BatchCellPreAct"))
    fixed = "Weight" if "Weight" in ctx.fixed else None
    made = run_rows(ctx, layer, Input, _gate_bias(layer, Bias), saves, fixed)
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
    layer = _layer("lstm_grad", steps, (Weight,), H0, C0, Bias, attrs)
    made = RecurrentRun(Hidden, BatchGate, Cell, BatchCellPreAct)
    found = run_rows_back(ctx, layer, made, dHidden, dCell, wants=("Weight@GRAD" in wants,))
    return (
        found.sums if "Input@GRAD" in wants else None,
        steps.initial_gradient(found.first_states, H0),
        steps.initial_gradient(found.first_cells, C0),
        found.weights[0],
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
    steps = steps_of("lstmp", "Input", xp, Input_lod, len(Input), attrs["is_reverse"])
    layer = _layer("lstmp", steps, (Weight, ProjWeight), H0, C0, Bias, attrs)
    fixed = "weights" if ctx.fixed.issuperset(("Weight", "ProjWeight")) else None
    made = run_rows(ctx, layer, Input, _gate_bias(layer, Bias), fixed=fixed)
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
    layer = _layer("lstmp_grad", steps, (Weight, ProjWeight), H0, C0, Bias, attrs)
    made = RecurrentRun(Projection, BatchGate, Cell, BatchCellPreAct, inner=BatchHidden)
    wanted = "Weight@GRAD" in wants, "ProjWeight@GRAD" in wants
    found = run_rows_back(ctx, layer, made, dProjection, dCell, wants=wanted)
    return (
        WithLod(found.sums, Projection_lod),
        steps.initial_gradient(found.first_states, H0),
        steps.initial_gradient(found.first_cells, C0),
        *found.weights,
        found.bias.reshape(1, -1) if "Bias@GRAD" in wants else None,
    )
