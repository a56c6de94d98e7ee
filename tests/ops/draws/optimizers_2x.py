"""Optimizers, clips, regularizers, initializers and schedules of the 2.x door."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, Value, draws
from ops.draws.common_2x import word

OPTIMIZERS = ["SGD", "Momentum", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSProp", "Lamb"]


def _clip(draw: Draw) -> Any:
    """A clip of gradients, or nothing."""
    forms = [
        draw.made("paddle.nn.ClipGradByValue", draw.choice(0.05, 0.3), draw.maybe(-0.1)),
        draw.made("paddle.nn.ClipGradByNorm", draw.choice(0.1, 1.0)),
        draw.made("paddle.nn.ClipGradByGlobalNorm", draw.choice(0.1, 1.0)),
    ]
    return draw.maybe(draw.choice(*forms), 0.35)


def _decay(draw: Draw, least: float = 0.0) -> Any:
    """A weight decay as a number or a regularizer."""
    strength = draw.choice(0.0, 0.1, 0.3)
    forms = [strength, *(draw.made(f"paddle.regularizer.L{count}Decay", strength) for count in (1, 2))]
    return draw.maybe(draw.choice(*forms), 0.4)


def _attr(draw: Draw) -> Any:
    """A ParamAttr of all kinds of attributes, or nothing."""
    if not draw.flag(0.4):
        return OMIT
    return draw.made(
        "paddle.ParamAttr",
        learning_rate=draw.maybe(draw.choice(0.5, 2.0, 0.0), 0.4),
        regularizer=draw.maybe(draw.made(f"paddle.regularizer.L{draw.int(1, 2)}Decay", 0.2), 0.3),
        trainable=draw.maybe(draw.flag(0.5), 0.3),
        need_clip=draw.maybe(draw.flag(), 0.4),
        initializer=draw.maybe(draw.made("paddle.nn.initializer.Constant", 0.3), 0.2),
    )


def _network(draw: Draw) -> tuple[Value, list[Value]]:
    """A loss, and the layers whose parameters it depends on."""
    rows, wide = draw.int(1, 3), draw.int(1, 3)
    layers = []
    if draw.flag(0.3):
        ids = draw.tensor((rows,), "int64", 0, 4)
        layers.append(draw.call("paddle.nn.Embedding", 5, wide, sparse=draw.flag(), weight_attr=_attr(draw)))
        x = draw.call(layers[0].name, ids)
    else:
        x = draw.tensor((rows, wide), "float32", fixed=False)
    for size in (draw.int(1, 3), 1)[: draw.int(1, 2)]:
        bias = draw.choice(OMIT, False, _attr(draw))
        layer = draw.call("paddle.nn.Linear", wide, size, weight_attr=_attr(draw), bias_attr=bias)
        layers.append(layer)
        x, wide = draw.call(layer.name, x), size
    x = draw.call("paddle.square", x) if draw.flag() else draw.call("paddle.tanh", x)
    return draw.call("paddle.mean", x), layers


def _attributes(draw: Draw, kind: str) -> dict[str, Any]:
    """The arguments of an optimizer besides the rate, the parameters, the decay and the clip."""
    betas = {"beta1": draw.maybe(draw.choice(0.5, 0.9)), "beta2": draw.maybe(draw.choice(0.9, 0.99))}
    epsilon = {"epsilon": draw.maybe(draw.choice(1e-3, 1e-8), 0.4)}
    if kind in ("Adam", "AdamW"):
        return {**betas, **epsilon, "lazy_mode": draw.maybe(draw.flag(), 0.3)}
    if kind == "Adamax":
        return {**betas, **epsilon}
    if kind == "Lamb":
        return {**betas, **epsilon, "lamb_weight_decay": draw.maybe(draw.choice(0.0, 0.3))}
    if kind == "Momentum":
        nesterov, scale = draw.maybe(draw.flag()), draw.maybe(0.5, 0.2)
        return {"momentum": draw.maybe(0.5), "use_nesterov": nesterov, "rescale_grad": scale}
    if kind == "RMSProp":
        more = {"momentum": draw.maybe(0.5), "centered": draw.maybe(draw.flag())}
        return {"rho": draw.maybe(0.5), **epsilon, **more}
    if kind == "Adagrad":
        return {**epsilon, "initial_accumulator_value": draw.maybe(0.1)}
    return {**epsilon, "rho": draw.maybe(0.5)} if kind == "Adadelta" else {}


@draws(*(f"paddle.optimizer.{name}" for name in OPTIMIZERS))
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    loss, layers = _network(draw)
    given = _attributes(draw, word(name))
    if word(name) == "AdamW":
        given["weight_decay"] = draw.maybe(draw.choice(0.0, 0.2))
    elif word(name) != "Lamb":
        given["weight_decay"] = _decay(draw)
    if draw.flag(0.3):
        given["parameters"] = draw.call(f"{layers[-1].name}.parameters")
    rate = draw.choice(0.1, 0.01, draw.real(0.01, 0.5))
    if draw.flag(0.2):
        rate = draw.made("paddle.optimizer.lr.StepDecay", 0.2, 1)
    optimizer = draw.call(name, learning_rate=rate, **given, grad_clip=_clip(draw))
    no_grad = draw.maybe(None, 0.3)
    draw.call(f"{optimizer.name}.minimize", loss, no_grad_set=no_grad)
    return loss


@draws("paddle.nn.ClipGradByValue", "paddle.nn.ClipGradByNorm", "paddle.nn.ClipGradByGlobalNorm")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    loss, _ = _network(draw)
    given = [draw.choice(0.02, 0.2), draw.maybe(-0.1)] if name.endswith("Value") else [draw.choice(0.05, 0.5)]
    optimizer = draw.call("paddle.optimizer.SGD", 0.5, grad_clip=draw.made(name, *given))
    draw.call(f"{optimizer.name}.minimize", loss)
    return loss


@draws("paddle.regularizer.L1Decay", "paddle.regularizer.L2Decay")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    loss, _ = _network(draw)
    decay = draw.made(name, draw.choice(0.0, 0.3, OMIT))
    kind = draw.choice("SGD", "Momentum")
    optimizer = draw.call(f"paddle.optimizer.{kind}", 0.5, weight_decay=decay, grad_clip=_clip(draw))
    draw.call(f"{optimizer.name}.minimize", loss)
    return loss


@draws("paddle.ParamAttr", "paddle.static.WeightNormParamAttr")
def _(draw: Draw, name: str) -> Any:
    rows, wide = draw.int(1, 3), draw.int(1, 3)
    x = draw.tensor((rows, wide), "float32", known=True)
    if name.endswith("WeightNormParamAttr"):
        attr = draw.made(name, dim=draw.choice(None, 0, 1))
        return draw.call("paddle.static.nn.fc", x, draw.int(1, 3), weight_attr=attr)
    draw.gradients = False
    loss, _ = _network(draw)
    optimizer = draw.call("paddle.optimizer.SGD", 0.5, grad_clip=_clip(draw), weight_decay=_decay(draw))
    draw.call(f"{optimizer.name}.minimize", loss)
    return loss


@draws("paddle.static.append_backward", "paddle.static.gradients", "paddle.grad")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "append_backward":
        draw.gradients = False
        loss, _ = _network(draw)
        draw.call(name, loss)
        return loss
    x = draw.tensor(rank=(1, 3))
    y = draw.call(draw.choice("paddle.tanh", "paddle.square", "paddle.exp"), x)
    target = draw.call("paddle.sum", y) if draw.flag() else y
    return draw.call("paddle.static.gradients", [target], [x])


# ---------------------------------------------------------------------- schedules
SCHEDULES: dict[str, Any] = {
    "NoamDecay": lambda draw: {
        "d_model": draw.int(2, 64),
        "warmup_steps": draw.int(1, 5),
        "learning_rate": draw.maybe(draw.real(0.1, 2), 0.4),
    },
    "PiecewiseDecay": lambda draw: {"boundaries": [1, 3], "values": [0.5, 0.2, draw.real(0.01, 0.1)]},
    "NaturalExpDecay": lambda draw: {"learning_rate": 0.5, "gamma": draw.real(0.1, 0.9)},
    "InverseTimeDecay": lambda draw: {"learning_rate": 0.5, "gamma": draw.real(0.1, 0.9)},
    "PolynomialDecay": lambda draw: {
        "learning_rate": 0.5,
        "decay_steps": draw.int(1, 4),
        "end_lr": draw.maybe(0.05),
        "power": draw.maybe(draw.choice(0.5, 2.0)),
        "cycle": draw.maybe(draw.flag()),
    },
    "LinearWarmup": lambda draw: {
        "learning_rate": draw.choice(0.5, draw.made("paddle.optimizer.lr.StepDecay", 0.5, 2)),
        "warmup_steps": draw.int(1, 4),
        "start_lr": draw.real(0, 0.2),
        "end_lr": draw.choice(0.5, 0.3),
    },
    "ExponentialDecay": lambda draw: {"learning_rate": 0.5, "gamma": draw.real(0.1, 0.9)},
    "MultiStepDecay": lambda draw: {"learning_rate": 0.5, "milestones": [1, 3], "gamma": draw.maybe(0.5)},
    "StepDecay": lambda draw: {"learning_rate": 0.5, "step_size": draw.int(1, 3), "gamma": draw.maybe(0.5)},
    "LambdaDecay": lambda draw: {"learning_rate": 0.5, "lr_lambda": _halved(draw)},
    "MultiplicativeDecay": lambda draw: {"learning_rate": 0.5, "lr_lambda": _halved(draw)},
    "CosineAnnealingDecay": lambda draw: {
        "learning_rate": 0.5,
        "T_max": draw.int(1, 4),
        "eta_min": draw.maybe(0.1),
    },
    "CosineAnnealingWarmRestarts": lambda draw: {
        "learning_rate": 0.5,
        "T_0": draw.int(1, 3),
        "T_mult": draw.maybe(draw.int(1, 2)),
        "eta_min": draw.maybe(0.1),
    },
    "OneCycleLR": lambda draw: {
        "max_learning_rate": 0.5,
        "total_steps": draw.int(7, 12),
        "divide_factor": draw.maybe(5.0),
        "end_learning_rate": draw.maybe(0.01),
        "phase_pct": draw.maybe(0.4),
        "anneal_strategy": draw.maybe(draw.choice("cos", "linear")),
        "three_phase": draw.maybe(draw.flag()),
    },
    "CyclicLR": lambda draw: {
        "base_learning_rate": 0.1,
        "max_learning_rate": 0.5,
        "step_size_up": draw.int(1, 3),
        "step_size_down": draw.maybe(draw.int(1, 3)),
        "mode": draw.maybe(draw.choice("triangular", "triangular2", "exp_range")),
        "exp_gamma": draw.maybe(0.9),
    },
    "LinearLR": lambda draw: {
        "learning_rate": 0.5,
        "total_steps": draw.int(1, 4),
        "start_factor": draw.maybe(0.25),
        "end_factor": draw.maybe(0.5),
    },
    "ReduceOnPlateau": lambda draw: {
        "epsilon": draw.maybe(draw.choice(1e-3, 0.2), 0.3),
        "learning_rate": 0.5,
        "mode": draw.maybe(draw.choice("min", "max")),
        "factor": draw.maybe(0.5),
        "patience": draw.int(0, 1),
        "threshold": draw.maybe(0.1),
        "threshold_mode": draw.maybe(draw.choice("rel", "abs")),
        "cooldown": draw.maybe(draw.int(0, 2)),
        "min_lr": draw.maybe(0.05),
    },
}


def _halved(draw: Draw) -> Any:
    """A Python function of the epoch."""
    return draw.block(["epoch"], lambda epoch: draw.call("op.truediv", 1.0, draw.call("op.add", epoch, 1.5)))


@draws(*(f"paddle.optimizer.lr.{name}" for name in SCHEDULES))
def _(draw: Draw, name: str) -> Any:
    """A rate behind some steps, as a number, or as an optimizer takes it."""
    given = SCHEDULES[word(name)](draw)
    if word(name) != "ReduceOnPlateau":
        given["last_epoch"] = draw.maybe(-1, 0.2)
    rate = draw.call(name, **given)
    for _ in range(draw.int(0, 6)):
        metrics = [draw.real(0.5, 1.5)] if word(name) == "ReduceOnPlateau" else []
        draw.call(f"{rate.name}.step", *metrics)
    if draw.flag(0.6):
        return draw.call(
            "paddle.full",
            [1],
            draw.call(f"{rate.name}.get_lr" if "Plateau" not in name else rate.name),
            "float64",
        )
    draw.gradients = False
    loss, _ = _network(draw)
    optimizer = draw.call("paddle.optimizer.SGD", rate)
    draw.call(f"{optimizer.name}.minimize", loss)
    return loss


# ---------------------------------------------------------------------- initializers
INITIALIZERS = [
    "Constant",
    "Normal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "KaimingNormal",
    "KaimingUniform",
]


@draws(
    *(
        f"paddle.nn.initializer.{name}"
        for name in [*INITIALIZERS, "Assign", "Orthogonal", "Dirac", "Bilinear"]
    )
)
def _(draw: Draw, name: str) -> Any:
    """A parameter that starts so: the state behind the run tells its values' shape and dtype."""
    kind, shape = word(name), [draw.int(1, 3) for _ in range(draw.int(2, 3))]
    draw.random = kind not in ("Constant", "Assign", "Dirac", "Bilinear")
    given: dict[str, Any] = {}
    if kind == "Assign":
        array = draw.numbers(shape, "float32")
        given["value"] = draw.choice(array, array.tolist())
    elif kind == "Constant":
        given["value"] = draw.maybe(draw.real())
    elif kind == "Bilinear":
        shape = [2, 1, 4, 4]
    elif kind == "Dirac":
        groups = draw.int(1, 2)
        given["groups"], shape = draw.maybe(groups) if groups == 1 else groups, [2 * draw.int(1, 2), 2, 3]
    elif "Normal" in kind and kind[0] in "NT":
        given = {"mean": draw.maybe(0.5), "std": draw.maybe(0.1)}
    elif kind.startswith("Kaiming"):
        given = {
            "negative_slope": draw.maybe(0.2),
            "nonlinearity": draw.maybe(draw.choice("relu", "leaky_relu")),
        }
    elif kind.startswith("Xavier"):
        given = {"fan_in": draw.maybe(4), "fan_out": draw.maybe(2)}
    made = draw.made(name, **given)
    attr = draw.made("paddle.ParamAttr", initializer=made)
    parameter = draw.call("paddle.create_parameter", shape, "float32", attr=attr)
    # a parameter's own values are set by the comparison: behind a buffer they would not be
    return draw.call("paddle.scale", parameter, 1.0)


@draws("paddle.nn.initializer.calculate_gain")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice("sigmoid", "linear", "conv2d", "tanh", "relu", "leaky_relu", "selu")
    gain = draw.call(name, kind, draw.maybe(0.3) if kind == "leaky_relu" else OMIT)
    return draw.call("paddle.full", [1], gain, "float64")


@draws("paddle.static.ExponentialMovingAverage")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    loss, _ = _network(draw)
    optimizer = draw.call("paddle.optimizer.SGD", 0.5)
    draw.call(f"{optimizer.name}.minimize", loss)
    average = draw.call(name, draw.choice(0.9, 0.5))
    draw.call(f"{average.name}.update")
    return loss
