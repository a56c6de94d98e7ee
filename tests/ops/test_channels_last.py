"""Convolutions and batch normalisation with the channels last in memory, against the portable kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run.channels import ChannelKernel
from fluidlite.ops.kernels import gemm as products
from fluidlite.ops.kernels.channels_last import ChannelsLast, Portion
from fluidlite.ops.kernels.convolution import Geometry, Unfolded
from fluidlite.ops.kernels.depthwise import DepthwiseLast
from fluidlite.ops.kernels.few_places import FewPlaces, has_few_places
from fluidlite.ops.kernels.merged_groups import MergedGroups, merged_count
from fluidlite.ops.neural.batch_norm import BY_BATCH

ONE, NONE = ((1, 1), (1, 1)), ((0, 0), (0, 0))
GEOMETRIES = {
    "plain": Geometry((2, 3, 7, 8), (4, 3, 3, 3), (1, 1), ONE, (1, 1)),
    "uneven": Geometry((2, 3, 7, 8), (4, 3, 3, 2), (2, 1), ((1, 0), (0, 1)), (1, 1)),
    "groups": Geometry((1, 4, 9, 9), (6, 2, 3, 3), (2, 2), ONE, (2, 1), 2),
    "strided": Geometry((3, 16, 8, 8), (32, 16, 3, 3), (2, 2), ONE, (1, 1)),
    "pointwise": Geometry((3, 64, 8, 8), (64, 64, 1, 1), (1, 1), NONE, (1, 1)),
    "pointwise strided": Geometry((3, 64, 8, 9), (64, 64, 1, 1), (2, 2), NONE, (1, 1)),
    "channels shared": Geometry((2, 64, 5, 5), (64, 64, 3, 3), (1, 1), ONE, (1, 1)),
    "elements left out": Geometry((2, 8, 6, 6), (8, 8, 2, 2), (3, 3), NONE, (1, 1)),
    "wide pads": Geometry((2, 40, 12, 12), (48, 10, 3, 3), (1, 1), ((4, 4), (0, 3)), (2, 3), 4),
    "first layer": Geometry((1, 3, 33, 35), (8, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),
    "folded": Geometry((3, 20, 9, 8), (6, 20, 5, 4), (1, 1), ((0, 0), (1, 0)), (1, 2)),
    "folded more": Geometry((2, 40, 5, 5), (4, 40, 4, 4), (1, 1), ((0, 1), (0, 0)), (1, 1)),
    "folded, from the padding": Geometry((2, 1, 1, 3), (1, 1, 1, 3), (1, 1), ((0, 0), (2, 0)), (1, 2)),
    "tall": Geometry((2, 10, 9, 8), (6, 10, 5, 4), (2, 1), ((2, 1), (0, 2)), (1, 2)),
    "scattered": Geometry((4, 6, 11, 9), (64, 6, 3, 3), (3, 2), ONE, (1, 1)),
    "scattered, uneven": Geometry((3, 20, 5, 6), (64, 20, 2, 3), (1, 2), ((1, 0), (0, 1)), (2, 1)),
    "scattered, one image": Geometry((1, 2, 19, 14), (65, 2, 2, 1), (3, 3), NONE, (1, 1)),
    "few channels, long steps": Geometry((2, 2, 11, 9), (5, 2, 2, 3), (3, 2), ONE, (1, 1)),
    "few channels, dilated": Geometry((2, 2, 11, 9), (5, 2, 3, 3), (1, 1), ONE, (2, 2)),
    "window beyond the image": Geometry((2, 3, 2, 2), (4, 3, 3, 3), (1, 2), ((3, 3), (2, 2)), (1, 1)),
    "column": Geometry((4, 12, 30, 1), (12, 12, 3, 1), (1, 1), ((1, 1), (0, 0)), (1, 1)),
    "few places": Geometry((2, 5, 3, 4), (48, 5, 3, 3), (1, 1), ONE, (1, 1)),
    "few places, strided": Geometry((1, 4, 7, 5), (32, 4, 3, 2), (2, 3), ((2, 0), (1, 1)), (1, 1)),
    "few places, dilated": Geometry((1, 4, 6, 5), (64, 4, 2, 3), (1, 1), ((0, 0), (2, 2)), (3, 2)),
    "few places beyond": Geometry((1, 4, 2, 1), (64, 4, 3, 2), (4, 1), ((5, 5), (3, 0)), (1, 1)),
    "merged groups": Geometry((2, 24, 7, 5), (16, 3, 3, 3), (1, 2), ONE, (1, 1), 8),
    "merged groups, 1 x 1": Geometry((2, 8, 7, 5), (12, 2, 1, 1), (1, 1), NONE, (1, 1), 4),
    "merged groups, steps": Geometry((3, 32, 9, 8), (32, 4, 3, 2), (2, 2), ONE, (1, 1), 8),
    "depthwise": Geometry((2, 5, 9, 8), (5, 1, 3, 2), (2, 2), ((1, 0), (0, 1)), (1, 1), 5),
    "depthwise dilated": Geometry((1, 4, 9, 9), (4, 1, 3, 3), (2, 1), ((1, 1), (2, 1)), (2, 3), 4),
}


def turned(array: Any, dense: bool) -> Any:
    """(N, C, H, W) as (H, N, W, C), by a copy or as a view."""
    view = array.transpose(2, 0, 3, 1)
    return np.ascontiguousarray(view) if dense else view


def plan_of(name: str) -> ChannelsLast | DepthwiseLast | FewPlaces | MergedGroups:
    """The kernels of a geometry."""
    g = GEOMETRIES[name]
    if "few places" in name:
        assert has_few_places(g)
        return FewPlaces(g)
    if "merged" in name:
        assert merged_count(g) > 1
        return MergedGroups(g, merged_count(g))
    return DepthwiseLast(g) if "depthwise" in name else ChannelsLast(g)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolutions(name: str, members: int, dense: bool) -> None:
    g = GEOMETRIES[name]
    rng = np.random.default_rng(7)
    x, w, d = (rng.standard_normal(shape) for shape in (g.x, g.w, g.out))
    reference = Unfolded(np, g, np.dtype("float64"))
    out, dx, dw = np.empty(g.out), np.empty(g.x), np.empty(g.w)
    reference.forward(x, w, out)
    reference.grad_input(d, w, dx)
    reference.grad_filter(x, d, dw)
    plan = plan_of(name)
    found, found_dx = (np.full_like(array, np.nan) for array in (out, dx))
    parts = [np.full_like(dw, np.nan) for _ in range(members)]
    for t in range(members):
        mine = Portion(t, members)
        plan.forward(turned(x, dense), w, turned(found, False), mine)
        plan.grad_input(turned(d, dense), w, turned(found_dx, False), mine)
        plan.grad_filter(turned(x, dense), turned(d, dense), parts[0 if plan.shares_filters else t], mine)
    total = parts[0] if plan.shares_filters else sum(parts)
    for one, other in ((found, out), (found_dx, dx), (total, dw)):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_groups_are_merged_where_calls_take_longer_than_products() -> None:
    def count(places: int, width: int, groups: int) -> int:
        channels = width * groups
        return merged_count(
            Geometry((1, channels, places, 1), (channels, width, 1, 1), (1, 1), NONE, (1, 1), groups)
        )

    assert [count(64, width, 32) for width in (3, 4, 6, 12, 16, 48)] == [16, 8, 8, 4, 2, 1]
    assert [count(4096, width, 32) for width in (3, 4, 6, 12)] == [2, 2, 1, 1]
    assert [count(64, 4, groups) for groups in (1, 2, 4, 7)] == [1, 1, 2, 1]


@pytest.mark.parametrize("name", ["merged groups", "merged groups, 1 x 1"])
def test_merged_groups_are_laid_out_once_where_filters_are_fixed(name: str) -> None:
    g = GEOMETRIES[name]
    rng = np.random.default_rng(7)
    x, w, other = (rng.standard_normal(shape) for shape in (g.x, g.w, g.w))
    wanted, found = np.empty((2, *g.out))
    plan = MergedGroups(g, merged_count(g))
    for filters in (w, other):
        plan.keep()
        for _ in range(2):
            plan.forward(turned(x, True), filters, turned(found, False), Portion())
            # the gradients use the same scratch memory
            plan.grad_input(turned(wanted, False), other, turned(np.empty(g.x), False), Portion())
        Unfolded(np, g, np.dtype("float64")).forward(x, filters, wanted)
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_parts_of_large_images_are_those_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluidlite.ops.kernels.correlation._PART", 64)
    test_convolutions("plain", 1, True)
    test_convolutions("strided", 3, True)
    test_convolutions("channels shared", 3, False)


@pytest.mark.parametrize("library", [True, False])
def test_products_add_to_what_is_there(library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library:
        monkeypatch.setattr(products, "_product", lambda kind: None)
    rng = np.random.default_rng(1)
    for dtype in ("float32", "float64"):
        left, right = rng.standard_normal((6, 9)).astype(dtype), rng.standard_normal((9, 4)).astype(dtype)
        out = np.ones((6, 8), dtype)
        products.gemm(left, right, out[:, 2:6], add=True)
        np.testing.assert_allclose(out[:, 2:6], left @ right + 1, rtol=1e-5)
        products.gemm(left[:, ::3], right.T[:, ::3].T, out[:, 2:6])
        np.testing.assert_allclose(out[:, 2:6], left[:, ::3] @ right[::3], rtol=1e-5)
        assert (out[:, [0, 1, 6, 7]] == 1).all()


@pytest.mark.parametrize("elements, channels", [(7, 3), (60, 1), (64, 16), (4096, 40), (1, 5000)])
@pytest.mark.parametrize("threads", [1, 2])
def test_statistics_lose_no_digits_to_a_large_mean(elements: int, channels: int, threads: int) -> None:
    x = np.random.default_rng(2).standard_normal((elements, channels)).astype("float32") + np.float32(1000)
    form = BY_BATCH.form(y=None)
    kernel = ChannelKernel(np, form, x.shape, np.dtype("float32"), (0.0, 0.0), threads)
    ones = np.ones(channels, "float32")
    found = np.empty((4, channels), "float32")
    with np.errstate(divide="ignore"):  # a channel of one element has no spread
        kernel(x, *[ones] * 4, *found)
    np.testing.assert_allclose(found[0], x.mean(axis=0, dtype="float64"), rtol=1e-6)
    np.testing.assert_allclose(found[1], x.var(axis=0, dtype="float64"), rtol=1e-3, atol=1e-6)


# ---------------------------------------------------------------------- programs
def _mixed(classes: int = 3) -> Any:
    """A program whose images pass through ops that know layouts and ops that do not."""
    layers = fluid.layers
    x = fluid.data("x", [-1, 3, 9, 10])
    y = layers.batch_norm(layers.conv2d(x, 8, 3, 2, 1, bias_attr=False), act="relu")
    z = layers.conv2d(y, 8, 3, padding=1, groups=4, act="leaky_relu")
    gate = layers.fc(layers.pool2d(z, global_pooling=True, pool_type="avg"), 8, act="sigmoid")
    z = layers.elementwise_mul(z, gate, axis=0)
    z = layers.elementwise_add(y, z)
    z = layers.concat([z, layers.pool2d(z, 3, "max", 1, 1)], axis=1)
    z = layers.elementwise_sub(z, layers.reduce_mean(z, dim=[2, 3], keep_dim=True))
    z = layers.dropout(layers.conv2d(z, 6, 1), 0.0)
    z = layers.transpose(z, [0, 2, 3, 1])
    logits = layers.fc(layers.reshape(z, [0, 150]), classes)
    return layers.mean(layers.square(logits)), z


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_layouts_meet_in_a_program(batch: int) -> None:
    results = []
    for naive in (False, True):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 5
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss, images = _mixed()
            fluid.optimizer.SGD(0.1).minimize(loss)
        scope = fluid.Scope()
        with fluid.scope_guard(scope):
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            exe.naive = naive
            feed = {"x": np.random.default_rng(3).standard_normal((batch, 3, 9, 10)).astype("float32")}
            relu = next(op.output("Out")[0] for op in main.global_block().ops if op.type == "relu")
            found = [exe.run(main, feed, [loss, images, relu]) for _ in range(2)]
        results.append([np.asarray(one) for run in found for one in run])
    for plan, interpreter in zip(*results, strict=True):
        np.testing.assert_allclose(plan, interpreter, rtol=2e-4, atol=1e-5)


# ---------------------------------------------------------------------- predictions
def _prediction() -> Any:
    """Convolutions with all kinds of tails; the result, and a variable in the middle."""
    layers = fluid.layers
    x = fluid.data("x", [-1, 3, 11, 9])
    y = layers.batch_norm(layers.conv2d(x, 40, 3), act="relu", is_test=True)
    middle = layers.conv2d(y, 40, 1, act="relu")
    z = layers.batch_norm(layers.conv2d(middle, 40, 3, padding=1, groups=40, bias_attr=False), is_test=True)
    z = layers.elementwise_add(layers.relu(z), middle)
    return layers.batch_norm(layers.conv2d(z, 8, 3, 2, groups=2, act="relu"), is_test=True), middle


def _shaken(scope: Any, seed: int, replace: bool) -> None:
    """Other parameters, in other arrays or in the same ones."""
    rng = np.random.default_rng(seed)
    for name in sorted(scope.variables):
        held = scope.find_var(name).value
        if isinstance(held, fluid.LoDTensor) and held.array is not None and held.array.dtype == "float32":
            values = rng.uniform(0.2, 1.0, held.array.shape).astype("float32")
            if replace:
                held.array = values
            else:
                held.set(values, fluid.CPUPlace())


def test_tails_follow_their_parameters() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out, middle = _prediction()
        trained = main.clone()
        with fluid.program_guard(trained):
            loss = fluid.layers.mean(trained.global_block().var(out.name))
            fluid.optimizer.SGD(0.1).minimize(loss, startup)
    scope, feed = (
        fluid.Scope(),
        {"x": np.random.default_rng(3).uniform(-1, 1, (2, 3, 11, 9)).astype("float32")},
    )
    exe, naive = fluid.Executor(fluid.CPUPlace()), fluid.Executor(fluid.CPUPlace())
    naive.naive = True
    changes = (
        lambda: None,
        lambda: _shaken(scope, 1, True),
        lambda: _shaken(scope, 2, False),
        lambda: exe.run(trained, feed, [loss]),
        lambda: naive.run(trained, feed, [loss]),
    )
    with fluid.scope_guard(scope):
        exe.run(startup)
        for change in changes:
            change()
            for fetches in ([out], [out, middle]):
                for _ in range(2):
                    found, wanted = exe.run(main, feed, fetches), naive.run(main, feed, fetches)
                    for one, other in zip(found, wanted, strict=True):
                        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())
