"""Data sets of 2.x: settings, descriptions, shuffles between workers, training."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from fluidlite import paddle
from fluidlite.errors import ArgumentError, FluidError
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles

dist = paddle.distributed
# as 2.6.2 describes it
DESCRIPTION = """name: "{name}"
batch_size: 2
multi_slot_desc {{
  slots {{
    name: "x"
    type: "uint64"
    is_used: true
  }}
  slots {{
    name: "y"
    type: "float"
    is_dense: true
    is_used: true
    shape: -1
    shape: 1
  }}
}}
pipe_command: "cat"
"""


@pytest.fixture
def variables() -> list[Any]:
    return [paddle.static.data("x", [None, 1], "int64", lod_level=1), paddle.static.data("y", [None, 1])]


@pytest.fixture
def files(tmp_path: pathlib.Path) -> list[str]:
    """Two files of three samples: ids and a number."""
    for number in range(2):
        lines = "".join(f"2 {number + 1} {row + 5} 1 {number}.{row}\n" for row in range(3))
        (tmp_path / f"part-{number}").write_text(lines)
    return [str(tmp_path / f"part-{number}") for number in range(2)]


def numbers(dataset: Any) -> list[float]:
    return [value for batch in dataset.batches() for value in np.array(batch["y"]).reshape(-1).tolist()]


@pytest.mark.parametrize(
    "kind, name",
    [(dist.InMemoryDataset, "MultiSlotInMemoryDataFeed"), (dist.QueueDataset, "MultiSlotDataFeed")],
)
def test_descriptions(kind: Any, name: str, variables: list[Any]) -> None:
    dataset = kind()
    dataset.init(batch_size=2, thread_num=3, pipe_command="cat", use_var=variables)
    assert dataset.desc().startswith(DESCRIPTION.format(name=name))
    assert dataset.thread_num == 3
    dataset.init(batch_size=2, use_var=variables)  # once more: variables are not listed twice
    assert dataset.desc().startswith(DESCRIPTION.format(name=name)) and dataset.thread_num == 1


def test_settings(variables: list[Any]) -> None:
    dataset = dist.InMemoryDataset()
    dataset.init(use_var=variables, queue_num=3)
    dataset._init_distributed_settings(parse_ins_id=True, fea_eval=True)
    dataset.update_settings(batch_size=7, fleet_send_batch_size=5)
    assert dataset.proto_desc.batch_size == 7 and len(dataset.use_vars) == 2
    assert dataset.parse_ins_id and dataset.fea_eval and dataset.fleet_send_batch_size == 5
    with pytest.warns(UserWarning, match="no setting 'batch_sise'.*batch_size"):
        dataset.update_settings(batch_sise=7)
    with pytest.raises(ValueError, match="input_type is 2"):
        dataset.init(input_type=2)


def test_memory_and_shuffles(files: list[str], variables: list[Any]) -> None:
    dataset = dist.InMemoryDataset()
    dataset.init(batch_size=4, use_var=variables)
    dataset.set_filelist(files)
    dataset.load_into_memory()
    assert np.allclose(numbers(dataset), [0, 0.1, 0.2, 1, 1.1, 1.2])
    np.random.seed(3)
    dataset.local_shuffle()
    assert np.allclose(sorted(numbers(dataset)), [0, 0.1, 0.2, 1, 1.1, 1.2])
    assert numbers(dataset) != sorted(numbers(dataset)) and dataset.get_memory_data_size() == 6
    dataset.load_into_memory(is_shuffle=True)
    assert dataset.get_memory_data_size() == 6
    dataset.release_memory()
    assert dataset.get_memory_data_size() == 0


class Fleet:
    """Questions of a data set to 2.x's fleet, over the group of all ranks."""

    def __init__(self) -> None:
        self.util = self

    def worker_num(self) -> int:
        return dist.get_world_size()

    def worker_index(self) -> int:
        return dist.get_rank()

    def all_gather(self, value: Any, world: str) -> list[Any]:
        found: list[Any] = []
        dist.all_gather(found, value)
        return found

    def all_reduce(self, value: Any, mode: str, world: str) -> Any:
        total = np.array(value)
        dist.all_reduce(total)
        return total


