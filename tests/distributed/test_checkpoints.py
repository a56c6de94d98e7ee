"""Checkpoints of jobs: what is saved, and that a job which goes on from one ends where it would have
ended.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.distributed import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from fluidlite.distributed.trial import communicator_of
from fluidlite.errors import ArgumentError, CommunicatorError, FormatError, MissingFileError
from fluidlite.executor.comm.local.network import LocalNetwork, run_roles
from fluidlite.executor.comm.server.state import decode_value
from fluidlite.transpiler import DistributeTranspilerConfig, Job, Role, make_job
from fluidlite.values.scope import Scope

STEPS, SAVED, BATCH = 5, 2, 8
Values = dict[str, Any]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": fluid.optimizer.SGD,
    "Momentum": lambda rate: fluid.optimizer.Momentum(rate, 0.9),
    "Adam": fluid.optimizer.Adam,
    "Adagrad": fluid.optimizer.Adagrad,
    "Adamax": fluid.optimizer.Adamax,
    "RMSProp": fluid.optimizer.RMSProp,
    "Adadelta": fluid.optimizer.Adadelta,
    "DecayedAdagrad": fluid.optimizer.DecayedAdagrad,
    "Ftrl": fluid.optimizer.Ftrl,
    "Lamb": fluid.optimizer.LambOptimizer,
    "Dpsgd": lambda rate: fluid.optimizer.Dpsgd(rate, clip=1.0, batch_size=8.0, sigma=0.1),
    "LarsMomentum": lambda rate: fluid.optimizer.LarsMomentum(rate, 0.9),
}


def net(optimizer: str = "Adam", sparse: bool = True) -> tuple[Any, Any, Any]:
    """Programs with everything that has a state: accumulators, a schedule, batch_norm, dropout, a table."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y, ids = (
            fluid.data("x", [None, 20]),
            fluid.data("y", [None, 1]),
            fluid.data("ids", [None, 1], "int64"),
        )
        rows = fluid.layers.embedding(ids, [40, 5], is_sparse=sparse, param_attr="table")
        hidden = fluid.layers.fc(x, 10, act="tanh", param_attr="w", bias_attr="b")
        hidden = fluid.layers.dropout(fluid.layers.batch_norm(hidden), 0.25)
        guess = fluid.layers.fc(fluid.layers.concat([hidden, rows], 1), 1, param_attr="v", bias_attr=False)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
        OPTIMIZERS[optimizer](fluid.layers.exponential_decay(0.1, 2, 0.9)).minimize(loss)
    return main, startup, loss


def job_of(
    mode: str = "pserver", servers: int = 2, optimizer: str = "Adam", trainers: int = 2, sync: bool = True
) -> Job:
    main, startup, _ = net(optimizer, sparse=mode == "pserver" and optimizer != "Dpsgd")
    config = DistributeTranspilerConfig()
    config.min_block_size = 20
    return make_job(main, startup, mode, trainers, servers, sync, config)


def feeds(index: int, trainers: int = 2) -> list[Values]:
    random = np.random.RandomState(7)
    whole = [
        {
            "x": random.randn(BATCH, 20).astype("float32"),
            "y": random.randn(BATCH, 1).astype("float32"),
            "ids": random.randint(0, 40, (BATCH, 1)),
        }
        for _ in range(STEPS)
    ]
    each = BATCH // trainers
    return [
        {name: value[index * each : (index + 1) * each] for name, value in batch.items()} for batch in whole
    ]


def state(scope: Scope, program: Any) -> Values:
    touched = {
        name
        for block in program.blocks
        for op in block.ops
        for name in (*op.input_arg_names, *op.output_arg_names)
    }
    return {
        var.name: np.array(held.value.array)
        for var in program.list_vars()
        if var.persistable
        and var.name in touched
        and (held := scope.find_var(var.name)) is not None
        and held.is_initialized()
        and isinstance(held.value, fluid.LoDTensor)
    }


