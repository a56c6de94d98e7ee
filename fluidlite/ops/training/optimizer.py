"""Parameter updates, declared as scalar expressions over their slots.

    update("momentum", "Param. Grad. Velocity. LearningRate. -> ParamOut VelocityOut",
           ("VelocityOut", "mu * Velocity + Grad"), ("ParamOut", "Param - LearningRate * VelocityOut"))

Each step computes an output (or a value that later steps read under its name) from input slots, earlier steps
and attributes. From the steps come the kernels for dense gradients and for SelectedRows; plans fuse them
(`UPDATES`). The formulas are those of PaddlePaddle 1.8.5.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.records import dataclass
from fluidlite.base.registry import LONG, AttrType, KernelContext, Op, Spec, required
from fluidlite.ops.kernels.scalar import function_of, parse
from fluidlite.ops.signatures import takes
from fluidlite.values.row_sums import add_rows
from fluidlite.values.tensor import SelectedRows, host, merge_rows, positions

__all__ = [
    "MARK_OF_2X",
    "UPDATES",
    "UpdateRule",
    "decays",
    "dense",
    "descend",
    "descends",
    "same_targets",
    "target_of",
    "update",
    "update_function",
    "written_by_2x",
]

Assignment: TypeAlias = tuple[str, str]  # a name, and the expression that it gets


class Aliased(NamedTuple):
    """Steps that hold where the output `slot` overwrites the input that it replaces, as it does in programs.

    PaddlePaddle's kernel reads such an input after having written the output that shares its memory, and its
    numbers are the reference.
    """

    slot: str
    steps: tuple[Assignment, ...]


class SpecialCase(NamedTuple):
    """Steps that take less time, and give the same, where an attribute has a certain value."""

    attribute: str
    value: float
    steps: tuple[Assignment, ...]


@dataclass(frozen=True)
class UpdateRule:
    """The update that an op makes to its parameter.

    Attributes
    ----------
    variants: boolean attribute -> the steps where it is true.
    rows: True, or the name of the attribute that says so, if sparse gradients move their rows only; otherwise
        they act as the dense gradient that they stand for.
    of_2x: the steps of ops that 2.x has written, where its formula is another one.
    special: what goes instead of `steps` for one value of an attribute.
    """

    op: Op
    steps: tuple[Assignment, ...]
    variants: Mapping[str, tuple[Assignment, ...]] = field(default_factory=dict)
    rows: bool | str = False
    aliased: Aliased | None = None
    of_2x: tuple[Assignment, ...] = ()
    special: SpecialCase | None = None

    def chosen(self, operator: Any) -> tuple[Assignment, ...]:
        """The steps of one Operator."""
        steps = self._formula(operator)
        factor = rescale_of(operator)
        if factor != 1:
            steps = tuple((name, re.sub(r"\bGrad\b", f"({factor!r} * Grad)", expr)) for name, expr in steps)
        if not operator.inputs.get(SKIP):
            return steps
        outputs = self.op.outputs
        return tuple(
            (name, f"where({SKIP}, {target_of(name)}, {expr})" if name in outputs else expr)
            for name, expr in steps
        )

    def _formula(self, operator: Any) -> tuple[Assignment, ...]:
        if self.of_2x and written_by_2x(operator):
            return self.of_2x
        if self.aliased is not None and operator.output(self.aliased.slot) == operator.input(
            target_of(self.aliased.slot)
        ):
            return self.aliased.steps
        for name, steps in self.variants.items():
            if operator.attrs.get(name):
                return steps
        case = self.special
        if case is not None and operator.value_for_kernels(case.attribute) == case.value:
            return case.steps
        return self.steps

    def rows_only(self, attrs: Mapping[str, Any]) -> bool:
        """True if a sparse gradient leaves the other rows alone."""
        return bool(attrs[self.rows]) if isinstance(self.rows, str) else self.rows


UPDATES: dict[str, UpdateRule] = {}
SKIP = "SkipUpdate"  # a boolean of 2.x: True where gradients have overflowed, so that nothing moves
MARK_OF_2X = "multi_precision"  # an attribute of every update in programs of 2.x, and of none in 1.8's
_TARGETS = {"SquaredAccumOut": "SquaredAccumulator", "LinearAccumOut": "LinearAccumulator"}


def target_of(output: str) -> str:
    """The input slot whose variable an output slot overwrites."""
    return _TARGETS.get(output, output.removesuffix("Out"))


def written_by_2x(operator: Any) -> bool:
    """True for an update as programs of 2.x have it."""
    return MARK_OF_2X in operator.attrs


def same_targets(op: Op) -> None:
    """Give `op` the shape rule of updates: outputs look like the inputs that they overwrite; gradients
    fit.
    """
    rate = ["LearningRate"] if "LearningRate" in op.inputs else []
    needed = list(dict.fromkeys(["Param", "Grad", *rate, *map(target_of, op.outputs)]))

    @op.shape
    @takes(needed)
    def _(**specs: Spec) -> dict[str, Spec]:
        param = specs["Param"]
        grad = specs["Grad"]
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
    """State that is kept for each element has the shape of the parameter; the learning rate is one number."""
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
    of_2x: tuple[Assignment, ...] = (),
    special: SpecialCase | None = None,
    version: int = 0,
    **variants: tuple[Assignment, ...],
) -> Op:
    """Declare an update op by its steps; see the module's docstring, and `UpdateRule` for the rest."""
    op = Op(type, slots, attrs=attrs or {}, lod=None, later=(SKIP,), version=version)
    same_targets(op)
    entry = UPDATES[type] = UpdateRule(op, steps, variants, rows, aliased, of_2x, special)

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
        param = values["Param"]
        # what is added to the gradient is not rescaled with it
        decay = param.dtype.type(operator.attrs["regularization_coeff"] / rescale_of(operator))
        grad = values["Grad"] = dense(xp, grad) + decay * param
    if not isinstance(grad, SelectedRows):
        return _run(xp, entry, steps, values)
    if not entry.rows_only(values):
        return _run(xp, entry, steps, {**values, "Grad": grad.dense(xp)})
    if xp is np and descends(operator) and not isinstance(values["Param"], SelectedRows):
        param = values["Param"].copy()
        descend(param, grad, values["LearningRate"])
        return {"ParamOut": param}
    ids, rows = merge_rows(xp, grad.ids, grad.array)
    if isinstance(values["Param"], SelectedRows):
        return {"ParamOut": _moved_rows(xp, entry, steps, values, SelectedRows(ids, grad.height(), rows))}
    # accumulators as tall as the parameter are cut to the rows of the batch; one number is used as it is
    held = {name: values[name] for name in map(target_of, entry.op.outputs) if values[name] is not None}
    tall = {name: value[ids] for name, value in held.items() if value.shape == grad.shape}
    moved = _run(xp, entry, steps, {**values, **tall, "Grad": rows})
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
        raise EnforceNotMet(f"op {entry.op.type!r}: Grad has row {missing}, which is not one of Param's rows")
    moved = _run(xp, entry, steps, {**values, "Param": table.array[at], "Grad": grad.array})
    return SelectedRows(table.ids, table.height(), _with_rows(table.array, at, moved["ParamOut"]))


