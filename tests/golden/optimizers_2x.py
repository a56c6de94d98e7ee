"""Schedules and optimizers of 2.x: the same calls run under PaddlePaddle 2.6.2, which is recorded, and here.

cd tests && python -m golden.optimizers_2x        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers_2x.json")
SCHEDULES: dict[str, Any] = {
    "noam": lambda L: L.NoamDecay(64, 5, 2.0),
    "piecewise": lambda L: L.PiecewiseDecay([3, 6], [0.1, 0.2, 0.3]),
    "natural_exp": lambda L: L.NaturalExpDecay(0.5, 0.1),
    "inverse_time": lambda L: L.InverseTimeDecay(0.5, 0.1),
    "polynomial": lambda L: L.PolynomialDecay(0.5, 5, 0.1, 2.0),
    "polynomial_cycle": lambda L: L.PolynomialDecay(0.5, 5, 0.1, 1.0, True),
    "warmup": lambda L: L.LinearWarmup(0.5, 5, 0.1, 0.4),
    "warmup_then": lambda L: L.LinearWarmup(L.ExponentialDecay(0.5, 0.9), 5, 0.1, 0.4),
    "exponential": lambda L: L.ExponentialDecay(0.5, 0.9),
    "multi_step": lambda L: L.MultiStepDecay(0.5, [2, 5, 9]),
    "step": lambda L: L.StepDecay(0.5, 3, 0.5),
    "lambda": lambda L: L.LambdaDecay(0.5, lambda epoch: 0.9**epoch),
    "cosine": lambda L: L.CosineAnnealingDecay(0.5, 4, 0.1),
    "multiplicative": lambda L: L.MultiplicativeDecay(0.5, lambda epoch: 0.9),
    "one_cycle": lambda L: L.OneCycleLR(1.0, 14),
    "one_cycle_linear": lambda L: L.OneCycleLR(1.0, 14, 10.0, 0.01, 0.3, "linear"),
    "one_cycle_three": lambda L: L.OneCycleLR(1.0, 14, three_phase=True),
    "cyclic": lambda L: L.CyclicLR(0.1, 0.5, 3),
    "cyclic_halved": lambda L: L.CyclicLR(0.1, 0.5, 3, 2, "triangular2"),
    "cyclic_exp": lambda L: L.CyclicLR(0.1, 0.5, 3, 2, "exp_range", 0.9),
    "cyclic_own": lambda L: L.CyclicLR(
        0.1, 0.5, 3, 2, scale_fn=lambda step: 0.8**step, scale_mode="iterations"
    ),
    "linear": lambda L: L.LinearLR(0.5, 5),
    "linear_down": lambda L: L.LinearLR(0.5, 5, 0.6, 0.2),
    "restarts": lambda L: L.CosineAnnealingWarmRestarts(0.5, 3, 2, 0.1),
    "restarts_alike": lambda L: L.CosineAnnealingWarmRestarts(0.5, 3, 1, 0.1),
}
NO_JUMPS = ("linear", "linear_down")  # 2.6.2 multiplies the last value, whatever the epoch
JUMPS = (4, 3, None, None, 2, None, 7, 0, None, 1, 1)  # None is a step to the next epoch
PLATEAUS: dict[str, Any] = {
    "plateau": {},
    "plateau_max": {"mode": "max"},
    "plateau_abs": {"mode": "max", "threshold_mode": "abs", "cooldown": 1, "threshold": 0.1, "min_lr": 0.01},
}
FIGURES = [1, 0.9, 0.95, 0.95, 0.96, 0.95, 0.94, 0.95, 0.99, 1.2, 1.2, 1.2, 1.2, 1.2]
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda opt: opt.SGD(0.1, weight_decay=0.3),
    "momentum": lambda opt: opt.Momentum(0.1),
    "momentum_decayed": lambda opt: opt.Momentum(0.1, use_nesterov=True, weight_decay=0.3),
    # epsilons that count
    "adam": lambda opt: opt.Adam(0.1, epsilon=0.1),
    "adam_decayed": lambda opt: opt.Adam(0.1, weight_decay=0.3),
    "adamw": lambda opt: opt.AdamW(0.1, epsilon=0.1, weight_decay=0.2),
    "adamw_chosen": lambda opt: opt.AdamW(0.1, apply_decay_param_fun=lambda name: False),
    "lamb": lambda opt: opt.Lamb(0.1, epsilon=0.1, lamb_weight_decay=0.2),
    "lamb_excluded": lambda opt: opt.Lamb(0.1, exclude_from_weight_decay_fn=lambda param: True),
    "adamax": lambda opt: opt.Adamax(0.1, epsilon=0.1),
    "adagrad": lambda opt: opt.Adagrad(0.1, epsilon=0.1, initial_accumulator_value=0.5),
    "rmsprop": lambda opt: opt.RMSProp(0.1, epsilon=0.1, momentum=0.5),
    "rmsprop_centered": lambda opt: opt.RMSProp(0.1, epsilon=0.1, centered=True),
    "adadelta": lambda opt: opt.Adadelta(0.1, epsilon=0.1),
    "scheduled": lambda opt: opt.SGD(opt.lr.StepDecay(0.1, 1, 0.5)),
    "warm_adam": lambda opt: opt.Adam(opt.lr.LinearWarmup(0.1, 2, 0.0, 0.1)),
}
GRADIENTS = ([1.0, 2.0], [-1.0, 0.5], [0.3, 0.1], [0.2, -0.7])


def schedule(L: Any, name: str) -> list[float]:
    """The learning rates of 14 epochs, and those after JUMPS."""
    made = SCHEDULES[name](L)
    rates = []
    for _ in range(14):
        rates.append(float(made()))
        made.step()
    if name not in NO_JUMPS:
        for epoch in JUMPS:
            made.step(epoch)
            rates.append(float(made()))
    return rates


def plateau(L: Any, name: str) -> list[float]:
    """The learning rate after each of the figures."""
    made = L.ReduceOnPlateau(0.5, patience=1, factor=0.5, **PLATEAUS[name])
    rates = []
    for figure in FIGURES:
        made.step(figure)
        rates.append(float(made()))
    return rates


def update(paddle: Any, layers: Any, name: str) -> dict[str, Any]:
    """The parameter after each step, the ops of the update, and what is persistable.

    layers: `create_parameter`, which has another place in each package.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [2])
        w = layers(name)
        optimizer = OPTIMIZERS[name](paddle.optimizer)
        optimizer.minimize(paddle.sum(w * x))
        exe, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
        values, rates = [], []
        with paddle.static.scope_guard(scope):
            exe.run(startup)
            for gradient in GRADIENTS:
                rates.append(float(optimizer.get_lr()))
                exe.run(main, feed={"x": np.array(gradient, "float32")})
                values.append(np.array(scope.find_var(name).get_tensor()).tolist())
                if getattr(main, "lr_scheduler", None) is not None:
                    main.lr_scheduler.step()
    ops = main.global_block().ops
    kinds = [op.type for op in ops[[op.type for op in ops].index("elementwise_mul_grad") + 1 :]]
    state = {var.name: list(var.shape) for var in main.list_vars() if var.persistable and not var.is_data}
    return {"values": values, "rates": rates, "ops": kinds, "shapes": sorted(map(list, state.values()))}


def record() -> None:
    import paddle

    paddle.enable_static()
    L = paddle.optimizer.lr

    def create(name: str) -> Any:
        one = paddle.nn.initializer.Constant(1.0)
        return paddle.static.create_parameter([2], "float32", name=name, default_initializer=one)

    found = {
        "schedules": {name: schedule(L, name) for name in SCHEDULES},
        "plateaus": {name: plateau(L, name) for name in PLATEAUS},
        "updates": {name: update(paddle, create, name) for name in OPTIMIZERS},
    }
    with open(PATH, "w") as out:
        json.dump(found, out, indent=1)


if __name__ == "__main__":
    record()
