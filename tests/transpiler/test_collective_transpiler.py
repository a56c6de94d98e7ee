"""The collective modes, by the meaning of what they put where: who is reduced, behind whom, before whom,
and what is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.base.dtypes import VarType
from fluidlite.errors import CommunicatorError, TranspilerError
from fluidlite.executor.comm import transports
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.transpiler import make_job
from fluidlite.transpiler.collective import (
    Collective,
    GradAllReduce,
    LocalSGD,
    MultiThread,
    SingleProcessMultiThread,
)

# two losses share their parameters here
pytestmark = pytest.mark.filterwarnings("ignore:minimize. .*updated twice:UserWarning")

ENDPOINTS = ["127.0.0.1:6170", "127.0.0.1:6171", "127.0.0.1:6172"]
Pair = tuple[fluid.Program, fluid.Program]


# ---------------------------------------------------------------------- programs
def mlp() -> Any:
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    out = fluid.layers.fc(fluid.layers.fc(x, 3, act="relu"), 1)
    return fluid.layers.mean(fluid.layers.square(out - y))


def trained(
    loss: Callable[[], Any] = mlp, optimizer: Callable[[], Any] = lambda: fluid.optimizer.Momentum(0.1, 0.9)
) -> Pair:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        optimizer().minimize(loss())
    return main, startup


def normalised() -> Any:
    x, y = fluid.data("x", [None, 3, 4, 4]), fluid.data("y", [None, 1])
    hidden = fluid.layers.batch_norm(fluid.layers.conv2d(x, 4, 3, bias_attr=False))
    return fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1) - y))


def shared() -> Any:
    x = fluid.data("x", [None, 4])
    hidden = fluid.layers.fc(
        fluid.layers.fc(x, 4, param_attr="w", bias_attr=False), 4, param_attr="w", bias_attr=False
    )
    return fluid.layers.mean(fluid.layers.square(hidden))


def table() -> Any:
    ids, y = fluid.data("ids", [None, 1], dtype="int64"), fluid.data("y", [None, 1])
    return fluid.layers.mean(
        fluid.layers.square(fluid.layers.fc(fluid.layers.embedding(ids, [100, 8], is_sparse=True), 1) - y)
    )


def two_losses() -> Pair:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
        hidden = fluid.layers.fc(x, 3)
        losses = [fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1) - y)) for _ in range(2)]
        for loss in losses:
            fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup


def averaged() -> Pair:
    main, startup = trained()
    with fluid.program_guard(main, startup):
        fluid.optimizer.ExponentialMovingAverage(0.9).update()
    return main, startup


def clipped() -> Pair:
    return trained(
        optimizer=lambda: fluid.optimizer.Adam(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))
    )


PROGRAMS: dict[str, Callable[[], Pair]] = {
    "mlp": trained,
    "normalised": lambda: trained(normalised),
    "shared": lambda: trained(shared),
    "table": lambda: trained(table),
    "two_losses": two_losses,
    "averaged": averaged,
    "clipped": clipped,
}


def transpile(
    mode: Collective, programs: Pair, rank: int = 1, endpoints: Any = None, current: str | None = None
) -> Pair:
    endpoints = ENDPOINTS if endpoints is None else endpoints
    main, startup = programs
    mode.transpile(startup, main, rank, endpoints, ENDPOINTS[rank] if current is None else current, False)
    return programs


def ops(program: fluid.Program, *types: str) -> list[Operator]:
    return [op for op in program.global_block().ops if not types or op.type in types]


def types(program: fluid.Program) -> list[str]:
    return [op.type for op in ops(program)]


# ---------------------------------------------------------------------- gradients are reduced
def test_ranks_are_connected_and_begin_alike() -> None:
    main, startup = trained()
    before = len(ops(startup))
    transpile(GradAllReduce(), (main, startup))
    new = ops(startup)[before:]
    assert [op.type for op in new] == ["c_gen_nccl_id", "c_comm_init"] * 2 + ["c_broadcast"] * 4 + [
        "c_sync_comm_stream"
    ] * 2
    assert [op.attr("ring_id") for op in new[4:]] == [0, 1, 0, 1, 0, 1]
    assert [op.input("X")[0] for op in new[4:8]] == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
    first, second = new[:2]
    assert first.attr("endpoint") == ENDPOINTS[1] and first.attr("other_endpoints") == [
        ENDPOINTS[0],
        ENDPOINTS[2],
    ]
    assert (first.attr("rank"), second.attr("rank"), second.attr("nranks"), second.attr("ring_id")) == (
        1,
        1,
        3,
        0,
    )
    kept = startup.global_block().var(first.output("Out")[0])
    assert kept.persistable and kept.type == VarType.RAW and second.input("X") == first.output("Out")


def test_gradients_are_averaged() -> None:
    main, _ = transpile(GradAllReduce(), trained())
    (scaling,) = ops(main, "scale")
    at = ops(main).index(scaling)
    assert ops(main)[at - 1].role == OpRole.Backward | OpRole.Loss and ops(main)[at - 1].output(
        "Out"
    ) == scaling.output("Out")
    assert scaling.attr("scale") == pytest.approx(1 / 3) and scaling.role == OpRole.Backward
    assert [op.attr("ring_id") for op in ops(main, "c_allreduce_sum")] == [
        1,
        0,
        1,
        0,
    ]  # counted from the last one
    for op in ops(main, "c_allreduce_sum"):
        at = ops(main).index(op)
        sync, maker = ops(main)[at - 1], ops(main)[at - 2]
        assert sync.type == "c_sync_calc_stream" and sync.input("X") == op.input("X")
        assert maker.role_vars[1::2] == op.input("X") and op.where == maker.where
    waits = ops(main, "c_sync_comm_stream")
    assert ops(main)[ops(main).index(waits[-1]) + 1].type == "momentum" and [
        op.attr("ring_id") for op in waits
    ] == [0, 1]


def test_one_op_makes_two_gradients() -> None:
    main, _ = transpile(GradAllReduce(), trained(normalised))
    at = types(main).index("batch_norm_grad")
    found = ops(main)[at + 1 : at + 4]
    assert [op.type for op in found] == ["c_sync_calc_stream", "c_allreduce_sum", "c_allreduce_sum"]
    assert [op.input("X")[0] for op in found] == [
        "batch_norm_0.b_0@GRAD",
        "batch_norm_0.w_0@GRAD",
        "batch_norm_0.b_0@GRAD",
    ]


def test_each_loss_waits_for_its_gradients() -> None:
    """(Paddle waits once, before the first update.)"""
    main, _ = transpile(GradAllReduce(1), two_losses())
    waits = [index for index, name in enumerate(types(main)) if name == "c_sync_comm_stream"]
    assert len(waits) == 2 and [types(main)[index + 1] for index in waits] == ["sgd", "sgd"]


def test_without_optimizer_the_end_waits() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fluid.append_backward(mlp())
    transpile(GradAllReduce(1), (main, startup))
    assert types(main)[-1] == "c_sync_comm_stream"


def test_a_look_at_a_gradient_waits() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        pairs = fluid.append_backward(mlp())
        with main._backward_role_guard():
            fluid.layers.isfinite(pairs[0][1])
        fluid.optimizer.SGD(0.1).apply_gradients(pairs)
    transpile(GradAllReduce(bucket_bytes=1 << 20), (main, startup))
    at = types(main).index("isfinite")
    assert (
        types(main)[at - 2 : at] == ["c_sync_comm_stream"] * 2
        and types(main).count("c_sync_comm_stream") == 2
    )


def test_a_distributed_parameter_stays_where_it_is() -> None:
    for mode in (GradAllReduce(), LocalSGD()):
        main, startup = trained()
        for program in (main, startup):
            program.global_block().var("fc_0.w_0").is_distributed = True
        transpile(mode, (main, startup))
        touched = {
            name
            for program in (main, startup)
            for op in ops(program, "c_allreduce_sum", "c_broadcast")
            for name in op.input("X")
        }
        assert "fc_0.b_0" in touched or "fc_0.b_0@GRAD" in touched
        assert not {"fc_0.w_0", "fc_0.w_0@GRAD"} & touched


def test_devices_of_one_process() -> None:
    main, startup = trained()
    before = len(ops(startup))
    transpile(SingleProcessMultiThread(), (main, startup))
    assert types(startup)[before:] == ["c_comm_init_all"]
    assert {op.attr("ring_id") for op in ops(main, "c_allreduce_sum")} == {0} and len(
        ops(main, "c_allreduce_sum")
    ) == 4
    main, startup = transpile(MultiThread(2, "fuse_all_reduce"), trained(), 0, ENDPOINTS[:1])
    assert types(startup)[-2:] == ["c_comm_init_all"] * 2
    (fused,) = ops(main, "coalesce_tensor")
    assert len(fused.input("Input")) == 4 and len(ops(main, "c_allreduce_sum")) == 1
    _, startup = transpile(MultiThread(), trained(), 0)
    assert "c_comm_init" in types(startup)


# ---------------------------------------------------------------------- parameters are averaged
def test_local_sgd_applies_the_mean_change() -> None:
    main, startup = transpile(LocalSGD(), trained())
    snapshots = [op.output("Out")[0] for op in ops(startup)[-4:]]
    assert types(startup)[-4:] == ["assign"] * 4 and snapshots == [
        LocalSGD().snapshot_name(op.input("X")[0]) for op in ops(startup)[-4:]
    ]
    param = main.global_block().var("fc_0.w_0")
    kept = main.global_block().var("fc_0.w_0@SNAPSHOT")
    assert kept.persistable and kept.stop_gradient and (kept.shape, kept.dtype) == (param.shape, param.dtype)
    for update in ops(main, "momentum"):
        at, name = ops(main).index(update), update.input("Param")[0]
        assert types(main)[at + 1 : at + 4] == ["elementwise_sub", "c_sync_calc_stream", "c_allreduce_sum"]
        change = ops(main)[at + 1]
        assert (change.input("X"), change.input("Y"), change.output("Out")) == (
            [name + "@SNAPSHOT"],
            [name],
            [name],
        )
    assert types(main)[-14:] == ["c_sync_comm_stream"] * 2 + ["scale", "elementwise_sub", "assign"] * 4
    assert (
        all(op.role == OpRole.Optimize for op in ops(main)[-14:])
        and not ops(main, "scale")[0].role & OpRole.Backward
    )


def holds_change(main: fluid.Program) -> Iterator[tuple[Operator, set[str]]]:
    """Each op with the parameters that hold their change, not their value, when it runs."""
    changes: set[str] = set()
    for op in ops(main):
        yield op, set(changes)
        if op.type == "elementwise_sub" and op.input("X")[0].endswith("@SNAPSHOT"):
            changes ^= {op.output("Out")[0]}


@pytest.mark.parametrize("name", ["mlp", "two_losses", "averaged"])
def test_nobody_takes_a_change_for_a_parameter(name: str) -> None:
    main, _ = transpile(LocalSGD(), PROGRAMS[name]())
    ours = {"elementwise_sub", "c_sync_calc_stream", "c_allreduce_sum", "c_sync_comm_stream", "scale"}
    for op, changes in holds_change(main):
        assert not changes.intersection(op.input_arg_names) or op.type in ours, op
    assert not changes
    reduced = [op.input("X")[0] for op in ops(main, "c_allreduce_sum")]
    assert sorted(reduced) == sorted({op.input("Param")[0] for op in ops(main, "momentum", "sgd")})


# ---------------------------------------------------------------------- buckets
def reductions(main: fluid.Program) -> dict[str, list[int]]:
    """Gradient -> where it is reduced, alone or as a view of a buffer."""
    views = {op.output("FusedOutput")[0]: op.output("Output") for op in ops(main, "coalesce_tensor")}
    found: dict[str, list[int]] = {}
    for index, op in enumerate(ops(main)):
        if op.type == "c_allreduce_sum":
            for name in views.get(op.input("X")[0], op.input("X")):
                found.setdefault(name, []).append(index)
    return found


@pytest.mark.parametrize("rings", [1, 3])
@pytest.mark.parametrize("limit", [0, 1, 20, 60, 1 << 30])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_gradient_is_reduced_once_and_in_time(name: str, limit: int, rings: int) -> None:
    main, startup = transpile(GradAllReduce(rings, bucket_bytes=limit), PROGRAMS[name]())
    main.verify()
    startup.verify()
    ours = {"coalesce_tensor", "c_sync_calc_stream", "c_allreduce_sum", "c_sync_comm_stream"}
    made = {gradient for op in ops(main) if op.role & OpRole.Backward for gradient in op.role_vars[1::2]}
    where = reductions(main)
    assert set(where) == made
    for gradient, places in where.items():
        assert len(places) == 1
        others = [(index, op) for index, op in enumerate(ops(main)) if op.type not in ours]
        assert max(index for index, op in others if gradient in op.output_arg_names) < places[0]
        readers = [index for index, op in others if gradient in op.input_arg_names and index > places[0]]
        assert [index for index, op in others if gradient in op.input_arg_names] == readers
        waits = {
            op.attr("ring_id") for op in ops(main)[places[0] : readers[0]] if op.type == "c_sync_comm_stream"
        }
        assert waits == set(range(rings))


def test_buckets_leave_as_soon_as_they_are_full() -> None:
    main, _ = transpile(GradAllReduce(1, bucket_bytes=20), trained())
    buckets = [op.input("Input") for op in ops(main, "coalesce_tensor")]
    assert buckets == [["fc_1.b_0@GRAD", "fc_1.w_0@GRAD"]]  # 4 + 12 bytes; then 12 and 48 bytes, each alone
    buffer = ops(main, "coalesce_tensor")[0]
    assert (
        main.global_block().var(buffer.output("FusedOutput")[0]).shape == (4,)
        and buffer.attr("copy_data") is True
    )
    at = ops(main).index(buffer)
    assert ops(main)[at - 1].role_vars == ["fc_1.w_0", "fc_1.w_0@GRAD"]
    assert types(main)[at + 1 : at + 4] == ["c_sync_calc_stream", "c_allreduce_sum", "relu_grad"]


def test_buckets_hold_dense_gradients_of_one_type() -> None:
    main, _ = transpile(GradAllReduce(bucket_bytes=1 << 20), trained(table))
    assert ops(main, "coalesce_tensor")[0].input("Input") == ["fc_0.b_0@GRAD", "fc_0.w_0@GRAD"]
    assert "embedding_0.w_0@GRAD" in [op.input("X")[0] for op in ops(main, "c_allreduce_sum")]


def test_buckets_of_a_job() -> None:
    config = fluid.transpiler.DistributeTranspilerConfig.make(bucket_bytes=1 << 20)
    main, startup = trained()
    job = make_job(main, startup, "grad_allreduce", 4, config=config)
    assert len(ops(job.trainer(3).main, "c_allreduce_sum")) == 1
    with pytest.raises(TranspilerError, match="bucket_bytes must be 0"):
        make_job(main, startup, "local_sgd", 4, config=config).trainer()
    with pytest.raises(TranspilerError, match="bucket_bytes must be 0"):
        make_job(main, startup, "nccl2", 4, config=config).trainer()
    with pytest.raises(TranspilerError, match="bucket_bytes is -1"):
        transpile(GradAllReduce(bucket_bytes=-1), trained())


# ---------------------------------------------------------------------- what is refused
def forward_only() -> Pair:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        mlp()
    return main, startup


def without_role() -> Pair:
    main, startup = trained()
    del ops(main)[2].attrs["op_role"]
    return main, startup


def with_anothers_startup() -> Pair:
    return trained()[0], fluid.Program()


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "one": (dict(endpoints=ENDPOINTS[:1], rank=0), "must > 1"),
    "twice": (dict(endpoints=[*ENDPOINTS, ENDPOINTS[0]]), "occurs twice"),
    "malformed": (
        dict(endpoints="127.0.0.1:6170,127.0.0.1", rank=0),
        "'127.0.0.1' is not of the form 'ip:port'",
    ),
    "port": (dict(endpoints="127.0.0.1:6170,127.0.0.1:66000", rank=0), "not of the form 'ip:port'"),
    "empty": (dict(endpoints=""), "not of the form 'ip:port'"),
    "number": (dict(endpoints=3), "should be 'ip:port,ip:port'"),
    "lacks": (dict(current="127.0.0.1:6173"), "not in .*did you mean"),
    "another": (dict(current=ENDPOINTS[2]), "rank 1 belongs to endpoint 127.0.0.1:6171"),
    "large": (dict(rank=3, current=ENDPOINTS[0]), "between 0 and 2"),
    "negative": (dict(rank=-1), "between 0 and 2"),
}
BAD_PROGRAMS: dict[str, tuple[Callable[[], Pair], str]] = {
    "forward": (forward_only, "call optimizer.minimize"),
    "role": (without_role, "has no role"),
    "startup": (with_anothers_startup, "does not initialise parameter"),
    "again": (lambda: transpile(GradAllReduce(), trained()), "transpiled already"),
    "again_local": (lambda: transpile(LocalSGD(), trained()), "transpiled already"),
    "servers": (
        lambda: (make_job(*trained()).trainer().main, make_job(*trained()).trainer().startup),
        "transpiled already",
    ),
}
MODES: list[Callable[[], Collective]] = [GradAllReduce, LocalSGD, SingleProcessMultiThread]


def refuses(mode: Collective, programs: Pair, message: str, **arguments: Any) -> None:
    texts = [str(program) for program in programs]
    with pytest.raises(TranspilerError, match=message) as found:
        transpile(mode, programs, **arguments)
    assert isinstance(found.value, ValueError)
    assert [str(program) for program in programs] == texts


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("mode", MODES)
def test_arguments_are_checked(mode: Callable[[], Collective], name: str) -> None:
    arguments, message = ARGUMENTS[name]
    if name == "one" and mode is SingleProcessMultiThread:
        transpile(mode(), trained(), **arguments)
    else:
        refuses(mode(), trained(), message, **arguments)


@pytest.mark.parametrize("name", BAD_PROGRAMS)
@pytest.mark.parametrize("mode", MODES)
def test_programs_are_checked(mode: Callable[[], Collective], name: str) -> None:
    make, message = BAD_PROGRAMS[name]
    if name == "startup" and mode is SingleProcessMultiThread:
        transpile(mode(), make())  # nothing is broadcast among the devices of a process
    else:
        refuses(mode(), make(), message)


def test_options_are_checked() -> None:
    for make in (
        lambda: GradAllReduce(0),
        lambda: LocalSGD(-1),
        lambda: GradAllReduce(True),
        lambda: MultiThread(trans_mode="all_gather"),
    ):
        with pytest.raises(TranspilerError):
            make()


# ---------------------------------------------------------------------- around
def test_names_that_programs_use() -> None:
    assert fluid.transpiler.collective.GradAllReduce is GradAllReduce
    mode = GradAllReduce()
    main, startup = transpile(mode, trained(), endpoints=",".join(ENDPOINTS))
    assert (mode.nranks, mode.rank, mode.nrings, mode.current_endpoint, mode.endpoints) == (
        3,
        1,
        2,
        ENDPOINTS[1],
        ENDPOINTS,
    )
    assert mode.main_program is main and mode.startup_program is startup


def test_default_programs() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        fluid.optimizer.SGD(0.1).minimize(mlp())
        GradAllReduce().transpile(None, None, 0, ENDPOINTS, ENDPOINTS[0], False)
    assert "c_allreduce_sum" in types(main) and "c_comm_init" in types(startup)


@pytest.mark.parametrize("mode", [GradAllReduce, LocalSGD])
def test_parsed_programs_are_transpiled_alike(mode: Callable[[], Collective]) -> None:
    """Paddle's bytes hold variables in any order and do not say which are parameters."""
    main, startup = trained(normalised)
    frozen = [
        fluid.Program.parse_from_string(program.desc.serialize_to_string()) for program in (main, startup)
    ]
    for program in frozen:
        block = program.global_block()
        block.vars = {
            name: fluid.framework.Variable(
                block,
                name=name,
                shape=var.shape,
                dtype=var._dtype,
                type=var.type,
                persistable=var.persistable,
            )
            for name, var in sorted(block.vars.items())
        }
    built, parsed = (transpile(mode(), pair)[1] for pair in ((main, startup), (frozen[0], frozen[1])))
    texts = [
        [(op.type, op.input_arg_names) for op in ops(program, "c_broadcast", "assign")]
        for program in (built, parsed)
    ]
    assert texts[0] == texts[1] and len(texts[0]) >= 7  # moving averages among them


def test_alone_a_program_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_single", [])  # another test may have been a job of one process
    _, startup = transpile(GradAllReduce(), trained())
    with pytest.raises(CommunicatorError, match="op 'c_gen_nccl_id' needs a communicator"):
        fluid.Executor(fluid.CPUPlace()).run(startup, scope=fluid.Scope())


def test_jobs_of_each_mode() -> None:
    main, startup = trained()
    text = str(main) + str(startup)
    for mode in ("grad_allreduce", "local_sgd", "single_process_multi_thread", "multi_thread", "nccl2"):
        job = make_job(main, startup, mode, 4)
        for role in job.roles:
            programs = job.programs(role)
            programs.main.verify()
            programs.startup.verify()
    assert str(main) + str(startup) == text