def run(
    job: Job, folder: pathlib.Path, save_at: Sequence[int] = (), stop_at: int = STEPS
) -> dict[str, Values]:
    """Run a job in threads, from its newest checkpoint on; all variables of each role at the end."""

    def train(role: Role) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        communicator = (
            communicator_of(job, programs.main) if not job.sync_mode or job.mode == "geo_sgd" else None
        )
        if communicator is not None:
            communicator.start()
        exe.run(programs.startup, scope=scope)
        found = load_checkpoint(exe, folder, programs.main, scope)
        if job.mode not in ("pserver", "geo_sgd") and found is None:
            same_start(scope, programs.main)
        mine = feeds(role.index, job.trainers)
        for step in range(found.step if found else 0, stop_at):
            assert not found or found.reader_position == {"batch": found.step, "of": role.index}
            exe.run(programs.main, feed=mine[step], scope=scope)
            if step + 1 in save_at:
                save_checkpoint(
                    exe,
                    folder,
                    programs.main,
                    step + 1,
                    reader_position={"batch": step + 1, "of": role.index},
                    scope=scope,
                )
        exe.close()
        return state(scope, programs.main)

    def serve(role: Role) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        load_checkpoint(exe, folder, programs.main, scope)
        exe.run(programs.main, scope=scope)
        return state(scope, programs.main)

    def work(role: Role) -> Callable[[], Values]:
        return lambda: train(role) if role.kind == "trainer" else serve(role)

    return run_roles(LocalNetwork(), [(role.name, work(role)) for role in job.roles])


def same_start(scope: Scope, program: Any) -> None:
    random = np.random.RandomState(3)
    for var in sorted(program.all_parameters(), key=lambda var: var.name):
        scope.find_var(var.name).get_tensor().set(random.rand(*var.shape).astype("float32"), fluid.CPUPlace())


def same(first: Values, second: Values) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name]), name


def parts(job: Job, found: dict[str, Values]) -> Values:
    """All that the servers hold, put together."""
    whole: Values = {}
    known = job.programs(job.roles[-1]).main._parameters_on_pservers
    at = {role.endpoint: found[role.name] for role in job.roles if role.kind == "pserver"}
    for name, pieces in known.get_distributed_vars_by_vtypes(
        ("Param", "RemotePrefetch", "Optimizer"), groupby=True
    ).items():
        arrays = [
            at[piece.endpoint][piece.slice.name] for piece in sorted(pieces, key=lambda piece: piece.block_id)
        ]
        whole[name] = np.concatenate(arrays) if pieces[0].is_slice else arrays[0]
    return whole


# ---------------------------------------------------------------------- jobs that go on
@pytest.mark.parametrize("servers", [1, 2, 3])
def test_a_job_goes_on_with_any_number_of_servers(tmp_path: pathlib.Path, servers: int) -> None:
    job = job_of()
    wanted = run(job, tmp_path, [SAVED])
    again = job_of(servers=servers)
    found = run(again, tmp_path)
    same(parts(job, wanted), parts(again, found))
    for role in ("trainer0", "trainer1"):
        names = {name for name in wanted[role] if not name.startswith("table") and ".block" not in name}
        same({name: wanted[role][name] for name in names}, {name: found[role][name] for name in names})


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_each_optimizer_goes_on(tmp_path: pathlib.Path, optimizer: str) -> None:
    wanted = run(job_of(optimizer=optimizer), tmp_path, [SAVED])
    found = run(job_of(optimizer=optimizer), tmp_path)
    for role in wanted:
        same(wanted[role], found[role])


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd"])
def test_ranks_go_on(tmp_path: pathlib.Path, mode: str) -> None:
    wanted = run(job_of(mode), tmp_path, [SAVED])
    found = run(job_of(mode), tmp_path)
    for role in ("trainer0", "trainer1"):
        same(wanted[role], found[role])


