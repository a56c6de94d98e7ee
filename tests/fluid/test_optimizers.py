"""Optimizers: what `minimize` writes, sparse gradients, and the optimizers around optimizers.

The numbers of every optimizer are held to PaddlePaddle's in the golden runs, those of the ops to formulas in
the op table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers, optimizer
from fluidlite.ir.operator import OpRole
from fluidlite.values.tensor import LoDTensor

X = np.random.RandomState(2).uniform(-1, 1, (6, 3)).astype("float32")
ONE = fluid.initializer.Constant(1.0)


def regression(**attrs: Any) -> Any:
    """The loss of a linear layer with parameters w and b, both one at first."""
    x = fluid.data("x", [None, 3], "float32")
    out = layers.fc(
        x,
        2,
        param_attr=fluid.ParamAttr(name="w", initializer=ONE, **attrs),
        bias_attr=fluid.ParamAttr(name="b", initializer=ONE),
    )
    return layers.mean(layers.square(out))


def train(*names: str, feeds: Any = (X, X, X)) -> list[np.ndarray]:
    """Variables after the startup program and a step for each feed of x."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found: list[np.ndarray] = []
    for feed in feeds:
        found = exe.run(feed={"x": feed}, fetch_list=list(names))
    return found


def gradient(w: np.ndarray, b: np.ndarray, x: np.ndarray = X) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of `regression` by hand."""
    out = 2 * (x @ w + b) / (len(x) * 2)
    return x.T @ out, out.sum(0)


def ops(program: Any = None) -> list[Any]:
    """The ops of the global block that carry the optimize role."""
    block = (program or fluid.default_main_program()).global_block()
    return [op for op in block.ops if op.role & OpRole.Optimize]


# ---------------------------------------------------------------------- what minimize writes
MOMENTS = ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"]
WRITTEN: dict[str, tuple[Callable[[], Any], list[str], dict[str, Any]]] = {
    "sgd": (lambda: optimizer.SGD(0.1), [], {}),
    "momentum": (
        lambda: optimizer.Momentum(0.1, 0.9, use_nesterov=True),
        ["velocity"],
        {"mu": 0.9, "use_nesterov": True},
    ),
    "lars_momentum": (
        lambda: optimizer.LarsMomentum(0.1, 0.9),
        ["velocity"],
        {"mu": 0.9, "lars_coeff": 0.001, "lars_weight_decay": 0.0005},
    ),
    "dpsgd": (
        lambda: optimizer.Dpsgd(0.1, clip=1.0),
        [],
        {"clip": 1.0, "batch_size": 0.999, "sigma": 1e-8, "seed": 0},
    ),
    "adam": (
        lambda: optimizer.Adam(lazy_mode=True),
        MOMENTS,
        {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "lazy_mode": True},
    ),
    "adamax": (
        lambda: optimizer.Adamax(0.1),
        ["moment", "inf_norm", "beta1_pow_acc"],
        {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    ),
    "adagrad": (lambda: optimizer.Adagrad(0.1), ["moment"], {"epsilon": 1e-6}),
    "decayed_adagrad": (lambda: optimizer.DecayedAdagrad(0.1), ["moment"], {"decay": 0.95, "epsilon": 1e-6}),
    "adadelta": (
        lambda: optimizer.Adadelta(0.1),
        ["_avg_squared_grad", "_avg_squared_update"],
        {"rho": 0.95, "epsilon": 1e-6},
    ),
    "rmsprop": (
        lambda: optimizer.RMSProp(0.1, centered=True),
        ["momentum", "mean_square", "mean_grad"],
        {"decay": 0.95, "epsilon": 1e-6, "momentum": 0.0, "centered": True},
    ),
    "ftrl": (
        lambda: optimizer.Ftrl(0.1, l1=0.2, l2=0.2),
        ["squared", "linear"],
        {"l1": 0.2, "l2": 0.2, "lr_power": -0.5},
    ),
    "lamb": (
        lambda: optimizer.Lamb(0.1),
        MOMENTS,
        {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01},
    ),
}


@pytest.mark.parametrize("op_type", WRITTEN)
def test_minimize(op_type: str) -> None:
    make, accumulators, attrs = WRITTEN[op_type]
    made = make()
    written, pairs = made.minimize(regression())
    updates = [op for op in written if op.type == op_type]
    assert [op.input("Param") for op in updates] == [["b"], ["w"]]
    assert [op.role_vars for op in updates] == [["b", "b@GRAD"], ["w", "w@GRAD"]]
    assert [(param.name, grad.name) for param, grad in pairs] == [("w", "w@GRAD"), ("b", "b@GRAD")]
    assert written == ops() and all(op.output("ParamOut") == op.input("Param") for op in updates)
    names = [f"{param}_{name}_0" for param in "bw" for name in accumulators]
    assert made.get_opti_var_name_list() == names
    for name, value in attrs.items():
        assert updates[0].attr(name) == pytest.approx(value)
    startup = [op.output_arg_names[0] for op in fluid.default_startup_program().global_block().ops]
    assert startup == ["learning_rate_0", *reversed(names), "b", "w"]
    before, after = train("w", feeds=[X])[0], train("w")[0]
    assert np.isfinite(after).all() and not np.array_equal(before, after)


def test_scopes_of_names() -> None:
    optimizer.SGD(0.1).minimize(regression(learning_rate=2.0))
    paths = [op.attr("op_namescope").strip("/").split("/") for op in ops()]
    assert [path[0].split("_")[0] for path in paths] == ["optimizer"] * 3 and paths[1][
        1
    ] == "scale_with_param_lr"
    assert paths[1][0] == paths[2][0] != paths[0][0]


def test_factors_of_learning_rates() -> None:
    written, _ = optimizer.SGD(0.1).minimize(regression(learning_rate=2.0))
    assert [op.type for op in written] == ["sgd", "scale", "sgd"] and written[
        1
    ].role == OpRole.Optimize | OpRole.LRSched
    w, b = np.ones((3, 2)), np.ones(2)
    dw, db = gradient(w, b)
    found = train("w", "b", feeds=[X])
    np.testing.assert_allclose(found[0], w - 0.2 * dw, rtol=1e-5)
    np.testing.assert_allclose(found[1], b - 0.1 * db, rtol=1e-5)


def test_learning_rate_as_variable() -> None:
    rate = layers.create_global_var([1], 0.5, "float32", persistable=True)
    made = optimizer.SGD(rate)
    made.minimize(regression())
    assert made._global_learning_rate() is rate
    first = train("w", feeds=[X])[0]
    fluid.global_scope().find_var(rate.name).get_tensor().set(np.array([0.0], "float32"), fluid.CPUPlace())
    exe = fluid.Executor(fluid.CPUPlace())
    assert np.array_equal(exe.run(feed={"x": X}, fetch_list=["w"])[0], first)


def test_name_goes_into_accumulators() -> None:
    made = optimizer.Momentum(0.1, 0.9, name="slow")
    made.minimize(regression())
    assert made.get_opti_var_name_list() == ["b_slow_velocity_0", "w_slow_velocity_0"]


def test_which_parameters() -> None:
    loss = regression()
    assert [param.name for param, _ in optimizer.SGD(0.1).backward(loss, parameter_list=["b"])] == ["b"]
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        assert [
            param.name for param, _ in optimizer.SGD(0.1, parameter_list=["w"]).minimize(regression())[1]
        ] == ["w"]
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        assert [
            param.name for param, _ in optimizer.SGD(0.1).minimize(regression(), no_grad_set={"w"})[1]
        ] == ["b"]
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        assert [param.name for param, _ in optimizer.SGD(0.1).minimize(regression(trainable=False))[1]] == [
            "b"
        ]


def test_backward_and_apply_gradients() -> None:
    made = optimizer.SGD(0.1)
    pairs = [(param, layers.scale(grad, 0.5)) for param, grad in made.backward(regression())]
    assert [op.type for op in made.apply_gradients(pairs)] == ["sgd", "sgd"]
    np.testing.assert_allclose(
        train("w", feeds=[X])[0], 1 - 0.05 * gradient(np.ones((3, 2)), np.ones(2))[0], rtol=1e-5
    )


def test_double_precision() -> None:
    x = fluid.data("x", [None, 3], "float64")
    made = optimizer.Adam(0.1)
    made.minimize(layers.mean(layers.fc(x, 2)))
    held = [
        fluid.default_main_program().global_block().var(name)
        for name in ["learning_rate_0", *made.get_opti_var_name_list()]
    ]
    assert {var.dtype for var in held} == {x.dtype}
    assert train("fc_0.w_0", feeds=[X.astype("float64")])[0].dtype == np.float64


def test_adam_with_betas_as_variables() -> None:
    betas = [layers.create_global_var([1], value, "float32", persistable=True) for value in (0.9, 0.999)]
    optimizer.Adam(0.1, beta1=betas[0], beta2=betas[1]).minimize(regression())
    assert ops()[0].input("Beta1Tensor") == [betas[0].name]
    found = train("w")[0]
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        optimizer.Adam(0.1).minimize(regression())
        np.testing.assert_allclose(found, train("w")[0], rtol=1e-6)


def test_powers_of_others() -> None:
    """With use_global_beta_pow the op leaves the powers alone; without output slots for them it cannot
    move them.
    """
    optimizer.Adam(0.1).minimize(regression())
    for op in ops():
        op._set_attr("use_global_beta_pow", True)
    assert train("w_beta1_pow_acc_0")[0] == np.float32(0.9)
    for op in ops():
        op._set_attr("use_global_beta_pow", False)
    assert train("w_beta1_pow_acc_0")[0] == pytest.approx(0.9**4)


def test_noise() -> None:
    """The noise is one number a parameter, PaddlePaddle 1.8.5's for seed 5."""
    made = optimizer.Dpsgd(0.1, clip=1e9, batch_size=4.0, sigma=2.0)
    made._seed = 5
    made.minimize(regression())
    moved = train("w", feeds=[X])[0]
    np.testing.assert_allclose(
        moved, 1 - 0.1 * (gradient(np.ones((3, 2)), np.ones(2))[0] - 0.39887524 / 4), rtol=1e-5
    )


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: optimizer.SGD(1), TypeError),
        (lambda: optimizer.SGD(None), ValueError),
        (lambda: optimizer.Momentum(0.1, None), ValueError),
        (lambda: optimizer.SGD(0.1, grad_clip=3), TypeError),
        (lambda: optimizer.SGD(0.1).minimize(3), TypeError),
        (lambda: optimizer.Optimizer(0.1).minimize(regression()), TypeError),
        (
            lambda: optimizer.SGD(0.1).minimize(layers.fc(fluid.data("x", [None, 3], "float32"), 2)),
            ValueError,
        ),
        (lambda: optimizer.LookaheadOptimizer(None), ValueError),
        (lambda: optimizer.LookaheadOptimizer(optimizer.SGD(0.1), alpha=2.0), ValueError),
        (lambda: optimizer.LookaheadOptimizer(optimizer.SGD(0.1), k=0), ValueError),
        (lambda: optimizer.RecomputeOptimizer(optimizer.SGD(0.1)).minimize(regression()), ValueError),
        (lambda: optimizer.GradientMergeOptimizer(optimizer.SGD(0.1), 0), ValueError),
        (lambda: optimizer.DGCMomentumOptimizer(0.1, 0.9, -1), ValueError),
        (
            lambda: optimizer.DGCMomentumOptimizer(
                0.1, 0.9, 0, grad_clip=fluid.clip.GradientClipByValue(1.0)
            ),
            TypeError,
        ),
        (lambda: fluid.contrib.extend_with_decoupled_weight_decay(3), TypeError),
    ],
)
def test_refusals(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_minimize_twice() -> None:
    made, loss = optimizer.Adam(0.1), regression()
    made.minimize(loss)
    with (
        pytest.warns(fluid.FluidWarning, match="b, w would be updated twice"),
        pytest.raises(Exception, match="Accumulator moment1 already exists for parameter b"),
    ):
        made.minimize(loss)


# ---------------------------------------------------------------------- sparse gradients
BATCHES = [np.array([[1], [3], [1]]), np.array([[0], [3], [4]])]
ALIKE: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizer.SGD(0.1),
    "momentum": lambda: optimizer.Momentum(0.1, 0.9),
    "nesterov": lambda: optimizer.Momentum(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: optimizer.Adagrad(0.1),
    "adam": lambda: optimizer.Adam(0.1),
    "rmsprop": lambda: optimizer.RMSProp(0.1, momentum=0.5),
    "rmsprop centered": lambda: optimizer.RMSProp(0.1, centered=True),
    "lamb": lambda: optimizer.Lamb(0.1),
    "lars": lambda: optimizer.LarsMomentum(0.1, 0.9),
    "adamax": lambda: optimizer.Adamax(0.1),
}


def trained_table(make: Callable[[], Any], is_sparse: bool) -> list[np.ndarray]:
    """An embedding's table after each of two batches."""
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
        fluid.unique_name.guard(),
    ):
        ids = fluid.data("ids", [None, 1], "int64")
        attr = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-1.0, 1.0, seed=3))
        vectors = layers.embedding(ids, [6, 2], is_sparse=is_sparse, param_attr=attr)
        make().minimize(layers.reduce_sum(layers.square(vectors)))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        start = np.array(fluid.global_scope().find_var("table").get_tensor())
        return [start, *(exe.run(feed={"ids": batch}, fetch_list=["table"])[0] for batch in BATCHES)]


