"""The programs of fleet's strategies beside those of PaddlePaddle 2.6.2 (`make_fleet.py` records them)."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import fleet_programs
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.paddle.distributed import fleet

RECORDED = json.loads(gzip.decompress(pathlib.Path(__file__).with_name("fleet_2x.json.gz").read_bytes()))
# 2.6.2 lays gradients out before they are made, and ties them to their reduction by `depend`; here they are
# laid out when all are there, and ops that wait for a stream stand where 2.x had them before
_OTHERWISE = {"coalesce_tensor", "depend", "c_sync_calc_stream", "c_sync_comm_stream"}


_BOOKKEEPING = ("Scope", "ReserveSpace", "MeanOut", "VarianceOut")


def compared(blocks: list[list[Any]]) -> list[list[Any]]:
    """Ops of all blocks, with numbers in the place of the names of temporaries."""
    numbers: dict[str, str] = {}
    return [
        [[kind, *(numbered(part, numbers) for part in (inputs, outputs)), attrs]
         for kind, inputs, outputs, attrs in block if kind not in _OTHERWISE]
        for block in blocks
    ]  # fmt: skip


def numbered(part: dict[str, list[str]], numbers: dict[str, str]) -> dict[str, list[str]]:
    found = {}
    for slot, names in part.items():
        if slot in _BOOKKEEPING:
            continue
        renamed = [name if is_known(name) else numbers.setdefault(name, f"#{len(numbers)}") for name in names]
        found[slot] = sorted(renamed)
    return found


def is_known(name: str) -> bool:
    """True for variables that a program is known by: parameters, their gradients, what a strategy keeps."""
    return not any(word in name for word in ("tmp_", "generated", "scope_", "fill_constant", "elementwise_"))


def built(name: str) -> tuple[Any, Any, list[str]]:
    return fleet_programs.built(paddle, fleet, unique_name.guard, name)


_INITIALISERS = ("fill_constant", "uniform_random")


def in_order(block: list[Any]) -> list[Any]:
    """The ops of a startup program; initialisers come first, by name: 2.6.2 appends what fluid prepends."""
    first = sorted((op for op in block if op[0] in _INITIALISERS), key=lambda op: str(op[2]))
    return [*first, *(op for op in block if op[0] not in _INITIALISERS)]


def check_block(mine: list[Any], recorded: list[Any], where: Any) -> None:
    assert [op[0] for op in mine] == [op[0] for op in recorded], where
    for op, other in zip(mine, recorded, strict=True):
        assert op[:3] == other[:3], where
        same = op[3].keys() & other[3].keys()
        if str(op[1].get("X")).startswith("['sync_var"):
            same -= {"ring_id"}  # 2.6.2 tries its first ring again where it has made a second one
        assert {key: op[3][key] for key in same} == {key: other[3][key] for key in same}, op


@pytest.mark.parametrize("name", fleet_programs.CASES)
def test_programs(name: str, caplog: pytest.LogCaptureFixture) -> None:
    wanted = RECORDED["programs"][name]
    main, startup, applied = built(name)
    assert applied == wanted["applied"]
    if name in fleet_programs.OTHER_FORM:
        return
    mine = [compared(json.loads(json.dumps(fleet_programs.described(part)))) for part in (startup, main)]
    theirs = [compared(wanted[what]) for what in ("startup", "main")]
    check_block(in_order(mine[0][0]), in_order(theirs[0][0]), "startup")
    # blocks that 2.6.2 recomputes in, and leaves behind, stand before those that ops run
    used = [theirs[1][0], *theirs[1][len(theirs[1]) - len(mine[1]) + 1 :]]
    for number, (block, recorded) in enumerate(zip(mine[1], used, strict=True)):
        check_block(block, without_repetition(recorded), number)


def without_repetition(block: list[Any]) -> list[Any]:
    """The ops without those by which 2.6.2 averages the loss a second time in each step."""
    seen: list[Any] = []
    for op in block:
        again = op[2] == {"Out": ["avg_loss"]} and op in seen
        if not again:
            seen.append(op)
    return seen


@pytest.fixture(scope="module")
def combinations() -> dict[str, Any]:
    return {
        name: fleet_programs.combined(paddle, fleet, unique_name.guard, name)
        for name in RECORDED["combinations"]
    }


def test_parts_that_go_together(combinations: dict[str, Any]) -> None:
    for name, (wanted, _) in RECORDED["combinations"].items():
        assert combinations[name][0] == wanted, name


_SAID_OTHERWISE = {
    "reduce_any": {"dim=[]", "dim=[0]"},  # over all dimensions either way
    "tanh": {"op_role=1"},  # in a block that 2.6.2 recomputes in, and leaves behind
}


def test_attributes_of_all_combinations(combinations: dict[str, Any]) -> None:
    """Of each kind of op that both have, the attributes that both have; values of 2.6.2 that are not here."""
    different: dict[str, set[str]] = {}
    for name, (parts, recorded) in RECORDED["combinations"].items():
        if "LocalSGDOptimizer" in parts:  # 2.6.2 reduces gradients besides, which makes other scales
            continue
        mine = combinations[name][1]
        for kind in mine.keys() & recorded.keys():
            known = {told.partition("=")[0] for told in mine[kind]}
            same = {told for told in recorded[kind] if told.partition("=")[0] in known}
            different.setdefault(kind, set()).update(same ^ {*mine[kind]} - extra(mine, recorded, kind))
    different = {
        kind: told - _SAID_OTHERWISE.get(kind, {"op_role_var=[]"}) for kind, told in different.items()
    }
    assert {kind: told for kind, told in different.items() if told and kind not in _OTHERWISE} == {}


def extra(mine: dict[str, list[str]], recorded: dict[str, list[str]], kind: str) -> set[str]:
    """Attributes that only the ops here have."""
    known = {told.partition("=")[0] for told in recorded[kind]}
    return {told for told in mine[kind] if told.partition("=")[0] not in known}


def test_parts_that_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    for row, wanted in zip(fleet_programs.REPORTED, RECORDED["reported"], strict=True):
        assert fleet_programs.composed(paddle, fleet, unique_name.guard, *row)[2] == wanted, row


def test_strategies_are_printed_as_tables() -> None:
    assert fleet_programs.overviews(fleet) == RECORDED["overviews"]


def served(by_hand: bool) -> Any:
    """The program of trainer 0 of two, with two servers."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    servers = ["127.0.0.1:6174", "127.0.0.1:6175"]
    with paddle.static.program_guard(main, startup), unique_name.guard():
        x, y = paddle.static.data("x", [None, 32]), paddle.static.data("y", [None, 1])
        loss, _ = fleet_programs.deep(paddle, x, y)
        optimizer = paddle.optimizer.Adam(0.1)
        if not by_hand:
            role = fleet.UserDefinedRoleMaker(
                current_id=0, role=fleet.Role.WORKER, worker_num=2, server_endpoints=servers
            )
            fleet.Fleet().init(role).distributed_optimizer(optimizer).minimize(loss)
            return main
        optimizer.minimize(loss)
        config = fluid.DistributeTranspilerConfig()
        config.sync_mode, config.runtime_split_send_recv = False, True
        config.half_async = config.completely_not_async = True
        transpiler = fluid.DistributeTranspiler(config)
        transpiler.transpile(0, main, ",".join(servers), 2, False, startup)
        return transpiler.get_trainer_program(wait_port=False)


def test_fleet_adds_nothing_to_a_trainer() -> None:
    assert fleet_programs.described(served(False)) == fleet_programs.described(served(True))
