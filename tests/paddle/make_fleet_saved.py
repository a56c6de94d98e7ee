"""Saves programs of PaddlePaddle 2.6.2's own fleet: `cd tests/paddle && python make_fleet_saved.py`.

Run it with 2.6.2. It writes fleet_saved.json.gz beside this file: for each strategy the main and startup
programs of two trainers, and those of one process, as Paddle's bytes.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import pathlib
from typing import Any

import make_fleet
import numpy as np  # noqa: F401  # before paddle, which crashes otherwise
import paddle
from paddle.base import core
from paddle.distributed import fleet

ENDPOINTS = "127.0.0.1:6170,127.0.0.1:6171"
MERGE = {"k_steps": 2, "avg": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("Adam", {}),
    "each_alone": ("Adam", {"fuse_all_reduce_ops": False}),
    "same_stream": ("Adam", {"fuse_all_reduce_ops": False, "_calc_comm_same_stream": True}),
    "recompute": ("Adam", {"recompute": True, "recompute_configs": {"checkpoints": ["tanh_0.tmp_0"]}}),
    "amp": ("Adam", {"amp": True}),
    "gradient_merge": ("Adam", {"gradient_merge": True, "gradient_merge_configs": MERGE}),
    "localsgd": ("SGD", {"localsgd": True, "localsgd_configs": {"k_steps": 2, "begin_step": 1}}),
    "one of Adam": ("Adam", {}),
    "one of SGD": ("SGD", {}),
}


def network() -> Any:
    def named(name: str, initializer: Any) -> Any:
        return paddle.ParamAttr(name=name, initializer=initializer)

    normal, zero = paddle.nn.initializer.Normal(0, 0.3), paddle.nn.initializer.Constant(0.0)
    x, y = paddle.static.data("x", [None, 6]), paddle.static.data("y", [None, 1], "int64")
    hidden = paddle.static.nn.fc(x, 8, weight_attr=named("w1", normal), bias_attr=named("b1", zero))
    hidden = paddle.tanh(hidden)
    guess = paddle.static.nn.fc(hidden, 3, weight_attr=named("w2", normal), bias_attr=named("b2", zero))
    return paddle.mean(paddle.nn.functional.cross_entropy(guess, y))


def saved(name: str, rank: int) -> list[str]:
    """The main and the startup program of a rank."""
    kind, settings = CASES[name]
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_CURRENT_ENDPOINT=ENDPOINTS.split(",")[rank])
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        loss = network()
        optimizer = getattr(paddle.optimizer, kind)(0.05)
        if not name.startswith("one of"):
            fleet.init(fleet.PaddleCloudRoleMaker(is_collective=True))
            strategy = fleet.DistributedStrategy()
            for field, value in settings.items():
                setattr(strategy, field, value)
            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(loss)
    for program in (main, startup):
        for op in (op for block in program.blocks for op in block.ops):
            op.desc._set_attr("op_callstack", [""])
    return [base64.b64encode(program.desc.serialize_to_string()).decode() for program in (main, startup)]


def main() -> None:
    make_fleet.patch()
    core.get_cuda_device_count = lambda: 2
    paddle.enable_static()
    os.environ.update(
        PADDLE_TRAINERS_NUM="2",
        PADDLE_TRAINER_ENDPOINTS=ENDPOINTS,
        TRAINING_ROLE="TRAINER",
        FLAGS_selected_gpus="0",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        found = {name: [saved(name, rank) for rank in range(2)] for name in CASES}
    target = pathlib.Path(__file__).with_name("fleet_saved.json.gz")
    target.write_bytes(gzip.compress(json.dumps(found, sort_keys=True).encode(), mtime=0))


if __name__ == "__main__":
    main()
