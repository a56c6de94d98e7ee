"""Sparse tables on servers: jobs in every mode, and each op that cuts, merges or fetches rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from test_local_cluster import Trial, differences

import fluidlite as fluid
from fluidlite.communicator import Communicator
from fluidlite.executor.comm.background.merging import cut_rows, distinct
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.comm.server.tables import ChangedRows, add_rows
from fluidlite.transpiler.geo_sgd_transpiler import GeoSgdTranspiler
from fluidlite.values.tensor import SelectedRows

ROWS, VOCABULARY = 8, 40
SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


# ---------------------------------------------------------------------- programs
def word2vec() -> Any:
    """Four words tell the fifth; one table, looked up four times, with words that come more than once."""
    words = [fluid.data(f"word{index}", [None, 1], "int64") for index in range(5)]
    table = fluid.ParamAttr("table", initializer=fluid.initializer.Normal(0.0, 0.3, 7))
    found = [
        fluid.layers.embedding(word, [VOCABULARY, 8], is_sparse=True, param_attr=table) for word in words[:4]
    ]
    hidden = fluid.layers.fc(
        fluid.layers.concat(found, 1), 16, act="sigmoid", param_attr=fluid.ParamAttr("w")
    )
    guess = fluid.layers.fc(hidden, VOCABULARY, act="softmax", param_attr=fluid.ParamAttr("v"))
    return fluid.layers.mean(fluid.layers.cross_entropy(guess, words[4]))


def clicks() -> Any:
    """Two tables and dense features; bags of ids of any length in one of them."""
    dense, label = fluid.data("dense", [None, 5]), fluid.data("label", [None, 1], "int64")
    wide = fluid.layers.embedding(
        fluid.data("wide", [None, 3, 1], "int64"),
        [30, 1],
        is_sparse=True,
        param_attr=fluid.ParamAttr("wide_table"),
    )
    deep = fluid.layers.embedding(
        fluid.data("deep", [None, 1], "int64"),
        [25, 4],
        is_sparse=True,
        padding_idx=0,
        param_attr=fluid.ParamAttr("deep_table"),
    )
    hidden = fluid.layers.fc(fluid.layers.concat([dense, deep], 1), 8, act="relu")
    score = fluid.layers.fc(
        fluid.layers.concat([hidden, fluid.layers.reduce_sum(wide, dim=1)], 1), 2, act="softmax"
    )
    return fluid.layers.mean(fluid.layers.cross_entropy(score, label))


def word_batches(count: int = 6) -> list[dict[str, Any]]:
    random = np.random.RandomState(0)
    return [
        {f"word{index}": random.randint(0, VOCABULARY // 2, (ROWS, 1)) for index in range(5)}
        for _ in range(count)
    ]


def click_batches(count: int = 6) -> list[dict[str, Any]]:
    random = np.random.RandomState(1)
    return [
        {
            "dense": random.randn(ROWS, 5).astype("float32"),
            "label": random.randint(0, 2, (ROWS, 1)),
            "wide": random.randint(0, 30, (ROWS, 3, 1)),
            "deep": random.randint(0, 25, (ROWS, 1)),
        }
        for _ in range(count)
    ]


NETS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "word2vec": (word2vec, word_batches),
    "clicks": (clicks, click_batches),
}


class Sparse(Trial):
    """A sparse program trained by one process and by a job."""

    def __init__(self, name: str, optimizer: Callable[[], Any]) -> None:
        super().__init__(optimizer, NETS[name][0])
        self.feeds = NETS[name][1]()

    def tables(self, job: Any, found: dict[str, Any]) -> dict[str, Any]:
        """The tables that the servers hold in the end."""
        held = {**found["pserver0"], **found["pserver1"]}
        names = dict.fromkeys(piece.param for piece in job.slices if piece.sparse)
        return {
            name: np.concatenate([held[piece.param_name] for piece in job.slices if piece.param == name])
            for name in names
        }


# ---------------------------------------------------------------------- jobs
@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad"])
@pytest.mark.parametrize("name", NETS)
def test_trainers_in_step(name: str, optimizer: str) -> None:
    trial = Sparse(name, lambda: getattr(fluid.optimizer, optimizer)(0.1))
    wanted = trial.alone()
    job = trial.job("pserver", config=fluid.DistributeTranspilerConfig.make(min_block_size=20))
    found = trial.together(job)
    tables = trial.tables(job, found)
    assert set(tables) == {"word2vec": {"table"}, "clicks": {"wide_table", "deep_table"}}[name]
    assert max(differences(tables, {name: wanted[name] for name in tables}).values()) < 2e-5
    rest = {name: value for name, value in wanted.items() if name not in tables}
    assert max(differences(found["trainer0"], rest).values()) < 5e-5


class Alone(Sparse):
    """The job has one trainer, which then has the whole batch; `kind` says whether a communicator runs,
    and which.
    """

    def __init__(self, name: str, kind: int | None = None) -> None:
        super().__init__(name, lambda: fluid.optimizer.SGD(0.1))
        self.kind = kind

    def train(self, job: Any, number: int, feeds: list[dict[str, Any]]) -> dict[str, Any]:
        programs, scope, exe = job.trainer(number), fluid.Scope(), self.executor()
        settings = {"communicator_max_merge_var_num": 1, "communicator_independent_recv_thread": 0}
        helper = Communicator(programs.main, self.kind, None, settings) if self.kind is not None else None
        exe.run(programs.startup, scope=scope)
        if helper is not None:
            helper.start()
        for feed in feeds:
            exe.run(programs.main, feed=feed, fetch_list=[self.loss], scope=scope)
        exe.close()
        return self.values(scope)


@pytest.mark.parametrize("kind", [None, 1, 2], ids=["alone", "async", "half_async"])
@pytest.mark.parametrize("name", NETS)
def test_one_asynchronous_trainer_is_one_process(name: str, kind: int | None) -> None:
    from fluidlite.transpiler import make_job

    trial = Alone(name, kind)
    wanted = trial.alone()
    config = fluid.DistributeTranspilerConfig.make(
        sync_mode=False, runtime_split_send_recv=True, min_block_size=20, half_async=kind == 2
    )
    job = make_job(trial.main, trial.startup, "pserver", 1, sync_mode=False, config=config)
    found = trial.together(job)
    tables = trial.tables(job, found)
    assert max(differences(tables, {name: wanted[name] for name in tables}).values()) < 2e-5
    rest = {name: value for name, value in wanted.items() if name not in tables}
    assert max(differences(found["trainer0"], rest).values()) < 5e-5


@pytest.mark.parametrize("name", NETS)
def test_geo_moves_the_servers_as_it_moves_its_trainer(name: str) -> None:
    net, feeds = NETS[name]

    def programs() -> tuple[Any, Any, Any, Any]:
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = net()
            fluid.optimizer.SGD(0.1).minimize(loss)
            made = GeoSgdTranspiler(
                fluid.DistributeTranspilerConfig.make(sync_mode=False, geo_sgd_mode=True, min_block_size=20)
            )
            made.transpile(0, main, SERVERS, 1, False, startup)
        return made, main, startup, loss

    made, main, startup, loss = programs()
    names = list(made.vars_info)

    def train() -> dict[str, Any]:
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        helper = Communicator(main, 3, {"push_vars": made.vars_info, "trainers": 1, "push_nums": 3})
        helper.start()
        exe.run(startup, scope=scope)
        for feed in feeds():
            exe.run(main, feed=feed, fetch_list=[loss], scope=scope)
        exe.close()
        return {name: np.array(scope.find_var(name).get_tensor()) for name in names}

    def serve(endpoint: str) -> dict[str, Any]:
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        server, first = made.get_pserver_programs(endpoint)
        exe.run(first, scope=scope)
        start = {name: np.array(scope.find_var(name).get_tensor()) for name in scope.local_var_names()}
        exe.run(server, scope=scope)
        return {name: (start[name], np.array(scope.find_var(name).get_tensor())) for name in start}

    found = run_roles(
        LocalNetwork(),
        [
            ("trainer0", train),
            *(
                (f"server{index}", lambda endpoint=endpoint: serve(endpoint))
                for index, endpoint in enumerate(SERVERS.split(","))
            ),
        ],
    )
    held = {**found["server0"], **found["server1"]}
    for name, facts in made.vars_info.items():
        after = np.concatenate([held[piece][1] for piece in facts["var_names"]])
        before = np.concatenate([held[piece][0] for piece in facts["var_names"]])
        moved = np.abs(after - before).reshape(len(after), -1).max(1) > 0
        assert moved.any()
        np.testing.assert_allclose(found["trainer0"][name][moved], after[moved], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("padding", [None, 3])
def test_lookups_on_servers(padding: int | None) -> None:
    """No ids at all, ids that come again, ids at the ends of slices, padding; ids that the table does not
    have.
    """
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        values = fluid.initializer.NumpyArrayInitializer(np.arange(20, dtype="float32").reshape(10, 2))
        table = fluid.ParamAttr("table", initializer=values)
        rows = fluid.layers.embedding(ids, [10, 2], is_sparse=True, padding_idx=padding, param_attr=table)
        fluid.optimizer.SGD(0.0).minimize(fluid.layers.reduce_sum(rows))
        made = fluid.DistributeTranspiler(
            fluid.DistributeTranspilerConfig.make(min_block_size=4, sync_mode=False)
        )
        made.transpile(0, main, SERVERS, 1, False, startup)

    def train() -> None:
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(startup, scope=scope)
        for asked in ([], [9, 0, 9, 4, 5, 3], [3]):
            given = np.array(asked, "int64").reshape(-1, 1)
            found = exe.run(main, feed={"ids": given}, fetch_list=[rows], scope=scope)[0]
            wanted = np.arange(20, dtype="float32").reshape(10, 2)[given.ravel()]
            wanted[given.ravel() == (-1 if padding is None else padding)] = 0
            assert np.array_equal(found, wanted.reshape(found.shape))
        with pytest.raises(fluid.core.EnforceNotMet, match="id 10 is outside the table of 10 rows"):
            exe.run(main, feed={"ids": np.array([[10]])}, fetch_list=[rows], scope=scope)

    def serve(endpoint: str) -> None:
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        server, first = made.get_pserver_programs(endpoint)
        exe.run(first, scope=scope)
        exe.run(server, scope=scope)

    servers = [(endpoint, lambda endpoint=endpoint: serve(endpoint)) for endpoint in SERVERS.split(",")]
    run_roles(LocalNetwork(), [("trainer0", train), *servers])


def test_ids_are_looked_up_by_blocks_of_servers() -> None:
    """How programs before 1.8 fetched rows: ids to the server that they belong to, and what its block
    finds back.
    """
    endpoints = SERVERS.split(",")

    def server(number: int) -> fluid.Program:
        main = fluid.Program()
        block = main.global_block()
        block.create_var(name="table", shape=[6, 2], dtype="float32", persistable=True)
        block.create_var(name=f"part{number}", shape=[-1, 1], dtype="int64")
        inner = main._create_block(0)
        inner.create_var(name="found", shape=[-1, 2], dtype="float32")
        inner.append_op("lookup_sparse_table", {"W": "table", "Ids": f"part{number}"}, {"Out": "found"}, {})
        main.current_block_idx = 0
        block.append_op(
            "listen_and_serv",
            {},
            {},
            {
                "endpoint": endpoints[number],
                "Fanin": 1,
                "optimize_blocks": [inner],
                "prefetch_var_name_to_block_id": [f"part{number}:1"],
            },
        )
        return main

    def serve(number: int) -> None:
        scope = fluid.Scope()
        scope.var("table").get_tensor().set(
            np.arange(12, dtype="float32").reshape(6, 2) + 100 * number, fluid.CPUPlace()
        )
        fluid.Executor(fluid.CPUPlace()).run(server(number), scope=scope)

    def train() -> None:
        main, exe = fluid.Program(), fluid.Executor(fluid.CPUPlace())
        block = main.global_block()
        for number in range(2):
            block.create_var(name=f"part{number}", shape=[-1, 1], dtype="int64", is_data=True)
            block.create_var(name=f"rows{number}", shape=[-1, 2], dtype="float32")
        block.append_op(
            "prefetch", {"X": ["part0", "part1"]}, {"Out": ["rows0", "rows1"]}, {"epmap": endpoints}
        )
        found = exe.run(
            main,
            feed={"part0": np.array([[4], [2]]), "part1": np.array([[5]])},
            fetch_list=["rows0", "rows1"],
        )
        assert found[0].tolist() == [[8.0, 9.0], [4.0, 5.0]] and found[1].tolist() == [[110.0, 111.0]]

    run_roles(
        LocalNetwork(), [("trainer0", train), ("server0", lambda: serve(0)), ("server1", lambda: serve(1))]
    )


# ---------------------------------------------------------------------- rows
rows_of_a_table = st.integers(1, 30).flatmap(
    lambda height: st.tuples(
        st.just(height), arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(0, height - 1))
    )
)


@given(rows_of_a_table, st.integers(0, 30))
def test_rows_are_cut_where_the_sections_end(given: tuple[int, Any], where: int) -> None:
    height, ids = given
    sections = [min(where, height), height - min(where, height)]
    values = np.arange(2 * len(ids), dtype="float32").reshape(-1, 2)
    first, second = cut_rows(SelectedRows(ids, height, values), sections)
    below = ids < sections[0]
    assert first.rows() == ids[below].tolist() and second.rows() == (ids[~below] - sections[0]).tolist()
    assert np.array_equal(first.array, values[below]) and np.array_equal(second.array, values[~below])
    assert (first.height(), second.height()) == tuple(sections)


@given(rows_of_a_table)
def test_changes_add_up(given: tuple[int, Any]) -> None:
    height, ids = given
    table, wanted = np.zeros((height, 2), "float32"), np.zeros((height, 2), "float32")
    values = np.arange(2 * len(ids), dtype="float32").reshape(-1, 2)
    np.add.at(wanted, ids, values)
    add_rows(table, SelectedRows(ids, height, values))
    assert np.array_equal(table, wanted)


@given(rows_of_a_table, st.integers(0, 5000))
def test_rows_each_once(given: tuple[int, Any], more: int) -> None:
    height, ids = given
    assert (
        distinct([ids, ids[:3]], height + more).tolist() == sorted(set(ids.tolist()))
        and distinct([], height).tolist() == []
    )


def test_each_trainer_is_told_of_each_change_once() -> None:
    changes = ChangedRows(["table"], 2)
    changes.note("table", np.array([3, 1]), 7)
    assert changes.take("table", 0, 7).tolist() == [1, 3] and changes.take("table", 0, 7).tolist() == []
    for row in range(200):
        changes.note("table", np.array([row % 7]), 7)
    assert changes.take("table", 1, 7).tolist() == list(range(7)) and changes.take(
        "table", 0, 7
    ).tolist() == list(range(7))
    assert sum(len(rows) for rows in changes.rows["table"]) == 0


def run_op(
    type: str, inputs: dict[str, Any], outputs: dict[str, list[str]], attrs: dict[str, Any] | None = None
) -> list[Any]:
    """Outputs of an op that is given tensors and SelectedRows, by a program of its own."""
    main, scope, exe = fluid.Program(), fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    block, slots = main.global_block(), {}
    for slot, values in inputs.items():
        slots[slot] = [f"{slot}{index}" for index in range(len(values))]
        for name, value in zip(slots[slot], values, strict=True):
            rows = isinstance(value, SelectedRows)
            array = value.array if rows else value
            block.create_var(
                name=name,
                shape=array.shape,
                dtype=str(array.dtype),
                persistable=True,
                type=fluid.core.VarDesc.VarType.SELECTED_ROWS
                if rows
                else fluid.core.VarDesc.VarType.LOD_TENSOR,
            )
            if rows:
                scope.var(name).value = value
            else:
                scope.var(name).get_tensor().set(value, fluid.CPUPlace())
    kinds = {"split_selected_rows": fluid.core.VarDesc.VarType.SELECTED_ROWS}
    for names in outputs.values():
        for name in names:
            block.create_var(
                name=name,
                dtype="float32",
                persistable=True,
                type=kinds.get(type, fluid.core.VarDesc.VarType.LOD_TENSOR),
            )
    block.append_op(type, slots, outputs, attrs or {})
    exe.run(main, scope=scope)
    found = [scope.find_var(name).value for names in outputs.values() for name in names]
    return [value if isinstance(value, SelectedRows) else value.array for value in found]


def test_ids_go_to_the_servers_that_hold_them_and_rows_come_back() -> None:
    ids = [np.array([[7], [2], [7], [4]]), np.array([[1], [2]])]
    parts = run_op("split_ids", {"Ids": ids}, {"Out": ["a", "b", "c"]})
    assert [part.ravel().tolist() for part in parts] == [[], [1, 4, 7], [2]]
    table = np.arange(24, dtype="float32").reshape(8, 3)
    merged = run_op(
        "merge_ids",
        {"Ids": ids, "Rows": parts, "X": [table[part.ravel()] for part in parts]},
        {"Out": ["x", "y"]},
    )
    assert np.array_equal(merged[0], table[ids[0].ravel()]) and np.array_equal(
        merged[1], table[ids[1].ravel()]
    )


def test_a_sparse_gradient_in_pieces() -> None:
    rows = SelectedRows(np.array([5, 0, 4, 5]), 7, np.arange(8, dtype="float32").reshape(4, 2))
    first, second = run_op(
        "split_selected_rows", {"X": [rows]}, {"Out": ["a", "b"]}, {"height_sections": [4, 3]}
    )
    assert first.rows() == [0] and second.rows() == [1, 0, 1] and (first.height(), second.height()) == (4, 3)
    assert second.array.tolist() == [[0.0, 1.0], [4.0, 5.0], [6.0, 7.0]]


def test_the_value_that_a_trainer_knew() -> None:
    values = [np.full((2, 2), number, "float32") for number in range(3)]
    assert (
        run_op("ref_by_trainer_id", {"X": values, "TrainerId": [np.array([2])]}, {"Out": ["out"]})[0].tolist()
        == values[2].tolist()
    )
    with pytest.raises(fluid.core.EnforceNotMet, match="trainer 3 is not one of the 3 whose values are kept"):
        run_op("ref_by_trainer_id", {"X": values, "TrainerId": [np.array([3])]}, {"Out": ["out"]})


def test_rows_are_corrected_by_what_has_moved_since() -> None:
    known = np.arange(8, dtype="float32").reshape(4, 2)
    table = known + np.array([[1.0], [2.0], [3.0], [4.0]], "float32")
    rows = SelectedRows(np.array([2, 0, 2]), 4, np.array([[1.0, 0.0], [2.0, 1.0], [1.0, 1.0]], "float32"))
    found = run_op(
        "correct_delayed_rows", {"X": [rows], "Table": [table], "Known": [known]}, {"Out": ["out"]}
    )[0]
    merged = {0: np.array([2.0, 1.0]), 2: np.array([2.0, 1.0])}
    assert found.ids.tolist() == [0, 2] and found.height() == 4
    for place, (row, grad) in enumerate(merged.items()):
        moved = float(table[row, 0] - known[row, 0])
        np.testing.assert_allclose(found.array[place], grad + grad * grad * moved)


def test_rows_of_a_table_that_grows() -> None:
    """A new id gets the next row that nobody has; 1.8.5 ends where there is none."""

    def found(free: int, **attrs: bool) -> Any:
        rows = SelectedRows(np.array([5, 0, 4]), 7, np.arange(6 + 2 * free, dtype="float32").reshape(-1, 2))
        ids = np.array([[4], [5], [1]])
        return run_op("lookup_sparse_table", {"W": [rows], "Ids": [ids]}, {"Out": ["out"]}, attrs)[0]

    assert found(1).tolist() == [[4, 5], [0, 1], [6, 7]]
    assert found(0, is_test=True).tolist() == [[4, 5], [0, 1], [0, 0]]
    with pytest.raises(
        fluid.core.EnforceNotMet, match="there are 1 new ids, but only 0 free rows in a table of 3"
    ):
        found(0)


# ---------------------------------------------------------------------- large tables
def test_a_trainer_never_holds_the_table() -> None:
    """Ten million rows of 16 would take 640 MB: a trainer's programs are made and its startup runs in a
    small part of that.
    """
    code = """
import resource, json
import fluidlite as fluid
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ids = fluid.data("ids", [None, 1], "int64")
table = fluid.ParamAttr("table")
rows = fluid.layers.embedding(ids, [10_000_000, 16], is_sparse=True, is_distributed=True, param_attr=table)
fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(rows))
made = fluid.DistributeTranspiler()
made.transpile(0, pservers="127.0.0.1:1,127.0.0.1:2", trainers=2, sync_mode=False)
program, startup = made.get_trainer_program(wait_port=False), fluid.default_startup_program()
block = startup.global_block()
block.ops[:] = [op for op in block.ops if op.type not in ("recv", "fetch_barrier")]
fluid.Executor(fluid.CPUPlace()).run(startup)
held = fluid.global_scope().find_var("table").get_tensor()
print(json.dumps([held.shape(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]))
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    shape, grown = json.loads(found)
    assert shape == [10_000_000, 16] and grown < 100_000  # kilobytes
