"""Gated recurrent units, over sequences and for one step; gates in the order update, reset, candidate.

The weight [size, 3 size] is really two matrices, one after the other in memory: [size, 2 size] for update and
reset, and [size, size] for the candidate. `origin_mode` says whether the update gate lets the old state
through, as in the paper that introduced the unit (arXiv 1406.1078), or the new one.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import KernelContext, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.activations import activation
from fluidlite.ops.kernels.gated_cells import gru_form
from fluidlite.ops.kernels.recurrence import TimeSteps, single_step, steps_of
from fluidlite.ops.kernels.recurrent_steps import (
    RecurrentGradients,
    RecurrentLayer,
    RecurrentRun,
    run_rows,
    run_rows_back,
)

Maybe: TypeAlias = "Array | None"


def _layer(
    op: str, steps: TimeSteps, Weight: Array, first: Maybe, gate: str, candidate: str, origin_mode: bool
) -> RecurrentLayer:
    """The layer of an op; `first` are the states before, longest sequence first."""
    size = len(Weight)
    flat = Weight.reshape(-1)
    weights = flat[: 2 * size * size].reshape(size, 2 * size), flat[2 * size * size :].reshape(size, size)
    kinds = [activation(op, kind, op.startswith("gru_unit")).name for kind in (gate, candidate)]
    form = gru_form(kinds[0], kinds[1], origin_mode)
    return RecurrentLayer(steps.xp, form, size, weights, steps, first)


def _weight_gradient(xp: Any, found: RecurrentGradients, Weight: Array) -> Maybe:
    """That of both matrices, where it is wanted."""
    first, second = found.weights
    if first is None or second is None:
        return None
    joined: Array = xp.empty(Weight.size, first.dtype)
    joined[: first.size] = first.reshape(-1)
    joined[first.size :] = second.reshape(-1)
    return joined.reshape(Weight.shape)


def _gate_bias(Bias: Maybe) -> Maybe:
    return None if Bias is None else Bias.reshape(-1)


def _fixed(ctx: KernelContext) -> str | None:
    """The name under which the weight is kept in another layout, where it stays as it is."""
    return "Weight" if "Weight" in ctx.fixed else None


def _check(op: str, Input: Spec, Weight: Spec, Bias: Spec | None) -> int:
    """The size of the state."""
    size = Weight.shape[0]
    if len(Weight.shape) != 2 or Weight.shape[1] != 3 * size:
        raise ShapeError(f"op {op!r}: Weight has shape {list(Weight.shape)}, wanted [size, 3 x size]")
    if len(Input.shape) != 2 or not fits(Input.shape[1], 3 * size):
        raise ShapeError(
            f"op {op!r}: Input has shape {list(Input.shape)}, wanted {3 * size} columns, as "
            f"Weight{list(Weight.shape)}"
        )
    if Bias is not None and not fits(Bias.shape, (1, 3 * size)):
        raise ShapeError(f"op {op!r}: Bias has shape {list(Bias.shape)}, wanted [1, {3 * size}]")
    return size


# ---------------------------------------------------------------------- over sequences
gru = Op(
    "gru",
    "Input. H0? Weight. Bias.? -> BatchGate? BatchResetHiddenPrev? BatchHidden? Hidden",
    lod=None,
    attrs={"activation": "tanh", "gate_activation": "sigmoid", "is_reverse": False, "origin_mode": False},
    makes_lod=True,
    alike=("Input", "H0", "Weight", "Bias"),
)


@gru.flops
def _(Input: Spec, Weight: Spec) -> int:
    return 2 * math.prod(Input.shape[:1]) * math.prod(Weight.shape)


@gru.shape
def _(Input: Spec, H0: Spec | None, Weight: Spec, Bias: Spec | None) -> tuple[Spec, Spec, Spec, Spec]:
    size = _check("gru", Input, Weight, Bias)
    if H0 is not None and H0.shape[1] != size:
        raise ShapeError(f"op 'gru': H0 has shape {list(H0.shape)}, wanted {size} columns")
    inner = Spec((Input.shape[0], size), Input.dtype)
    return Spec(Input.shape, Input.dtype), inner, inner, inner._replace(lod_level=Input.lod_level)


@gru.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    Input_lod: Lod,
    H0: Array | None,
    Weight: Array,
    Bias: Array | None,
    is_reverse: bool,
    activation: str,
    gate_activation: str,
    origin_mode: bool,
) -> tuple[Array, Maybe, Maybe, WithLod]:
    steps = steps_of("gru", "Input", xp, Input_lod, len(Input), is_reverse)
    layer = _layer("gru", steps, Weight, steps.initial(H0), gate_activation, activation, origin_mode)
    made = run_rows(ctx, layer, Input, _gate_bias(Bias), fixed=_fixed(ctx))
    ordered = None if "BatchHidden" in ctx.unread else steps.by_step(made.hidden)
    return made.gates, made.reset, ordered, WithLod(made.hidden, Input_lod)


@gru.grad("Input H0 Weight Bias")
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    Input_lod: Lod,
    H0: Array | None,
    Weight: Array,
    Bias: Array | None,
    BatchGate: Array,
    BatchResetHiddenPrev: Array,
    BatchHidden: Array,  # Hidden in another order: read by Paddle's op, and therefore an input of ours
    Hidden: Array,
    dHidden: Array,
    is_reverse: bool,
    activation: str,
    gate_activation: str,
    origin_mode: bool,
    wants: frozenset[str],
) -> tuple[Array | None, ...]:
    steps = steps_of("gru_grad", "Input", xp, Input_lod, len(Input), is_reverse)
    layer = _layer("gru_grad", steps, Weight, steps.initial(H0), gate_activation, activation, origin_mode)
    made = RecurrentRun(Hidden, BatchGate, reset=BatchResetHiddenPrev)
    found = run_rows_back(ctx, layer, made, dHidden, wants=["Weight@GRAD" in wants] * 2)
    return (
        found.sums if "Input@GRAD" in wants else None,
        steps.initial_gradient(found.first_states, H0),
        _weight_gradient(xp, found, Weight),
        None if Bias is None else found.bias.reshape(Bias.shape),
    )


# ---------------------------------------------------------------------- one step
_CODES = ("identity", "sigmoid", "tanh", "relu")

gru_unit = Op(
    "gru_unit",
    "Input. HiddenPrev. Weight. Bias.? -> Gate? ResetHiddenPrev? Hidden",
    lod=None,
    attrs={
        "activation": limited(2, one_of(0, 1, 2, 3)),
        "gate_activation": limited(1, one_of(0, 1, 2, 3)),
        "origin_mode": False,
    },
    alike=("Input", "HiddenPrev", "Weight", "Bias"),
)


def _name(code: int) -> str:
    if not 0 <= code < len(_CODES):
        raise ShapeError(
            f"op 'gru_unit': activation {code} is not one of "
            f"{', '.join((f'{i} ({name})' for i, name in enumerate(_CODES)))}"
        )
    return _CODES[code]


@gru_unit.shape
def _(Input: Spec, HiddenPrev: Spec, Weight: Spec, Bias: Spec | None) -> tuple[Spec, Spec, Spec]:
    size = _check("gru_unit", Input, Weight, Bias)
    if len(HiddenPrev.shape) != 2 or HiddenPrev.shape[1] != size:
        raise ShapeError(
            f"op 'gru_unit': HiddenPrev has shape {list(HiddenPrev.shape)}, wanted {size} columns"
        )
    state = Spec((Input.shape[0], size), Input.dtype)
    return Spec((Input.shape[0], 3 * size), Input.dtype), state, state


@gru_unit.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    HiddenPrev: Array,
    Weight: Array,
    Bias: Array | None,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
) -> tuple[Array, Maybe, Array]:
    steps = single_step(xp, len(Input))
    kinds = _name(gate_activation), _name(activation)
    layer = _layer("gru_unit", steps, Weight, HiddenPrev, *kinds, origin_mode)
    made = run_rows(ctx, layer, Input, _gate_bias(Bias), fixed=_fixed(ctx))
    return made.gates, made.reset, made.hidden


@gru_unit.grad("Input HiddenPrev Weight Bias")
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    HiddenPrev: Array,
    Weight: Array,
    Bias: Array | None,
    Gate: Array,
    ResetHiddenPrev: Array,
    dHidden: Array,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
    wants: frozenset[str],
) -> tuple[Array | None, ...]:
    steps = single_step(xp, len(Input))
    kinds = _name(gate_activation), _name(activation)
    layer = _layer("gru_unit_grad", steps, Weight, HiddenPrev, *kinds, origin_mode)
    # of a single step the states are no one's earlier ones, and are not read
    made = RecurrentRun(dHidden, Gate, reset=ResetHiddenPrev)
    found = run_rows_back(ctx, layer, made, dHidden, wants=["Weight@GRAD" in wants] * 2)
    bias = None if Bias is None else found.bias.reshape(Bias.shape)
    return found.sums, found.first_states, _weight_gradient(xp, found, Weight), bias
