"""Fleet's file systems, exchanges, and recomputation."""

from __future__ import annotations

import importlib
import pathlib
import threading
from typing import Any

import numpy as np
import pytest
from waiting import LIMIT

import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.base.errors import CommunicatorError, UninitializedError, UnsupportedError
from fluidlite.distributed.cluster import verify_job
from fluidlite.paddle.distributed import fleet
from fluidlite.paddle.distributed.fleet.base.exchange import Exchange
from fluidlite.paddle.distributed.fleet.utils import HDFSClient, LocalFS, fs, recompute

# a stand-in for Hadoop's command: HDFS is a folder, and every call is noted
HADOOP = """#!/bin/sh
here=$(dirname "$(dirname "$0")")
shift
while [ "${1#-D}" != "$1" ]; do shift; done
echo "$@" >> "$here/log"
name=$1; shift
case $name in
  -test) test $1 "$here/fs$2" ;;
  -mkdir) mkdir -p "$here/fs$2" ;;
  -touchz) : > "$here/fs$1" ;;
  -cat) cat "$here/fs$1" ;;
  -rm|-rmr) rm -r "$here/fs$1" ;;
  -mv) mv "$here/fs$1" "$here/fs$2" ;;
  -put) cp -r "$1" "$here/fs$2" ;;
  -get) cp -r "$here/fs$1" "$2" ;;
  -ls) for item in "$here/fs$1"/*; do
    kind=-; [ -d "$item" ] && kind=d
    echo "${kind}rw-r--r-- 1 u g $(stat -c %s "$item") 2020-01-01 10:00 ${item#$here/fs}"
  done ;;
esac
"""


@pytest.fixture
def hdfs(tmp_path: pathlib.Path) -> HDFSClient:
    command = tmp_path / "hadoop" / "bin" / "hadoop"
    command.parent.mkdir(parents=True)
    (tmp_path / "hadoop" / "fs").mkdir()
    command.write_text(HADOOP)
    command.chmod(0o755)
    return HDFSClient(str(tmp_path / "hadoop"), {"fs.default.name": "hdfs://x:1"}, 20000, 10)


@pytest.mark.parametrize("kind", ["local", "hdfs"])
def test_file_systems(kind: str, hdfs: HDFSClient, tmp_path: pathlib.Path) -> None:
    files: Any = hdfs if kind == "hdfs" else LocalFS()
    root = "/root" if kind == "hdfs" else str(tmp_path / "root")
    assert files.ls_dir(root) == ([], []) and not files.is_exist(root)
    files.mkdirs(f"{root}/folder")
    files.mkdirs(f"{root}/folder")
    files.touch(f"{root}/file")
    files.touch(f"{root}/file")
    with pytest.raises(fs.FSFileExistsError):
        files.touch(f"{root}/file", exist_ok=False)
    assert files.ls_dir(root) == (["folder"], ["file"]) and files.list_dirs(root) == ["folder"]
    assert files.is_dir(f"{root}/folder") and files.is_file(f"{root}/file") and not files.is_file(root)
    files.mv(f"{root}/file", f"{root}/moved")
    with pytest.raises(fs.FSFileNotExistsError):
        files.mv(f"{root}/file", f"{root}/again")
    files.touch(f"{root}/file")
    with pytest.raises(fs.FSFileExistsError):
        files.mv(f"{root}/file", f"{root}/moved")
    files.mv(f"{root}/file", f"{root}/moved", overwrite=True)
    assert files.ls_dir(root) == (["folder"], ["moved"])
    files.delete(f"{root}/moved")
    files.delete(f"{root}/nothing")
    files.delete(f"{root}/folder")
    assert files.ls_dir(root) == ([], []) and files.is_dir(root)
    assert files.need_upload_download() == (kind == "hdfs")


