"""Gated recurrent units, over sequences and for one step; gates in the order update, reset, candidate.

The weight [size, 3 size] is really two matrices, one after the other in memory: [size, 2 size] for update and
reset, and [size, size] for the candidate. `origin_mode` says whether the update gate lets the old state
through, as in the paper that introduced the unit (arXiv 1406.1078), or the new one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.numbers import as_matrix
from fluidlite.ops.kernels.recurrence import Activation, TimeSteps, activation, single_step
from fluidlite.ops.kernels.sequence_rows import offsets_of_level


class _GruUnit(NamedTuple):
    """Weights and activations."""

    xp: Any
    size: int
    gate_weight: Array
    candidate_weight: Array
    gate: Activation
    candidate: Activation
    origin_mode: bool

    def run(self, gates: Array, earlier: Array | None, reset: Array, hidden: Array) -> None:
        """Activate the gates [n, 3 size] in place; write the reset state and the new one."""
        xp, size = self.xp, self.size
        update, candidate = gates[:, :size], gates[:, 2 * size :]
        if earlier is not None:
            gates[:, : 2 * size] += earlier @ self.gate_weight
        self.gate.apply(xp, gates[:, : 2 * size])
        if earlier is not None:
            xp.multiply(gates[:, size : 2 * size], earlier, out=reset)
            candidate += reset @ self.candidate_weight
        else:
            reset[...] = 0
        self.candidate.apply(xp, candidate)
        new, old = (1 - update, update) if self.origin_mode else (update, 1 - update)
        xp.multiply(new, candidate, out=hidden)
        if earlier is not None:
            hidden += old * earlier

    def factors(self, gates: Array, earlier: Array) -> tuple[Array, Array]:
        """Factors of the gates' gradients, [n, 3, size], and the share of a gradient that goes straight to
        the earlier state.
        """
        gates = gates.reshape(len(gates), 3, self.size)
        update, reset, candidate = (gates[:, k] for k in range(3))
        out = self.xp.empty_like(gates)
        change = earlier - candidate if self.origin_mode else candidate - earlier
        out[:, 0] = change * self.gate.slope(update)
        out[:, 1] = earlier * self.gate.slope(reset)
        out[:, 2] = (1 - update if self.origin_mode else update) * self.candidate.slope(candidate)
        return out, update if self.origin_mode else 1 - update

    def back(self, d: Array, factors: Array, reset: Array, straight: Array) -> Array:
        """One step back: `factors` become the gates' gradients; gives the gradient of the earlier state."""
        factors[:, 2] *= d
        dreset = factors[:, 2] @ self.candidate_weight.T
        factors[:, 1] *= dreset
        factors[:, 0] *= d
        earlier = d * straight
        earlier += dreset * reset
        earlier += as_matrix(factors[:, :2]) @ self.gate_weight.T
        return earlier


def _unit(op: str, xp: Any, Weight: Array, gate: str, candidate: str, origin_mode: bool) -> _GruUnit:
    size = len(Weight)
    flat = Weight.reshape(-1)
    return _GruUnit(
        xp,
        size,
        flat[: 2 * size * size].reshape(size, 2 * size),
        flat[2 * size * size :].reshape(size, size),
        activation(op, gate, op.startswith("gru_unit")),
        activation(op, candidate, op.startswith("gru_unit")),
        origin_mode,
    )


def _run(unit: _GruUnit, steps: TimeSteps, gates: Array, H0: Array | None) -> tuple[Array, Array]:
    """All steps: reset and new states, step by step; `gates` hold the inputs with their bias and are
    overwritten.
    """
    reset, hidden = (unit.xp.empty((len(gates), unit.size), gates.dtype) for _ in range(2))
    for step in steps:
        first = None if H0 is None else H0[: step.width]
        earlier = first if step.before is None else hidden[step.before : step.before + step.width]
        unit.run(gates[step.rows], earlier, reset[step.rows], hidden[step.rows])
    return reset, hidden


def _run_back(
    unit: _GruUnit, steps: TimeSteps, gates: Array, earlier: Array, d: Array
) -> tuple[Array, Array]:
    """Gradients of the gates before activation, and of the first states, from `d`, that of the states,
    which is overwritten.
    """
    factors, straight = unit.factors(gates, earlier)
    reset = gates[:, unit.size : 2 * unit.size]
    passed = d[:0]
    for step in reversed(list(steps)):
        now = step.rows
        d[step.start : step.start + len(passed)] += passed
        passed = unit.back(d[now], factors[now], reset[now], straight[now])
    return as_matrix(factors), passed


def _weight_gradient(
    unit: _GruUnit, earlier: Array, reset: Array, dgates: Array, shape: tuple[int, ...]
) -> Array:
    split = 2 * unit.size
    parts = earlier.T @ dgates[:, :split], reset.T @ dgates[:, split:]
    return unit.xp.concatenate([part.reshape(-1) for part in parts]).reshape(shape)


