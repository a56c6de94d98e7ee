"""Parameter updates, declared as scalar expressions over their slots.

    update("momentum", "Param Grad Velocity LearningRate -> ParamOut VelocityOut",
           ("VelocityOut", "mu * Velocity + Grad"), ("ParamOut", "Param - LearningRate * VelocityOut"))

Each step computes an output (or a value that later steps read under its name) from input slots, earlier steps
and attributes. From the steps come the kernels for dense gradients and for SelectedRows; plans fuse them
(`UPDATES`). The formulas are those of PaddlePaddle 1.8.5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import LONG, AttrType, KernelContext, Op, Spec, required
from fluidlite.ops.kernels.scalar import function_of, parse
from fluidlite.ops.signatures import takes
from fluidlite.ops.tensors.random import minstd_normal
from fluidlite.values.tensor import SelectedRows, host, merge_rows, positions

__all__ = ["UPDATES", "UpdateRule", "decays", "target_of", "update", "update_function"]

Assignment: TypeAlias = tuple[str, str]  # a name, and the expression that it gets


class Aliased(NamedTuple):
    """Steps that hold where the output `slot` overwrites the input that it replaces, as it does in programs.

    PaddlePaddle's kernel reads such an input after having written the output that shares its memory, and its
    numbers are the reference.
    """

    slot: str
    steps: tuple[Assignment, ...]


@dataclass(frozen=True)
class UpdateRule:
    """The update that an op makes to its parameter.

    Attributes
    ----------
    variants: boolean attribute -> the steps where it is true.
    rows: True, or the name of the attribute that says so, if sparse gradients move their rows only; otherwise
        they act as the dense gradient that they stand for.
    """

    op: Op
    steps: tuple[Assignment, ...]
    variants: Mapping[str, tuple[Assignment, ...]] = field(default_factory=dict)
    rows: bool | str = False
    aliased: Aliased | None = None

    def chosen(self, operator: Any) -> tuple[Assignment, ...]:
        """The steps of one Operator."""
        if self.aliased is not None and operator.output(self.aliased.slot) == operator.input(
            target_of(self.aliased.slot)
        ):
            return self.aliased.steps
        return next((steps for name, steps in self.variants.items() if operator.attrs.get(name)), self.steps)

    def rows_only(self, attrs: Mapping[str, Any]) -> bool:
        """True if a sparse gradient leaves the other rows alone."""
        return bool(attrs[self.rows]) if isinstance(self.rows, str) else self.rows


UPDATES: dict[str, UpdateRule] = {}
_TARGETS = {"SquaredAccumOut": "SquaredAccumulator", "LinearAccumOut": "LinearAccumulator"}


def target_of(output: str) -> str:
    """The input slot whose variable an output slot overwrites."""
    return _TARGETS.get(output, output.removesuffix("Out"))


def same_targets(op: Op) -> None:
    """Give `op` the shape rule of updates: outputs look like the inputs that they overwrite; gradients
    fit.
    """
    rate = ["LearningRate"] if "LearningRate" in op.inputs else []
    needed = list(dict.fromkeys(["Param", "Grad", *rate, *map(target_of, op.outputs)]))

    @op.shape
    @takes(needed)
    def _(**specs: Spec) -> dict[str, Spec]:
        param, grad = specs["Param"], specs["Grad"]
        if grad.static and param.static and grad.shape != param.shape:
            raise ShapeError(
                f"op {op.type!r}: Param has shape {list(param.shape)} but Grad has shape {list(grad.shape)}"
            )
        _check_state(op, specs)
        return {
            output: Spec(specs[target_of(output)].shape, specs[target_of(output)].dtype)
            for output in op.outputs
            if specs[target_of(output)] is not None
        }


def _check_state(op: Op, specs: Mapping[str, Spec | None]) -> None:
    """What is kept for each element has the shape of the parameter; the learning rate is one number."""
    param, rate = specs["Param"], specs.get("LearningRate")
    assert param is not None
    for slot in map(target_of, op.outputs):
        state = specs.get(slot)
        if state is None or not (state.static and param.static) or math.prod(state.shape) == 1:
            continue
        if state.shape != param.shape:
            raise ShapeError(
                f"op {op.type!r}: Param has shape {list(param.shape)} but {slot} has {list(state.shape)}"
            )
    if rate is not None and rate.static and math.prod(rate.shape) > 1:
        raise ShapeError(f"op {op.type!r}: LearningRate must be one number, but has shape {list(rate.shape)}")


def update(
    type: str,
    slots: str,
    *steps: Assignment,
    attrs: Mapping[str, Any] | None = None,
    rows: bool | str = False,
    aliased: Aliased | None = None,
    **variants: tuple[Assignment, ...],
) -> Op:
    """Declare an update op by its steps; see the module's docstring, and `UpdateRule` for the rest."""
    op = Op(type, slots, attrs=attrs or {}, lod=None)
    same_targets(op)
    entry = UPDATES[type] = UpdateRule(op, steps, variants, rows, aliased)

    @op.kernel
    @takes(["xp", "ctx", "wants", *op.inputs, *op.attr_defs])
    def _(xp: Any, ctx: KernelContext, wants: frozenset[str], **values: Any) -> dict[str, Any]:
        found = _apply(xp, entry, ctx.op, _single_precision(op, values))
        if ctx.op.attrs.get("use_global_beta_pow"):
            wants = wants - {"Beta1PowOut", "Beta2PowOut"}
        return {name: found.get(name, values[target_of(name)]) for name in op.outputs if name in wants}

    return op