def test_a_shuffle_between_workers(files: list[str], variables: list[Any]) -> None:
    def work(rank: int) -> Any:
        dist.init_parallel_env()
        dataset = dist.InMemoryDataset()
        dataset.init(batch_size=4, use_var=variables)
        dataset.set_filelist(files[rank : rank + 1])
        dataset.load_into_memory()
        before = numbers(dataset)
        dataset.global_shuffle(Fleet())
        sizes = dataset.get_shuffle_data_size(), dataset.get_shuffle_data_size(Fleet())
        return before, numbers(dataset), sizes, dataset.get_memory_data_size(Fleet())

    roles = [(f"rank{rank}", lambda rank=rank: work(rank)) for rank in range(2)]
    found = run_roles(LocalNetwork(), roles)
    mine, other = found["rank0"], found["rank1"]
    assert sorted(mine[1] + other[1]) == sorted(mine[0] + other[0]) and sorted(mine[1]) != mine[0]
    assert mine[2] == (3, 6) == other[2] and mine[3] == 6


def test_training(files: list[str], variables: list[Any]) -> None:
    ids, number = variables
    seen = paddle.static.nn.sequence_pool(paddle.static.nn.embedding(ids, [20, 4]), "sum")
    loss = paddle.mean(paddle.nn.functional.square_error_cost(paddle.static.nn.fc(seen, 1), number))
    paddle.optimizer.SGD(0.01).minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    dataset = dist.QueueDataset()
    dataset.init(batch_size=3, use_var=variables)
    dataset.set_filelist(files)
    weights = list(paddle.static.default_main_program().all_parameters())
    before = [np.array(paddle.static.global_scope().find_var(each.name).get_tensor()) for each in weights]
    exe.train_from_dataset(paddle.static.default_main_program(), dataset)
    after = [np.array(paddle.static.global_scope().find_var(each.name).get_tensor()) for each in weights]
    assert all((one != two).any() for one, two in zip(before, after, strict=True))


def test_a_malformed_line_names_file_and_line(tmp_path: pathlib.Path, variables: list[Any]) -> None:
    (tmp_path / "bad").write_text("1 5 1 0.5\n2 5 1 0.5\n")
    dataset = dist.QueueDataset()
    dataset.init(batch_size=1, use_var=variables)
    dataset.set_filelist([str(tmp_path / "bad")])
    with pytest.raises(FluidError, match=r"bad(.|\n)*line 2|bad:2"):
        numbers(dataset)


def test_entries() -> None:
    assert dist.CountFilterEntry(10)._to_attr() == "count_filter_entry:10"
    assert dist.ProbabilityEntry(0.5)._to_attr() == "probability_entry:0.5"
    assert dist.ShowClickEntry("s", "c")._to_attr() == "show_click_entry:s:c"
    for wrong in (
        lambda: dist.CountFilterEntry(-1),
        lambda: dist.CountFilterEntry(1.5),
        lambda: dist.ProbabilityEntry(2.0),
        lambda: dist.ProbabilityEntry(1),
        lambda: dist.ShowClickEntry(1, "c"),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_setters_of_fluid_have_private_names(files: list[str], variables: list[Any]) -> None:
    dataset = dist.InMemoryDataset()
    dataset.init(batch_size=3, use_var=variables, input_type=1)
    dataset._set_queue_num(2)
    dataset._set_batch_size(1)
    dataset._set_fea_eval(1000, True)
    dataset.set_date("20200101")
    dataset.set_filelist(files)
    dataset.load_into_memory()
    assert dataset.proto_desc.batch_size == 1
    with pytest.raises(AttributeError, match="_set_nothing|set_nothing"):
        dataset._set_nothing()
    with pytest.raises(ArgumentError, match="8 digits"):
        dataset.set_date("today")
    with pytest.raises(ArgumentError, match="input_type is 2"):
        dataset.update_settings(input_type=2)
