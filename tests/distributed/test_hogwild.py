"""`train_from_dataset` with several threads: they share the scope, each with batches of its own.

The loss is linear in the weights, so that gradients do not depend on them: whatever the order of the updates,
the weights lose the sum of all samples, which are whole numbers.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.communicator import Communicator
from fluidlite.errors import FormatError
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.transpiler.distribute_transpiler import DistributedMode

WIDTH, SERVERS = 3, "127.0.0.1:6174,127.0.0.1:6175"


@pytest.fixture
def files(tmp_path: pathlib.Path) -> tuple[list[str], Any]:
    """Five files of 1 to 17 samples, and all samples."""
    random = np.random.RandomState(0)
    parts = [random.randint(-9, 10, (4 * number + 1, WIDTH)) for number in range(5)]
    for number, part in enumerate(parts):
        (tmp_path / f"part{number}").write_text(
            "".join(f"{WIDTH} {' '.join(map(str, row))}\n" for row in part.tolist())
        )
    return [str(tmp_path / f"part{number}") for number in range(5)], np.concatenate(parts)


def network() -> Any:
    """The sum of x w over the batch, and a count of steps."""
    x = fluid.data("x", [None, WIDTH])
    steps = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True, name="steps")
    fluid.layers.increment(steps)
    zeros = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.0))
    return x, fluid.layers.reduce_sum(fluid.layers.fc(x, 1, param_attr=zeros, bias_attr=False))


def dataset(kind: str, paths: list[str], threads: int = 1) -> Any:
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var([fluid.default_main_program().global_block().var("x")])
    made.set_batch_size(2)
    made.set_thread(threads)
    made.set_filelist(paths)
    made.set_pipe_command("cat")
    if kind == "InMemoryDataset":
        made.load_into_memory()
    return made


def held(name: str) -> list[float]:
    return np.array(fluid.global_scope().find_var(name).get_tensor()).reshape(-1).tolist()


@pytest.fixture
def loss() -> Any:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        _, loss = network()
        fluid.optimizer.SGD(1.0).minimize(loss)
        yield loss


@pytest.mark.parametrize("naive", [False, True], ids=["plan", "naive"])
@pytest.mark.parametrize(
    ("kind", "threads", "of_dataset", "steps"),
    [
        ("QueueDataset", 1, 4, 23),  # 45 samples in batches of 2
        ("QueueDataset", 3, 1, None),
        ("QueueDataset", 9, 1, 25),  # a file for each thread
        ("QueueDataset", 0, 5, 25),
        ("InMemoryDataset", 2, 1, 23),  # 22 samples and 23
        ("InMemoryDataset", 100, 1, 45),
    ],
)
def test_every_sample_is_used_once(
    files: Any, loss: Any, kind: str, threads: int, of_dataset: int, steps: int | None, naive: bool
) -> None:
    paths, samples = files
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    exe.run(fluid.default_startup_program())
    made = dataset(kind, paths, of_dataset)
    for epoch in range(1, 3):
        exe.train_from_dataset(fluid.default_main_program(), made, thread=threads)
        assert held("w") == (-epoch * samples.sum(0)).tolist()
        taken = 23 if naive else steps  # the naive interpreter is the same in every run
        assert taken is None or held("steps") == [epoch * taken]


def test_only_the_first_thread_shows_what_is_fetched(
    files: Any, loss: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.infer_from_dataset(
        fluid.default_main_program(),
        dataset("InMemoryDataset", files[0]),
        thread=5,  # 9 samples each
        fetch_list=[loss],
        fetch_info=["loss is"],
        print_period=2,
    )
    assert capsys.readouterr().out.count("loss is\t") == 2


def test_an_error_in_one_thread_ends_all(files: Any, loss: Any, tmp_path: pathlib.Path) -> None:
    paths, _ = files
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    (tmp_path / "bad").write_text(f"{WIDTH} 1 2 3\n{WIDTH} 1 2\n")
    endless = [*paths, str(tmp_path / "bad"), *paths * 400]
    with pytest.raises(FormatError, match=r"bad, line 2: a field has to begin"):
        exe.train_from_dataset(fluid.default_main_program(), dataset("QueueDataset", endless), thread=3)
    assert held("steps")[0] < 500
    # what is wrong with a step is told as ever
    exe.run(fluid.default_startup_program())
    fluid.global_scope().find_var("w").get_tensor().set(np.zeros((2, 2), "float32"), fluid.CPUPlace())
    with pytest.raises(fluid.core.EnforceNotMet, match="mul"):
        exe.train_from_dataset(fluid.default_main_program(), dataset("QueueDataset", paths), thread=2)


# ---------------------------------------------------------------------- trainers of servers that do not wait
def transpiled(trainer: int, config: dict[str, Any]) -> tuple[Any, fluid.Program, fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        _, loss = network()
        fluid.optimizer.SGD(1.0).minimize(loss)
        made = fluid.DistributeTranspiler(fluid.DistributeTranspilerConfig.make(min_block_size=1, **config))
        made.transpile(trainer, main, SERVERS, 2, config["sync_mode"], startup)
    return made, main, startup


def serve(endpoint: str, config: dict[str, Any], jobs: Any) -> dict[str, Any]:
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    main, startup = jobs[0][0].get_pserver_programs(endpoint)
    exe.run(startup, scope=scope)
    exe.run(main, scope=scope)
    names = [name for name in main.global_block().vars if name in ("w", "w.block0", "w.block1")]
    return {name: np.array(scope.find_var(name).get_tensor()).reshape(-1) for name in names}


def train(number: int, jobs: Any, mode: Any, paths: list[str], threads: int) -> float:
    _, main, startup = jobs[number]
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    communicator = None if mode is None else Communicator(main, mode, {}, {})
    if communicator is not None:
        communicator.start()
    exe.run(startup, scope=scope)
    made = fluid.DatasetFactory().create_dataset("QueueDataset")
    made.set_use_var([main.global_block().var("x")])
    made.set_batch_size(2)
    made.set_filelist(paths[number::2])
    exe.train_from_dataset(main, made, scope=scope, thread=threads)
    if communicator is not None:
        communicator.stop()
    exe.close()
    return float(np.array(scope.find_var("steps").get_tensor())[0])


@pytest.mark.parametrize(
    ("mode", "config"),
    [
        (None, {"sync_mode": False}),
        (DistributedMode.ASYNC, {"sync_mode": False, "runtime_split_send_recv": True}),
        (
            DistributedMode.HALF_ASYNC,
            {"sync_mode": False, "runtime_split_send_recv": True, "half_async": True},
        ),
    ],
    ids=["ops", "async", "half_async"],
)
def test_trainers_that_do_not_wait(files: Any, mode: Any, config: dict[str, Any]) -> None:
    paths, samples = files
    jobs = [transpiled(number, config) for number in range(2)]
    roles: list[tuple[str, Callable[[], Any]]] = [
        (f"trainer{number}", lambda number=number: train(number, jobs, mode, paths, 2)) for number in range(2)
    ]
    roles += [
        (endpoint, lambda endpoint=endpoint: serve(endpoint, config, jobs)) for endpoint in SERVERS.split(",")
    ]
    found = run_roles(LocalNetwork(), roles)
    parts = {name: value for endpoint in SERVERS.split(",") for name, value in found[endpoint].items()}
    weights = np.concatenate([parts[name] for name in sorted(parts)])
    assert weights.tolist() == (-samples.sum(0)).tolist()
    # three files of 1, 9 and 17 samples, two of 5 and 13: whoever takes them, two threads see them all
    assert found["trainer0"] in (14, 15) and found["trainer1"] == 10


def test_steps_of_trainers_that_wait_are_taken_one_by_one(files: Any) -> None:
    paths, _ = files
    config = {"sync_mode": True}
    jobs = [transpiled(number, config) for number in range(2)]
    roles: list[tuple[str, Callable[[], Any]]] = [
        (f"trainer{number}", lambda number=number: train(number, jobs, None, paths, 2)) for number in range(2)
    ]
    roles += [
        (endpoint, lambda endpoint=endpoint: serve(endpoint, config, jobs)) for endpoint in SERVERS.split(",")
    ]
    found = run_roles(LocalNetwork(), roles)
    assert found["trainer0"] == 14 and found["trainer1"] == 9  # as one thread cuts 27 samples, and 18