def test_one_process_goes_on(tmp_path: pathlib.Path) -> None:
    ends = []
    for _ in range(2):
        main, startup, _ = net()
        scope, exe = Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(startup, scope=scope)
        found = load_checkpoint(exe, tmp_path, main, scope)
        for step in range(found.step if found else 0, STEPS):
            exe.run(main, feed=feeds(0, 1)[step], scope=scope)
            if step + 1 == SAVED and not found:
                save_checkpoint(exe, tmp_path, main, SAVED, scope=scope)
        ends.append(state(scope, main))
    same(*ends)


@pytest.mark.parametrize("mode", ["asynchronous", "geo_sgd"])
def test_trainers_that_do_not_wait_go_on_from_the_servers(tmp_path: pathlib.Path, mode: str) -> None:
    def job() -> Job:
        return (
            job_of(optimizer="SGD", sync=False)
            if mode == "asynchronous"
            else job_of("geo_sgd", optimizer="SGD")
        )

    run(job(), tmp_path, [SAVED], SAVED)
    found = run(job(), tmp_path, stop_at=SAVED)  # nothing more is done
    checkpoint = Checkpoint.open(latest_checkpoint(tmp_path) or "")
    for name, value in parts(job(), found).items():
        assert np.array_equal(whole(checkpoint, name), value)


def whole(checkpoint: Checkpoint, name: str) -> Any:
    return np.array(decode_value(checkpoint.read(f"variables/{name}"), name, False).array)


@pytest.mark.parametrize("half", [False, True])
def test_communicators_go_on(tmp_path: pathlib.Path, half: bool) -> None:
    def job() -> Job:
        main, startup, _ = net("SGD")
        config = DistributeTranspilerConfig.make(
            min_block_size=20, sync_mode=False, runtime_split_send_recv=True, half_async=half
        )
        return make_job(main, startup, "pserver", 2, 2, False, config)

    wanted, found = run(job(), tmp_path, [SAVED]), run(job(), tmp_path)
    counts = [name for name in wanted["pserver0"] if "COUNTER" in name]
    assert len(counts) == 3 and all(wanted["pserver0"][name] == found["pserver0"][name] for name in counts)
    assert found["pserver0"]["@LR_DECAY_COUNTER@.trainer_1"] == STEPS + 1  # one to begin with


def test_more_trainers_begin_with_what_the_first_had(tmp_path: pathlib.Path) -> None:
    wanted = run(job_of(), tmp_path, [SAVED], SAVED)
    job = job_of(trainers=4)

    def train(role: Role) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        found = load_checkpoint(exe, tmp_path, programs.main, scope)
        assert found is not None and (found.step, found.reader_position is None) == (SAVED, role.index > 1)
        exe.close()
        return state(scope, programs.main)

    def serve(role: Role) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        load_checkpoint(exe, tmp_path, programs.main, scope)
        exe.run(programs.main, scope=scope)
        return {}

    found = run_roles(
        LocalNetwork(),
        [
            (role.name, (lambda role=role: (train if role.kind == "trainer" else serve)(role)))
            for role in job.roles
        ],
    )
    same(
        found["trainer1"],
        {name: value for name, value in wanted["trainer1"].items() if name in found["trainer1"]},
    )
    same(
        found["trainer3"],
        {name: value for name, value in wanted["trainer0"].items() if name in found["trainer3"]},
    )
    assert not np.array_equal(wanted["trainer0"]["batch_norm_0.w_1"], wanted["trainer1"]["batch_norm_0.w_1"])


def test_a_single_process_reads_the_variables_of_a_job(tmp_path: pathlib.Path) -> None:
    job = job_of()
    wanted = run(job, tmp_path, [SAVED], SAVED)
    main, startup, _ = net()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(Scope()):
        exe.run(startup)
        fluid.io.load_persistables(exe, f"{latest_checkpoint(tmp_path)}/variables", main)
        found = state(fluid.global_scope(), main)
    for name, value in parts(job, wanted).items():
        assert np.array_equal(found[name], value), name
    assert found["@LR_DECAY_COUNTER@"] == SAVED - 1


