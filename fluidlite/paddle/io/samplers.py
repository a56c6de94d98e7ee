"""Orders in which samples are read, and their batches.

Random ones draw from NumPy's global random numbers, which a program may seed, or from a generator that has
the methods of `numpy.random`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.abstract import abstract
from fluidlite.distributed.environment import roles_from_environment

__all__ = [
    "BatchSampler",
    "DistributedBatchSampler",
    "RandomSampler",
    "Sampler",
    "SequenceSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


class Sampler:
    """An order of samples: a subclass gives `__iter__`, which yields indices, or lists of them."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        abstract(f"'__iter__' not implement in class {type(self).__name__}")


class SequenceSampler(Sampler):
    """All samples, in order."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All samples in random order, or `num_samples` of them with `replacement`."""

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise TypeError(f"expect boolean value for replacement, but got replacement={replacement!r}")
        if num_samples is not None and not replacement:
            raise ValueError("num_samples should not be specified while replacement is False")
        if num_samples is not None and num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer, but got {num_samples}")
        self.replacement, self.generator = replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """Number of indices."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        random = np.random if self.generator is None else self.generator
        drawn = random.choice(np.arange(len(self.data_source)), self.num_samples, replace=self.replacement)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn with probabilities that are in proportion to `weights`."""

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True) -> None:
        super().__init__()
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer, but got {num_samples}")
        self.weights = np.asarray(weights, "float64").reshape(-1)
        if (self.weights < 0).any() or not self.weights.sum() > 0:
            raise ValueError("weights should not be negative, and at least one should be positive")
        if not replacement and num_samples > len(self.weights):
            raise ValueError(f"{num_samples} samples without replacement of only {len(self.weights)}")
        self.num_samples, self.replacement = num_samples, replacement

    def __iter__(self) -> Iterator[int]:
        share = self.weights / self.weights.sum()
        return iter(np.random.choice(len(share), self.num_samples, self.replacement, share).tolist())

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices, in random order."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if not len(indices):
            raise ValueError("The length of `indices` in SubsetRandomSampler should be greater than 0.")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[place] for place in np.random.permutation(len(self.indices)).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of `dataset`, or of those of `sampler`; the last may be shorter unless
    `drop_last`.
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset)
        if (dataset is None) == (sampler is None):
            raise AssertionError("either dataset or sampler should be set")
        if sampler is not None and shuffle:
            raise AssertionError("shuffle should be False when sampler is set")
        _check_size(batch_size)
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        group: list[int] = []
        for index in self.sampler:
            group.append(index)
            if len(group) == self.batch_size:
                yield group
                group = []
        if group and not self.drop_last:
            yield group

    def __len__(self) -> int:
        return _batches(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type]


def _check_size(batch_size: int) -> None:
    if not isinstance(batch_size, int) or batch_size <= 0:
        raise AssertionError(f"batch_size should be a positive integer, but got {batch_size}")


def _batches(samples: int, batch_size: int, drop_last: bool) -> int:
    return samples // batch_size if drop_last else math.ceil(samples / batch_size)


def _trainers_and_index() -> tuple[int, int]:
    """The number of trainers of this process's job, and which of them it is: as the variables of 2.x's
    launcher say, else as `mpirun` does.
    """
    if "PADDLE_TRAINERS_NUM" in os.environ:
        return int(os.environ["PADDLE_TRAINERS_NUM"]), int(os.environ.get("PADDLE_TRAINER_ID", "0"))
    role = roles_from_environment()
    return role.trainers, role.index


class DistributedBatchSampler(BatchSampler):
    """The batches of one of `num_replicas` trainers: all have the same number of samples, so that the first
    ones come twice where the data set does not come out even.

    num_replicas, rank: by default those of the job that this process belongs to. With `shuffle`, the order
    is drawn from the number of the epoch, which grows with each pass and which `set_epoch` sets.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        _check_size(batch_size)
        trainers, index = _trainers_and_index()
        self.dataset, self.data_source = dataset, dataset
        self.nranks = trainers if num_replicas is None else num_replicas
        self.local_rank = index if rank is None else rank
        if self.nranks <= 0 or not 0 <= self.local_rank < self.nranks:
            raise AssertionError(
                f"rank {self.local_rank} should be less than the number of replicas, {self.nranks}"
            )
        self.batch_size, self.shuffle, self.drop_last = batch_size, shuffle, drop_last
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next pass shuffles by."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(len(self.dataset))
        order = np.concatenate([order, order[: self.total_size - len(order)]])
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        mine = self._own(order).tolist()
        batches = [mine[start : start + self.batch_size] for start in range(0, len(mine), self.batch_size)]
        yield from (batch for batch in batches if len(batch) == self.batch_size or not self.drop_last)

    def _own(self, order: Any) -> Any:
        """This trainer's part: one batch of each round of `nranks`, and an equal share of what is left."""
        rounds = self.num_samples // self.batch_size
        whole = order[: rounds * self.batch_size * self.nranks].reshape(rounds, self.nranks, self.batch_size)
        rest = order[whole.size :].reshape(self.nranks, -1)
        return np.concatenate([whole[:, self.local_rank].reshape(-1), rest[self.local_rank]])

    def __len__(self) -> int:
        return _batches(self.num_samples, self.batch_size, self.drop_last)
