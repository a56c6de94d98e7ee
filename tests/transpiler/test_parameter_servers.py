"""`DistributeTranspiler` with servers: where parameters go, what it refuses, and what old programs read
off.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluidlite as fluid
from fluidlite.errors import TranspilerError
from fluidlite.transpiler import make_job
from fluidlite.transpiler.ps_dispatcher import HashName, PSDispatcher, RoundRobin
from fluidlite.transpiler.pserver.slices import rows_of_pieces, slice_variable

SERVERS = "127.0.0.1:6174,127.0.0.1:6175"
FIRST, SECOND = SERVERS.split(",")


def programs(
    optimizer: Any = None, net: Callable[[], Any] | None = None
) -> tuple[fluid.Program, fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = (net or two_layers)()
        (optimizer or fluid.optimizer.SGD(0.1)).minimize(loss)
    return main, startup


def two_layers() -> Any:
    x, y = fluid.data("x", [None, 1000]), fluid.data("y", [None, 1])
    hidden = fluid.layers.fc(x, 1000, param_attr="w", bias_attr="b")
    return fluid.layers.mean(
        fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1, param_attr="v", bias_attr=False), y)
    )


def transpiled(
    main: fluid.Program,
    startup: fluid.Program,
    trainer: int = 0,
    pservers: str = SERVERS,
    trainers: int = 2,
    sync_mode: bool = True,
    **config: Any,
) -> fluid.DistributeTranspiler:
    made = fluid.DistributeTranspiler(fluid.DistributeTranspilerConfig.make(**config))
    made.transpile(trainer, main, pservers, trainers, sync_mode, startup)
    return made


def types(block: Any) -> list[str]:
    return [op.type for op in block.ops]


# ---------------------------------------------------------------------- pieces
@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 9), st.integers(1, 300))
def test_pieces_are_whole_rows_and_tile_the_parameter(shape: list[int], count: int, least: int) -> None:
    rows, width = rows_of_pieces(shape, count, least), math.prod(shape[1:])
    assert sum(rows) == shape[0] and min(rows) > 0 and len(rows) <= count
    assert len(rows) == 1 or all(piece * width >= least for piece in rows[:-1])


def test_pieces_in_fluids_words() -> None:
    class Var:
        name, shape = "w", (1000, 1000)

    assert slice_variable([Var], 2, 8192) == ["w:0:500000", "w:1:500000"]
    assert slice_variable([Var], 3, 8192) == ["w:0:334000", "w:1:334000", "w:2:332000"]


def test_names_place_alike_in_every_process() -> None:
    code = (
        "from fluidlite.transpiler.ps_dispatcher import HashName\n"
        "print(HashName(['a:1', 'b:2', 'c:3']).dispatch(['w.block0', 'w.block1', 'w.block2', 'fc_0.b_0']))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    places = HashName(["a:1", "b:2", "c:3"]).dispatch(["w.block0", "w.block1", "w.block2"])
    assert sorted(places) == ["a:1", "b:2", "c:3"]  # the pieces of one parameter go to different servers


def test_a_dispatcher_of_ones_own() -> None:
    class Last(PSDispatcher):
        def dispatch(self, varlist: Any) -> list[str]:
            return [self.eps[-1] for _ in varlist]

    made = transpiled(*programs(), split_method=Last, slice_var_up=False)
    assert {piece.endpoint for piece in made.placement.slices} == {SECOND}
    with pytest.raises(TranspilerError, match="gave one server two slices of 'w'"):
        transpiled(*programs(), split_method=Last)
    with pytest.raises(TranspilerError, match="split_method should be RoundRobin, HashName"):
        transpiled(*programs(), split_method=dict)
    with pytest.raises(TranspilerError, match="no split_method 'RoundRobbin'; did you mean 'RoundRobin'"):
        transpiled(*programs(), split_method="RoundRobbin")
    assert RoundRobin(["a:1", "b:2"]).dispatch("xyz") == ["a:1", "b:2", "a:1"]


# ---------------------------------------------------------------------- what is wrong stays as it was
def refused(
    message: str,
    trainer: Any = 0,
    pservers: Any = SERVERS,
    trainers: Any = 2,
    net: Any = None,
    optimizer: Any = None,
    edit: Callable[[fluid.Program], object] | None = None,
    **config: Any,
) -> None:
    main, startup = programs(optimizer, net)
    if edit is not None:
        edit(main)
    before = str(main), str(startup)
    with pytest.raises(TranspilerError, match=message):
        transpiled(main, startup, trainer, pservers, trainers, **config)
    assert (str(main), str(startup)) == before


def test_endpoints_and_numbers() -> None:
    refused("'127.0.0.1' is not of the form 'ip:port'", pservers="127.0.0.1,127.0.0.1:6174")
    refused("'127.0.0.1:6174' occurs twice", pservers="127.0.0.1:6174,127.0.0.1:6174")
    refused("is not of the form 'ip:port'", pservers="")
    refused("trainer_id is 2, but must be between 0 and 1", trainer=2)
    refused("trainer_id is -1", trainer=-1)
    refused("trainers should be the number of trainers, not '2'", trainers="2")
    refused("trainers should be the number of trainers, not 0", trainers=0)
    refused("no mode 'pservers'; did you mean 'pserver'", mode="pservers")


def test_programs_that_do_not_train() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        two_layers()
    with pytest.raises(TranspilerError, match="has no optimizer ops: call optimizer.minimize"):
        transpiled(main, startup)
    main, startup = programs()
    transpiled(main, startup)
    once = str(main)
    with pytest.raises(TranspilerError, match="transpiled already: it has the op 'send'"):
        transpiled(main, startup)
    assert str(main) == once


def test_ops_outside_any_parameter() -> None:
    def stray(main: fluid.Program) -> None:
        op = main.global_block().append_op(
            "increment", {"X": "learning_rate_0"}, {"Out": "learning_rate_0"}, {"op_role": 2}
        )
        assert op.role_vars == []

    refused("op 'increment' belongs to the optimizer, but not to a parameter", edit=stray)
    refused(
        "the update of 'b' reads .* clip by value or by norm",
        optimizer=fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)),
    )


def test_configuration() -> None:
    with pytest.raises(TranspilerError, match="no field 'min_blocksize'; did you mean 'min_block_size'"):
        fluid.DistributeTranspilerConfig.make(min_blocksize=1)
    config = fluid.DistributeTranspilerConfig()
    with pytest.raises(ValueError, match="make ensure config.sync_mode is false"):
        config.runtime_split_send_recv = True
    config.sync_mode = False
    config.runtime_split_send_recv = True
    with pytest.raises(ValueError, match="make ensure config.runtime_split_send_recv is false"):
        config.sync_mode = True
    for name in ("sync_mode", "runtime_split_send_recv"):
        with pytest.raises(ValueError, match="can't be None"):
            setattr(config, name, None)


def test_a_server_that_is_none() -> None:
    made = transpiled(*programs())
    with pytest.raises(TranspilerError, match="no server at '127.0.0.1:6176'; did you mean"):
        made.get_pserver_program("127.0.0.1:6176")
    with pytest.raises(TranspilerError, match="call transpile"):
        fluid.DistributeTranspiler().get_trainer_program()


# ---------------------------------------------------------------------- where fluid 1.8 is wrong
def test_one_trainer_and_its_server_agree_on_names() -> None:
    main, startup = programs()
    made = transpiled(main, startup, trainers=1)
    sent = {
        name
        for op in made.get_trainer_program(wait_port=False).global_block().ops
        if op.type == "send"
        for name in op.input("X")
    }
    awaited = {
        name
        for server in (FIRST, SECOND)
        for name in made.get_pserver_program(server).global_block().ops[-1].input("X")
    }
    assert sent == awaited


@pytest.mark.parametrize(
    "clip", [fluid.clip.GradientClipByValue(1.0), fluid.clip.GradientClipByNorm(1.0)], ids=["value", "norm"]
)
def test_servers_clip_the_mean(clip: Any) -> None:
    made = transpiled(*programs(fluid.optimizer.SGD(0.1, grad_clip=clip)))
    block = made.get_pserver_program(FIRST).blocks[1]
    assert (
        types(block)[:2] == ["sum", "scale"]
        and types(block)[2].startswith("clip")
        and types(block)[3:] == ["sgd"]
    )
    assert block.ops[2].input("X") == block.ops[1].output("Out") and block.ops[3].input("Grad") == block.ops[
        2
    ].output("Out")


@pytest.mark.parametrize(
    "optimizer",
    [
        fluid.optimizer.LarsMomentum(0.1, 0.9),
        fluid.optimizer.Lamb(0.1),
        fluid.optimizer.Dpsgd(0.1),
        fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByNorm(1.0)),
    ],
    ids=["lars", "lamb", "dpsgd", "clip_by_norm"],
)
def test_what_needs_a_norm_is_never_cut(optimizer: Any) -> None:
    assert all(piece.count == 1 for piece in transpiled(*programs(optimizer)).placement.slices)


def test_a_slice_gets_its_rows_of_given_values() -> None:
    values = np.arange(4000, dtype="float32").reshape(1000, 4)

    def net() -> Any:
        x = fluid.data("x", [None, 1000])
        initial = fluid.ParamAttr("w", initializer=fluid.initializer.NumpyArrayInitializer(values))
        return fluid.layers.mean(fluid.layers.fc(x, 4, param_attr=initial, bias_attr=False))

    made = transpiled(*programs(net=net), min_block_size=100)
    parts = []
    for piece in made.placement.slices:
        scope = fluid.Scope()
        with fluid.scope_guard(scope):
            fluid.Executor(fluid.CPUPlace()).run(made.get_pserver_programs(piece.endpoint)[1])
        parts.append(np.array(scope.find_var(piece.param_name).get_tensor()))
    assert np.array_equal(np.concatenate(parts), values)


# ---------------------------------------------------------------------- what is read off
def test_what_old_programs_read_off() -> None:
    main, startup = programs(fluid.optimizer.Momentum(0.1, 0.9))
    made = transpiled(main, startup, trainer=1)
    trainer = made.get_trainer_program(wait_port=False)
    assert (
        trainer is main
        and trainer._is_distributed
        and not trainer._is_chief
        and trainer._endpoints == [FIRST, SECOND]
    )
    assert (
        made.table_name is None
        and not made.has_distributed_lookup_table
        and trainer._distributed_lookup_table is None
    )
    server = made.get_pserver_program(SECOND)
    parts = {
        part.origin.name: part for part in server._parameters_on_pservers.get_distributed_vars_by_ep(SECOND)
    }
    assert sorted(parts) == ["v", "v_velocity_0", "w", "w_velocity_0"]
    assert parts["w"].is_slice and parts["w"].slice.name == "w.block1" and parts["w"].offset == 500_000
    assert parts["w_velocity_0"].slice.shape == (500, 1000) and not parts["v"].is_slice
    assert [var.name for var in made.param_grad_ep_mapping[FIRST]["params"]] == ["b", "w.block0"]
    assert made.param_name_to_grad_name["w"] == "w@GRAD"


def test_a_second_call_takes_the_place_of_the_first() -> None:
    made = transpiled(*programs())
    assert made.vars_overview.get_distributed_vars_by_ep(SECOND)
    main, startup = programs()
    made.transpile(0, main, FIRST, 2, True, startup)
    assert not made.vars_overview.get_distributed_vars_by_ep(SECOND)
    assert main._parameters_on_pservers is made.vars_overview


def test_a_table_on_the_servers_only() -> None:
    def net() -> Any:
        rows = fluid.layers.embedding(
            fluid.data("ids", [None, 1], "int64"),
            [10_000, 4],
            is_sparse=True,
            is_distributed=True,
            param_attr="table",
        )
        return fluid.layers.mean(fluid.layers.fc(rows, 1, param_attr="w", bias_attr=False))

    main, startup = programs(net=net)
    made = transpiled(main, startup)
    assert made.table_name == "table" and main._distributed_lookup_table == "table"
    assert (
        types(main.global_block())[0] == "distributed_lookup_table"
        and types(startup.global_block())[-1] == "fake_init"
    )
    assert "table" not in {
        name for op in main.global_block().ops if op.type == "recv" for name in op.output("Out")
    }
    for server in (FIRST, SECOND):
        program = made.get_pserver_program(server)
        saving = program.global_block().ops[-1].attr("checkpint_block_id")
        assert types(program.blocks[saving]) == ["save"]


def test_lookups_of_one_table_travel_together_where_they_can() -> None:
    def net() -> Any:
        words = [fluid.data(f"word{index}", [None, 1], "int64") for index in range(3)]
        first, second = (
            fluid.layers.embedding(word, [1000, 4], is_sparse=True, param_attr="table") for word in words[:2]
        )
        chosen = fluid.layers.cast(
            fluid.layers.reduce_sum(first, dim=1, keep_dim=True), "int64"
        )  # ids that need rows
        third = fluid.layers.embedding(chosen, [1000, 4], is_sparse=True, param_attr="table")
        return fluid.layers.mean(fluid.layers.concat([first, second, third]))

    main, startup = programs(net=net)
    transpiled(main, startup)
    asked = [op.input("Ids") for op in main.global_block().ops if op.type == "distributed_lookup_table"]
    assert [len(ids) for ids in asked] == [2, 1]
    main.verify()


def test_a_server_names_its_tables_in_the_order_of_their_updates() -> None:
    def net() -> Any:
        words = [fluid.data(f"word{index}", [None, 1], "int64") for index in range(3)]
        sizes = [[8, 4], [90, 40], [8, 4]]
        rows = [
            fluid.layers.embedding(word, size, is_sparse=True, param_attr=f"table{index}")
            for index, (word, size) in enumerate(zip(words, sizes, strict=True))
        ]
        return fluid.layers.mean(fluid.layers.concat(rows, axis=1))

    main, startup = programs(net=net)
    made = transpiled(main, startup, pservers=FIRST, slice_var_up=False)  # placed in another order
    listen = made.get_pserver_program(FIRST).global_block().ops[-1]
    updates = [pair.partition(":")[0] for pair in listen.attr("grad_to_block_id")]
    assert [pair.partition(":")[0] for pair in listen.attr("sparse_grad_to_param")] == updates


def test_a_job_leaves_the_originals_alone() -> None:
    main, startup = programs()
    before = str(main), str(startup)
    job = make_job(main, startup, trainers=3, endpoints=2, sync_mode=False)
    assert [role.name for role in job.roles] == ["trainer0", "trainer1", "trainer2", "pserver0", "pserver1"]
    for role in job.roles:
        job.programs(role).main.verify()
        job.programs(role).startup.verify()
    assert (str(main), str(startup)) == before
    assert (
        job.server(FIRST).main.global_block().ops[-1].attr("distributed_mode") == 2
    )  # 1.8.5's: 1 where slices are cut at run time
    with pytest.raises(TranspilerError, match="no role 'trainer4'; did you mean 'trainer"):
        job.role("trainer4")
    with pytest.raises(TranspilerError, match="no mode 'pserve'; did you mean 'pserver'"):
        make_job(main, startup, "pserve")
    with pytest.raises(TranspilerError, match="trainers should be a positive number, not 0"):
        make_job(main, startup, trainers=0)
    with pytest.raises(TranspilerError, match="3 trainers need as many endpoints, not 2"):
        make_job(main, startup, "grad_allreduce", 3, SERVERS)
    with pytest.raises(TranspilerError, match="at least one endpoint"):
        make_job(main, startup, endpoints=0)


def test_memory_optimize_says_that_the_executor_does_it() -> None:
    with pytest.warns(DeprecationWarning, match="the executor reuses memory by itself"):
        fluid.memory_optimize(fluid.Program())
    with pytest.warns(DeprecationWarning, match="release_memory changes nothing"):
        fluid.release_memory(fluid.Program())
