"""Convolutions, pools and normalisation of volumes in plans: NumPy by convolutions of slices against the
general way, plans against the interpreter, with oneDNN and without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run import volumes
from fluidlite.executor.run.image_kernels import TailSteps
from fluidlite.executor.run.volumes import SharedVolumes
from fluidlite.ops.kernels.convolution import Geometry, conv_plan

NONE, ONE = ((0, 0),) * 3, ((1, 1),) * 3
GEOMETRIES = {
    "padded": Geometry((3, 5, 4, 5, 6), (7, 5, 3, 3, 3), (1, 1, 1), ONE, (1, 1, 1)),
    "strided, dilated": Geometry((2, 4, 7, 6, 9), (3, 4, 3, 2, 3), (2, 1, 2), ONE, (2, 1, 2)),
    "groups": Geometry((2, 6, 4, 4, 4), (4, 3, 2, 3, 3), (1, 2, 1), NONE, (1, 1, 1), 2),
    "depthwise": Geometry((2, 4, 5, 4, 4), (4, 1, 3, 3, 3), (1, 1, 1), ONE, (1, 1, 1), 4),
    "wide padding": Geometry(
        (1, 2, 2, 3, 3), (3, 2, 2, 1, 1), (3, 1, 1), ((4, 3), (0, 0), (0, 0)), (1, 1, 1)
    ),
    "pointwise": Geometry((2, 3, 4, 5, 2), (5, 3, 1, 1, 1), (2, 1, 1), NONE, (1, 1, 1)),
}
ORDERS = {"as programs": (0, 1, 2, 3, 4), "channels last": (0, 2, 3, 4, 1), "rows": (3, 0, 2, 4, 1)}


def laid(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The same array with its dimensions in another order in memory."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize("unfolded", [1, 1 << 22], ids=["one by one", "together"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_slices_give_what_volumes_do(
    name: str, order: str, unfolded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "_UNFOLDED", unfolded)
    g = GEOMETRIES[name]
    random = np.random.RandomState(0)
    x, w, d = (random.standard_normal(shape) for shape in (g.x, g.w, g.out))
    plain, shared = conv_plan(np, g, x.dtype), SharedVolumes(np, g, x.dtype, 2)
    found, wanted = [], []
    for kernel, results, to in ((plain, wanted, ORDERS["as programs"]), (shared, found, ORDERS[order])):
        out, dx = laid(np.full(g.out, np.nan), to), laid(np.full(g.x, np.nan), to)
        dw = np.full(g.w, np.nan)
        given = laid(x, to)
        kernel.forward(given, w, out)
        kernel.grad_input(laid(d, to), w, dx)
        kernel.grad_filter(given, laid(d, to), dw)
        results.extend((out, dx, dw))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_tails_of_volumes() -> None:
    g = GEOMETRIES["padded"]
    random = np.random.RandomState(0)
    x, w = random.standard_normal(g.x), random.standard_normal(g.w)
    bias, *statistics = random.rand(5, g.w[0])
    out, wanted = np.empty((2, *g.out))
    shared = SharedVolumes(np, g, x.dtype, 1, True)
    shared.forward_to_tail(x, w, TailSteps(tuple(statistics), 1e-5, bias, True), out)
    conv_plan(np, g, x.dtype).forward(x, w, wanted)
    scale, offset, mean, variance = (each.reshape(-1, 1, 1, 1) for each in statistics)
    normal = (wanted + bias.reshape(-1, 1, 1, 1) - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(out, np.maximum(normal * scale + offset, 0), rtol=1e-10, atol=1e-10)


def network(data_format: str) -> tuple[Any, Any, Any]:
    """(test program, prediction, loss) of every kind of op on volumes."""
    shape = [-1, 6, 8, 8, 4] if data_format == "NDHWC" else [-1, 4, 6, 8, 8]
    x = fluid.data("x", shape, "float32")
    x.stop_gradient = False
    layout: Any = {"data_format": data_format}
    h = fluid.layers.conv3d(x, 6, 3, padding=1, stride=[2, 1, 1], groups=2, bias_attr=False, **layout)
    if data_format == "NCDHW":
        h = fluid.layers.batch_norm(h, act="relu")
    h = fluid.layers.conv3d(h, 5, [2, 3, 3], dilation=[1, 2, 1], padding=[1, 2, 1], act="relu", **layout)
    for kind in ("max", "avg"):
        h = fluid.layers.pool3d(h, 2, kind, [2, 1, 2], pool_padding=1, **layout)
    out = fluid.layers.conv3d_transpose(h, 3, filter_size=[2, 3, 2], stride=2, **layout)
    test = fluid.default_main_program().clone(for_test=True)
    loss = fluid.layers.mean(fluid.layers.square(out))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return test, out, loss


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("data_format", ["NCDHW", "NDHWC"])
def test_plans_of_volumes_equal_the_interpreter(
    data_format: str, onednn: bool, flags: Callable[..., None]
) -> None:
    flags(use_onednn=onednn)
    test, out, loss = network(data_format)
    main = fluid.default_main_program()
    names = [p.name + "@GRAD" for p in main.all_parameters()]
    fetched = [name for name in names if main.global_block().has_var(name)] + ["x@GRAD", loss.name]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    scope = fluid.global_scope()
    kept = {v.name: np.array(scope.find_var(v.name).get_tensor()) for v in main.list_vars() if v.persistable}
    feed = {"x": np.random.RandomState(0).standard_normal((2, *main.global_block().var("x").shape[1:]))}
    feed = {"x": feed["x"].astype("float32")}
    results = []
    for naive in (True, False):
        exe.naive = naive
        for name, value in kept.items():
            scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())
        results.append(exe.run(test, feed=feed, fetch_list=[out]) + exe.run(feed=feed, fetch_list=fetched))
    for wanted, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    lines = exe.explain(feed=feed, fetch_list=fetched, full=True).splitlines()
    assert not [line for line in lines if line.startswith("portable kernels") and "conv3d" in line]
