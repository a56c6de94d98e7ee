"""`paddle.io`: data sets, samplers, and loaders with threads or processes. The numbers are those of 2.6.2."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from waiting import until

import fluidlite as fluid
from fluidlite.base.errors import ReaderError
from fluidlite.paddle import io


class Numbers(io.Dataset):
    """n samples: two numbers and one."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __getitem__(self, idx: int) -> Any:
        return np.full(2, idx, "float32"), np.int64(idx)

    def __len__(self) -> int:
        return self.n


class Stream(io.IterableDataset):
    """Seven samples, with the number of the worker that reads them."""

    def __iter__(self) -> Iterator[Any]:
        info = io.get_worker_info()
        for i in range(7):
            yield np.full(2, i, "float32"), -1 if info is None else info.id


def ids(loader: Any) -> list[list[int]]:
    """The second field of each batch."""
    return [np.asarray(batch[1]).tolist() for batch in loader]


# ---------------------------------------------------------------------- batches
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_data_set(workers: int) -> None:
    loader = io.DataLoader(Numbers(5), batch_size=2, num_workers=workers)
    batches = list(loader)
    assert len(loader) == 3 and ids(batches) == [[0, 1], [2, 3], [4]]
    assert isinstance(batches[0][0], fluid.LoDTensor)
    assert np.asarray(batches[1][0]).tolist() == [[2, 2], [3, 3]]
    assert ids(io.DataLoader(Numbers(5), batch_size=2, drop_last=True, num_workers=workers)) == [
        [0, 1],
        [2, 3],
    ]
    assert ids(loader) == ids(loader()) == [[0, 1], [2, 3], [4]]


def test_batches_for_the_executor() -> None:
    with fluid.program_guard(fluid.Program()):
        x, y = fluid.data("x", [-1, 2]), fluid.data("y", [-1], "int64")
        total = fluid.layers.reduce_sum(x)
        loader = io.DataLoader(
            Numbers(3), [x, y], fluid.CPUPlace(), return_list=False, batch_size=2, num_workers=1
        )
        exe = fluid.Executor(fluid.CPUPlace())
        sums = [float(exe.run(feed=feed, fetch_list=[total])[0]) for feed in loader]
    assert sums == [2, 4]
    two = io.DataLoader(Numbers(6), [x, y], [fluid.CPUPlace()] * 2, return_list=False, batch_size=2)
    assert [[sorted(feed) for feed in feeds] for feeds in two] == [
        [["x", "y"], ["x", "y"]]
    ]  # one is left out


def test_streams() -> None:
    assert ids(io.DataLoader(Stream(), batch_size=3)) == [[-1] * 3, [-1] * 3, [-1]]
    assert ids(io.DataLoader(Stream(), batch_size=3, drop_last=True)) == [[-1] * 3, [-1] * 3]
    expected = [[0] * 3, [1] * 3, [0] * 3, [1] * 3, [0], [1]]
    assert ids(io.DataLoader(Stream(), batch_size=3, num_workers=2)) == expected
    with pytest.raises(ValueError, match="length of IterableDataset not supported"):
        len(io.DataLoader(Stream()))


class Uneven(io.IterableDataset):
    """As many samples as the number of the worker says."""

    def __iter__(self) -> Iterator[Any]:
        info = io.get_worker_info()
        assert info is not None and info.num_workers == 3 and isinstance(info.dataset, Uneven)
        return iter([(info.id, i) for i in range(3 * info.id)])


def test_a_stream_that_ends_early_in_one_worker() -> None:
    batches = [
        np.asarray(first).tolist() for first, _ in io.DataLoader(Uneven(), batch_size=2, num_workers=3)
    ]
    assert batches == [[1, 1], [2, 2], [1], [2, 2], [2, 2]]


def test_samples_without_batches() -> None:
    found = list(io.DataLoader(Numbers(2), batch_size=None))
    assert [np.asarray(x).tolist() for x, _ in found] == [[0, 0], [1, 1]] and len(found) == 2