def test_copies(hdfs: HDFSClient, tmp_path: pathlib.Path) -> None:
    here = tmp_path / "here"
    (here / "inner").mkdir(parents=True)
    (here / "one").write_text("1\n")
    hdfs.upload(str(here), "/up")
    assert hdfs.ls_dir("/up") == (["inner"], ["one"]) and hdfs.cat("/up/one") == "1"
    assert hdfs.cat("/up/nothing") == ""
    assert {"path": "/up/one", "size": 2} in hdfs.list_files_info(["/up"])
    (here / "one").write_text("2\n")
    hdfs.upload(str(here / "one"), "/up", overwrite=True)
    hdfs.download("/up", str(tmp_path / "back"))
    assert (tmp_path / "back" / "one").read_text() == "2\n"
    hdfs.upload_dir(str(here), "/whole")
    with pytest.raises(fs.FSFileExistsError):
        hdfs.upload_dir(str(here), "/whole")
    assert hdfs.ls_dir("/whole/here") == (["inner"], ["one"])
    with pytest.raises(fs.FSFileNotExistsError):
        hdfs.upload(str(tmp_path / "nothing"), "/up")
    with pytest.raises(fs.FSFileNotExistsError):
        hdfs.download("/nothing", str(tmp_path))
    with pytest.raises(fs.ExecuteError, match="hadoop fs -mv /nothing /else"):
        hdfs.mv("/nothing", "/else", test_exists=False)


def test_commands_that_cannot_run(tmp_path: pathlib.Path) -> None:
    with pytest.raises(fs.FSShellCmdAborted, match="bin/hadoop"):
        HDFSClient(str(tmp_path), {}).is_exist("/x")
    slow = tmp_path / "bin" / "hadoop"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nsleep 5\n")
    slow.chmod(0o755)
    with pytest.raises(fs.FSTimeOut, match="-test"):
        HDFSClient(str(tmp_path), {}, time_out=200).is_exist("/x")


# ---------------------------------------------------------------------- exchanges
def test_exchanges_in_a_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_GLOO_FS_PATH", str(tmp_path))
    found: dict[Any, Any] = {}

    def process(is_server: bool, index: int) -> None:
        exchange = Exchange(is_server, index, workers=2, servers=1)
        mine = [exchange.all_gather((is_server, index), "all")]
        if not is_server:
            mine.append(exchange.all_reduce([index, 2.5], "max", "worker"))
            mine.append(exchange.all_gather({"a": [index]}, "worker"))
            exchange.barrier("worker")
        found[is_server, index] = mine

    threads = [threading.Thread(target=process, args=args) for args in ((False, 0), (False, 1), (True, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    everyone = [[False, 0], [False, 1], [True, 0]]
    assert found[True, 0] == [everyone]
    for index in range(2):
        all_of_them, largest, dicts = found[False, index]
        assert all_of_them == everyone and dicts == [{"a": [0]}, {"a": [1]}]
        np.testing.assert_array_equal(largest, [1, 2.5])


def test_no_way_to_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PADDLE_GLOO_FS_PATH", "PADDLE_GLOO_HTTP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    exchange = Exchange(False, 0, workers=2, servers=1)
    with pytest.warns(UserWarning, match="as its processes cannot reach each other: name a folder"):
        exchange.barrier("worker")
    with pytest.raises(CommunicatorError, match="cannot exchange anything: name a folder"):
        exchange.all_gather(1, "worker")
    with pytest.raises(CommunicatorError, match="this process is a worker"):
        exchange.all_gather(1, "server")
    with pytest.raises(ValueError, match="comm_world is 'workers'"):
        exchange.barrier("workers")


def test_util_of_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    seat = fleet.Fleet()
    with pytest.raises(CommunicatorError, match=r"call fleet.init\(\)"):
        seat.util.barrier()
    with pytest.raises(UninitializedError, match="fleet.init"):
        seat.worker_num()
    role = fleet.UserDefinedRoleMaker(
        current_id=1, role=fleet.Role.WORKER, worker_num=3, server_endpoints=["127.0.0.1:1"]
    )
    seat.init(role)
    assert seat.util.get_file_shard(["a", "b", "c", "d"]) == ["c"]
    with pytest.raises(TypeError, match="list of file"):
        seat.util.get_file_shard("abc")  # type: ignore[arg-type]
    seat.util.print_on_rank("not here", 0)
    seat.util.print_on_rank("here", 1)
    assert capsys.readouterr().out == "here\n"


# ---------------------------------------------------------------------- recomputation
def test_recompute() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    seat = fleet.Fleet()
    with paddle.static.program_guard(main, startup), unique_name.guard():
        x, y = paddle.static.data("x", [None, 8]), paddle.static.data("y", [None, 1])
        hidden = recompute(lambda value: paddle.static.nn.fc(value, 8, activation="tanh"), x)
        loss = paddle.mean(paddle.nn.functional.square_error_cost(paddle.static.nn.fc(hidden, 1), y))
        places = ["127.0.0.1:1", "127.0.0.1:2"]
        role = fleet.UserDefinedRoleMaker(is_collective=True, current_id=0, worker_endpoints=places)
        seat.init(role).distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(loss)
    assert seat._get_applied_meta_list() == ["RawProgramOptimizer", "RecomputeOptimizer"]
    again = [
        op for op in main.global_block().ops if op.type == "mul" and "subprog" in str(op.output_arg_names)
    ]
    assert len(again) == 1
    random = np.random.RandomState(0)
    feeds = [{"x": random.rand(4, 8).astype("float32"), "y": random.rand(4, 1).astype("float32")}] * 3
    assert verify_job(seat.job(), feeds).ok


# ---------------------------------------------------------------------- workers and servers
def worker(**chosen: Any) -> fleet.Fleet:
    """A worker of a job whose servers do not run."""
    seat = fleet.Fleet()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()), unique_name.guard():
        loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 4]), 2))
        strategy = fleet.DistributedStrategy()
        for name, value in chosen.items():
            setattr(strategy, name, value)
        role = fleet.UserDefinedRoleMaker(
            current_id=1,
            role=fleet.Role.WORKER,
            worker_num=2,
            server_endpoints=["127.0.0.1:1", "127.0.0.1:2"],
        )
        seat.init(role).distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
    return seat


