"""Facts of the whole program that portable kernels are told: what they may write over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.ops.math import elementwise

ROWS, COLUMNS = 640, 512  # enough for the kernel to look for memory that is spare

PROGRAMS: dict[str, tuple[Callable[[Any, Any], list[Any]], bool]] = {
    "the sum alone": (lambda product, total: [total], True),
    "the product is fetched": (lambda product, total: [total, product], False),
    "an op reads it": (lambda product, total: [total, layers.relu(product)], False),
    "an op shows it": (lambda product, total: [total, layers.reshape(product, [-1, 2])], False),
}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_bias_is_added_in_place(name: str, trains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, expected = PROGRAMS[name]
    found: list[bool] = []
    by_rows = elementwise._by_rows

    def spied(xp: Any, ctx: Any, *rest: Any) -> Any:
        found.append("X" in ctx.spare)
        return by_rows(xp, ctx, *rest)

    monkeypatch.setattr(elementwise, "_by_rows", spied)
    random = np.random.RandomState(3)
    x, w = random.randn(ROWS, 4).astype("float32"), random.randn(4, COLUMNS).astype("float32")
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        rows = fluid.data("x", [None, 4], lod_level=1)
        made = layers.create_parameter([4, COLUMNS], "float32", name="w")
        bias = layers.create_parameter([COLUMNS], "float32", name="b")
        product = layers.mul(rows, made)
        results = fetched(product, layers.elementwise_add(product, bias, axis=1))
        if trains:
            fluid.optimizer.SGD(0.5).minimize(layers.reduce_sum(results[0]))
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        scope = fluid.global_scope()
        scope.find_var("w").get_tensor().set(w, fluid.CPUPlace())
        scope.find_var("b").get_tensor().set(np.full(COLUMNS, 2, "float32"), fluid.CPUPlace())
        fed = fluid.create_lod_tensor(x, [[600, 40]], fluid.CPUPlace())
        given = exe.run(feed={"x": fed}, fetch_list=results, return_numpy=False)
        moved = [np.asarray(scope.find_var(key).get_tensor()) for key in ("w", "b")]
    wanted = {"the product is fetched": x @ w, "an op reads it": np.maximum(x @ w, 0)}
    np.testing.assert_allclose(np.asarray(given[0]), x @ w + 2, rtol=1e-5, atol=1e-5)
    if len(given) > 1:
        other = wanted.get(name, (x @ w).reshape(-1, 2))
        np.testing.assert_allclose(np.asarray(given[1]), other, rtol=1e-5, atol=1e-5)
    if trains:
        step = np.tile(x.sum(axis=0)[:, None], (1, COLUMNS))
        np.testing.assert_allclose(moved[0], w - 0.5 * step, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(moved[1], np.full(COLUMNS, 2 - 0.5 * ROWS), rtol=1e-5)
    assert found == [expected]