def _check(op: str, Input: Spec, Weight: Spec, Bias: Spec | None) -> int:
    """The size of the state."""
    size = Weight.shape[0]
    if len(Weight.shape) != 2 or Weight.shape[1] != 3 * size:
        raise ShapeError(f"op {op!r}: Weight has shape {list(Weight.shape)}, wanted [size, 3 x size]")
    if len(Input.shape) != 2 or Input.shape[1] not in (3 * size, -1):
        raise ShapeError(
            f"op {op!r}: Input has shape {list(Input.shape)}, wanted {3 * size} columns, as "
            f"Weight{list(Weight.shape)}"
        )
    if Bias is not None and tuple(Bias.shape) != (1, 3 * size):
        raise ShapeError(f"op {op!r}: Bias has shape {list(Bias.shape)}, wanted [1, {3 * size}]")
    return size


# ---------------------------------------------------------------------- over sequences
gru = Op(
    "gru",
    "Input H0? Weight Bias? -> BatchGate? BatchResetHiddenPrev? BatchHidden? Hidden",
    lod=None,
    dynamic=True,
    attrs={"activation": "tanh", "gate_activation": "sigmoid", "is_reverse": False, "origin_mode": False},
)


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
    Input: Array,
    Input_lod: Lod,
    H0: Array | None,
    Weight: Array,
    Bias: Array | None,
    is_reverse: bool,
    activation: str,
    gate_activation: str,
    origin_mode: bool,
) -> tuple[Array, Array, Array, WithLod]:
    steps = TimeSteps(xp, offsets_of_level("gru", "Input", Input_lod, 0, len(Input)), is_reverse)
    unit = _unit("gru", xp, Weight, gate_activation, activation, origin_mode)
    gates = steps.by_step(Input)
    if Bias is not None:
        gates += Bias.reshape(-1)
    reset, hidden = _run(unit, steps, gates, steps.initial(H0))
    return gates, reset, hidden, WithLod(steps.by_sequence(hidden), Input_lod)


@gru.grad("Input H0 Weight Bias")
def _(
    xp: Any,
    Input: Array,
    Input_lod: Lod,
    H0: Array | None,
    Weight: Array,
    Bias: Array | None,
    BatchGate: Array,
    BatchResetHiddenPrev: Array,
    BatchHidden: Array,
    Hidden: Array,
    dHidden: Array,
    is_reverse: bool,
    activation: str,
    gate_activation: str,
    origin_mode: bool,
    wants: frozenset[str],
) -> tuple[Array | None, ...]:
    steps = TimeSteps(xp, offsets_of_level("gru_grad", "Input", Input_lod, 0, len(Input)), is_reverse)
    unit = _unit("gru_grad", xp, Weight, gate_activation, activation, origin_mode)
    earlier = steps.earlier(BatchHidden, steps.initial(H0))
    dgates, first = _run_back(unit, steps, BatchGate, earlier, steps.by_step(dHidden))
    return (
        steps.by_sequence(dgates) if "Input@GRAD" in wants else None,
        None if H0 is None else steps.initial_gradient(first, H0),
        _weight_gradient(unit, earlier, BatchResetHiddenPrev, dgates, Weight.shape)
        if "Weight@GRAD" in wants
        else None,
        None if Bias is None else dgates.sum(axis=0).reshape(Bias.shape),
    )


# ---------------------------------------------------------------------- one step
_CODES = ("identity", "sigmoid", "tanh", "relu")

gru_unit = Op(
    "gru_unit",
    "Input HiddenPrev Weight Bias? -> Gate? ResetHiddenPrev? Hidden",
    lod=None,
    attrs={"activation": 2, "gate_activation": 1, "origin_mode": False},
)


def _name(code: int) -> str:
    if not 0 <= code < len(_CODES):
        raise ShapeError(
            f"op 'gru_unit': activation {code} is none of "
            f"{', '.join(f'{i} ({name})' for i, name in enumerate(_CODES))}"
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
    Input: Array,
    HiddenPrev: Array,
    Weight: Array,
    Bias: Array | None,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
) -> tuple[Array, Array, Array]:
    unit = _unit("gru_unit", xp, Weight, _name(gate_activation), _name(activation), origin_mode)
    gates = Input.copy() if Bias is None else Input + Bias
    return (gates, *_run(unit, single_step(xp, len(Input)), gates, HiddenPrev))


@gru_unit.grad("Input HiddenPrev Weight Bias")
def _(
    xp: Any,
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
    unit = _unit("gru_unit_grad", xp, Weight, _name(gate_activation), _name(activation), origin_mode)
    dgates, first = _run_back(unit, single_step(xp, len(Input)), Gate, HiddenPrev, dHidden.copy())
    return (
        dgates,
        first,
        _weight_gradient(unit, HiddenPrev, ResetHiddenPrev, dgates, Weight.shape)
        if "Weight@GRAD" in wants
        else None,
        None if Bias is None else dgates.sum(axis=0).reshape(Bias.shape),
    )
