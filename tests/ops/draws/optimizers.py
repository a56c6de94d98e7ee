"""Optimizers with all that they are given: rates, decay, clips, parameter lists, sparse gradients."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, Value, draws

L = "fluid.layers."
O = "fluid.optimizer."  # noqa: E741
CLIPS = "GradientClipByValue GradientClipByNorm GradientClipByGlobalNorm"
DECAYS = (
    "exponential_decay natural_exp_decay inverse_time_decay polynomial_decay noam_decay piecewise_decay "
    "cosine_decay"
)


def rate(draw: Draw) -> Any:
    """A learning rate: a number, a Variable, or a schedule."""
    kind = draw.rng.random()
    if kind < 0.6:
        return draw.choice(0.1, 0.01, 0.5, 1.0)
    if kind < 0.75:
        return draw.call(L + "create_global_var", [1], 0.2, "float32", persistable=True)
    return schedule(draw, L + draw.choice(*DECAYS.split()))


def schedule(draw: Draw, name: str) -> Value:
    """A learning rate that changes with the runs."""
    last = name.rpartition(".")[2]
    start = draw.choice(0.1, 1.0, 0.5)
    if last == "noam_decay":
        return draw.call(name, draw.int(1, 64), draw.int(1, 4), learning_rate=draw.choice(OMIT, 2.0))
    if last == "piecewise_decay":
        bounds = [1, 2, 4][: draw.int(1, 3)]
        return draw.call(name, bounds, [draw.real(0.01, 1) for _ in range(len(bounds) + 1)])
    if last == "cosine_decay":
        return draw.call(name, start, draw.int(1, 3), draw.int(2, 5))
    if last == "polynomial_decay":
        return draw.call(
            name,
            start,
            draw.int(1, 5),
            end_learning_rate=draw.choice(OMIT, 0.01, 0.05),
            power=draw.choice(OMIT, 2.0, 0.5),
            cycle=draw.maybe(draw.flag()),
        )
    if last == "linear_lr_warmup":
        peak: Any = draw.choice(0.1, 1.0)
        if draw.flag(0.4):
            peak = schedule(draw, L + draw.choice(*DECAYS.split()))
        return draw.call(name, peak, draw.int(1, 4), draw.choice(0.0, 0.01), draw.choice(0.1, 0.3))
    return draw.call(name, start, draw.int(1, 4), draw.choice(0.5, 0.9), staircase=draw.maybe(draw.flag()))


@draws(*(L + name for name in (DECAYS + " linear_lr_warmup").split()))
def _(draw: Draw, name: str) -> Any:
    found = schedule(draw, name)
    if draw.flag(0.2):
        return [found, schedule(draw, L + draw.choice(*DECAYS.split()))]
    return found


def decay(draw: Draw, chance: float = 0.3) -> Any:
    """A regularizer."""
    if not draw.flag(chance):
        return OMIT
    kind = draw.choice("L1Decay", "L2Decay", "L1DecayRegularizer", "L2DecayRegularizer")
    return draw.made(f"fluid.regularizer.{kind}", draw.choice(0.01, 0.3))


def is_called(draw: Draw, name: str) -> Any:
    """A function that tells one parameter from the others, by its name."""
    return draw.block(["param"], lambda param: draw.made("op.eq", Value("param.name"), name))


def clip(draw: Draw, chance: float = 0.3) -> Any:
    """A clip of gradients."""
    if not draw.flag(chance):
        return OMIT
    kind = draw.choice(*CLIPS.split())
    some = is_called(draw, "w0") if draw.flag(0.2) else OMIT
    if kind.endswith("Value"):
        low = draw.choice(OMIT, -0.02)
        return draw.made(f"fluid.clip.{kind}", draw.choice(0.05, 0.5), min=low, need_clip=some)
    return draw.made(f"fluid.clip.{kind}", draw.choice(0.05, 1.0, 10.0), need_clip=some)


def attr(draw: Draw, name: str) -> Any:
    """The attributes of a parameter."""
    return draw.made(
        "fluid.ParamAttr",
        name=name,
        learning_rate=draw.choice(OMIT, OMIT, 0.5, 2.0, 0.0),
        regularizer=decay(draw, 0.15),
        trainable=False if draw.flag(0.07) else OMIT,
    )


def loss(draw: Draw, sparse: bool = True) -> Value:
    """The loss of a small network: some layers, or an embedding with gradients of rows."""
    if draw.flag(0.35):
        count, width = draw.int(3, 6), draw.int(1, 4)
        ids = draw.tensor((draw.int(1, 4), 1), "int64", 0, count - 1)
        hidden = draw.call(
            L + "embedding",
            ids,
            [count, width],
            is_sparse=sparse and draw.flag(0.7),
            padding_idx=draw.choice(OMIT, OMIT, 0),
            param_attr=attr(draw, "table"),
        )
    else:
        x = draw.tensor((draw.int(1, 4), draw.int(1, 4)), "float32")
        hidden = draw.call(
            L + "fc",
            x,
            draw.int(1, 4),
            param_attr=attr(draw, "w0"),
            bias_attr=attr(draw, "b0"),
            act=draw.act(),
        )
    if draw.flag(0.5):
        hidden = draw.call(
            L + "fc",
            hidden,
            draw.int(1, 3),
            param_attr=attr(draw, "w1"),
            bias_attr=draw.choice(OMIT, OMIT, False),
        )
    return draw.call(L + "mean", draw.call(L + draw.choice("square", "square", "exp"), hidden))


def common(draw: Draw) -> dict[str, Any]:
    """Arguments that every optimizer takes."""
    return {"regularization": decay(draw), "grad_clip": clip(draw)}


SETTINGS: dict[str, dict[str, tuple[Any, ...]]] = {
    "SGD": {},
    "Momentum": {"use_nesterov": (True, False)},
    "Adagrad": {"epsilon": (1e-6, 0.1), "initial_accumulator_value": (0.0, 0.3)},
    "Adam": {"beta1": (0.9, 0.5), "beta2": (0.999, 0.7), "epsilon": (1e-8, 1e-2), "lazy_mode": (True, False)},
    "Adamax": {"beta1": (0.9, 0.5), "beta2": (0.999, 0.7), "epsilon": (1e-8, 1e-2)},
    "DecayedAdagrad": {"decay": (0.95, 0.5), "epsilon": (1e-6, 0.1)},
    "Ftrl": {"l1": (0.0, 0.1), "l2": (0.0, 0.1), "lr_power": (-0.5, -0.7)},
    "Adadelta": {"epsilon": (1e-6, 0.01), "rho": (0.95, 0.5)},
    "RMSProp": {
        "rho": (0.95, 0.5),
        "epsilon": (1e-6, 0.01),
        "momentum": (0.0, 0.5),
        "centered": (True, False),
    },
    "LarsMomentum": {"lars_coeff": (0.001, 0.5), "lars_weight_decay": (0.0005, 0.1)},
    "Lamb": {
        "lamb_weight_decay": (0.01, 0.3),
        "beta1": (0.9, 0.5),
        "beta2": (0.999, 0.7),
        "epsilon": (1e-6, 1e-2),
    },
}


def optimizer(draw: Draw, name: str) -> Value:
    """An optimizer with random settings."""
    kind = name.rpartition(".")[2].removesuffix("Optimizer")
    args = [rate(draw)]
    if kind in ("Momentum", "LarsMomentum"):
        args.append(draw.choice(0.9, 0.5, 0.0))
    kwargs = {key: draw.maybe(draw.choice(*values), 0.5) for key, values in SETTINGS[kind].items()}
    if kind == "Lamb" and draw.flag(0.3):
        kwargs["exclude_from_weight_decay_fn"] = is_called(draw, "b0")
    return draw.call(name, *args, **kwargs, **common(draw))


DENSE = ("Adadelta", "DecayedAdagrad", "Lars", "Adamax")  # these know no gradients of rows
FULL = [kind for kind in SETTINGS if kind not in ("RMSProp", "Lamb")]


@draws(*(O + kind for kind in FULL), *(O + kind + "Optimizer" for kind in SETTINGS))
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    found = loss(draw, not any(kind in name for kind in DENSE))
    made = optimizer(draw, name)
    how = draw.rng.random()
    if how < 0.8:
        draw.call(
            f"{made.name}.minimize", found, parameter_list=draw.choice(OMIT, OMIT, OMIT, ["w0", "table"])
        )
    else:
        pairs = draw.call(f"{made.name}.backward", found)
        draw.call(f"{made.name}.apply_gradients", pairs)
    return found


@draws("fluid.optimizer.Dpsgd", "fluid.optimizer.DpsgdOptimizer")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    x = draw.tensor((draw.int(1, 4), draw.int(1, 4)), "float32")
    found = draw.call(L + "mean", draw.call(L + "square", draw.call(L + "fc", x, draw.int(1, 4))))
    made = draw.call(name, draw.choice(0.1, 0.5), clip=draw.choice(0.1, 10.0), batch_size=4.0, sigma=0.0)
    draw.call(f"{made.name}.minimize", found)
    return found


@draws("fluid.optimizer.ExponentialMovingAverage", "fluid.optimizer.ModelAverage")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    found = loss(draw)
    made = optimizer(draw, O + draw.choice("SGD", "Momentum"))
    draw.call(f"{made.name}.minimize", found)
    if name.endswith("ModelAverage"):
        draw.call(
            name,
            draw.choice(0.5, 0.15, 1.0),
            min_average_window=draw.choice(1, 2, 10),
            max_average_window=draw.choice(2, 3, 20),
        )
    else:
        steps = draw.call(L + "autoincreased_step_counter") if draw.flag(0.3) else OMIT
        average = draw.call(name, draw.choice(0.999, 0.5), thres_steps=steps)
        draw.call(f"{average.name}.update")
    return found


@draws("fluid.optimizer.LookaheadOptimizer", "fluid.optimizer.RecomputeOptimizer")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    x = draw.tensor((draw.int(1, 4), draw.int(1, 4)), "float32")
    hidden = [draw.call(L + "fc", x, draw.int(1, 4), act="tanh")]
    for _ in range(draw.int(0, 2)):
        hidden.append(draw.call(L + "fc", hidden[-1], draw.int(1, 3), act="tanh"))
    found = draw.call(L + "mean", draw.call(L + "square", hidden[-1]))
    inner = draw.call(O + draw.choice("SGD", "Adagrad", "Adam"), draw.choice(0.1, 0.5))
    if name.endswith("LookaheadOptimizer"):
        made = draw.call(name, inner, alpha=draw.choice(OMIT, 0.3, 0.8), k=draw.int(1, 3))
    else:
        made = draw.call(name, inner)
        draw.call(f"{made.name}._set_checkpoints", hidden)
    draw.call(f"{made.name}.minimize", found)
    return found


# ---------------------------------------------------------------------- clips and regularizers
def trained(draw: Draw, prepare: Any = None, **options: Any) -> Value:
    """A loss whose parameters move by plain steps."""
    draw.gradients = False
    found = loss(draw)
    if prepare is not None:
        prepare()
    made = draw.call(O + "SGD", draw.choice(0.1, 1.0), **options)
    draw.call(f"{made.name}.minimize", found)
    return found


@draws("fluid.clip.set_gradient_clip")
def _(draw: Draw, name: str) -> Any:
    return trained(draw, lambda: draw.call(name, clip(draw, 1.0)))


@draws(*(f"fluid.clip.{kind}" for kind in CLIPS.split()))
def _(draw: Draw, name: str) -> Any:
    args = [draw.choice(0.02, 0.3, 5.0)]
    if name.endswith("Value"):
        return trained(draw, grad_clip=draw.made(name, *args, min=draw.choice(OMIT, -0.01)))
    return trained(draw, grad_clip=draw.made(name, *args))


@draws("fluid.clip.ErrorClipByValue")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    x = draw.tensor((draw.int(1, 4), draw.int(1, 4)), "float32")
    hidden = draw.call(L + "fc", x, draw.int(1, 4))
    draw.call(
        f"{hidden.name}._set_error_clip",
        draw.made(name, draw.choice(0.01, 0.2), min=draw.choice(OMIT, -0.05)),
    )
    found = draw.call(L + "mean", draw.call(L + "square", hidden))
    draw.call(draw.call(O + "SGD", 1.0).name + ".minimize", found)
    return found


@draws(
    *(
        f"fluid.regularizer.{kind}"
        for kind in ("L1Decay", "L2Decay", "L1DecayRegularizer", "L2DecayRegularizer")
    )
)
def _(draw: Draw, name: str) -> Any:
    return trained(draw, regularization=draw.made(name, regularization_coeff=draw.choice(OMIT, 0.1, 1.0)))


# ---------------------------------------------------------------------- initializers
INITIALIZERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Constant": {"value": (0.0, 1.5, -2.0)},
    "Normal": {"loc": (0.0, 1.0), "scale": (1.0, 0.1), "seed": (0, 3)},
    "TruncatedNormal": {"loc": (0.0, 1.0), "scale": (1.0, 0.1), "seed": (0, 3)},
    "Uniform": {"low": (-1.0, -0.1), "high": (1.0, 0.1), "seed": (0, 3)},
    "MSRA": {"uniform": (True, False), "fan_in": (None, 4), "seed": (0, 3)},
    "Xavier": {"uniform": (True, False), "fan_in": (None, 4), "fan_out": (None, 5), "seed": (0, 3)},
}


@draws(
    *(f"fluid.initializer.{kind}" for kind in INITIALIZERS),
    *(f"fluid.initializer.{kind}Initializer" for kind in INITIALIZERS),
    "fluid.initializer.NumpyArrayInitializer",
    "fluid.initializer.Bilinear",
    "fluid.initializer.BilinearInitializer",
)
def _(draw: Draw, name: str) -> Any:
    kind = name.rpartition(".")[2].removesuffix("Initializer")
    shape = [max(size, 1) for size in draw.shape((1, 4))]
    draw.random = kind not in ("Constant", "NumpyArray", "Bilinear")
    if kind == "NumpyArray":
        made = draw.made(name, draw.numbers(shape, "float32"))
    elif kind == "Bilinear":
        size = draw.int(1, 4)
        shape = [draw.int(1, 3), draw.int(1, 3), size, size]
        made = draw.made(name)
    else:
        made = draw.made(name, **{key: draw.maybe(draw.choice(*v)) for key, v in INITIALIZERS[kind].items()})
    param = draw.call(L + "create_parameter", shape, "float32", default_initializer=made)
    x = draw.tensor(shape, "float32")
    return draw.call(L + "elementwise_add", draw.call(L + "elementwise_mul", param, x), x)
