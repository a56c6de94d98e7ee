"""Rows for fluidlite.ops.optimizer, against the formulas in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(11)
RATE = np.array([0.3], "float32")
POWERS = {"Beta1Pow": np.array([0.8**3], "float32"), "Beta2Pow": np.array([0.9**3], "float32")}
BETAS = {"beta1": 0.8, "beta2": 0.9}


def draw(low: float = -1.0) -> np.ndarray:
    """Numbers of the shape of the parameter."""
    return RNG.uniform(low, 1, (4, 3)).astype("float32")


def row(
    op: str, expect: Callable[..., Any], held: str = "", attrs: Any = None, name: str = "", **extra: Any
) -> Case:
    """A row with Param, Grad and the accumulators `held` (positive ones marked with +), the reference in
    double precision.
    """
    inputs: dict[str, Any] = {"Param": draw(), "Grad": draw(), "LearningRate": RATE, **extra}
    inputs.update({slot.rstrip("+"): draw(0.1 if "+" in slot else -1.0) for slot in held.split()})
    doubled = {slot: value.astype("float64") for slot, value in inputs.items()}
    found = expect(**doubled)
    return Case(
        op,
        inputs,
        {slot: np.asarray(value, "float32") for slot, value in found.items()},
        attrs=attrs or {},
        name=name,
        rtol=2e-5,
        atol=2e-6,
    )


def norm(x: Any) -> Any:
    """The L2 norm."""
    return np.sqrt((x * x).sum())


def momentum(Param: Any, Grad: Any, LearningRate: Any, Velocity: Any, nesterov: bool = False) -> Any:
    v = 0.9 * Velocity + Grad
    return {"ParamOut": Param - LearningRate * (Grad + 0.9 * v if nesterov else v), "VelocityOut": v}


def lars(Param: Any, Grad: Any, LearningRate: Any, Velocity: Any) -> Any:
    rate = LearningRate * 0.05 * norm(Param) / (norm(Grad) + 0.01 * norm(Param))
    v = 0.9 * Velocity + rate * (Grad + 0.01 * Param)
    return {"ParamOut": Param - v, "VelocityOut": v}


def adam(
    Param: Any,
    Grad: Any,
    LearningRate: Any,
    Moment1: Any,
    Moment2: Any,
    Beta1Pow: Any,
    Beta2Pow: Any,
    **tensors: Any,
) -> Any:
    b1, b2 = tensors.get("Beta1Tensor", 0.8), tensors.get("Beta2Tensor", 0.9)
    m, v = b1 * Moment1 + (1 - b1) * Grad, b2 * Moment2 + (1 - b2) * Grad**2
    rate = LearningRate * np.sqrt(1 - Beta2Pow) / (1 - Beta1Pow)
    return {
        "ParamOut": Param - rate * m / (np.sqrt(v) + 1e-2),
        "Moment1Out": m,
        "Moment2Out": v,
        "Beta1PowOut": Beta1Pow * b1,
        "Beta2PowOut": Beta2Pow * b2,
    }


def lamb(Param: Any, Grad: Any, LearningRate: Any, Moment1: Any, Moment2: Any, **powers: Any) -> Any:
    m, v = 0.8 * Moment1 + 0.2 * Grad, 0.9 * Moment2 + 0.1 * Grad**2
    step = m / (np.sqrt(v) + 1e-2) + 0.02 * Param
    return {
        "ParamOut": Param - LearningRate * norm(Param) / norm(step) * step,
        "Moment1Out": m,
        "Moment2Out": v,
    }


def adamax(Param: Any, Grad: Any, LearningRate: Any, Moment: Any, InfNorm: Any, Beta1Pow: Any) -> Any:
    m, top = 0.8 * Moment + 0.2 * Grad, np.maximum(np.abs(Grad), 0.9 * InfNorm + 1e-2)
    return {"ParamOut": Param - LearningRate / (1 - Beta1Pow) * m / top, "MomentOut": m, "InfNormOut": top}


def adagrad(Param: Any, Grad: Any, LearningRate: Any, Moment: Any, decay: float | None = None) -> Any:
    m = Moment + Grad**2 if decay is None else decay * Moment + (1 - decay) * Grad**2
    return {"ParamOut": Param - LearningRate * Grad / (np.sqrt(m) + 1e-2), "MomentOut": m}


def adadelta(Param: Any, Grad: Any, LearningRate: Any, AvgSquaredGrad: Any, AvgSquaredUpdate: Any) -> Any:
    squares = 0.9 * AvgSquaredGrad + 0.1 * Grad**2
    step = np.sqrt((AvgSquaredUpdate + 1e-2) / (squares + 1e-2)) * Grad
    return {
        "ParamOut": Param - step,
        "AvgSquaredGradOut": squares,
        "AvgSquaredUpdateOut": 0.9 * AvgSquaredUpdate + 0.1 * step**2,
    }


def rmsprop(
    Param: Any,
    Grad: Any,
    LearningRate: Any,
    Moment: Any,
    MeanSquare: Any,
    MeanGrad: Any = None,
    momentum: float = 0.5,
) -> Any:
    square = 0.9 * MeanSquare + 0.1 * Grad**2
    mean = None if MeanGrad is None else 0.9 * MeanGrad + 0.1 * Grad
    spread = np.sqrt(square - (0 if mean is None else mean**2) + 1e-2)
    step = momentum * Moment + LearningRate * Grad / spread
    found = {"ParamOut": Param - step, "MomentOut": step, "MeanSquareOut": square}
    return found if mean is None else {**found, "MeanGradOut": mean}


def ftrl(
    Param: Any,
    Grad: Any,
    LearningRate: Any,
    SquaredAccumulator: Any,
    LinearAccumulator: Any,
    power: float = 0.5,
) -> Any:
    square = SquaredAccumulator + Grad**2
    linear = LinearAccumulator + Grad - (square**power - SquaredAccumulator**power) / LearningRate * Param
    moved = (np.sign(linear) * 0.2 - linear) / (square**power / LearningRate + 2 * 0.1)
    return {
        "ParamOut": np.where(np.abs(linear) > 0.2, moved, 0),
        "SquaredAccumOut": square,
        "LinearAccumOut": linear,
    }


def dpsgd(Param: Any, Grad: Any, LearningRate: Any) -> Any:
    return {"ParamOut": Param - LearningRate * Grad / max(norm(Grad) / 0.5, 1)}


def proximal(Param: Any, Grad: Any, LearningRate: Any, Moment: Any = None) -> Any:
    square = None if Moment is None else Moment + Grad**2
    near = Param - LearningRate * Grad / (1 if square is None else np.sqrt(square))
    out = np.sign(near) * np.maximum(np.abs(near) - 0.3 * 0.2, 0) / (1 + 0.3 * 0.1)
    return {"ParamOut": out} if square is None else {"ParamOut": out, "MomentOut": square}


def averages(
    updates: int, count: int, window: float, first: float, second: float, third: float, left: int, old: int
) -> Case:
    """A step of average_accumulates from sums 1, 2 and 4 and a parameter of 8; the sums and counts that
    come out.
    """

    def fill(value: float) -> np.ndarray:
        return np.full((2, 2), value, "float32")

    def number(value: int) -> np.ndarray:
        return np.array([value], "int64")

    inputs = {
        "param": fill(8),
        "in_sum_1": fill(1),
        "in_sum_2": fill(2),
        "in_sum_3": fill(4),
        "in_num_accumulates": number(count),
        "in_old_num_accumulates": number(5),
        "in_num_updates": number(updates),
    }
    expect = {
        "out_sum_1": fill(first),
        "out_sum_2": fill(second),
        "out_sum_3": fill(third),
        "out_num_accumulates": number(left),
        "out_old_num_accumulates": number(old),
        "out_num_updates": number(updates + 1),
    }
    return Case(
        "average_accumulates",
        inputs,
        expect,
        name=f"after {updates}",
        attrs={"average_window": window, "max_average_window": 100, "min_average_window": 2},
    )


STEPS = {"current_step": np.array([3.0], "float32"), "nranks": np.array([2.0], "float32")}
MOMENTS = "Moment1 Moment2+"
MU = {"mu": 0.9}
CASES: list[Case] = [
    row("sgd", lambda Param, Grad, LearningRate: {"ParamOut": Param - LearningRate * Grad}),
    row("momentum", momentum, "Velocity", MU),
    row(
        "momentum",
        lambda **slots: momentum(**slots, nesterov=True),
        "Velocity",
        {**MU, "use_nesterov": True},
        name="nesterov",
    ),
    row("lars_momentum", lars, "Velocity", {**MU, "lars_coeff": 0.05, "lars_weight_decay": 0.01}),
    row("adam", adam, MOMENTS, {**BETAS, "epsilon": 1e-2}, **POWERS),
    row(
        "adam",
        adam,
        MOMENTS,
        {"epsilon": 1e-2},
        name="betas as tensors",
        Beta1Tensor=np.array([0.7], "float32"),
        Beta2Tensor=np.array([0.6], "float32"),
        **POWERS,
    ),
    row("adamax", adamax, "Moment InfNorm+", {**BETAS, "epsilon": 1e-2}, Beta1Pow=POWERS["Beta1Pow"]),
    row("adagrad", adagrad, "Moment+", {"epsilon": 1e-2}),
    row(
        "decayed_adagrad",
        lambda **slots: adagrad(**slots, decay=0.9),
        "Moment+",
        {"epsilon": 1e-2, "decay": 0.9},
    ),
    row("rmsprop", rmsprop, "Moment MeanSquare+", {"epsilon": 1e-2, "decay": 0.9, "momentum": 0.5}),
    row(
        "rmsprop",
        lambda **slots: rmsprop(**slots, momentum=0.0),
        "Moment MeanSquare+",
        {"epsilon": 1e-2, "decay": 0.9, "momentum": 0.0},
        name="without momentum",
    ),
    row(
        "rmsprop",
        rmsprop,
        "Moment MeanSquare+",
        {"epsilon": 1e-2, "decay": 0.9, "momentum": 0.5, "centered": True},
        name="centered",
        MeanGrad=draw(0.1) / 10,
    ),
    row("ftrl", ftrl, "SquaredAccumulator+ LinearAccumulator", {"l1": 0.2, "l2": 0.1}),
    row(
        "ftrl",
        lambda Param, SquaredAccumulator, LinearAccumulator, **others: {
            "ParamOut": Param,
            "SquaredAccumOut": SquaredAccumulator,
            "LinearAccumOut": LinearAccumulator,
        },
        "SquaredAccumulator+ LinearAccumulator",
        {"l1": 0.2, "l2": 0.1},
        name="no_rate",
        LearningRate=np.zeros(1, "float32"),
    ),
    row(
        "ftrl",
        lambda **slots: ftrl(**slots, power=0.4),
        "SquaredAccumulator+ LinearAccumulator",
        {"l1": 0.2, "l2": 0.1, "lr_power": -0.4},
        name="power",
    ),
    row("lamb", lamb, MOMENTS, {**BETAS, "epsilon": 1e-2, "weight_decay": 0.02}, **POWERS),
    row("dpsgd", dpsgd, attrs={"clip": 0.5, "sigma": 0.0}),
    row("proximal_gd", proximal, attrs={"l1": 0.2, "l2": 0.1}),
    row("proximal_adagrad", proximal, "Moment+", attrs={"l1": 0.2, "l2": 0.1}),
    row(
        "dgc_momentum",
        lambda Param, Grad, LearningRate, Velocity, **steps: {
            "Grad_out": Grad / 2,
            **momentum(Param, Grad / 2, LearningRate, Velocity),
        },
        "Velocity",
        {**MU, "rampup_begin_step": 5.0},
        **STEPS,
    ),
    row(
        "dgc_momentum",
        lambda Param, Grad, LearningRate, Velocity, **steps: {
            "Grad_out": Grad / 2,
            "ParamOut": Param - LearningRate * Grad / 2,
            "VelocityOut": Velocity,
        },
        "Velocity",
        {**MU, "rampup_begin_step": 2.0},
        name="compressing",
        **STEPS,
    ),
    averages(0, 0, 0.5, first=9, second=2, third=4, left=1, old=5),
    averages(7, 3, 0.5, first=0, second=0, third=11, left=0, old=4),
    averages(16383, 50, 1.0, first=0, second=11, third=4, left=51, old=5),
]
_delta = row("adadelta", adadelta, "AvgSquaredGrad+ AvgSquaredUpdate+", {"epsilon": 1e-2, "rho": 0.9})
_delta.inputs = {slot: value for slot, value in _delta.inputs.items() if slot != "LearningRate"}
CASES.append(_delta)