def descends(operator: Any) -> bool:
    """True for sgd that moves whatever its gradient has, by the gradient alone."""
    return operator.type == "sgd" and not operator.inputs.get(SKIP) and not decays(operator)


def descend(param: Array, grad: SelectedRows, rate: Array) -> None:
    """Move rows of a parameter on the host against a sparse gradient, in place: a row that the batch had
    twice moves twice, as in 1.8.5.
    """
    add_rows(np, param, grad.ids, grad.array, -float(np.asarray(rate).reshape(())))


def rescale_of(operator: Any) -> float:
    """The factor of the gradient, as momentum has one in programs of 2.x."""
    return float(np.float32(operator.attrs.get("rescale_grad", 1.0)))


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
update("sgd", "Param. LearningRate Grad. -> ParamOut", ("ParamOut", "Param - LearningRate * Grad"), rows=True)

_VELOCITY = ("VelocityOut", "mu * Velocity + Grad")
update(
    "momentum",
    "Param. Grad. Velocity. LearningRate. -> ParamOut VelocityOut",
    _VELOCITY,
    ("ParamOut", "Param - LearningRate * VelocityOut"),
    use_nesterov=(_VELOCITY, ("ParamOut", "Param - (Grad + mu * VelocityOut) * LearningRate")),
    attrs={"mu": required(AttrType.FLOAT), "use_nesterov": False},
    version=1,
)

