"""Modes that leave the trainers' updates alone: "nccl2", whose runtime reduces gradients, and geo-SGD,
which sends changes.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_collective_transpiler import forward_only, ops, table, trained, transpile, two_losses, types

import fluidlite as fluid
from fluidlite.base.dtypes import VarType
from fluidlite.errors import TranspilerError
from fluidlite.ir.operator import OpRole
from fluidlite.transpiler import GeoSgdTranspiler, make_job
from fluidlite.transpiler.collective import GradAllReduce

TRAINERS = ",".join(f"127.0.0.1:{port}" for port in range(6170, 6174))
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


def config_of(**fields: Any) -> fluid.DistributeTranspilerConfig:
    return fluid.transpiler.DistributeTranspilerConfig.make(**fields)


def wide() -> Any:
    x, y = fluid.data("x", [None, 300]), fluid.data("y", [None, 1])
    return fluid.layers.mean(fluid.layers.square(fluid.layers.fc(fluid.layers.fc(x, 200), 1) - y))


# ---------------------------------------------------------------------- nccl2
def to_nccl2(
    programs: Any, trainer: int = 1, trainers: Any = TRAINERS, current: str = "127.0.0.1:6171", **fields: Any
) -> Any:
    main, startup = programs
    fluid.DistributeTranspiler(config_of(mode="nccl2", **fields)).transpile(
        trainer, program=main, trainers=trainers, startup_program=startup, current_endpoint=current
    )
    return programs


def test_nccl2_asks_for_ids() -> None:
    main, startup = trained()
    before = str(main)
    to_nccl2((main, startup))
    assert (
        str(main) == before and main._trainers_endpoints == TRAINERS.split(",") and main._nccl_comm_num == 1
    )
    op = ops(startup)[-1]
    assert op.type == "gen_nccl_id" and op.output("NCCLID") == ["NCCLID"] and op.role == OpRole.Forward
    assert op.attr("trainers") == TRAINERS.split(",") and op.attr("trainer_id") == 1
    assert (
        startup.global_block().var("NCCLID").type == VarType.RAW
        and startup.global_block().var("NCCLID").persistable
    )


def test_several_and_hierarchical_communicators() -> None:
    main, startup = to_nccl2(
        trained(), nccl_comm_num=2, use_hierarchical_allreduce=True, hierarchical_allreduce_inter_nranks=2
    )
    names = {name for name in startup.global_block().vars if "NCCLID" in name}
    assert names == {
        "NCCLID",
        "NCCLID_1",
        "Hierarchical_inter_NCCLID_0",
        "Hierarchical_exter_NCCLID_0",
        "Hierarchical_inter_NCCLID_1",
        "Hierarchical_exter_NCCLID_1",
    }
    assert (
        ops(startup)[-1].attr("nccl_comm_num") == 2
        and ops(startup)[-1].attr("hierarchical_allreduce_inter_nranks") == 2
    )
    assert (
        main._nccl_comm_num,
        main._use_hierarchical_allreduce,
        main._hierarchical_allreduce_inter_nranks,
    ) == (2, True, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(trainers=4), "not of the form 'ip:port'"),
        (dict(trainers=""), "not of the form 'ip:port'"),
        (dict(current="127.0.0.1:1"), "is not in"),
        (dict(trainer=4), "between 0 and 3"),
        (dict(trainer=2), "belongs to endpoint"),
        (dict(nccl_comm_num=0), "1 or more"),
        (dict(use_hierarchical_allreduce=True), "set it to the number of trainers in a group"),
        (
            dict(use_hierarchical_allreduce=True, hierarchical_allreduce_inter_nranks=3),
            "cannot divide the 4 trainers",
        ),
        (
            dict(use_hierarchical_allreduce=True, hierarchical_allreduce_inter_nranks=4),
            "cannot divide the 4 trainers",
        ),
        (dict(bucket_bytes=1), "bucket_bytes must be 0"),
    ],
)
def test_nccl2_refuses(arguments: dict[str, Any], message: str) -> None:
    programs = trained()
    texts = [str(program) for program in programs]
    with pytest.raises(TranspilerError, match=message):
        to_nccl2(programs, **arguments)
    assert [str(program) for program in programs] == texts and not programs[0]._trainers_endpoints


def test_nccl2_once() -> None:
    with pytest.raises(TranspilerError, match="transpiled already"):
        to_nccl2(to_nccl2(trained()))


# ---------------------------------------------------------------------- mode "collective"
@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd", "single_process_multi_thread"])
def test_collective_mode_is_the_class(mode: str) -> None:
    main, startup = trained()
    config = config_of(mode="collective", collective_mode=mode, nccl_comm_num=1)
    fluid.DistributeTranspiler(config).transpile(
        1, program=main, trainers=TRAINERS, startup_program=startup, current_endpoint="127.0.0.1:6171"
    )
    programs = make_job(*trained(), mode, 4, TRAINERS, config=config).trainer(1)
    assert types(main) == types(programs.main) and types(startup) == types(programs.startup)
    assert {op.attr("ring_id") for op in ops(main, "c_allreduce_sum")} == {0}


@pytest.mark.parametrize("mode", [None, "grad_allreduec"])
def test_unknown_collective_mode(mode: str | None) -> None:
    main, startup = trained()
    with pytest.raises(TranspilerError, match=f"invalid collective_mode: {mode}"):
        fluid.DistributeTranspiler(config_of(mode="collective", collective_mode=mode)).transpile(
            0, program=main, trainers=TRAINERS, startup_program=startup, current_endpoint="127.0.0.1:6170"
        )


# ---------------------------------------------------------------------- geo-SGD
def to_geo(
    programs: Any, trainer: int = 1, servers: str = SERVERS, trainers: int = 2, **fields: Any
) -> GeoSgdTranspiler:
    main, startup = programs
    transpiler = GeoSgdTranspiler(config_of(sync_mode=False, geo_sgd_mode=True, **fields))
    transpiler.transpile(trainer, program=main, pservers=servers, trainers=trainers, startup_program=startup)
    return transpiler


def test_geo_trainers_update_and_say_which_rows() -> None:
    main, startup = trained(table)
    before = types(main)
    transpiler = to_geo((main, startup))
    assert types(main) == [*before, "send"] and transpiler.get_trainer_program(wait_port=False) is main
    assert ops(main)[-1].input("X") == ["ids"] and ops(main)[-1].attr("send_varnames") == ["embedding_0.w_0"]
    assert main.global_block().var("embedding_0.w_0.delta").type == VarType.SELECTED_ROWS
    assert ops(startup)[-1].attr("send_varnames") == ["param_init"] and types(startup)[-2] == "fetch_barrier"
    assert [op.output("Out") for op in ops(startup, "recv")] == [["fc_0.b_0"], ["fc_0.w_0"]]
    assert (main._is_distributed, main._is_chief, main._endpoints) == (True, False, SERVERS.split(","))
    main.verify()
    startup.verify()


def test_geo_servers_add_changes() -> None:
    transpiler = to_geo(trained(wide))
    held: set[str] = set()
    for endpoint in SERVERS.split(","):
        main, startup = transpiler.get_pserver_programs(endpoint)
        (listen,) = ops(main)
        assert (
            listen.attr("distributed_mode") == 3
            and listen.attr("Fanin") == 2
            and listen.attr("endpoint") == endpoint
        )
        for block, entry in zip(listen.attr("optimize_blocks"), listen.attr("grad_to_block_id"), strict=True):
            (add,) = block.ops
            name = add.output("Out")[0]
            assert (
                add.type == "sum"
                and add.input("X") == [name, name + ".delta"]
                and entry == f"{name}.delta:{block.idx}"
            )
            assert name in {written for op in ops(startup) for written in op.output_arg_names}
            held.add(name)
        main.verify()
        startup.verify()
    assert held == {"fc_0.b_0", "fc_0.w_0.block0", "fc_0.w_0.block1", "fc_1.b_0", "fc_1.w_0"}
    assert list(transpiler.vars_info["fc_0.w_0"].items()) == [
        ("var_names", ["fc_0.w_0.block0", "fc_0.w_0.block1"]),
        ("sections", ["150", "150"]),
        ("epmap", ["127.0.0.1:6175", "127.0.0.1:6174"]),
        ("is_sparse", ["False"]),
    ]
    assert [var.name for var in transpiler.delta_vars_list] == [
        f"fc_{layer}.{kind}_0.delta" for layer in (0, 1) for kind in "bw"
    ]


def test_what_geo_says_of_tables() -> None:
    transpiler = to_geo(trained(table))
    assert (
        transpiler.sparse_var_list
        == transpiler.sparse_tables
        == transpiler.sparse_var_splited_list
        == ["embedding_0.w_0"]
    )
    assert [var.name for var in transpiler.sparse_var] == ["ids"]
    assert transpiler._get_vars_info()["embedding_0.w_0"]["is_sparse"] == ["True"]
    main = transpiler.get_pserver_program("127.0.0.1:6175")
    server = next(
        place
        for place in SERVERS.split(",")
        if "embedding_0.w_0" in transpiler.get_pserver_program(place).global_block().vars
    )
    (listen,) = ops(transpiler.get_pserver_program(server))
    assert listen.attr("sparse_grad_to_param") == ["embedding_0.w_0.delta:embedding_0.w_0"]
    assert [
        var.origin.name for var in main._parameters_on_pservers.get_distributed_vars_by_ep("127.0.0.1:6175")
    ]


def test_idle_servers_serve() -> None:
    transpiler = to_geo(trained(), servers=",".join(f"127.0.0.1:{port}" for port in range(6174, 6180)))
    main, startup = transpiler.get_pserver_programs("127.0.0.1:6179")
    (listen,) = ops(main)
    assert listen.attr("optimize_blocks") == [] and len(main.blocks) == 1 and not ops(startup)


@pytest.mark.filterwarnings("ignore:minimize. .*updated twice:UserWarning")
def test_geo_clips_and_schedules_stay_with_the_trainers() -> None:
    def optimizer() -> Any:
        rate = fluid.layers.exponential_decay(0.1, 10, 0.5)
        return fluid.optimizer.Adam(rate, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))

    job = make_job(*trained(optimizer=optimizer), "geo_sgd", 2, SERVERS)
    assert {"adam", "sqrt", "increment"} <= set(types(job.trainer().main))
    for endpoint in job.endpoints:
        assert {op.type for block in job.server(endpoint).main.blocks for op in block.ops} == {
            "sum",
            "listen_and_serv",
        }
    assert make_job(*two_losses(), "geo_sgd", 2, SERVERS).slices


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(trainer=2), "between 0 and 1"),
        (dict(trainers=0), "trainers should be"),
        (dict(servers="127.0.0.1"), "not of the form 'ip:port'"),
        (dict(servers=SERVERS + "," + SERVERS), "occurs twice"),
        (dict(enable_dc_asgd=True), "enable_dc_asgd"),
    ],
)
def test_geo_refuses(arguments: dict[str, Any], message: str) -> None:
    programs = trained()
    texts = [str(program) for program in programs]
    with pytest.raises(TranspilerError, match=message):
        to_geo(programs, **arguments)
    assert [str(program) for program in programs] == texts


def test_geo_refuses_programs() -> None:
    with pytest.raises(TranspilerError, match="no optimizer ops"):
        to_geo(forward_only())
    with pytest.raises(TranspilerError, match="transpiled already"):
        to_geo(transpile(GradAllReduce(), trained()))
    with pytest.raises(TranspilerError, match="no server at"):
        to_geo(trained()).get_pserver_program("127.0.0.1:6176")


def test_fluids_own_example() -> None:
    """The example of fluid's documentation transpiles the default programs for servers, and then for
    nccl2.
    """
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x, y = fluid.layers.data("x", [13]), fluid.layers.data("y", [1])
        loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        fluid.optimizer.SGD(0.001).minimize(loss)
        places = "192.168.0.1:6174,192.168.0.2:6174"
        t = fluid.DistributeTranspiler()
        t.transpile(0, pservers=places, trainers=4)
        server = t.get_pserver_program("192.168.0.1:6174")
        assert t.get_startup_program("192.168.0.1:6174", server).global_block().ops
        config = fluid.DistributeTranspilerConfig()
        config.mode = "nccl2"
        t = fluid.DistributeTranspiler(config=config)
        t.transpile(trainer_id=0, trainers=places, current_endpoint="192.168.0.1:6174")
        assert fluid.default_startup_program().global_block().ops[-1].type == "gen_nccl_id"
        with pytest.raises(TranspilerError, match="transpiled already"):
            t.transpile(trainer_id=0, trainers=places, current_endpoint="192.168.0.1:6174")


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd", "single_process_multi_thread"])
def test_the_methods_that_fluids_documents_name(mode: str) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1)))
        fluid.DistributeTranspiler()._transpile_collective(
            mode, 0, "a:1,b:2", "a:1", startup_program=startup, main_program=main
        )
    assert any(op.type.startswith("c_") for op in main.global_block().ops)
    other = fluid.Program()
    fluid.DistributeTranspiler()._transpile_nccl2(1, "a:1,b:2", "b:2", startup_program=other)
    assert other.global_block().ops[-1].type == "gen_nccl_id"


@pytest.mark.parametrize(
    ("decays", "clips", "wanted"),
    [
        (False, False, [["a", "c", "e"], ["b", "d"]]),
        (False, True, [["a", "c", "e"], ["b", "d"]]),
        (True, False, [["c", "a", "d"], ["e", "b"]]),
        (True, True, [["c", "a", "d"], ["e", "b"]]),
    ],
)
def test_parameters_go_round_the_servers_as_updates_speak_of_them(
    decays: bool, clips: bool, wanted: list[list[str]]
) -> None:
    """Recorded from 1.8.5: decays come before the updates, and clips of the program are no part of them."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        for name in "abcde":
            decay = fluid.regularizer.L2Decay(0.1) if decays and name in "ce" else None
            x = fluid.layers.fc(
                x, 4, param_attr=fluid.ParamAttr(name=name, regularizer=decay), bias_attr=False
            )
        if clips:
            fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.1))
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(x))
    job = make_job(main, startup, "geo_sgd", trainers=2, endpoints=["127.0.0.1:6174", "127.0.0.1:6175"])
    placed = [list(held) for held in job.placement.by_endpoint.values()]
    assert placed == wanted


