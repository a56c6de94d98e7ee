"""Layers whose parameters have no elements, such as those of inputs without columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers

FEEDS: dict[str, Any] = {}


def fed(name: str, *shape: int, dtype: str = "float32", lengths: list[int] | None = None) -> fluid.Variable:
    """A fed tensor of ones, whose rows belong to sequences if there are `lengths`."""
    var = fluid.data(name, [-1, *shape[1:]], dtype, lod_level=0 if lengths is None else 1)
    var.stop_gradient = False
    ones = np.ones(shape, dtype)
    FEEDS[name] = ones if lengths is None else fluid.create_lod_tensor(ones, [lengths], fluid.CPUPlace())
    return var


# what 1.8.5 computes, too, but for batch_norm, instance_norm and prelu, which end its process
COMPUTED: dict[str, tuple[Callable[[], Any], list[int]]] = {
    "bilinear": (lambda: layers.bilinear_tensor_product(fed("x", 2, 0), fed("y", 2, 3), 4), [2, 4]),
    "outputs": (lambda: layers.bilinear_tensor_product(fed("x", 2, 3), fed("y", 2, 3), 0), [2, 0]),
    "layer_norm": (lambda: layers.layer_norm(fed("x", 2, 0)), [2, 0]),
    "data_norm": (lambda: layers.data_norm(fed("x", 2, 0)), [2, 0]),
    "batch_norm": (lambda: layers.batch_norm(fed("x", 2, 0, 3, 3)), [2, 0, 3, 3]),
    "instance_norm": (lambda: layers.instance_norm(fed("x", 2, 0, 3, 3)), [2, 0, 3, 3]),
    "embedding": (lambda: fluid.embedding(fed("x", 2, dtype="int64"), [3, 0]), [2, 0]),
    "prelu": (lambda: layers.prelu(fed("x", 2, 0, 3, 3), "channel"), [2, 0, 3, 3]),
    "sequence_conv": (lambda: layers.sequence_conv(fed("x", 3, 0, lengths=[2, 1]), 3), [3, 3]),
    "row_conv": (lambda: layers.row_conv(fed("x", 3, 0, lengths=[2, 1]), 1), [3, 0]),
    "row_conv of now": (lambda: layers.row_conv(fed("x", 3, 2, lengths=[2, 1]), -1), [3, 2]),
    "nce": (lambda: layers.nce(fed("x", 2, 0), fed("l", 2, 1, dtype="int64"), 3), [2, 1]),
    "hsigmoid": (lambda: layers.hsigmoid(fed("x", 2, 0), fed("l", 2, 1, dtype="int64"), 3), [2, 1]),
    "center_loss": (
        lambda: layers.center_loss(fed("x", 2, 0), fed("l", 2, 1, dtype="int64"), 3, 0.1, None),
        [2, 1],
    ),
    "tree_conv": (
        lambda: fluid.contrib.layers.tree_conv(fed("x", 1, 3, 0), fed("l", 1, 2, 2, dtype="int32"), 2),
        [1, 3, 2, 1],
    ),
    "fc": (lambda: layers.fc(fed("x", 2, 0), 3), [2, 3]),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_results_and_gradients(name: str) -> None:
    """Sums of nothing are zeros, and all gradients have the shapes of their variables."""
    FEEDS.clear()
    build, shape = COMPUTED[name]
    out = build()
    main, exe = fluid.default_main_program(), fluid.Executor()
    exe.run(fluid.default_startup_program())
    variables = [main.global_block().var(item) for item in FEEDS] + list(main.all_parameters())
    grads = [
        (var, grad)
        for var, grad in zip(variables, fluid.gradients([out], variables), strict=True)
        if grad is not None
    ]
    fetched = [out, *(grad for _, grad in grads)]
    value, *found = map(np.array, exe.run(feed=FEEDS, fetch_list=fetched, return_numpy=False))
    assert list(value.shape) == shape
    if name not in ("nce", "hsigmoid"):
        assert not value.any()
    for (var, _), grad in zip(grads, found, strict=True):
        assert grad.shape == tuple(len(value) if dim < 0 else dim for dim in var.shape)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: layers.fc(fed("x", 2, 3), 0), "size must be at least 1"),
        (lambda: layers.conv2d(fed("x", 2, 3, 4, 4), 0, 3), r"Filter\[0, 3, 3, 3\] has no elements"),
        (lambda: layers.conv2d_transpose(fed("x", 2, 0, 4, 4), 2, filter_size=3), "has no elements"),
        (lambda: layers.dynamic_gru(fed("x", 3, 0, lengths=[2, 1]), 0), "no fan-in or fan-out"),
        (lambda: layers.create_parameter([0], "float32"), "of shape .0. has no fan-in or fan-out"),
    ],
)
def test_what_1_8_5_refuses_is_refused_as_the_program_is_built(build: Callable[[], Any], said: str) -> None:
    FEEDS.clear()
    with pytest.raises(fluid.core.EnforceNotMet, match=said):
        build()
