"""Layers of neural networks: the programs that they build are PaddlePaddle 1.8.5's, and what those
programs compute.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest
from layer_programs import build, read

import fluidlite as fluid
from fluidlite import layers
from fluidlite.base.dtypes import VarType
from fluidlite.ops.kernels.convolution import Geometry, conv_plan
from fluidlite.ops.kernels.pooling import Pooling, PoolPlan, Windows

RECORDED = dict(read(str(pathlib.Path(__file__).parent / "layer_programs_nn.txt")))


@pytest.mark.parametrize("code", RECORDED)
@pytest.mark.filterwarnings("ignore:param_attr is only:UserWarning")
@pytest.mark.filterwarnings("ignore:bias_attr is only:UserWarning")
@pytest.mark.filterwarnings("ignore:actual_shape will:UserWarning")
def test_builds_what_paddle_builds(code: str) -> None:
    # 1.8.5 multiplies the size of a batch, -1, with others
    found, wanted = build(fluid, code), [re.sub(r"\[-\d+\]", "[-1]", line) for line in RECORDED[code]]
    if wanted and wanted[0].startswith("raises"):
        assert found[0].startswith("raises") and wanted[0].split()[1] in found[0].split(), (
            f"{found} for {wanted}"
        )
    else:
        assert found == wanted


class Net:
    """A program under construction, and its runs in a scope of its own."""

    def __init__(self) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.started = False

    def build(self, function: Any) -> Any:
        """The variables that `function` returns after adding its layers to the program."""
        with fluid.unique_name.guard(), fluid.program_guard(self.main, self.startup):
            return function()

    def start(self) -> None:
        """Initialise the parameters, once."""
        if not self.started:
            self.exe.run(self.startup, scope=self.scope)
        self.started = True

    def run(self, feed: Any, *fetches: Any, program: Any = None) -> list[Any]:
        """Fetched arrays."""
        self.start()
        return list(self.exe.run(program or self.main, feed=feed, fetch_list=list(fetches), scope=self.scope))

    def value(self, name: str) -> Any:
        return np.array(self.scope.find_var(name).get_tensor())


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


# ------------------------------------------------------------------ tables
def embedding_net(**options: Any) -> tuple[Net, Any, Any]:
    net = Net()

    def layer() -> tuple[Any, Any]:
        ids = layers.data("ids", [1], dtype="int64")
        rows = layers.embedding(ids, [5, 2], param_attr=fluid.ParamAttr(name="table"), **options)
        loss = layers.reduce_sum(rows)
        fluid.optimizer.SGD(learning_rate=1.0).minimize(loss)
        return rows, loss

    return (net, *net.build(layer))


@pytest.mark.parametrize("sparse", [False, True])
def test_padding_row_reads_as_zeros_and_never_moves(sparse: bool) -> None:
    net, rows, _ = embedding_net(padding_idx=3, is_sparse=sparse)
    net.start()
    before = net.value("table")
    (found,) = net.run({"ids": np.array([[3], [1], [1], [0]], "int64")}, rows)
    np.testing.assert_array_equal(found, before[[3, 1, 1, 0]] * [[0], [1], [1], [1]])
    np.testing.assert_allclose(
        before - net.value("table"), [[1, 1], [2, 2], [0, 0], [0, 0], [0, 0]], rtol=1e-6
    )


def test_sparse_table_has_selected_rows_as_gradient() -> None:
    net, _, _ = embedding_net(is_sparse=True)
    assert net.main.global_block().var("table@GRAD").type == VarType.SELECTED_ROWS
    assert embedding_net()[0].main.global_block().var("table@GRAD").type == VarType.LOD_TENSOR


def test_ids_out_of_range_are_named() -> None:
    net, rows, _ = embedding_net()
    with pytest.raises(fluid.core.EnforceNotMet, match="id 7 is outside the table of 5 rows"):
        net.run({"ids": np.array([[7]], "int64")}, rows)


# ------------------------------------------------------------------ normalisation
def test_batch_norm_moves_its_running_statistics_only_while_training() -> None:
    net = Net()

    def layer() -> Any:
        x = fluid.data("x", [None, 3, 2, 2])
        return layers.batch_norm(x, momentum=0.7, moving_mean_name="mean", moving_variance_name="variance")

    out = net.build(layer)
    test = net.main.clone(for_test=True)
    x = values(4, 3, 2, 2)
    (found,) = net.run({"x": x}, out)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    np.testing.assert_allclose(net.value("mean"), 0.3 * mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(net.value("variance"), 0.7 + 0.3 * variance, rtol=1e-5)
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=1e-6)
    held = net.value("mean"), net.value("variance")
    (tested,) = net.run({"x": x}, out, program=test)
    sizes = (1, 3, 1, 1)
    np.testing.assert_allclose(
        tested, (x - held[0].reshape(sizes)) / np.sqrt(held[1].reshape(sizes) + 1e-5), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(net.value("mean"), held[0])


def test_batch_norm_takes_its_momentum_from_a_variable() -> None:
    net = Net()
    net.build(
        lambda: layers.batch_norm(
            fluid.data("x", [None, 2]),
            momentum=layers.fill_constant([1], "float32", 0.25),
            moving_mean_name="mean",
        )
    )
    x = values(4, 2)
    net.run({"x": x})
    np.testing.assert_allclose(net.value("mean"), 0.75 * x.mean(0), rtol=1e-5)


@pytest.mark.parametrize("act, alpha", [(None, 1.0), ("leaky_relu", 0.3), ("elu", 0.5)])
def test_inplace_abn_trains_like_batch_norm_and_its_activation(act: str | None, alpha: float) -> None:
    def trained(in_place: bool) -> Any:
        net = Net()

        def layer() -> Any:
            hidden = layers.fc(
                fluid.data("x", [None, 4]),
                6,
                param_attr=fluid.ParamAttr(
                    name="w", initializer=fluid.initializer.NumpyArrayInitializer(values(4, 6, seed=1))
                ),
            )
            if in_place:
                out = layers.inplace_abn(hidden, act=act, act_alpha=alpha)
            else:
                out = layers.batch_norm(hidden)
                out = out if act is None else getattr(layers, act)(out, alpha)
            loss = layers.reduce_sum(layers.square(out) * layers.sigmoid(out))
            fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
            return loss

        loss = net.build(layer)
        for _ in range(2):
            net.run({"x": values(5, 4)}, loss)
        return net.value("w")

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-3, atol=1e-5)


def test_weight_norm_begins_as_the_weight_itself() -> None:
    net = Net()
    out = net.build(
        lambda: layers.fc(
            fluid.data("x", [None, 3]),
            4,
            bias_attr=False,
            param_attr=fluid.WeightNormParamAttr(
                dim=1, name="w", initializer=fluid.initializer.NumpyArrayInitializer(values(3, 4))
            ),
        )
    )
    (found,) = net.run({"x": np.eye(3, dtype="float32")}, out)
    np.testing.assert_allclose(found, values(3, 4), rtol=1e-5)
    np.testing.assert_allclose(
        net.value("w_g"), np.linalg.norm(values(3, 4), axis=0, keepdims=True), rtol=1e-5
    )


# ------------------------------------------------------------------ dropout
def test_dropout_differs_from_run_to_run_unless_seeded() -> None:
    net = Net()
    free, seeded = net.build(
        lambda: (
            layers.dropout(fluid.data("x", [None, 50]), 0.5),
            layers.dropout(fluid.data("y", [None, 50]), 0.5, seed=3),
        )
    )
    feed = {"x": np.ones((20, 50), "float32"), "y": np.ones((20, 50), "float32")}
    first, second = net.run(feed, free, seeded), net.run(feed, free, seeded)
    assert not np.array_equal(first[0], second[0]) and 350 < first[0].sum() < 650
    np.testing.assert_array_equal(first[1], second[1])


def test_dropout_rests_in_a_test_program() -> None:
    net = Net()
    out = net.build(lambda: layers.dropout(fluid.data("x", [None, 4]), 0.25))
    (found,) = net.run({"x": np.ones((2, 4), "float32")}, out, program=net.main.clone(for_test=True))
    np.testing.assert_allclose(found, 0.75)


# ------------------------------------------------------------------ pools and convolutions
def test_adaptive_max_pool_gives_places() -> None:
    net = Net()
    out, mask = net.build(
        lambda: layers.adaptive_pool2d(fluid.data("x", [1, 1, 4, 4]), 2, require_index=True)
    )
    x = np.array([[1, 2, 0, 0], [5, 0, 0, 7], [0, 0, 1, 1], [9, 0, 1, 1]], "float32").reshape(1, 1, 4, 4)
    found, places = net.run({"x": x}, out, mask)
    np.testing.assert_array_equal(found.reshape(-1), [5, 7, 9, 1])
    np.testing.assert_array_equal(places.reshape(-1), [4, 7, 12, 10])
    assert places.dtype == np.int32


GEOMETRIES = [
    Geometry((2, 3, 6, 7), (4, 3, 3, 2), (1, 1), ((1, 1), (0, 1)), (1, 1)),
    Geometry((2, 3, 6, 7), (4, 3, 3, 3), (2, 1), ((1, 0), (1, 1)), (1, 1)),
    Geometry((2, 3, 8, 9), (4, 3, 5, 4), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Geometry((2, 4, 6, 7), (8, 1, 3, 3), (1, 2), ((1, 1), (1, 1)), (2, 1), 4),
    Geometry((2, 4, 5, 5), (6, 2, 2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 2),
    Geometry((2, 3, 5, 5), (4, 3, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    Geometry((1, 2, 3, 4, 3), (3, 2, 2, 2, 2), (1, 2, 1), ((1, 0), (0, 0), (1, 1)), (1, 1, 1)),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_plans_are_adjoint_to_themselves(geometry: Geometry) -> None:
    """<conv(x, w), d> = <x, grad_input(d, w)> = <w, grad_filter(x, d)>, also when a plan is used again."""
    plan = conv_plan(np, geometry, np.dtype("float64"))
    for seed in (0, 1):
        x, w, d = (
            values(*shape, seed=seed).astype("float64") for shape in (geometry.x, geometry.w, geometry.out)
        )
        out, dx, dw = np.full(geometry.out, np.nan), np.full(geometry.x, np.nan), np.full(geometry.w, np.nan)
        plan.forward(x, w, out)
        plan.grad_input(d, w, dx)
        plan.grad_filter(x, d, dw, reuse=True)
        np.testing.assert_allclose([(x * dx).sum(), (w * dw).sum()], (out * d).sum())


def test_plans_do_not_trust_a_forward_pass_that_did_not_happen() -> None:
    geometry = GEOMETRIES[0]
    x, d = values(*geometry.x), values(*geometry.out)
    once, again = np.empty(geometry.w, "float32"), np.empty(geometry.w, "float32")
    conv_plan(np, geometry, np.dtype("float32")).grad_filter(x, d, once)
    conv_plan(np, geometry, np.dtype("float32")).grad_filter(x, d, again, reuse=True)
    np.testing.assert_array_equal(once, again)
    windows = [Windows.regular(6, 3, 2, (1, 1), False), Windows.regular(7, 2, 2, (0, 0), True)]
    pooling = Pooling(windows, "max", True, x.dtype)
    plan = PoolPlan(np, x.shape, pooling)
    pooled, first, second = np.empty(plan.out_shape, "float32"), np.empty_like(x), np.empty_like(x)
    plan.forward(x, pooled)
    plan.backward(x, pooled, np.ones_like(pooled), first, reuse=True)
    PoolPlan(np, x.shape, pooling).backward(x, pooled, np.ones_like(pooled), second, reuse=True)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    "then",
    [lambda x: x, lambda x: layers.instance_norm(x) + 0.5 * x, lambda x: layers.fc(x, 2, bias_attr=False)],
    ids=["conv2d", "instance_norm", "mul"],
)
def test_gradient_of_a_gradient(then: Any) -> None:
    """The penalty |d loss / d x|^2 of WGAN-GP has a gradient."""
    net = Net()

    def layer() -> Any:
        x = fluid.data("x", [2, 2, 4, 4])
        x.stop_gradient = False
        hidden = layers.conv2d(
            x,
            3,
            3,
            bias_attr=False,
            param_attr=fluid.ParamAttr(
                name="w", initializer=fluid.initializer.NumpyArrayInitializer(values(3, 2, 3, 3))
            ),
        )
        score = layers.reduce_sum(layers.square(then(hidden)))
        (slope,) = fluid.gradients([score], [x])
        penalty = layers.reduce_sum(layers.square(slope))
        return penalty, fluid.gradients([penalty], [net.main.global_block().var("w")])[0]

    penalty, gradient = net.build(layer)
    x, step = values(2, 2, 4, 4, seed=2), 1e-2
    _, found = net.run({"x": x}, penalty, gradient)
    for index in ((0, 0, 0, 0), (2, 1, 1, 2)):
        moved = []
        for sign in (1, -1):
            w = values(3, 2, 3, 3)
            w[index] += sign * step
            net.scope.find_var("w").get_tensor().set(w, fluid.CPUPlace())
            moved.append(float(net.run({"x": x}, penalty)[0].sum()))
        np.testing.assert_allclose(found[index], (moved[0] - moved[1]) / (2 * step), rtol=2e-2)