@pytest.mark.parametrize(
    "chosen, words",
    [
        ({}, "sync training"),
        ({"a_sync": False}, "sync training"),
        ({"a_sync": True}, "async training"),
        ({"a_sync": True, "a_sync_configs": {"k_steps": 5}}, "geo training"),
        ({"a_sync": True, "a_sync_configs": {"k_steps": -1}}, "half_async training"),
    ],
)
def test_a_worker_makes_its_programs_before_servers_run(chosen: dict[str, Any], words: str) -> None:
    seat = worker(**chosen)
    assert seat.explain().startswith(words) and seat._get_applied_meta_list() == ["ParameterServerOptimizer"]
    assert len(seat.job().roles) == 4 and seat.server_num() == 2 and not seat.is_first_worker()


def test_parts_that_servers_cannot_carry_out() -> None:
    for part in ({"amp": True}, {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}}):
        with pytest.raises(
            UnsupportedError, match=f"strategy.{next(iter(part))} is set in a job with servers"
        ):
            worker(**part)


@pytest.mark.parametrize(
    "named",
    [
        {"PADDLE_GLOO_RENDEZVOUS": "4"},
        {"PADDLE_GLOO_RENDEZVOUS": "x"},
        {"PADDLE_GLOO_RENDEZVOUS": "1"},
        {"PADDLE_GLOO_RENDEZVOUS": "2"},
        {"PADDLE_GLOO_RENDEZVOUS": "3"},
        {"PADDLE_GLOO_RENDEZVOUS": "3", "PADDLE_GLOO_HTTP_ENDPOINT": "nowhere"},
        {},
    ],
)
def test_half_a_rendezvous_is_refused(named: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PADDLE_GLOO_RENDEZVOUS", "PADDLE_GLOO_HTTP_ENDPOINT", "PADDLE_GLOO_FS_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PADDLE_WITH_GLOO": "1", **named}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError):  # as in 2.6.2
        fleet.Fleet().init()


@pytest.mark.parametrize("name", ["init_worker", "stop_worker", "init_server", "run_server"])
def test_a_job_begins_with_init(name: str) -> None:
    with pytest.raises(ValueError, match=rf"fleet.{name}: call fleet.init"):
        getattr(fleet.Fleet(), name)()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("collective", "new_group"),
        ("communication", "P2POp"),
        ("entry_attr", "CountFilterEntry"),
        ("fleet.data_generator", "MultiSlotDataGenerator"),
        ("fleet.dataset", "InMemoryDataset"),
        ("fleet.launch", "launch"),
        ("io", "save_persistables"),
    ],
)
def test_modules_of_older_releases(module: str, name: str) -> None:
    held = importlib.import_module(f"fluidlite.paddle.distributed.{module}")
    assert callable(getattr(held, name))