# an l1 below 0 does not push outwards, it counts as none
_PROXIMAL = (
    "ParamOut",
    "sign(near) * maximum(abs(near) - LearningRate * maximum(l1, 0), 0) / (1 + LearningRate * l2)",
)
update(
    "proximal_gd",
    "Param. Grad. LearningRate. -> ParamOut",
    ("near", "Param - LearningRate * Grad"),
    _PROXIMAL,
    attrs={"l1": 0.0, "l2": 0.0},
)

# ---------------------------------------------------------------------- a learning rate for each element
_ADAM_SLOTS = (
    "Param. Grad. LearningRate. Moment1. Moment2. Beta1Pow. Beta2Pow. Beta1Tensor.? Beta2Tensor.? "
    "SkipUpdate? -> ParamOut Moment1Out Moment2Out Beta1PowOut? Beta2PowOut?"
)
_ADAM_ATTRS = {
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "lazy_mode": False,
    "min_row_size_to_use_multithread": LONG(1000),
}
_ADAM_MOMENTS = (
    ("Moment1Out", "beta1 * Moment1 + (1 - beta1) * Grad"),
    ("Moment2Out", "beta2 * Moment2 + (1 - beta2) * (Grad * Grad)"),
)
_ADAM_POWERS = (("Beta1PowOut", "Beta1Pow * beta1"), ("Beta2PowOut", "Beta2Pow * beta2"))


def _adam_of_2x(rate: str, param: str) -> tuple[Assignment, ...]:
    """Adam as 2.x has it: epsilon shrinks with the second moment's correction, as in the paper's algorithm
    without the hats taken apart.
    """
    return (
        ("unbias", "sqrt(1 - Beta2Pow)"),
        ("rate", f"{rate} * unbias / (1 - Beta1Pow)"),
        ("shrunk", "epsilon * unbias"),
        *_ADAM_MOMENTS,
        ("ParamOut", f"{param} - rate * (Moment1Out / (sqrt(Moment2Out) + shrunk))"),
        *_ADAM_POWERS,
    )