# ---------------------------------------------------------------------- tables that an op trains
def hashed() -> Any:
    words, label = fluid.data("words", [None, 1], "int32", 1), fluid.data("label", [None, 1], "int64")
    tables = [fluid.ParamAttr(name=name, learning_rate=0) for name in ("windows", "white", "black")]
    found = fluid.contrib.layers.search_pyramid_hash(
        words, 8, 100, 2, 2, 0.0, True, True, 640, 280, 1, 0.002, *tables, distribute_update_vars=["windows"]
    )
    scores = fluid.layers.fc(fluid.layers.sequence_pool(found, "sum"), 2, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(scores, label))


def test_changes_of_a_table_that_an_op_trains() -> None:
    main, startup = trained(hashed)
    transpiler = GeoSgdTranspiler()
    transpiler.transpile(0, main, SERVERS, 2, False, startup, "127.0.0.1:6174")
    assert list(transpiler.vars_info)[-1] == "windows" and "windows.delta" in main.global_block().vars
    assert "windows" in [
        name for op in startup.global_block().ops if op.type == "recv" for name in op.output("Out")
    ]
    added = [
        op.input("X")
        for endpoint in SERVERS.split(",")
        for block in transpiler.get_pserver_program(endpoint).blocks[1:]
        for op in block.ops
    ]
    assert ["windows", "windows.delta"] in added


def test_other_servers_refuse_a_table_that_an_op_trains() -> None:
    main, startup = trained(hashed)
    with pytest.raises(TranspilerError, match="'windows' is trained by an op of the trainers"):
        fluid.DistributeTranspiler().transpile(0, main, SERVERS, 2, False, startup)
