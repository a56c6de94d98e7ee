"""Fleet: role makers, strategies, the programs that it makes (held against 1.8.5's), and fleets without
servers.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import make_fleet
import numpy as np
import pytest
from mpi_jobs import says, start
from ports import free_endpoint

import fluidlite as fluid
from fluidlite.errors import CommunicatorError, FluidWarning, MissingExtraError
from fluidlite.incubate.fleet import collective
from fluidlite.incubate.fleet.base import fleet_base
from fluidlite.incubate.fleet.base.role_maker import (
    GeneralRoleMaker,
    PaddleCloudRoleMaker,
    Role,
    RoleMakerBase,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
)
from fluidlite.incubate.fleet.parameter_server import distribute_transpiler
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    DistributedStrategy,
    StrategyFactory,
)
from fluidlite.incubate.fleet.utils import fleet_barrier_util
from fluidlite.incubate.fleet.utils.hdfs import HDFSClient

RECORDED = json.loads((pathlib.Path(__file__).parents[1] / "recorded" / "fleet.json").read_text())
SERVED = {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36001,127.0.0.2:36001", "PADDLE_TRAINERS_NUM": "2"}


@pytest.fixture(autouse=True)
def no_role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in os.environ if name.startswith(("PADDLE_", "TRAINING_ROLE", "POD_IP", "CPU_NUM"))
    ]:
        monkeypatch.delenv(name)


# ---------------------------------------------------------------------- role makers
def test_user_defined_roles() -> None:
    worker = UserDefinedRoleMaker(1, Role.WORKER, 2, ["127.0.0.1:1", "127.0.0.1:2"])
    worker.generate_role()
    assert (worker.is_worker(), worker.is_server(), worker.is_first_worker()) == (True, False, False)
    assert (worker.worker_num(), worker.worker_index(), worker.server_index()) == (2, 1, 1)
    assert (
        worker.to_string()
        == "role: 1, current_id: 1, worker_endpoints: [], server_endpoints: ['127.0.0.1:1', '127.0.0.1:2']"
    )
    alone = UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:1"])
    assert alone.is_worker() and alone.is_first_worker() and alone.get_trainer_endpoints() == ["127.0.0.1:1"]
    with pytest.raises(RuntimeError, match="implement this method"):
        alone.is_server()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("0", 1, 2, ["a:1"]), TypeError),
        ((-1, 1, 2, ["a:1"]), ValueError),
        ((0, 3, 2, ["a:1"]), TypeError),
        ((0, 1, "2", ["a:1"]), TypeError),
        ((0, 1, 0, ["a:1"]), ValueError),
        ((0, 1, 2, "a:1"), TypeError),
        ((0, 1, 2, []), ValueError),
        ((0, 1, 2, [1]), TypeError),
        ((0, 1, 2, ["a:1", "a:1"]), ValueError),
        ((2, 2, 2, ["a:1"]), ValueError),
    ],
)
def test_roles_that_cannot_be(arguments: tuple[Any, ...], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        UserDefinedRoleMaker(*arguments)


@pytest.mark.parametrize(
    "arguments", [("0", ["a"]), (-1, ["a"]), (0, "a"), (0, []), (0, [1]), (0, ["a", "a"]), (3, ["a"])]
)
def test_collective_roles_that_cannot_be(arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        UserDefinedCollectiveRoleMaker(*arguments)


def test_roles_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(collective: bool = False, **variables: str) -> PaddleCloudRoleMaker:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            made = PaddleCloudRoleMaker(collective)
            made.generate_role()
            return made

    worker = told(TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="1", **SERVED)
    assert (
        worker.is_worker()
        and worker.worker_index() == 1
        and worker.worker_num() == 2
        and not worker.is_first_worker()
    )
    server = told(TRAINING_ROLE="PSERVER", POD_IP="127.0.0.2", PADDLE_PORT="36001", **SERVED)
    assert server.is_server() and server.server_index() == 1
    among = told(
        True, PADDLE_TRAINER_ENDPOINTS="a:1,b:1", PADDLE_TRAINER_ID="1", PADDLE_CURRENT_ENDPOINT="b:1"
    )
    assert (
        among.worker_num() == 2
        and among.worker_index() == 1
        and among._current_endpoint == "b:1"
        and not among.is_worker()
    )
    for wrong, kind in (
        ({}, KeyError),
        ({"TRAINING_ROLE": "TRAINER", **SERVED}, KeyError),
        ({"TRAINING_ROLE": "X", **SERVED}, ValueError),
        ({"TRAINING_ROLE": "PSERVER", "POD_IP": "9.9.9.9", "PADDLE_PORT": "1", **SERVED}, ValueError),
    ):
        with pytest.raises(kind):
            told(**wrong)
    with pytest.raises(KeyError, match="PADDLE_PSERVERS_IP_PORT_LIST is not set"):
        told()
    with pytest.raises(AssertionError, match="PADDLE_TRAINER_ENDPOINTS"):
        told(True)


def general(monkeypatch: pytest.MonkeyPatch, role: str, number: int, **options: Any) -> GeneralRoleMaker:
    for name, value in {
        "TRAINING_ROLE": role,
        "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2",
        "PADDLE_TRAINER_ID": str(number),
        "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:3",
        "POD_IP": "127.0.0.1",
        "PADDLE_PORT": "3",
    }.items():
        monkeypatch.setenv(name, value)
    made = GeneralRoleMaker(init_timeout_seconds=20, run_timeout_seconds=20, **options)
    made.generate_role()
    return made


def together(work: list[Callable[[], Any]]) -> list[Any]:
    found: list[Any] = [None] * len(work)

    def body(number: int) -> None:
        found[number] = work[number]()

    threads = [threading.Thread(target=body, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def exchange(maker: GeneralRoleMaker) -> Any:
    output = np.zeros(2)
    maker.all_reduce_worker(np.array([1.0, maker._get_rank()]), output)
    largest = [0]
    maker.all_reduce_worker([maker._get_rank()], largest, mode="max")
    maker.barrier_worker()
    maker.barrier_all()
    maker._barrier_server()
    return (
        maker.all_gather(maker._get_rank() * 10),
        maker._worker_gather(maker.get_local_endpoint()),
        output.tolist(),
        largest,
    )


@pytest.mark.parametrize("store", ["files", "http"])
def test_processes_exchange_values(
    store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:

    for _ in range(2):  # files of an earlier job do no harm
        options = {"path": str(tmp_path)} if store == "files" else {"http_ip_port": free_endpoint()}
        makers = [
            general(monkeypatch, *seat, **options)
            for seat in (("TRAINER", 0), ("TRAINER", 1), ("PSERVER", 0))
        ]
        try:
            found = together([lambda maker=maker: exchange(maker) for maker in makers])  # type: ignore[misc]
        finally:
            for maker in makers:
                maker._finalize()
        assert found[:2] == [([0, 10, 20], ["127.0.0.1:1", "127.0.0.1:2"], [2.0, 1.0], [1])] * 2
        assert found[2] == ([0, 10, 20], None, [0.0, 0.0], [0])


def test_who_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    maker = general(monkeypatch, "TRAINER", 0, path=str(tmp_path))
    maker._init_timeout_seconds = 0.1
    with pytest.raises(CommunicatorError, match="waited 0.1 s for rank 1"):
        maker.barrier_worker()
    with pytest.raises(CommunicatorError, match="path="):
        general(monkeypatch, "TRAINER", 0).barrier_worker()


# ---------------------------------------------------------------------- strategies
def test_strategies_take_objects_and_dicts() -> None:
    strategy = StrategyFactory.create_sync_strategy()
    config = strategy.get_program_config()
    assert (
        config.sync_mode,
        config.runtime_split_send_recv,
        config.half_async,
        config.completely_not_async,
    ) == (False, True, True, True)
    strategy.set_program_config({"min_block_size": 4})
    assert strategy.get_program_config().min_block_size == 4
    with pytest.raises(ValueError, match="DistributeTranspilerConfig doesn't have key: bad"):
        strategy.set_program_config({"bad": 1})
    strategy.set_trainer_runtime_config({"communicator_send_queue_size": "16"})
    assert (
        strategy.get_trainer_runtime_config().get_communicator_flags()["communicator_send_queue_size"] == "1"
    )
    for part in (
        "program_config",
        "trainer_runtime_config",
        "server_runtime_config",
        "execute_strategy",
        "build_strategy",
    ):
        with pytest.raises(TypeError, match=part):
            getattr(strategy, f"set_{part}")("x")
        with pytest.raises(ValueError, match="doesn't have key"):
            getattr(strategy, f"set_{part}")({"bad": 1})
        with pytest.raises(RuntimeError, match="StrategyFactory"):
            getattr(DistributedStrategy(), f"check_{part}")()
    assert StrategyFactory.create_geo_strategy(5).get_program_config().geo_sgd_need_push_nums == 5
    assert "communicator_send_wait_times                 5    \n" in str(
        StrategyFactory.create_geo_strategy().get_trainer_runtime_config()
    )


def test_leniencies_of_strategies() -> None:
    """Debug options that are no dict dump nothing, an empty strategy is none, and choices print as words."""
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_debug_opt({"dump_slot": True})
    assert strategy.get_debug_opt()["dump_slot"] is True
    strategy.set_debug_opt(3)
    assert strategy.get_debug_opt() == {}
    assert str(strategy.get_build_strategy().reduce_strategy) == "ReduceStrategy.AllReduce"
    fleet_ = distribute_transpiler.DistributedTranspiler()
    fleet_.init(UserDefinedRoleMaker(0, Role.WORKER, 2, ["127.0.0.1:6190"]))
    optimizer = distribute_transpiler.TranspilerOptimizer(fluid.optimizer.SGD(0.1), {}, fleet_)
    assert isinstance(optimizer._strategy, distribute_transpiler.SyncStrategy)


@pytest.mark.parametrize("case", make_fleet.CASES, ids=lambda case: " ".join(map(str, case)))
def test_programs_are_those_of_paddle(case: tuple[Any, ...]) -> None:
    found = json.loads(json.dumps(make_fleet.programs(fluid, *case)))
    wanted = RECORDED[" ".join(map(str, case))]
    for program in ("main", "startup"):
        for mine, theirs in zip(found[program], wanted[program], strict=True):
            in_step = case[0] == "sync" and case[2]
            assert mine == (counted_once(theirs) if in_step else theirs)


def counted_once(ops: list[Any]) -> list[Any]:
    """The ops of 1.8.5 as they are where servers count the steps: its workers in step count each for itself,
    and so the schedule runs once for each of them.
    """
    found = []
    for type, inputs, outputs, attrs in ops:
        counts = any(name.startswith("@LR_DECAY_COUNTER@.trainer_") for name in (*inputs, *outputs))
        if counts and type == "sum":
            found.append(["increment", outputs, outputs, attrs])
        elif type == "send_barrier":  # which waits for one send less
            found.append([type, inputs[1:], outputs, attrs])
        elif not counts:
            found.append([type, inputs, outputs, attrs])
    return found


def test_what_a_fleet_refuses() -> None:
    fleet, loss = distribute_transpiler.DistributedTranspiler(), fluid.data("x", [1])
    with pytest.raises(ValueError, match=r"fleet.init"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(ValueError, match="minimize first"):
        fleet.run_server()
    with pytest.raises(TypeError, match="RoleMakerBase"):
        fleet.init("x")  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        fleet.init()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 2, make_fleet.SERVERS))
    with pytest.raises(ValueError, match="instance of Optimizer"):
        fleet.distributed_optimizer("x")
    with pytest.raises(TypeError, match="strategy must be"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), {"a": 1})
    with pytest.raises(TypeError, match="loss with list"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize([loss])
    with pytest.raises(TypeError, match="executor must be as Executor type"):
        fleet.save_persistables("exe", "folder")
    with pytest.raises(ValueError, match="for local"):
        fleet.save_persistables(fluid.Executor(fluid.CPUPlace()), "folder", fluid.Program())
    assert fleet.server_endpoints(to_string=True) == ",".join(make_fleet.SERVERS) and fleet.server_num() == 2
    assert fleet.split_files(["a", "b", "c", "d", "e"]) == ["a", "b", "c"]
    with pytest.raises(TypeError, match="list of file"):
        fleet.split_files("abc")  # type: ignore[arg-type]
    assert fleet_base.Mode.TRANSPILER == 1 and isinstance(fleet._role_maker, RoleMakerBase)


# ---------------------------------------------------------------------- without servers
def trained(workers: int, number: int = 0, optimizer: Any = None, **fields: Any) -> tuple[Any, Any, Any]:
    fleet = collective.Collective()
    fleet.init(
        UserDefinedCollectiveRoleMaker(number, [f"127.0.0.1:{port}" for port in range(1, workers + 1)])
    )
    main, startup, strategy = fluid.Program(), fluid.Program(), collective.DistributedStrategy()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.layers.fc(fluid.data("x", [None, 4]), 3, act="relu")
        loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
        for name, value in fields.items():
            setattr(strategy, name, [hidden] if value == "hidden" else value)
        fleet.distributed_optimizer(optimizer or fluid.optimizer.SGD(0.1), strategy).minimize(loss, startup)
    return fleet, main, loss


def types(program: Any) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_a_program_that_reduces_its_gradients() -> None:
    fleet, main, _ = trained(2, 1, mode="collective", collective_mode="grad_allreduce")
    assert (
        fleet.main_program is main
        and types(main).count("c_allreduce_sum") == 4
        and "c_comm_init" in types(fleet.startup_program)
    )
    assert "c_allreduce_sum" not in types(fleet._origin_program)
    _, main, _ = trained(2, 1, use_local_sgd=True)
    assert types(main).count("c_allreduce_sum") == 4 and types(main).index("sgd") < types(main).index(
        "c_allreduce_sum"
    )
    fleet, _, loss = trained(2, 1)
    assert isinstance(fleet.main_program, fluid.CompiledProgram) and "gen_nccl_id" in types(
        fleet.startup_program
    )
    build = fleet.main_program._build_strategy
    assert (build.num_trainers, build.trainer_id, build.trainers_endpoints) == (
        2,
        1,
        ["127.0.0.1:1", "127.0.0.1:2"],
    )
    assert build.exec_strategy.num_threads == 2 and fleet.main_program._loss_name == loss.name


def test_recomputing() -> None:
    _, main, _ = trained(
        2,
        forward_recompute=True,
        recompute_checkpoints="hidden",
        mode="collective",
        collective_mode="grad_allreduce",
    )
    assert types(main).count("mul") > 2
    with pytest.raises(ValueError, match="recompute_checkpoints"):
        trained(1, forward_recompute=True)


@pytest.mark.parametrize("mode", ["nccl2", "collective"])
def test_half_precision(mode: str) -> None:
    fields = {} if mode == "nccl2" else {"mode": mode, "collective_mode": "grad_allreduce"}
    _, main, _ = trained(2, use_amp=True, amp_loss_scaling=8.0, **fields)
    found = types(main)
    assert found.count("elementwise_div") == 4 and "isfinite" in found
    assert found.count("cast") > 8 and found.index("cast") < found.index("mul")
    _, main, _ = trained(2, use_amp=True, forward_recompute=True, recompute_checkpoints="hidden", **fields)
    assert types(main).count("mul") > 2 and "isfinite" in types(main)
    # what the trainers decide by, they have reduced
    if mode == "collective":
        last = max(at for at, one in enumerate(types(main)) if one == "c_allreduce_sum")
        assert last < types(main).index("isfinite")


def test_what_a_strategy_contradicts() -> None:
    for fields in ({"mode": "nccl2", "collective_mode": "local_sgd"}, {"use_dist_fc": True}):
        with pytest.raises(AssertionError):
            trained(2, **fields)
    with pytest.raises(ValueError, match="use_dist_fc"):
        trained(2, use_dist_fc=True, dist_fc_config="a")
    with pytest.raises(AssertionError, match="strategy must be"):
        collective.CollectiveOpBasedOptimizer(fluid.optimizer.SGD(0.1))
    strategy = collective.DistributedStrategy()
    strategy.of_the_user = 3
    assert strategy.of_the_user == 3 and strategy.fuse_all_reduce_ops


def test_checkpoints(tmp_path: pathlib.Path) -> None:
    with fluid.scope_guard(fluid.Scope()):
        fleet, _, _ = trained(
            2, optimizer=fluid.optimizer.Adam(0.1), mode="collective", collective_mode="grad_allreduce"
        )
        exe, path = fluid.Executor(fluid.CPUPlace()), str(tmp_path)
        assert fleet.load_check_point(exe, path, 0) is None
        with pytest.raises(AssertionError, match="find checkpoint"):
            fleet.load_check_point(exe, path, 0, ignore_empty=False)
        startup = fluid.Program()
        with fluid.program_guard(fluid.Program(), startup), fluid.unique_name.guard():
            hidden = fluid.layers.fc(fluid.data("x", [None, 4]), 3, act="relu")
            fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(fluid.layers.fc(hidden, 1)))
        exe.run(startup)
        weight = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
        first = np.array(weight)
        for epoch in range(3):
            fleet.save_check_point(exe, path, collective.TrainStatus(epoch))
        weight.set(first + 1, fluid.CPUPlace())
        status = fleet.load_check_point(exe, path, 0)
        assert status == collective.TrainStatus(2) and status.next() == 3
        np.testing.assert_array_equal(np.array(weight), first)
        assert sorted(os.listdir(tmp_path / "__paddle_fleet_checkpoint__.0")) == [
            "_paddle_fleet_param__",
            "fleet_train_status",
        ]
        fleet.clean_redundant_check_points(path, checkpoint_num=2)
        assert sorted(os.listdir(path)) == ["__paddle_fleet_checkpoint__.1", "__paddle_fleet_checkpoint__.2"]
        fleet.save_check_point(exe, path, status, remain_all_checkpoint=False)
        assert os.listdir(path) == ["__paddle_fleet_checkpoint__.3"]


# ---------------------------------------------------------------------- hadoop
def test_hadoop_is_a_command(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "bin" / "hadoop"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/log\ncase "$*" in *-ls*) echo "Found 1 items"; '
        'echo "-rw-r--r-- 3 u g 12 2020-01-02 10:00 /a/f 1";; esac\n'
    )
    script.chmod(0o755)
    client = HDFSClient(str(tmp_path), {"fs.default.name": "hdfs://host:1"})
    assert client.is_exist("/a") and client.ls("/a") == ["/a/f 1"] and client.delete("/a")
    assert (tmp_path / "log").read_text().splitlines()[-1] == "fs -Dfs.default.name=hdfs://host:1 -rmr /a"
    assert client.split_files(["a", "b", "c"], 0, 2) == ["a", "b"]
    with pytest.raises(MissingExtraError, match="hadoop"):
        HDFSClient(str(tmp_path / "nowhere"), {}).is_exist("/a")


def test_a_barrier_of_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "hadoop"
    script.parent.mkdir()
    script.write_text(
        """#!/bin/sh
        while [ "$1" = fs ] || [ "${1#-D}" != "$1" ]; do shift; done
        case $1 in
          -test) test $2 "$3" ;;
          -mkdir) mkdir -p "$2" ;;
          -put) cp "$2" "$3" ;;
          -ls) for item in "$2"/*; do echo "-rw-r--r-- 3 u g 0 2020-01-02 10:00 $item"; done ;;
        esac
        """
    )
    script.chmod(0o755)
    for name, value in {"HADOOP_HOME": str(tmp_path), "FS_NAME": "hdfs://host:1", "FS_UGI": "a,b"}.items():
        monkeypatch.setenv(name, value)
    here = SimpleNamespace(worker_num=lambda: 2, worker_index=lambda: 1)
    monkeypatch.setattr(fleet_barrier_util, "fleet", here)
    monkeypatch.setattr(fleet_barrier_util, "_PAUSE", 0.01)
    monkeypatch.setattr(fleet_barrier_util.flags, "get_flags", lambda name: {name: 30})
    ready = tmp_path / "ready"
    with pytest.raises(CommunicatorError, match=r"worker 1 has waited 0.03 s .* epoch 3 of workers \[0\]"):
        fleet_barrier_util.check_all_trainers_ready(str(ready), 3)
    assert [path.name for path in ready.iterdir()] == ["ready.3.1.done"]
    (ready / "ready.3.0.done").touch()
    fleet_barrier_util.check_all_trainers_ready(str(ready), 3)
    assert fleet_barrier_util.HDFSClient is fluid.contrib.utils.HDFSClient  # not that of fleet's utils


# ---------------------------------------------------------------------- programs as files
def test_programs_as_files(tmp_path: pathlib.Path) -> None:
    from fluidlite.incubate.fleet.utils import utils

    main, other = fluid.Program(), fluid.Program()
    for program, size in ((main, 2), (other, 5)):
        with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
            fluid.layers.fc(fluid.data("x", [None, 4]), size)
    utils.save_program(main, str(tmp_path / "prog"))
    assert utils.program_type_trans(str(tmp_path), "prog", False) == "prog.pbtxt"
    assert utils.program_type_trans(str(tmp_path), "prog.pbtxt", True) == "prog.pbtxt.bin"
    for name, is_text in (("prog", False), ("prog.pbtxt", True), ("prog.pbtxt.bin", False)):
        assert types(utils.load_program(str(tmp_path / name), is_text)) == types(main)
    with pytest.raises(ValueError, match="text format"):
        utils.load_program(str(tmp_path / "prog"), is_text=True)
    assert utils.check_pruned_program_vars(main, main.clone()) and not utils.check_pruned_program_vars(
        main, other
    )
    utils.parse_program(main, str(tmp_path))
    assert (tmp_path / "ops.log").read_text().splitlines()[1] == (
        "{'type': 'mul', 'input_arg_names': \"['x', 'fc_0.w_0']\", 'output_arg_names': \"['fc_0.tmp_0']\"}"
    )
    utils.graphviz(main.global_block(), str(tmp_path))
    assert (tmp_path / "debug.dot").exists()


@pytest.mark.mpi
def test_two_processes_a_node() -> None:
    code = (
        "from fluidlite.incubate.fleet.base.role_maker import MPISymetricRoleMaker\nimport numpy as np\n"
        "role = MPISymetricRoleMaker()\nrole.generate_role()\nout = np.zeros(1)\n"
        "role.all_reduce_worker(np.array([1.0]), out)\nrole.barrier_worker()\nrole.barrier_all()\n"
        "words = [role.is_worker(), role.worker_index(), role.worker_num(), float(out[0]), "
        "role.all_gather(role._get_rank() * 2)]\n"
        "print(words)"
    )
    done = start(4, [sys.executable, "-c", code])
    assert done.returncode == 0, says(done)
    assert sorted(done.stdout.splitlines()) == sorted(
        repr([rank % 2 == 1, rank // 2, 2, 2.0 * (rank % 2), [0, 2, 4, 6]]) for rank in range(4)
    )


@pytest.mark.parametrize("name", ["runtime_split_send_recv", "debug_op", "sync_mode"])
def test_fields_that_a_strategy_of_servers_lacks(name: str) -> None:
    strategy = StrategyFactory.create_async_strategy()
    with pytest.warns(FluidWarning, match=rf"AsyncStrategy has no field '{name}': nothing reads it"):
        setattr(strategy, name, True)
    strategy.debug_opt = None