def test_compiled_programs_of_several_trainers(tmp_path: pathlib.Path) -> None:
    """With one device each, and nothing random: the runtime gives the first one's statistics to all."""

    def train(number: int) -> Values:
        main, startup, loss = plain()
        scope, exe, build = Scope(), fluid.Executor(fluid.CPUPlace()), fluid.BuildStrategy()
        build.num_trainers, build.trainer_id = 2, number
        exe.run(startup, scope=scope)
        same_start(scope, main)
        compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name, build, places=[fluid.CPUPlace()])
        found = load_checkpoint(exe, tmp_path, compiled, scope)
        assert not found or found.reader_position == number
        for step in range(found.step if found else 0, STEPS):
            exe.run(compiled, feed=feeds(number)[step], fetch_list=[loss], scope=scope)
            if step + 1 == SAVED and not found:
                save_checkpoint(exe, tmp_path, compiled, SAVED, reader_position=number, scope=scope)
        return state(scope, main)

    ends = [
        run_roles(
            LocalNetwork(), [(f"trainer{number}", lambda number=number: train(number)) for number in range(2)]
        )
        for _ in range(2)
    ]
    for role in ("trainer0", "trainer1"):
        same(ends[0][role], ends[1][role])


def plain() -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 20]), fluid.data("y", [None, 1])
        fluid.data("ids", [None, 1], "int64")
        loss = fluid.layers.mean(
            fluid.layers.square_error_cost(fluid.layers.fc(fluid.layers.fc(x, 10, act="tanh"), 1), y)
        )
        fluid.optimizer.Adam(0.1).minimize(loss)
    return main, startup, loss


# ---------------------------------------------------------------------- who takes part
def trial(work: Callable[[Any, Any, Scope, int], None], trainers: int = 2) -> None:
    """Run one step in each trainer, then `work`."""
    job = job_of(trainers=trainers)

    def train(role: Role) -> None:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        exe.run(programs.main, feed=feeds(role.index, trainers)[0], scope=scope)
        work(exe, programs.main, scope, role.index)

    def serve(role: Role) -> None:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        exe.run(programs.main, scope=scope)

    run_roles(
        LocalNetwork(),
        [
            (role.name, (lambda role=role: (train if role.kind == "trainer" else serve)(role)))
            for role in job.roles
        ],
    )


def test_all_trainers_have_to_take_part(tmp_path: pathlib.Path) -> None:
    def work(exe: Any, main: Any, scope: Scope, index: int) -> None:
        if index == 0:
            save_checkpoint(exe, tmp_path, main, 1, scope=scope)
        else:
            exe.run(main, feed=feeds(index)[1], scope=scope)

    with pytest.raises(
        CommunicatorError, match="trainer 0 saves or loads a checkpoint .*, but trainer 1 ends a step"
    ):
        trial(work)