@pytest.mark.parametrize("name", ALIKE)
def test_sparse_as_dense(name: str) -> None:
    """A sparse gradient acts as the dense one that it stands for; rows that occur twice count twice."""
    sparse, dense = (trained_table(ALIKE[name], is_sparse) for is_sparse in (True, False))
    np.testing.assert_allclose(sparse, dense, rtol=1e-5, atol=1e-6)


def test_lazy_adam_moves_only_rows_of_the_batch() -> None:
    start, first, second = trained_table(lambda: optimizer.Adam(0.1, lazy_mode=True), is_sparse=True)
    assert np.array_equal(start[[0, 2, 4, 5]], first[[0, 2, 4, 5]])
    assert np.array_equal(first[[1, 2, 5]], second[[1, 2, 5]])
    np.testing.assert_allclose(
        first[[1, 3]], trained_table(lambda: optimizer.Adam(0.1), is_sparse=True)[1][[1, 3]], rtol=1e-6
    )
    assert not np.isclose(second[[0, 3, 4]], first[[0, 3, 4]]).any()


def test_ftrl_moves_only_rows_of_the_batch() -> None:
    start, first, second = trained_table(lambda: optimizer.Ftrl(0.1, l1=0.01, l2=0.01), is_sparse=True)
    dense = trained_table(lambda: optimizer.Ftrl(0.1, l1=0.01, l2=0.01), is_sparse=False)[1]
    assert np.array_equal(start[[0, 2, 4, 5]], first[[0, 2, 4, 5]]) and np.array_equal(
        first[[1, 2, 5]], second[[1, 2, 5]]
    )
    np.testing.assert_allclose(first[[1, 3]], dense[[1, 3]], rtol=1e-5)


