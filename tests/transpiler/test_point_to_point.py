"""The check of sends and receives between single ranks, held against what such ranks would do."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.transpiler.check.report import Report, check
from fluidlite.transpiler.parts.roles import TRAINER, JobRole, Programs

Step = tuple[str, int]
"""A step of a rank: ("send", to), ("recv", from) or ("sum", ring)."""


def rank_of(index: int, count: int, steps: list[Step], **attrs: Any) -> Programs:
    """The programs of a rank that takes such steps on the ring of all."""
    main, startup = fluid.Program(), fluid.Program()
    endpoints = [f"127.0.0.1:{6170 + number}" for number in range(count)]
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 2], "float32")
        name = startup.global_block().create_var(
            name="nccl_id", persistable=True, type=fluid.core.VarDesc.VarType.RAW
        )
        others = endpoints[:index] + endpoints[index + 1 :]
        startup.global_block().append_op(
            type="c_gen_nccl_id",
            outputs={"Out": name},
            attrs={"rank": index, "endpoint": endpoints[index], "other_endpoints": others, "ring_id": 0},
        )
        startup.global_block().append_op(
            type="c_comm_init", inputs={"X": name}, attrs={"rank": index, "nranks": count, "ring_id": 0}
        )
        block = main.global_block()
        for kind, peer in steps:
            if kind == "send":
                block.append_op(type="send_v2", inputs={"X": x}, attrs={"ring_id": 0, "peer": peer})
            elif kind == "recv":
                out = block.create_var(name=fluid.unique_name.generate("r"), shape=[2, 2], dtype="float32")
                given = {"ring_id": 0, "peer": peer, "out_shape": [2, 2], "dtype": 5, **attrs}
                block.append_op(type="recv_v2", outputs={"Out": out}, attrs=given)
            else:
                given = {"ring_id": 0, "use_calc_stream": True}
                block.append_op(type="c_allreduce_sum", inputs={"X": x}, outputs={"Out": x}, attrs=given)
    return Programs(main, startup)


def checked(ranks: list[list[Step]], **attrs: Any) -> Report:
    return check(
        {
            JobRole(TRAINER, index, f"127.0.0.1:{6170 + index}"): rank_of(index, len(ranks), steps, **attrs)
            for index, steps in enumerate(ranks)
        }
    )


def ends(ranks: list[list[Step]]) -> bool:
    """True if all ranks come to their end where a send waits for its receive: heads that meet are struck out
    until there are none.
    """
    left = [list(steps) for steps in ranks]
    while any(left):
        pair = next(
            (
                (me, steps[0][1])
                for me, steps in enumerate(left)
                if steps and steps[0][0] == "send" and left[steps[0][1]][:1] == [("recv", me)]
            ),
            None,
        )
        if pair is not None:
            for rank in pair:
                del left[rank][0]
        elif all(steps[:1] == [("sum", 0)] for steps in left):
            for steps in left:
                del steps[0]
        else:
            return False
    return True


def random_ranks(draw: random.Random) -> list[list[Step]]:
    """Ranks that exchange one after the other, and so come to their end."""
    ranks: list[list[Step]] = [[] for _ in range(draw.randint(2, 4))]
    for _ in range(draw.randint(1, 8)):
        if draw.random() < 0.2:
            for steps in ranks:
                steps.append(("sum", 0))
            continue
        source, target = draw.sample(range(len(ranks)), 2)
        ranks[source].append(("send", target))
        ranks[target].append(("recv", source))
    ranks[0].append(("send", 1))
    ranks[1].append(("recv", 0))
    return ranks


@pytest.mark.parametrize("seed", range(60))
def test_ranks_that_exchange_one_after_the_other(seed: int) -> None:
    ranks = random_ranks(random.Random(seed))
    assert ends(ranks)
    report = checked(ranks)
    assert report.ok, report


@pytest.mark.parametrize("seed", range(60))
def test_ranks_in_another_order(seed: int) -> None:
    draw = random.Random(seed)
    ranks = random_ranks(draw)
    draw.shuffle(draw.choice(ranks))
    found = checked(ranks).rules()
    assert ("deadlock" in found) != ends(ranks), (ranks, found)
    assert "point-to-point" not in found


@pytest.mark.parametrize("seed", range(60))
def test_a_step_that_is_missing(seed: int) -> None:
    draw = random.Random(seed)
    ranks = random_ranks(draw)
    places = [
        (rank, number)
        for rank, steps in enumerate(ranks)
        for number, step in enumerate(steps)
        if step[0] != "sum"
    ]
    rank, number = draw.choice(places)
    del ranks[rank][number]
    assert "point-to-point" in checked(ranks).rules()


@pytest.mark.parametrize(
    "attrs, rule, message",
    [
        ({"out_shape": [2, 3]}, "shape", r"receives \[2, 3\], but op 0 of trainer0 sends \[2, 2\]"),
        ({"out_shape": [4]}, "shape", r"receives \[4\]"),
        ({"dtype": 6}, "dtype", "receives .*FP64, but op 0 of trainer0 sends .*FP32"),
    ],
)
def test_what_is_received_is_what_is_sent(attrs: dict[str, Any], rule: str, message: str) -> None:
    (finding,) = checked([[("send", 1)], [("recv", 0)]], **attrs).findings
    assert finding.rule == rule
    assert finding.role.name == "trainer1" and finding.op is not None
    assert re.search(message, finding.message), finding.message


@pytest.mark.parametrize(
    "attrs", [{"out_shape": [-1, 2]}, {"out_shape": []}, {"dynamic_shape": True, "out_shape": [9]}]
)
def test_sizes_that_are_open(attrs: dict[str, Any]) -> None:
    assert checked([[("send", 1)], [("recv", 0)]], **attrs).ok


@pytest.mark.parametrize(
    "peer, message",
    [(0, "that is itself"), (2, "that is not one of its 2 ranks"), (-1, "not one of its 2 ranks")],
)
def test_peers_that_there_are_not(peer: int, message: str) -> None:
    findings = [found for found in checked([[("send", peer)], []]).findings if found.rule == "point-to-point"]
    assert len(findings) == 1 and message in findings[0].message


def test_a_circle_is_told_rank_by_rank() -> None:
    ranks: list[list[Step]] = [
        [("recv", 2), ("send", 1)],
        [("recv", 0), ("send", 2)],
        [("recv", 1), ("send", 0)],
    ]
    (finding,) = checked(ranks).findings
    assert finding.rule == "deadlock"
    order = [finding.message.index(f"op 0 of trainer{index}") for index in (0, 2, 1)]
    assert order == sorted(order)