def _single_precision(op: Op, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with attributes rounded to float32, as the wire format has them: 1 - 0.999 must not be
    0.001.
    """
    floats = {name for name, attr in op.attr_defs.items() if attr.type == AttrType.FLOAT}
    return {name: float(np.float32(value)) if name in floats else value for name, value in values.items()}


def _apply(xp: Any, entry: UpdateRule, operator: Any, values: dict[str, Any]) -> dict[str, Any]:
    grad = values["Grad"]
    for beta in ("beta1", "beta2"):
        tensor = values.get(f"{beta.capitalize()}Tensor")
        if tensor is not None:
            values[beta] = tensor
    steps = entry.chosen(operator)
    if decays(operator):
        grad = values["Grad"] = (
            dense(xp, grad)
            + values["Param"].dtype.type(operator.attrs["regularization_coeff"]) * values["Param"]
        )
    if not isinstance(grad, SelectedRows):
        return _run(xp, entry, steps, values)
    if not entry.rows_only(values):
        return _run(xp, entry, steps, {**values, "Grad": grad.dense(xp)})
    ids, rows = merge_rows(xp, grad.ids, grad.array)
    if isinstance(values["Param"], SelectedRows):
        return {"ParamOut": _moved_rows(xp, entry, steps, values, SelectedRows(ids, grad.height(), rows))}
    tall = [
        name
        for name in map(target_of, entry.op.outputs)
        if values[name] is not None and values[name].shape == grad.shape
    ]
    moved = _run(xp, entry, steps, {**values, **{name: values[name][ids] for name in tall}, "Grad": rows})
    return {
        name: _with_rows(values[target_of(name)], ids, value) if target_of(name) in tall else value
        for name, value in moved.items()
    }


def _moved_rows(
    xp: Any, entry: UpdateRule, steps: tuple[Assignment, ...], values: Mapping[str, Any], grad: SelectedRows
) -> SelectedRows:
    """A table of which some rows exist, those of the gradient among them, after a step (sgd's: there is no
    other state).
    """
    table: SelectedRows = values["Param"]
    at, known = positions(xp, table.ids, grad.ids)
    if not known.all():
        missing = host(grad.ids[~known])[0]
        raise EnforceNotMet(f"op {entry.op.type!r}: Grad has row {missing}, which is none of Param's rows")
    moved = _run(xp, entry, steps, {**values, "Param": table.array[at], "Grad": grad.array})
    return SelectedRows(table.ids, table.height(), _with_rows(table.array, at, moved["ParamOut"]))


def decays(operator: Any) -> bool:
    """True if the op adds L2 decay to the gradient itself, as momentum does in programs of 2.x."""
    return bool(operator.attrs.get("regularization_method") == "l2_decay")


def _with_rows(old: Array, ids: Array, rows: Array) -> Array:
    new = old.copy()
    new[ids] = rows
    return new


def _run(
    xp: Any, entry: UpdateRule, steps: tuple[Assignment, ...], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The outputs after all steps, in the types of what they overwrite."""
    known = dict(values)
    for name, expr in steps:
        known[name] = update_function(expr)(xp, *(known[operand] for operand in parse(expr).names))
    return {
        name: known[name].astype(values[target_of(name)].dtype, copy=False)
        for name in entry.op.outputs
        if name in known
    }


@functools.cache
def update_function(expr: str) -> Callable[..., Any]:
    """The function (xp, operands in the order of `parse(expr).names`) of a step's expression."""
    return function_of(expr, parse(expr).names, {})


def dense(xp: Any, grad: Array | SelectedRows) -> Array:
    """A gradient as an array."""
    result: Array = grad.dense(xp) if isinstance(grad, SelectedRows) else grad
    return result


# ---------------------------------------------------------------------- one learning rate for all elements
update("sgd", "Param LearningRate Grad -> ParamOut", ("ParamOut", "Param - LearningRate * Grad"), rows=True)

_VELOCITY = ("VelocityOut", "mu * Velocity + Grad")
update(
    "momentum",
    "Param Grad Velocity LearningRate -> ParamOut VelocityOut",
    _VELOCITY,
    ("ParamOut", "Param - LearningRate * VelocityOut"),
    use_nesterov=(_VELOCITY, ("ParamOut", "Param - (Grad + mu * VelocityOut) * LearningRate")),
    attrs={"mu": required(AttrType.FLOAT), "use_nesterov": False},
)

_PROXIMAL = ("ParamOut", "sign(near) * maximum(abs(near) - LearningRate * l1, 0) / (1 + LearningRate * l2)")
update(
    "proximal_gd",
    "Param Grad LearningRate -> ParamOut",
    ("near", "Param - LearningRate * Grad"),
    _PROXIMAL,
    attrs={"l1": 0.0, "l2": 0.0},
)

# ---------------------------------------------------------------------- a learning rate for each element
update(
    "adam",
    "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow Beta1Tensor? Beta2Tensor? -> "
    "ParamOut Moment1Out Moment2Out Beta1PowOut? Beta2PowOut?",
    ("rate", "LearningRate * sqrt(1 - Beta2Pow) / (1 - Beta1Pow)"),
    ("Moment1Out", "beta1 * Moment1 + (1 - beta1) * Grad"),
    ("Moment2Out", "beta2 * Moment2 + (1 - beta2) * (Grad * Grad)"),
    ("ParamOut", "Param - rate * (Moment1Out / (sqrt(Moment2Out) + epsilon))"),
    ("Beta1PowOut", "Beta1Pow * beta1"),
    ("Beta2PowOut", "Beta2Pow * beta2"),
    rows="lazy_mode",
    attrs={
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        "lazy_mode": False,
        "min_row_size_to_use_multithread": LONG(1000),
    },
)
update(
    "adamax",
    "Param Grad LearningRate Moment InfNorm Beta1Pow -> ParamOut MomentOut InfNormOut",
    ("MomentOut", "beta1 * Moment + (1 - beta1) * Grad"),
    ("InfNormOut", "maximum(abs(Grad), beta2 * InfNorm + epsilon)"),
    ("ParamOut", "Param - LearningRate / (1 - Beta1Pow) * (MomentOut / InfNormOut)"),
    attrs={"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
)
update(
    "adagrad",
    "Param Grad Moment LearningRate -> ParamOut MomentOut",
    ("MomentOut", "Moment + Grad * Grad"),
    ("ParamOut", "Param - LearningRate * Grad / (sqrt(MomentOut) + epsilon)"),
    attrs={"epsilon": 1e-6},
    rows=True,
)
update(
    "decayed_adagrad",
    "Param Grad Moment LearningRate -> ParamOut MomentOut",
    ("MomentOut", "decay * Moment + (1 - decay) * Grad * Grad"),
    ("ParamOut", "Param - LearningRate * Grad / (sqrt(MomentOut) + epsilon)"),
    attrs={"decay": 0.95, "epsilon": 1e-6},
)
update(
    "proximal_adagrad",
    "Param Moment Grad LearningRate -> ParamOut MomentOut",
    ("MomentOut", "Moment + Grad * Grad"),
    ("near", "Param - LearningRate * Grad / sqrt(MomentOut)"),
    _PROXIMAL,
    attrs={"l1": 0.0, "l2": 0.0},
)
_SQUARED_GRAD = ("AvgSquaredGradOut", "rho * AvgSquaredGrad + (1 - rho) * (Grad * Grad)")
_STEP = "sqrt(({} + epsilon) / (AvgSquaredGradOut + epsilon)) * Grad"
_SQUARED_UPDATE = ("AvgSquaredUpdateOut", "rho * AvgSquaredUpdate + (1 - rho) * (step * step)")
_BY_STEP = ("ParamOut", "Param - step")
update(
    "adadelta",
    "Param Grad AvgSquaredGrad AvgSquaredUpdate -> ParamOut AvgSquaredGradOut AvgSquaredUpdateOut",
    _SQUARED_GRAD,
    ("step", _STEP.format("AvgSquaredUpdate")),
    _SQUARED_UPDATE,
    _BY_STEP,
    aliased=Aliased(
        "AvgSquaredUpdateOut",
        (
            _SQUARED_GRAD,
            ("step", _STEP.format("AvgSquaredUpdate")),
            _SQUARED_UPDATE,
            ("step", _STEP.format("AvgSquaredUpdateOut")),
            _BY_STEP,
        ),
    ),
    attrs={"rho": 0.95, "epsilon": 1e-6},
)

_MEAN_SQUARE = ("MeanSquareOut", "decay * MeanSquare + (1 - decay) * (Grad * Grad)")
_MOMENT_STEP = ("ParamOut", "Param - MomentOut")
update(
    "rmsprop",
    "Param MeanSquare MeanGrad? LearningRate Grad Moment -> ParamOut MomentOut MeanSquareOut MeanGradOut?",
    _MEAN_SQUARE,
    ("MomentOut", "momentum * Moment + LearningRate * Grad / sqrt(MeanSquareOut + epsilon)"),
    _MOMENT_STEP,
    centered=(
        _MEAN_SQUARE,
        ("MeanGradOut", "decay * MeanGrad + (1 - decay) * Grad"),
        ("spread", "sqrt(MeanSquareOut - MeanGradOut * MeanGradOut + epsilon)"),
        ("MomentOut", "momentum * Moment + LearningRate * Grad / spread"),
        _MOMENT_STEP,
    ),
    attrs={"epsilon": 1e-10, "decay": 0.9, "momentum": 0.0, "centered": False},
)
update(
    "ftrl",
    "Param SquaredAccumulator LinearAccumulator Grad LearningRate -> ParamOut SquaredAccumOut LinearAccumOut",
    ("SquaredAccumOut", "SquaredAccumulator + Grad * Grad"),
    ("curve", "pow(SquaredAccumOut, -lr_power)"),
    (
        "LinearAccumOut",
        "LinearAccumulator + Grad - (curve - pow(SquaredAccumulator, -lr_power)) / LearningRate * Param",
    ),
    ("shrunk", "(l1 * sign(LinearAccumOut) - LinearAccumOut) / (curve / LearningRate + 2 * l2)"),
    ("ParamOut", "where(abs(LinearAccumOut) > l1, shrunk, 0.0)"),
    attrs={"l1": 0.0, "l2": 0.0, "lr_power": -0.5},
    rows=True,
)


# ---------- updates that look at the whole parameter
def _norm(xp: Any, array: Array) -> Any:
    return xp.sqrt(xp.sum(xp.square(array)))


lars = Op(
    "lars_momentum",
    "Param Grad Velocity LearningRate -> ParamOut VelocityOut",
    lod=None,
    attrs={"mu": required(AttrType.FLOAT), "lars_coeff": 0.001, "lars_weight_decay": 0.0005},
)
same_targets(lars)


@lars.kernel
def _(
    xp: Any,
    Param: Array,
    Grad: Array | SelectedRows,
    Velocity: Array,
    LearningRate: Array,
    mu: float,
    lars_coeff: float,
    lars_weight_decay: float | list[float],
) -> tuple[Array, Array]:
    grad = dense(xp, Grad)
    decay = lars_weight_decay[0] if isinstance(lars_weight_decay, list) else lars_weight_decay
    param_norm, grad_norm = _norm(xp, Param), _norm(xp, grad)
    both = (param_norm > 0) & (grad_norm > 0)
    scaled = LearningRate * lars_coeff * param_norm / xp.where(both, grad_norm + decay * param_norm, 1)
    velocity = Velocity * mu + xp.where(both, scaled, LearningRate) * (grad + decay * Param)
    return (Param - velocity).astype(Param.dtype, copy=False), velocity.astype(Velocity.dtype, copy=False)


lamb = Op(
    "lamb",
    "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow -> ParamOut Moment1Out Moment2Out",
    lod=None,
    attrs={"weight_decay": required(AttrType.FLOAT), "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6},
)
same_targets(lamb)


@lamb.kernel
def _(
    xp: Any,
    Param: Array,
    Grad: Array | SelectedRows,
    LearningRate: Array,
    Moment1: Array,
    Moment2: Array,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    grad = dense(xp, Grad)
    beta1, beta2 = float(np.float32(beta1)), float(np.float32(beta2))
    m = beta1 * Moment1 + (1 - beta1) * grad
    v = beta2 * Moment2 + (1 - beta2) * grad * grad
    step = m / (xp.sqrt(v) + epsilon) + weight_decay * Param
    param_norm, step_norm = _norm(xp, Param), _norm(xp, step)
    both = (param_norm > 0) & (step_norm > 0)
    trust = xp.where(both, param_norm / xp.where(both, step_norm, 1), 1).astype(Param.dtype)
    return (Param - LearningRate * trust * step).astype(Param.dtype, copy=False), m, v


dpsgd = Op(
    "dpsgd",
    "Param Grad LearningRate -> ParamOut",
    random=True,
    lod=None,
    attrs={"clip": 10.0, "batch_size": 16.0, "sigma": 1.0, "seed": 0},
)
same_targets(dpsgd)


@dpsgd.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Param: Array,
    Grad: Array,
    LearningRate: Array,
    clip: float,
    batch_size: float,
    sigma: float,
    seed: int,
) -> Array:
    # one number for the whole parameter: the first of a pair of the polar method, which minstd_normal gives
    # second
    noise = sigma * float(minstd_normal(seed, 2)[1] if seed else ctx.rng(0).standard_normal())
    shrink = xp.maximum(_norm(xp, Grad) / clip, 1)
    moved: Array = Param - LearningRate * (Grad / shrink + noise / batch_size)
    return moved.astype(Param.dtype, copy=False)


dgc_momentum = Op(
    "dgc_momentum",
    "current_step nranks Param Grad Velocity LearningRate -> Grad_out ParamOut VelocityOut",
    lod=None,
    attrs={"mu": required(AttrType.FLOAT), "use_nesterov": False, "rampup_begin_step": -1.0},
)


@dgc_momentum.shape
def _(Param: Spec, Grad: Spec, Velocity: Spec) -> tuple[Spec, Spec, Spec]:
    return Grad.with_shape(Grad.shape), Param.with_shape(Param.shape), Velocity.with_shape(Velocity.shape)


@dgc_momentum.kernel
def _(
    xp: Any,
    current_step: Array,
    nranks: Array,
    Param: Array,
    Grad: Array,
    Velocity: Array,
    LearningRate: Array,
    mu: float,
    use_nesterov: bool,
    rampup_begin_step: float,
) -> tuple[Array, Array, Array]:
    """Momentum before the ramp-up; plain descent after it, when the compression keeps the velocity itself."""
    if rampup_begin_step < 0:
        return Grad, Param, Velocity
    grad = (Grad / nranks).astype(Grad.dtype, copy=False)
    compressing = current_step >= rampup_begin_step
    velocity = mu * Velocity + grad
    step = (grad + mu * velocity) if use_nesterov else velocity
    param = Param - LearningRate * xp.where(compressing, grad, step)
    return grad, param.astype(Param.dtype, copy=False), xp.where(compressing, Velocity, velocity)


# ---------------------------------------------------------------------- averages of parameters
_LONGEST_SUM = 16384  # updates after which the first sum moves into the second, for precision
_ACCUMULATED = ("sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates")
average_accumulates = Op(
    "average_accumulates",
    " ".join(
        ["param", *("in_" + name for name in _ACCUMULATED), "->", *("out_" + name for name in _ACCUMULATED)]
    ),
    attrs={
        "average_window": 0.0,
        "max_average_window": required(AttrType.LONG),
        "min_average_window": LONG(10000),
    },
    lod=None,
)


@average_accumulates.shape
def _(
    in_sum_1: Spec,
    in_sum_2: Spec,
    in_sum_3: Spec,
    in_num_accumulates: Spec,
    in_old_num_accumulates: Spec,
    in_num_updates: Spec,
) -> tuple[Spec, ...]:
    return in_sum_1, in_sum_2, in_sum_3, in_num_accumulates, in_old_num_accumulates, in_num_updates


@average_accumulates.kernel
def _(
    xp: Any,
    param: Array,
    in_sum_1: Array,
    in_sum_2: Array,
    in_sum_3: Array,
    in_num_accumulates: Array,
    in_old_num_accumulates: Array,
    in_num_updates: Array,
    average_window: float,
    max_average_window: int,
    min_average_window: int,
) -> tuple[Array, ...]:
    updates, count = in_num_updates + 1, in_num_accumulates + 1
    first = in_sum_1 + param
    full = updates % _LONGEST_SUM == 0
    second = xp.where(full, in_sum_2 + first, in_sum_2)
    first = xp.where(full, 0, first)
    window = xp.minimum(max_average_window, (updates * average_window).astype(updates.dtype))
    restart = (count >= min_average_window) & (count >= window)
    third = xp.where(restart, first + second, in_sum_3)
    first, second = (xp.where(restart, 0, part).astype(param.dtype) for part in (first, second))
    return (
        first,
        second,
        third.astype(param.dtype),
        xp.where(restart, 0, count),
        xp.where(restart, count, in_old_num_accumulates),
        updates,
    )