def test_kernel_takes_empty_sparse_gradients() -> None:
    from fluidlite.ops.training.optimizer import UPDATES
    from fluidlite.values.tensor import SelectedRows

    assert UPDATES["sgd"].rows_only({}) and not UPDATES["momentum"].rows_only({})
    empty = SelectedRows([], 3, np.zeros((0, 2), "float32"))
    assert np.array_equal(empty.dense(np), np.zeros((3, 2)))


# ---------------------------------------------------------------------- optimizers around optimizers
def test_merged_gradients_are_those_of_a_larger_batch() -> None:
    optimizer.GradientMergeOptimizer(optimizer.Momentum(0.1, 0.9), k_steps=3).minimize(regression())
    merged = train("w", "b", feeds=[X[:2], X[2:4], X[4:], X[:2]])
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        optimizer.Momentum(0.1, 0.9).minimize(regression())
        whole = train("w", "b", feeds=[X])
    for one, other in zip(merged, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_merging_one_step_changes_nothing() -> None:
    written, _ = optimizer.GradientMergeOptimizer(optimizer.SGD(0.1), k_steps=1).minimize(regression())
    assert [op.type for op in written] == ["sgd", "sgd"] and len(fluid.default_main_program().blocks) == 1


def test_sums_instead_of_means() -> None:
    optimizer.GradientMergeOptimizer(optimizer.SGD(0.1), k_steps=2, avg=False).minimize(regression())
    np.testing.assert_allclose(
        train("b", feeds=[X, X])[0], 1 - 0.2 * gradient(np.ones((3, 2)), np.ones(2))[1], rtol=1e-6
    )


def test_lookahead() -> None:
    optimizer.LookaheadOptimizer(optimizer.SGD(0.1), alpha=0.5, k=2).minimize(regression())
    fast, slow = [np.ones((3, 2)), np.ones(2)], [np.ones((3, 2)), np.ones(2)]
    for number in (1, 2, 3):
        fast = [value - 0.1 * grad for value, grad in zip(fast, gradient(*fast), strict=True)]
        if number == 2:
            fast = slow = [(one + other) / 2 for one, other in zip(fast, slow, strict=True)]
    found = train("w", "b", "w@SLOW", feeds=[X, X, X])
    np.testing.assert_allclose(found[0], fast[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], fast[1], rtol=1e-5)
    np.testing.assert_allclose(found[2], slow[0], rtol=1e-5)


def test_moving_average() -> None:
    optimizer.SGD(0.1).minimize(regression())
    average = optimizer.ExponentialMovingAverage(0.9)
    average.update()
    w, b, mean = np.ones((3, 2)), np.ones(2), np.zeros((3, 2))
    for _ in range(3):
        dw, db = gradient(w, b)
        w, b = w - 0.1 * dw, b - 0.1 * db
        mean = 0.9 * mean + 0.1 * w
    last = train("w")[0]
    exe, held = fluid.Executor(fluid.CPUPlace()), fluid.global_scope().find_var("w").get_tensor()
    with average.apply(exe):
        np.testing.assert_allclose(np.array(held), mean / (1 - 0.9**3), rtol=1e-5)
    np.testing.assert_array_equal(np.array(held), last)


def test_model_average() -> None:
    optimizer.SGD(0.1).minimize(regression())
    average = optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=10)
    exe, held, seen = fluid.Executor(fluid.CPUPlace()), fluid.global_scope().var("w").get_tensor(), []
    exe.run(fluid.default_startup_program())
    for _ in range(3):
        exe.run(feed={"x": X})
        seen.append(np.array(held))
    with average.apply(exe, need_restore=False):
        pass
    np.testing.assert_allclose(np.array(held), np.mean(seen, axis=0), rtol=1e-5)
    average.restore(exe)
    np.testing.assert_array_equal(np.array(held), seen[-1])