def test_fields_of_all_kinds() -> None:
    class Fields(Numbers):
        def __getitem__(self, idx: int) -> Any:
            return {"a": np.float32(idx), "b": [np.zeros(2), f"s{idx}"], "c": 1.5 * idx}

    (batch,) = io.DataLoader(Fields(2), batch_size=2)
    assert np.asarray(batch["a"]).tolist() == [0, 1] and batch["b"][1] == ["s0", "s1"]
    assert np.asarray(batch["b"][0]).shape == (2, 2) and np.asarray(batch["c"]).dtype == np.float64

    class Wrong(Numbers):
        def __getitem__(self, idx: int) -> Any:
            return object()

    with pytest.raises(TypeError, match="but got object"):
        list(io.DataLoader(Wrong(2)))


def test_own_collation_and_sampler() -> None:
    loader = io.DataLoader(
        Numbers(4),
        batch_sampler=io.BatchSampler(sampler=[3, 1, 0], batch_size=2),
        collate_fn=lambda samples: [sum(int(number) for _, number in samples)],
        num_workers=2,
    )
    assert list(loader) == [[4], [0]] and len(loader) == 2


# ---------------------------------------------------------------------- workers
class Failing(Numbers):
    def __getitem__(self, idx: int) -> Any:
        if idx == 3:
            raise KeyError(f"sample {idx}")
        return super().__getitem__(idx)


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_the_data_set(workers: int) -> None:
    batches = iter(io.DataLoader(Failing(5), num_workers=workers))
    assert [np.asarray(next(batches)[1]).tolist() for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(KeyError, match="sample 3"):
        next(batches)


class Pids(Numbers):
    def __getitem__(self, idx: int) -> Any:
        return os.getpid(), int(np.random.randint(1 << 30))


def test_workers_that_stay_and_their_random_numbers() -> None:
    loader = io.DataLoader(Pids(4), num_workers=2, persistent_workers=True)
    first, second = ([(int(np.asarray(p)[0]), int(np.asarray(r)[0])) for p, r in loader] for _ in range(2))
    assert {pid for pid, _ in first} == {pid for pid, _ in second}
    assert len({pid for pid, _ in first}) == 2 and os.getpid() not in dict(first)
    assert len({number for _, number in first + second}) == 8  # no worker repeats another's


class Killed(Numbers):
    def __getitem__(self, idx: int) -> Any:
        if idx == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(idx)


def test_a_killed_worker_is_told() -> None:
    with pytest.raises(ReaderError, match="was killed"):
        list(io.DataLoader(Killed(3), num_workers=1))


class Stuck(Numbers):
    def __getitem__(self, idx: int) -> Any:
        time.sleep(1000)


def test_a_worker_that_lets_wait_is_ended() -> None:
    before = set(multiprocessing.active_children())
    loader = io.DataLoader(Stuck(2), num_workers=1, timeout=1, persistent_workers=True)
    with pytest.raises(ReaderError, match="not returned a batch for 1 s"):
        next(iter(loader))
    until(lambda: not set(multiprocessing.active_children()) - before)


def _seed(number: int) -> None:
    np.random.seed(100 + number)


def test_worker_init() -> None:
    drawn = [
        int(np.asarray(batch[1])[0]) for batch in io.DataLoader(Pids(2), num_workers=2, worker_init_fn=_seed)
    ]
    assert drawn == [int(np.random.RandomState(100 + number).randint(1 << 30)) for number in range(2)]


# ---------------------------------------------------------------------- samplers and data sets
def test_samplers() -> None:
    data = Numbers(6)
    assert list(io.SequenceSampler(data)) == list(range(6))
    assert sorted(io.RandomSampler(data)) == list(range(6))
    assert len(list(io.RandomSampler(data, True, 9))) == 9
    assert sorted(io.SubsetRandomSampler([3, 4, 5])) == [3, 4, 5]
    assert set(io.WeightedRandomSampler([0, 1, 1], 20)) == {1, 2}
    assert sorted(io.WeightedRandomSampler([1, 1, 0], 2, False)) == [0, 1]
    np.random.seed(3)
    first = list(io.BatchSampler(data, shuffle=True, batch_size=4))
    np.random.seed(3)
    assert first == list(io.BatchSampler(data, shuffle=True, batch_size=4))
    assert [len(batch) for batch in first] == [4, 2]
    assert list(io.RandomSampler(data, generator=np.random.RandomState(1))) == list(
        io.RandomSampler(data, generator=np.random.RandomState(1))
    )


def test_distributed_batches() -> None:
    parts = [list(io.DistributedBatchSampler(Numbers(7), 2, 3, rank)) for rank in range(3)]
    assert parts == [[[0, 1], [6]], [[2, 3], [0]], [[4, 5], [1]]]
    sampler = io.DistributedBatchSampler(Numbers(7), 2, 2, 0, shuffle=True, drop_last=True)
    sampler.set_epoch(3)
    assert (list(sampler), len(sampler), list(sampler)) == ([[5, 0], [3, 1]], 2, [[4, 0], [1, 5]])


def test_a_job_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    assert list(io.DistributedBatchSampler(Numbers(4), 1)) == [[1], [3]]


def test_data_sets_of_data_sets() -> None:
    joined = io.ConcatDataset([Numbers(2), Numbers(3)])
    assert [int(joined[i][1]) for i in (0, 1, 2, 4, -1)] == [0, 1, 0, 2, 2]
    assert joined.cumulative_sizes == [2, 5]
    assert [int(field) for field in io.ComposeDataset([Numbers(2), Numbers(2)])[1][1::2]] == [1, 1]
    assert sum(1 for _ in io.ChainDataset([Stream(), Stream()])) == 14
    assert int(io.Subset(Numbers(5), [3, 1])[0][1]) == 3
    rows = io.TensorDataset([np.arange(6).reshape(3, 2), np.arange(3)])
    assert (rows[1][0].tolist(), int(rows[1][1]), len(rows)) == ([2, 3], 1, 3)
    parts = io.random_split(Numbers(6), [4, 2])
    assert sorted([*parts[0].indices, *parts[1].indices]) == list(range(6))


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: io.Dataset()[0], NotImplementedError),
        (lambda: iter(io.IterableDataset()), NotImplementedError),
        (lambda: Stream()[0], RuntimeError),
        (lambda: len(Stream()), RuntimeError),
        (lambda: io.ComposeDataset([Numbers(2), Numbers(3)]), AssertionError),
        (lambda: io.ConcatDataset([]), AssertionError),
        (lambda: io.ConcatDataset([Numbers(2)])[2], ValueError),
        (lambda: io.ChainDataset([Numbers(2)]), AssertionError),
        (lambda: io.TensorDataset([np.zeros(2), np.zeros(3)]), AssertionError),
        (lambda: io.random_split(Numbers(3), [1, 1]), ValueError),
        (lambda: io.RandomSampler(Numbers(2), num_samples=0), ValueError),
        (lambda: io.RandomSampler(Numbers(2), 1), TypeError),
        (lambda: io.WeightedRandomSampler([1, -1], 1), ValueError),
        (lambda: io.SubsetRandomSampler([]), ValueError),
        (lambda: io.BatchSampler(), AssertionError),
        (lambda: io.BatchSampler(Numbers(2), batch_size=0), AssertionError),
        (lambda: io.DistributedBatchSampler(Numbers(2), 1, 2, 2), AssertionError),
        (lambda: io.DataLoader(Numbers(2), return_list=False), AssertionError),
        (lambda: io.DataLoader(Numbers(2), num_workers=-1), AssertionError),
        (lambda: io.DataLoader(Stream(), shuffle=True), ValueError),
        (lambda: io.DataLoader(Stream(), batch_sampler=[[0]]), ValueError),
        (lambda: io.DataLoader(Numbers(2), batch_sampler=[[0]], shuffle=True), AssertionError),
    ],
)
def test_wrong_use(wrong: Callable[[], object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        wrong()
