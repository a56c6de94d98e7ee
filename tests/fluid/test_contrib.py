"""`fluid.contrib`: statistics of models, files on HDFS, tables that lie on servers."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.contrib import extend_optimizer, model_stat
from fluidlite.contrib.utils import (
    HDFSClient,
    convert_dist_to_sparse_program,
    load_persistables_for_increment,
    load_persistables_for_inference,
    multi_download,
    multi_upload,
)

layers = fluid.layers


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    main = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 4, 8, 8])
        y = layers.pool2d(layers.conv2d(x, 8, 3, groups=2, padding=1, act="relu"), 2, "max", 2)
        layers.fc(layers.prelu(layers.batch_norm(y), "channel"), 10)
    model_stat.summary(main)
    rows = capsys.readouterr().out.splitlines()
    assert rows[1] == "| No. |       TYPE |     INPUT |    OUTPUT | PARAMs | FLOPs |"
    found = [tuple(cell.strip() for cell in row.split("|")[2:-1]) for row in rows[3:9]]
    assert found == [
        ("conv2d", "(4, 8, 8)", "(8, 8, 8)", "144", str(2 * 9 * 2 * 512)),
        ("relu", "(8, 8, 8)", "(8, 8, 8)", "0", "512"),
        ("pool2d", "(8, 8, 8)", "(8, 4, 4)", "0", "512"),
        ("batch_norm", "(8, 4, 4)", "(8, 4, 4)", "16", "256"),
        ("prelu", "(8, 4, 4)", "(8, 4, 4)", "8", "128"),
        ("mul", "(8, 4, 4)", "(10,)", "1281", "1280"),
    ]
    assert rows[10:12] == ["Total PARAMs: 1449(0.0014M)", "Total FLOPs: 21120(0.00G)"]


def test_extended_optimizer_has_fluids_module() -> None:
    module = extend_optimizer.extend_optimizer_with_weight_decay
    assert module.extend_with_decoupled_weight_decay is fluid.contrib.extend_with_decoupled_weight_decay


# ---------------------------------------------------------------------- HDFS
HADOOP = """#!/bin/sh
root={root}
echo "$@" >> {root}.log
shift; while case "$1" in -D*) true;; *) false;; esac; do shift; done
case "$1" in
  -test) test $2 "$root$3"; exit;;
  -mkdir) mkdir -p "$root$2";;
  -put) cp -r "$2" "$root$3";;
  -get) cp -r "$root$2" "$3";;
  -rm|-rmr) rm -r "$root$2";;
  -mv) mv "$root$2" "$root$3";;
  -ls|-lsr)
    test $1 = -ls && depth="-maxdepth 1"
    find "$root$2" -mindepth 1 $depth | sort | while read f; do
      test -d "$f" && kind=d || kind=-
      echo "${{kind}}rw-r--r-- 3 u g 12 2020-01-02 10:00 ${{f#$root}}"
    done;;
  *) exit 1;;