def test_parameters_left_out_of_the_average() -> None:
    optimizer.SGD(0.1).minimize(regression(do_model_average=False))
    average = optimizer.ModelAverage(0.5)
    assert [param.name for param, _ in average.params_grads] == ["b"]


def test_recomputation_gives_the_same_step() -> None:
    def deep(wrap: bool) -> np.ndarray:
        with (
            fluid.program_guard(fluid.Program(), fluid.Program()),
            fluid.scope_guard(fluid.Scope()),
            fluid.unique_name.guard(),
        ):
            fluid.default_startup_program().random_seed = 3
            hidden = layers.fc(fluid.data("x", [None, 3], "float32"), 4, act="tanh")
            loss = layers.mean(layers.fc(layers.fc(hidden, 4, act="sigmoid"), 1))
            made: Any = optimizer.Adam(0.1)
            if wrap:
                made = optimizer.RecomputeOptimizer(made)
                made._set_checkpoints([hidden])
            made.minimize(loss)
            return train("fc_0.w_0")[0]

    np.testing.assert_allclose(deep(True), deep(False), rtol=1e-6)


def test_compressed_momentum_is_momentum() -> None:
    written, _ = optimizer.DGCMomentumOptimizer(0.1, 0.9, rampup_begin_step=3, use_nesterov=True).minimize(
        regression()
    )
    assert [op.type for op in written] == ["momentum", "momentum"] and written[0].attr("use_nesterov")


def test_decoupled_decay() -> None:
    made = fluid.contrib.extend_with_decoupled_weight_decay(optimizer.SGD)(
        learning_rate=0.1, weight_decay=0.25, apply_decay_param_fun=lambda name: name == "w"
    )
    made.minimize(regression())
    dw, db = gradient(np.ones((3, 2)), np.ones(2))
    found = train("w", "b", feeds=[X])
    np.testing.assert_allclose(found[0], 0.75 - 0.1 * dw, rtol=1e-5)
    np.testing.assert_allclose(found[1], 1 - 0.1 * db, rtol=1e-5)
    assert str(made) == "Weight Decay, params: w"


def test_accumulators_can_be_set() -> None:
    """A value that a loader puts into an accumulator is what the next step uses."""
    optimizer.Momentum(0.1, 0.9).minimize(regression())
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.global_scope().find_var("b_velocity_0").set(LoDTensor(np.array([1.0, 2.0], "float32")))
    db = gradient(np.ones((3, 2)), np.ones(2))[1]
    found = exe.run(feed={"x": X}, fetch_list=["b"])[0]
    np.testing.assert_allclose(found, 1 - 0.1 * (0.9 * np.array([1, 2]) + db), rtol=1e-5)
