"""Optimizers, clips, weight decay and initialisers held to what PaddlePaddle 1.8.5 was seen to do with odd
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import clip, initializer, layers, optimizer, regularizer


def net() -> Any:
    x = fluid.data("x", [None, 3], "float32")
    return layers.mean(
        layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=fluid.ParamAttr(name="b"))
    )


def block() -> Any:
    return fluid.default_main_program().global_block()


# ---------------------------------------------------------------------- what is refused
REFUSED: list[tuple[type[Exception], list[Callable[[], Any]]]] = [
    (
        TypeError,
        [
            lambda: optimizer.SGD(1),
            lambda: optimizer.SGD("a"),
            lambda: optimizer.SGD(np.float32(1)),
            lambda: optimizer.SGD(0.1, grad_clip=3),
            lambda: optimizer.Ftrl(None),
            lambda: optimizer.Adam(0),
            lambda: clip.set_gradient_clip(3),
            lambda: clip.set_gradient_clip(clip.ErrorClipByValue(1.0)),
            lambda: clip.GradientClipByNorm(1.0, need_clip=3),
            lambda: initializer.Uniform()(fluid.data("x", [1], "int64"), block()),
        ],
    ),
    (
        ValueError,
        [
            lambda: optimizer.Adadelta(None),
            lambda: optimizer.Adadelta(0.1, None),
            lambda: optimizer.Adadelta(0.1, 0.1, None),
            lambda: optimizer.RMSPropOptimizer(None),
            lambda: optimizer.RMSPropOptimizer(0.1, None),
            lambda: initializer.Bilinear()("x", block()),
            lambda: initializer.Bilinear()(fluid.data("x", [1, 1, 2, 2], "float32"), "b"),
        ],
    ),
    (
        AssertionError,
        [
            lambda: optimizer.SGD(None),
            lambda: optimizer.Momentum(0.1, None),
            lambda: optimizer.Momentum(None, 0.1),
            lambda: optimizer.Adam(0.1, None),
            lambda: optimizer.Adam(0.1, 0.1, 0.1, None),
            lambda: optimizer.Adamax(None),
            lambda: optimizer.Adagrad(0.1, None),
            lambda: optimizer.DecayedAdagrad(0.1, None),
            lambda: optimizer.LambOptimizer(0.1, None),
            lambda: optimizer.Dpsgd(0.1, None),
            lambda: optimizer.LookaheadOptimizer(None),
            lambda: optimizer.LookaheadOptimizer(optimizer.SGD(0.1), 2.0),
            lambda: optimizer.LookaheadOptimizer(optimizer.SGD(0.1), 0.2, 0),
            lambda: optimizer.SGD(0.1).minimize(None),
            lambda: optimizer.SGD(0.1).minimize("x"),
            lambda: optimizer.SGD(0.1).minimize(fluid.data("x", [None, 3], "float32")),
            lambda: optimizer.SGD(0.1).backward(net(), callbacks=3),
            lambda: optimizer.SGD(0.1).state_dict(),
            lambda: optimizer.SGD(0.1).set_dict({}),
            lambda: optimizer.SGD(0.1).current_step_lr(),
            lambda: optimizer.SGD(0.1).clear_gradients(),
            lambda: optimizer.RecomputeOptimizer(optimizer.SGD(0.1)).minimize(net()),
            lambda: clip.GradientClipByValue(-1),
            lambda: clip.GradientClipByValue(0),
            lambda: regularizer.L2Decay(None),
            lambda: regularizer.L1Decay(None),
            lambda: initializer.Constant(None),
            lambda: initializer.Uniform(1, -1),
            lambda: initializer.Normal(None),
            lambda: initializer.TruncatedNormal(None),
            lambda: initializer.Xavier(None),
            lambda: initializer.MSRA(seed=None),
            lambda: initializer.NumpyArrayInitializer([1]),
            lambda: initializer.Constant(1.0)("x", block()),
            lambda: initializer.MSRA()(None, None),
            lambda: initializer.Normal()(fluid.data("x", [1], "float32"), "b"),
        ],
    ),
    (
        Exception,
        [
            lambda: optimizer.Momentum(0.1, 0.9)._get_accumulator(
                "velocity", layers.create_parameter([1], "float32")
            ),
            lambda: [adam.minimize(loss) for adam, loss in [(optimizer.Adam(0.1), net())] * 2],
        ],
    ),
]


@pytest.mark.parametrize(("error", "call"), [(error, call) for error, calls in REFUSED for call in calls])
def test_refused(error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error):
        call()


# ---------------------------------------------------------------------- names that subclasses read
ACCUMULATORS: dict[str, tuple[type[Any], tuple[Any, ...], list[str]]] = {
    "velocity": (optimizer.MomentumOptimizer, (0.1, 0.9), ["_velocity_acc_str"]),
    "lars": (optimizer.LarsMomentumOptimizer, (0.1, 0.9), ["_velocity_acc_str"]),
    "adagrad": (optimizer.AdagradOptimizer, (0.1,), ["_moment_acc_str"]),
    "decayed": (optimizer.DecayedAdagradOptimizer, (0.1,), ["_moment_acc_str"]),
    "adam": (
        optimizer.AdamOptimizer,
        (0.1,),
        ["_moment1_acc_str", "_moment2_acc_str", "_beta1_pow_acc_str", "_beta2_pow_acc_str"],
    ),
    "adamax": (
        optimizer.AdamaxOptimizer,
        (0.1,),
        ["_moment_acc_str", "_inf_norm_acc_str", "_beta1_pow_acc_str"],
    ),
    "adadelta": (
        optimizer.AdadeltaOptimizer,
        (0.1,),
        ["_avg_squared_grad_acc_str", "_avg_squared_update_acc_str"],
    ),
    "rmsprop": (
        optimizer.RMSPropOptimizer,
        (0.1,),
        ["_momentum_acc_str", "_mean_square_acc_str", "_mean_grad_acc_str"],
    ),
    "ftrl": (optimizer.FtrlOptimizer, (0.1,), ["_squared_acc_str", "_linear_acc_str"]),
    "lamb": (
        optimizer.LambOptimizer,
        (0.1,),
        ["_moment1_acc_str", "_moment2_acc_str", "_beta1_pow_acc_str", "_beta2_pow_acc_str"],
    ),
}


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_accumulators_by_their_names(name: str) -> None:
    """Each optimizer says what its accumulators are called, and holds them under these names by parameter."""
    kind, arguments, attributes = ACCUMULATORS[name]
    made = kind(*arguments)
    assert not made._accumulators
    made.minimize(net())
    assert sorted(made._accumulators) == sorted(getattr(made, attribute) for attribute in attributes)
    for attribute in attributes:
        acc = getattr(made, attribute)
        assert {param: var.name for param, var in made._accumulators[acc].items()} == {
            "w": f"w_{acc}_0",
            "b": f"b_{acc}_0",
        }
        assert made._get_accumulator(acc, block().var("w")).persistable


def test_public_names() -> None:
    assert "Optimizer" not in optimizer.__all__
    assert optimizer.Lamb is optimizer.LambOptimizer
    assert optimizer.RMSProp is optimizer.RMSPropOptimizer


# ---------------------------------------------------------------------- ops made by hand
def by_hand(program: Any) -> Any:
    """A parameter mul.x, made op by op with a learning rate of its own; gives the mean of its product."""
    home = program.global_block()
    x = home.create_parameter(
        dtype="float32", shape=[5, 10], lod_level=0, name="mul.x", optimize_attr={"learning_rate": 1.1}
    )
    y, out, mean = (
        home.create_var(dtype="float32", shape=shape, name=name)
        for name, shape in (("mul.y", [10, 8]), ("mul.out", [5, 8]), ("mean.out", [1]))
    )
    home.append_op(type="mul", inputs={"X": x, "Y": y}, outputs={"Out": out}, attrs={"x_num_col_dims": 1})
    home.append_op(type="mean", inputs={"X": out}, outputs={"Out": mean})
    return mean


@pytest.mark.parametrize(
    ("make", "ops", "start"),
    [
        (lambda: optimizer.SGD(0.01), ["scale", "sgd"], 1),
        (lambda: optimizer.Momentum(0.2, 0.2), ["scale", "momentum"], 2),
        (lambda: optimizer.Adagrad(0.01), ["scale", "adagrad"], 2),
        (lambda: optimizer.Adam(0.01), ["scale", "adam"], 5),
        (lambda: optimizer.Adamax(0.01), ["scale", "adamax", "scale"], 4),
        (lambda: optimizer.DecayedAdagrad(0.01), ["scale", "decayed_adagrad"], 2),
        (lambda: optimizer.Ftrl(0.01), ["scale", "ftrl"], 3),
    ],
)
def test_updates_of_a_parameter_made_by_hand(make: Callable[[], Any], ops: list[str], start: int) -> None:
    """The factor of the parameter's learning rate is a `scale`; the startup program holds the rate and the
    accumulators.
    """
    main, startup = fluid.Program(), fluid.Program()
    pairs = fluid.backward.append_backward(by_hand(main))
    with fluid.program_guard(main, startup):
        written = make().apply_gradients(pairs)
    assert [op.type for op in written] == ops
    assert [op.type for op in startup.global_block().ops] == ["fill_constant"] * start


def test_decay_of_a_parameter_made_by_hand() -> None:
    home = block()
    mean = by_hand(fluid.default_main_program())
    home.var("mul.x").regularizer = regularizer.L2DecayRegularizer(0.5)
    assert str(home.var("mul.x").regularizer) == "L2Decay, regularization_coeff=0.500000"
    pairs = regularizer.append_regularization_ops(fluid.backward.append_backward(mean))
    assert [(param.name, grad.name) for param, grad in pairs] == [("mul.x", "mul.x@GRAD")]
    assert [op.type for op in home.ops[-2:]] == ["scale", "sum"]


@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_initialisers_that_check_no_dtype(kind: str) -> None:
    for number, made in enumerate(
        (initializer.Constant(2.0), initializer.MSRA(), initializer.TruncatedNormal())
    ):
        var = (
            fluid.default_startup_program()
            .global_block()
            .create_var(name=f"v{number}", shape=[2, 3], dtype=kind)
        )
        assert made(var, fluid.default_startup_program().global_block()).attr("dtype") == int(var.dtype)