update(
    "adam",
    _ADAM_SLOTS,
    ("rate", "LearningRate * sqrt(1 - Beta2Pow) / (1 - Beta1Pow)"),
    *_ADAM_MOMENTS,
    ("ParamOut", "Param - rate * (Moment1Out / (sqrt(Moment2Out) + epsilon))"),
    *_ADAM_POWERS,
    rows="lazy_mode",
    attrs=_ADAM_ATTRS,
    of_2x=_adam_of_2x("LearningRate", "Param"),
    version=4,
)
# of 2.x: weight decay apart from the gradient (Loshchilov and Hutter, 2019)
update(
    "adamw",
    _ADAM_SLOTS,
    *_adam_of_2x("LearningRate * lr_ratio", "Param"),
    rows="lazy_mode",
    attrs={**_ADAM_ATTRS, "lr_ratio": 1.0, "coeff": 0.01, "with_decay": False},
    with_decay=(
        ("kept", "1 - LearningRate * lr_ratio * coeff"),
        *_adam_of_2x("LearningRate * lr_ratio", "Param * kept"),
    ),
)
# epsilon keeps the norm from becoming 0, so the division needs none of its own
update(
    "adamax",
    "Param. Grad. LearningRate. Moment. InfNorm. Beta1Pow. -> ParamOut MomentOut InfNormOut",
    ("MomentOut", "beta1 * Moment + (1 - beta1) * Grad"),
    ("InfNormOut", "maximum(abs(Grad), beta2 * InfNorm + epsilon)"),
    ("ParamOut", "Param - LearningRate / (1 - Beta1Pow) * (MomentOut / InfNormOut)"),
    attrs={"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
)
update(
    "adagrad",
    "Param. Grad. Moment. LearningRate. -> ParamOut MomentOut",
    ("MomentOut", "Moment + Grad * Grad"),
    ("ParamOut", "Param - LearningRate * Grad / (sqrt(MomentOut) + epsilon)"),
    attrs={"epsilon": 1e-6},
    rows=True,
)
update(
    "decayed_adagrad",
    "Param. Grad. Moment. LearningRate. -> ParamOut MomentOut",
    ("MomentOut", "decay * Moment + (1 - decay) * Grad * Grad"),
    ("ParamOut", "Param - LearningRate * Grad / (sqrt(MomentOut) + epsilon)"),
    attrs={"decay": 0.95, "epsilon": 1e-6},
)
update(
    "proximal_adagrad",
    "Param. Moment. Grad. LearningRate. -> ParamOut MomentOut",
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
    "Param. Grad. AvgSquaredGrad. AvgSquaredUpdate. LearningRate? -> "
    "ParamOut AvgSquaredGradOut AvgSquaredUpdateOut",
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
    # 2.x heeds the learning rate, and reads the accumulator before it is written
    of_2x=(
        _SQUARED_GRAD,
        ("step", _STEP.format("AvgSquaredUpdate")),
        _SQUARED_UPDATE,
        ("ParamOut", "Param - LearningRate * step"),
    ),
    attrs={"rho": 0.95, "epsilon": 1e-6},
)

# epsilon stands inside of the root, as in Paddle
_MEAN_SQUARE = ("MeanSquareOut", "decay * MeanSquare + (1 - decay) * (Grad * Grad)")
_MOVE = "LearningRate * Grad / sqrt(MeanSquareOut + epsilon)"
_MOMENT_STEP = ("ParamOut", "Param - MomentOut")
update(
    "rmsprop",
    "Param. MeanSquare. MeanGrad? LearningRate. Grad. Moment. -> "
    "ParamOut MomentOut MeanSquareOut MeanGradOut?",
    _MEAN_SQUARE,
    ("MomentOut", f"momentum * Moment + {_MOVE}"),
    _MOMENT_STEP,
    special=SpecialCase("momentum", 0.0, (_MEAN_SQUARE, ("MomentOut", _MOVE), _MOMENT_STEP)),
    centered=(
        _MEAN_SQUARE,
        ("MeanGradOut", "decay * MeanGrad + (1 - decay) * Grad"),
        ("spread", "sqrt(MeanSquareOut - MeanGradOut * MeanGradOut + epsilon)"),
        ("MomentOut", "momentum * Moment + LearningRate * Grad / spread"),
        _MOMENT_STEP,
    ),
    attrs={"epsilon": 1e-10, "decay": 0.9, "momentum": 0.0, "centered": False},
)


def _ftrl(power: str) -> tuple[Assignment, ...]:
    """The steps with a power of squares: `power` with its base for {}.

    With a rate of 0 nothing moves, the accumulators included: a later rate goes on from what there was. That
    takes numbers and one array, where a choice for each element of all three outputs would take three.
    """
    curve = power.format("SquaredAccumOut")
    before = power.format("SquaredAccumulator")
    return (
        ("moves", "where(LearningRate > 0, 1.0, 0.0)"),
        ("inverse", "moves / maximum(LearningRate, 1e-37)"),
        ("least", "where(LearningRate > 0, l1, 3e38)"),
        ("rest", "1 - moves"),
        ("pull", "moves * Grad"),
        ("SquaredAccumOut", "SquaredAccumulator + pull * pull"),
        ("curve", curve),
        ("LinearAccumOut", f"LinearAccumulator + pull - (curve - {before}) * inverse * Param"),
        ("shrunk", "(l1 * sign(LinearAccumOut) - LinearAccumOut) / (curve * inverse + 2 * l2)"),
        ("ParamOut", "where(abs(LinearAccumOut) > least, shrunk, rest * Param)"),
    )


update(
    "ftrl",
    "Param. SquaredAccumulator. LinearAccumulator. Grad. LearningRate. -> "
    "ParamOut SquaredAccumOut LinearAccumOut",
    *_ftrl("pow({}, -lr_power)"),
    # a root, where any power takes ten times as long
    special=SpecialCase("lr_power", -0.5, _ftrl("sqrt({})")),
    attrs={"l1": 0.0, "l2": 0.0, "lr_power": -0.5},
    rows=True,
)