esac
"""


@pytest.fixture
def client(tmp_path: pathlib.Path) -> HDFSClient:
    """A client of a hadoop whose files lie in the folder `hdfs`."""
    script = tmp_path / "bin" / "hadoop"
    script.parent.mkdir()
    script.write_text(HADOOP.format(root=tmp_path / "hdfs"))
    script.chmod(0o755)
    for name in ("in/a", "in/b", "in/sub/c", "in/sub/d"):
        path = tmp_path / "hdfs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return HDFSClient(str(tmp_path), {"fs.default.name": "hdfs://host:1"})


def test_hdfs_lists(client: HDFSClient) -> None:
    assert client.ls("/in") == ["/in/a", "/in/b", "/in/sub"] and client.ls("/none") == []
    assert client.lsr("/in") == ["/in/a", "/in/b", "/in/sub/c", "/in/sub/d"]
    assert "/in/sub" in client.lsr("/in", only_file=False, sort=False)
    assert client.is_dir("/in") and not client.is_dir("/in/a") and client.is_exist("/in/a")


def test_hdfs_changes(client: HDFSClient, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x"
    file.write_text("x")
    assert client.makedirs("/out") and client.upload("/out", str(file))
    file.write_text("y")
    assert client.upload("/out", str(file), overwrite=True)
    assert (tmp_path / "hdfs/out/x").read_text() == "y"
    assert client.rename("/out/x", "/out/z") and client.delete("/out/z") and client.delete("/out/z")
    with pytest.raises(ValueError, match="there is no .*nothing to upload"):
        client.upload("/out", str(tmp_path / "nothing"))
    local = tmp_path / "local"
    assert client.download("/in/a", str(local)) and (local / "a").read_text() == "in/a"
    assert not client.download("/in/a", str(local)) and client.download("/in/a", str(local), overwrite=True)
    assert not client.download("/none", str(local))


def test_hdfs_makes_local_folders(client: HDFSClient, tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        client.make_local_dirs(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_hdfs_shares(client: HDFSClient, tmp_path: pathlib.Path) -> None:
    """Each trainer gets every second file; what comes back is as it was."""
    for trainer, names in enumerate((["a", "sub/c"], ["b", "sub/d"])):
        target = tmp_path / f"trainer{trainer}"
        found = multi_download(client, "/in", str(target), trainer, 2)
        assert found == [str(target / name) for name in names]
        assert [pathlib.Path(path).read_text() for path in found] == ["in/" + name for name in names]
    multi_upload(client, "/back", str(tmp_path / "hdfs" / "in"))
    assert client.lsr("/back") == ["/back/a", "/back/b", "/back/sub/c", "/back/sub/d"]
    with pytest.raises(ValueError, match="client is an HDFSClient, not a str"):
        multi_download("hdfs", "/in", str(tmp_path), 0, 1)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- tables on servers
def _trainer() -> tuple[fluid.Program, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        words = [fluid.data(name, [None, 1], "int64") for name in ("left", "right")]
        attr = fluid.ParamAttr(name="table")
        rows = [layers.embedding(ids, [10, 4], True, True, param_attr=attr) for ids in words]
        out = layers.fc(rows[0] + rows[1], 2)
        fluid.optimizer.SGD(0.1).minimize(layers.mean(out))
    transpiler = fluid.DistributeTranspiler()
    servers = "127.0.0.1:1,127.0.0.1:2"
    transpiler.transpile(
        0, program=main, startup_program=startup, pservers=servers, trainers=1, sync_mode=False
    )
    return transpiler.get_trainer_program(wait_port=False), out


def test_a_trainers_program_in_one_process(tmp_path: pathlib.Path) -> None:
    """Its table, saved by two servers in parts, is looked up at home."""
    program, out = _trainer()
    assert convert_dist_to_sparse_program(fluid.Program()) is None
    assert convert_dist_to_sparse_program(program) is program
    kinds = [op.type for op in program.global_block().ops]
    assert kinds[:2] == ["lookup_table", "lookup_table"] and "distributed_lookup_table" not in kinds
    assert not program.global_block().ops[0].attr("is_distributed")
    values = {
        "table": np.arange(40, dtype="float32").reshape(10, 4),
        "fc_0.w_0": np.ones((4, 2), "float32"),
        "fc_0.b_0": np.zeros(2, "float32"),
    }
    local = program._prune_with_input(["left", "right"], [out.name])
    _save(tmp_path, values)
    exe = fluid.Executor(fluid.CPUPlace())
    wanted = np.repeat([[values["table"][[3, 9]].sum()]], 2, axis=1)
    feed = {"left": np.array([[3]]), "right": np.array([[9]])}
    for load in (
        lambda: load_persistables_for_inference(str(tmp_path), exe, local, "table"),
        lambda: load_persistables_for_increment(
            str(tmp_path), exe, local, local.global_block().var("table"), str(tmp_path / "whole" / "table")
        ),
    ):
        with fluid.scope_guard(fluid.Scope()):
            load()
            np.testing.assert_allclose(exe.run(local, feed=feed, fetch_list=[out.name])[0], wanted)


def _save(folder: pathlib.Path, values: dict[str, Any]) -> None:
    """Files of the variables, the table in two parts and whole."""
    parts = {
        "__lookup_table__/table.block0": values["table"][:4],
        "__lookup_table__/table.block1": values["table"][4:],
    }
    for name, value in {**values, **parts, "whole/table": values["table"]}.items():
        path = folder / name
        if name == "table":
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        block = fluid.Program().global_block()
        block.create_var(name="x", shape=value.shape, dtype=str(value.dtype), persistable=True)
        block.append_op(type="save", inputs={"X": ["x"]}, attrs={"file_path": str(path)})
        scope = fluid.Scope()
        scope.var("x").get_tensor().set(value, fluid.CPUPlace())
        fluid.Executor(fluid.CPUPlace()).run(block.program, scope=scope)
