"""`fluidlite.distributed.verify`: every example program, in every mode that keeps trainers in step, equals one process."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.distributed import verify
from fluidlite.errors import TranspilerError

Made = tuple[fluid.Program, fluid.Program, list[dict[str, Any]]]


def made(net: Callable[[], Any], feeds: Callable[[np.random.RandomState], dict[str, Any]], steps: int = 4) -> Made:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fluid.optimizer.Momentum(0.01, 0.9).minimize(net())
    random = np.random.RandomState(1)
    return main, startup, [feeds(random) for _ in range(steps)]


def line() -> Made:
    def net() -> Any:
        x, y = fluid.data("x", [None, 10]), fluid.data("y", [None, 1])
        return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    return made(net, lambda random: {"x": random.randn(8, 10).astype("float32"), "y": random.randn(8, 1).astype("float32")})


def convolution() -> Made:
    def net() -> Any:
        image, label = fluid.data("image", [None, 1, 12, 12]), fluid.data("label", [None, 1], "int64")
        seen = fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act="relu")
        return fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(seen, 10, act="softmax"), label))
    return made(net, lambda random: {"image": random.randn(8, 1, 12, 12).astype("float32"), "label": random.randint(0, 10, (8, 1))})


def words() -> Made:
    def net() -> Any:
        context = [fluid.data(f"word{index}", [None, 1], "int64") for index in range(3)]
        target = fluid.data("target", [None, 1], "int64")
        vectors = [fluid.layers.embedding(word, [300, 16], is_sparse=True, param_attr="vectors") for word in context]
        hidden = fluid.layers.fc(fluid.layers.concat(vectors, 1), 32, act="sigmoid")
        return fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(hidden, 300, act="softmax"), target))
    return made(net, lambda random: {name: random.randint(0, 300, (8, 1)) for name in ("word0", "word1", "word2", "target")})


NETS = {"line": line, "convolution": convolution, "words": words}


@pytest.mark.parametrize("mode", ["pserver", "grad_allreduce", "local_sgd", "multi_thread"])
@pytest.mark.parametrize("net", NETS)
def test_equal_to_one_process(net: str, mode: str) -> None:
    main, startup, feeds = NETS[net]()
    proof = verify(main, startup, feeds, mode, trainers=4)
    assert proof.ok, str(proof)
    assert f"{mode}, 4 trainers, 4 steps: equal to one process" in str(proof)
    assert sum(proof.traffic.values()) > 0


def test_a_wrong_job_is_not_proven() -> None:
    main, startup, feeds = line()
    assert not verify(main, startup, feeds, tolerance=0.0).ok or max(verify(main, startup, feeds).differences.values()) == 0


def test_what_cannot_be_compared() -> None:
    main, startup, feeds = line()
    with pytest.raises(TranspilerError, match="3 trainers cannot share the 8 rows of 'x' evenly"):
        verify(main, startup, feeds, trainers=3)
    with pytest.raises(TranspilerError, match="depends on who comes first"):
        verify(main, startup, feeds, config=fluid.DistributeTranspilerConfig.make(sync_mode=False))
