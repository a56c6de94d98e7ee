"""Sparse weights beside PaddlePaddle 2.6.2: ops, masks and densities."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from golden.asp_2x import PATH, pruned

import fluidlite.paddle as paddle
from fluidlite.base.errors import FluidWarning
from fluidlite.paddle.incubate import asp

RECORDED: dict[str, Any] = json.loads(PATH.read_text(encoding="utf8"))


@pytest.fixture(autouse=True)
def as_at_the_start() -> Iterator[None]:
    paddle.enable_static()
    yield
    asp.reset_excluded_layers()


def test_masks_ops_and_densities_are_those_of_paddle() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FluidWarning)  # of weights that are too small
        found = pruned(paddle)
    assert found["ops"] == RECORDED["ops"] and sorted(found["started"]) == sorted(RECORDED["started"])
    assert found["density"] == RECORDED["density"]
    for name, masks in RECORDED["masks"].items():
        assert found["masks"][name] == masks, name


def _network() -> tuple[paddle.static.Program, paddle.static.Program, Any]:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        out = paddle.static.nn.fc(paddle.static.data("x", [None, 8]), 4)
        loss = paddle.mean(out * out)
    return main, startup, loss


def test_the_layers_that_are_pruned() -> None:
    main, startup, _ = _network()
    with paddle.static.program_guard(main, startup):
        words = paddle.static.nn.embedding(paddle.static.data("ids", [None, 1], "int64"), [12, 8])
        layer = paddle.nn.Linear(8, 4)
        layer(paddle.flatten(words, 1))
    with paddle.static.scope_guard(paddle.static.Scope()):
        paddle.static.Executor().run(startup)
        weights = {one.name.split("_")[0]: one.name for one in main.all_parameters() if "w_0" in one.name}
        assert [*asp.prune_model(main, with_mask=False)] == [weights["fc"], weights["linear"]]
        assert [*asp.prune_model(layer, with_mask=False)] == [weights["linear"]]
        asked = []

        def zeros(weight: np.ndarray, m: int, n: int, algorithm: str, name: str) -> Any:
            asked.append((weight.shape, m, n, algorithm, name))
            return weight * 0, np.zeros_like(weight)

        asp.add_supported_layer(paddle.nn.Embedding, zeros)
        asp.set_excluded_layers([weights["fc"]], main)
        masks = asp.prune_model(main, 1, 2, with_mask=False)
        assert [*masks] == [weights["embedding"], weights["linear"]]
        assert asked == [((12, 8), 2, 1, "mask_1d", weights["embedding"])]
        assert asp.calculate_density(masks[weights["linear"]]) == 0.5
    asp.add_supported_layer("embedding", lambda weight, *_: (weight, np.ones_like(weight)))


def test_errors() -> None:
    main, startup, loss = _network()
    with paddle.static.scope_guard(paddle.static.Scope()):
        paddle.static.Executor().run(startup)
        with pytest.raises(AssertionError, match="finds no variable 'fc_.*asp_mask' in the scope"):
            asp.prune_model(main)
        with pytest.raises(AssertionError, match="'mask_algo' in prune_model must be in"):
            asp.prune_model(main, mask_algo="mask_3d")
        with pytest.raises(AssertionError, match="'n' in prune_model must be between 0 and 2 for m = 4"):
            asp.prune_model(main, 3, 4, "mask_2d_best")
        with pytest.raises(TypeError, match="should be a paddle.nn.Layer or a paddle.static.Program"):
            asp.prune_model(loss)
    with pytest.raises(TypeError, match="must be a paddle.nn.Layer or a name"):
        asp.add_supported_layer(3)
    assert asp.decorate(paddle.optimizer.SGD(0.5)).get_lr() == 0.5
