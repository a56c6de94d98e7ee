"""Programs that 2.6.2's own fleet made and saved run here, and equal one process (`make_fleet_saved.py`)."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles

_SAVED = pathlib.Path(__file__).with_name("fleet_saved.json.gz")
SAVED: dict[str, Any] = json.loads(gzip.decompress(_SAVED.read_bytes()))
NAMES = ("w1", "b1", "w2", "b2")
Values = dict[str, Any]


def programs(name: str, rank: int) -> list[fluid.Program]:
    return [fluid.Program.parse_from_string(base64.b64decode(text)) for text in SAVED[name][rank]]


def batches(count: int) -> list[Values]:
    random = np.random.RandomState(0)
    return [
        {"x": random.randn(8, 6).astype("float32"), "y": random.randint(0, 3, (8, 1)).astype("int64")}
        for _ in range(count)
    ]


def weights(scope: fluid.Scope) -> Values:
    return {name: np.array(scope.find_var(name).get_tensor()) for name in NAMES}


def on_two_ranks(name: str, feeds: list[Values], naive: bool) -> tuple[list[Values], list[Values]]:
    """The weights of each rank before and after."""

    def work(rank: int) -> tuple[Values, Values]:
        main, startup = programs(name, rank)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.naive = naive
        exe.run(startup, scope=scope)
        before = weights(scope)
        for feed in feeds:
            exe.run(
                main, feed={key: value[4 * rank : 4 * rank + 4] for key, value in feed.items()}, scope=scope
            )
        return before, weights(scope)

    found = run_roles(LocalNetwork(), [(f"rank{rank}", lambda rank=rank: work(rank)) for rank in range(2)])
    both = [found["rank0"], found["rank1"]]
    return [before for before, _ in both], [after for _, after in both]


def on_one(name: str, before: Values, feeds: list[Values]) -> Values:
    main, startup = programs(name, 0)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    for key, value in before.items():
        scope.find_var(key).get_tensor().set(value, fluid.CPUPlace())
    for feed in feeds:
        exe.run(main, feed=feed, scope=scope)
    return weights(scope)


@pytest.mark.parametrize("naive", [False, True], ids=["plan", "naive"])
@pytest.mark.parametrize("name", [name for name in SAVED if not name.startswith("one of")])
def test_saved_programs_equal_one_process(name: str, naive: bool) -> None:
    feeds = batches(4)
    before, after = on_two_ranks(name, feeds, naive)
    whole = feeds
    if name == "gradient_merge":  # the means of two steps: one of both batches
        pairs = zip(feeds[::2], feeds[1::2], strict=True)
        whole = [{key: np.concatenate([one[key], two[key]]) for key in one} for one, two in pairs]
    wanted = on_one("one of SGD" if name == "localsgd" else "one of Adam", before[0], whole)
    for key in NAMES:
        np.testing.assert_array_equal(before[0][key], before[1][key])  # sent by the first rank
        for rank in range(2):
            np.testing.assert_allclose(after[rank][key], wanted[key], rtol=1e-5, atol=1e-6)
        assert abs(wanted[key] - before[0][key]).max() > 1e-3


def test_loaded_programs_are_written_as_they_were_read() -> None:
    main, _ = programs("plain", 0)
    kinds = [op.type for op in main.global_block().ops]
    assert kinds.index("coalesce_tensor") < kinds.index("mul_grad") and kinds.count("depend") == 4
    again = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    assert [op.type for op in again.global_block().ops] == kinds