def test_trainers_have_to_save_the_same_step(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        CommunicatorError, match="do not save or load the same checkpoint: share step 0, share step 1"
    ):
        trial(
            lambda exe, main, scope, index: save_checkpoint(exe, tmp_path, main, index, scope=scope) and None
        )
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_an_error_everywhere(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    errors = {}

    def work(exe: Any, main: Any, scope: Scope, index: int) -> None:
        with pytest.raises((OSError, CommunicatorError)) as error:
            save_checkpoint(exe, tmp_path / "file", main, 1, scope=scope)
        errors[index] = error.value

    trial(work)
    assert isinstance(errors[0], OSError)
    assert "could not save the checkpoint" in str(errors[1])


def test_those_who_have_left_are_not_waited_for(tmp_path: pathlib.Path) -> None:
    def work(exe: Any, main: Any, scope: Scope, index: int) -> None:
        if index == 0:
            exe.close()
        else:
            save_checkpoint(exe, tmp_path, main, 1, scope=scope)

    trial(work)
    assert Checkpoint.open(latest_checkpoint(tmp_path) or "").facts["trainers"][0]["number"] == 1


def test_servers_have_to_load_what_trainers_load(tmp_path: pathlib.Path) -> None:
    run(job_of(), tmp_path, [SAVED], SAVED)
    with pytest.raises(
        CommunicatorError,
        match="has loaded no checkpoint, and this trainer should go on from .*step_00000002: call",
    ):
        trial(lambda exe, main, scope, index: load_checkpoint(exe, tmp_path, main, scope) and None)


def test_what_does_not_fit_changes_nothing(tmp_path: pathlib.Path) -> None:
    main, startup, _ = net()
    exe, scope = fluid.Executor(fluid.CPUPlace()), Scope()
    exe.run(startup, scope=scope)
    save_checkpoint(exe, tmp_path, main, 3, scope=scope)
    other, start = fluid.Program(), fluid.Program()
    with fluid.program_guard(other, start), fluid.unique_name.guard():
        fluid.layers.fc(fluid.data("x", [None, 20]), 11, param_attr="w", bias_attr="b")
        fluid.layers.fc(fluid.data("y", [None, 20]), 11, param_attr="strange", bias_attr=False)
    for program, error, text in (
        (other, RuntimeError, "w"),
        (prune_to(other, "strange"), FormatError, "holds no variable 'strange'"),
    ):
        scope = Scope()
        exe.run(start, scope=scope)
        before = state(scope, program)
        with pytest.raises(error, match=text):
            load_checkpoint(exe, tmp_path, program, scope)
        same(before, state(scope, program))


def prune_to(program: Any, name: str) -> Any:
    found = program.clone()
    for other in [var for var in found.list_vars() if var.persistable and var.name != name]:
        other.persistable = False
    return found


def test_arguments() -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    for wrong in ({"step": -1}, {"step": 1.5}, {"step": True}, {"max_num": 0}):
        with pytest.raises(ArgumentError):
            save_checkpoint(exe, "never", net()[0], **wrong)
    with pytest.raises(ArgumentError, match="saved by trainers"):
        save_checkpoint(exe, "never", job_of().server("127.0.0.1:6174").main)


# ---------------------------------------------------------------------- folders
def saved(folder: pathlib.Path, steps: Sequence[int], **options: Any) -> tuple[Any, Any, Scope]:
    main, startup, _ = net("SGD")
    exe, scope = fluid.Executor(fluid.CPUPlace()), Scope()
    exe.run(startup, scope=scope)
    for step in steps:
        save_checkpoint(exe, folder, main, step, scope=scope, **options)
    return exe, main, scope


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_old_checkpoints_go_when_the_new_one_is_there(tmp_path: pathlib.Path) -> None:
    for step in (5, 3):
        (tmp_path / f".step_{step:08d}.{step:032x}.tmp").mkdir()  # of a job that was killed
    (tmp_path / "notes.txt").write_text("mine")
    saved(tmp_path, [1, 2, 3], max_num=2)
    assert names(tmp_path) == ["notes.txt", "step_00000002", "step_00000003"]
    saved(tmp_path, [3], max_num=2)
    assert names(tmp_path) == ["notes.txt", "step_00000002", "step_00000003-1"]
    saved(tmp_path, [1], max_num=2)  # a job that has gone back
    assert names(tmp_path) == ["notes.txt", "step_00000001"]
    saved(tmp_path, [2, 3, 4, 5], max_num=None)
    assert len(names(tmp_path)) == 6


def test_the_last_sound_one_is_found(tmp_path: pathlib.Path) -> None:
    assert latest_checkpoint(tmp_path / "none") is None
    exe, main, scope = saved(tmp_path, [1, 2, 3])
    assert latest_checkpoint(tmp_path) == str(tmp_path / "step_00000003")
    (tmp_path / "step_00000003" / "MANIFEST").unlink()
    third = tmp_path / "step_00000002" / "variables" / "w"
    third.write_bytes(third.read_bytes()[:-1])
    assert latest_checkpoint(tmp_path) == str(tmp_path / "step_00000001")
    found = load_checkpoint(exe, tmp_path, main, scope)
    assert found is not None and found.step == 1
    with pytest.raises(
        FormatError, match="step_00000002/variables/w: the file has 825 bytes, and should have 826"
    ):
        load_checkpoint(exe, tmp_path / "step_00000002", main, scope)
    (tmp_path / "step_00000001" / "variables" / "b").unlink()
    with pytest.raises(FormatError, match="none of the checkpoints in .* can be used"):
        load_checkpoint(exe, tmp_path, main, scope)


@pytest.mark.parametrize("at", ["first file", "manifest", "rename"])
def test_a_process_that_dies_while_it_saves_leaves_the_last_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    exe, main, scope = saved(tmp_path, [1])
    before = latest_checkpoint(tmp_path)

    class Killed(BaseException):
        pass

    def killed(*arguments: Any) -> None:
        raise Killed

    where = {"first file": "_to_disk", "manifest": "_folder_to_disk", "rename": "os.rename"}[at]
    with monkeypatch.context() as patch:
        patch.setattr(f"fluidlite.distributed.checkpoint_files.{where}", killed)
        patch.setattr("fluidlite.distributed.checkpoint_files.Writer.abandon", lambda self: None)
        with pytest.raises(Killed):
            save_checkpoint(exe, tmp_path, main, 2, scope=scope)
    assert latest_checkpoint(tmp_path) == before and len(names(tmp_path)) == 2
    save_checkpoint(exe, tmp_path, main, 2, scope=scope)
    assert names(tmp_path) == ["step_00000001", "step_00000002"]


def test_a_changed_checkpoint_is_refused_or_loads_exactly(tmp_path: pathlib.Path) -> None:
    exe, main, scope = saved(tmp_path, [7])
    folder = tmp_path / "step_00000007"
    wanted, random = state(scope, main), np.random.RandomState(0)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    refused = 0
    for _ in range(2000):
        path = files[random.randint(len(files))]
        before = path.read_bytes()
        change(path, before, random)
        try:
            load_checkpoint(exe, folder, main, scope)
        except FormatError as error:
            assert path.name in str(error)
            refused += 1
        except MissingFileError as error:
            assert path.name in str(error)
            refused += 1
        path.write_bytes(before)
    same(wanted, state(scope, main))
    assert refused > 1900


def change(path: pathlib.Path, before: bytes, random: np.random.RandomState) -> None:
    """Change a file as disks and people do."""
    how, place = random.randint(5), random.randint(len(before))
    if how == 0:
        path.unlink()
    elif how == 1:
        path.write_bytes(before[:place])
    elif how == 2:
        path.write_bytes(before + random.bytes(1 + random.randint(9)))
    elif how == 3:
        path.write_bytes(before[:place] + random.bytes(1) + before[place + 1 :])
    else:
        path.write_bytes(before[:place] + random.bytes(random.randint(40)) + before[place:])


def test_a_manifest_with_the_right_hash_may_still_be_nonsense(tmp_path: pathlib.Path) -> None:
    exe, main, scope = saved(tmp_path, [7])
    manifest = tmp_path / "step_00000007" / "MANIFEST"
    facts = json.loads(manifest.read_bytes().partition(b"\n")[2])
    wanted = state(scope, main)
    for key, value in (
        ("files", 3),
        ("files", {"x": {}}),
        ("step", "a"),
        ("variables", [1]),
        ("variables", {"w": 7}),
        ("trainers", {"a": 1}),
        ("trainers", [{}]),
        ("servers", 4),
        ("variables", {"w": {"file": "../../x", "rows": 0}}),
        ("variables", {}),
        ("variables", {"w": {"file": [1], "rows": 0}}),
        ("trainers", [{"number": 0, "variables": [1]}]),
        ("trainers", [{"number": 0, "random": {"state": 1}}]),
        ("trainers", [{"number": 0, "random": 5}]),
    ):
        body = json.dumps({**facts, key: value}).encode()
        manifest.write_bytes(
            b"fluidlite checkpoint 1 sha256=" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        )
        with pytest.raises(FormatError):
            load_checkpoint(exe, tmp_path / "step_00000007", main, scope)
        same(wanted, state(scope, main))
