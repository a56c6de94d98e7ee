"""Data sets: with a length and an index, or iterated over."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.abstract import abstract

__all__ = [
    "ChainDataset",
    "ComposeDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset:
    """A data set with a length: a subclass gives `__getitem__(index)`, which returns a sample, and
    `__len__`.
    """

    def __getitem__(self, idx: int) -> Any:
        abstract(f"'__getitem__' not implement in class {type(self).__name__}")

    def __len__(self) -> int:
        abstract(f"'__len__' not implement in class {type(self).__name__}")


class IterableDataset(Dataset):
    """A data set that is a stream: a subclass gives `__iter__`, which yields samples.

    In each worker process a copy is iterated over; `get_worker_info` says which part is its own.
    """

    def __iter__(self) -> Iterator[Any]:
        abstract(f"'__iter__' not implement in class {type(self).__name__}")

    def __getitem__(self, idx: int) -> Any:
        raise RuntimeError(f"'__getitem__' should not be called for IterableDataset {type(self).__name__}")

    def __len__(self) -> int:
        raise RuntimeError(f"'__len__' should not be called for IterableDataset {type(self).__name__}")


class TensorDataset(Dataset):
    """Arrays with one number of rows: a sample is a tuple of one row of each."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = tensors
        if len({len(tensor) for tensor in tensors}) != 1:
            raise AssertionError(
                f"tensors need one number of rows, but have {[len(each) for each in tensors]}"
            )

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(tensor[idx] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class ComposeDataset(Dataset):
    """Data sets of one length side by side: a sample has the fields of all."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = list(datasets)
        _check_indexed(self.datasets)
        if len({len(dataset) for dataset in self.datasets}) > 1:
            raise AssertionError("lengths of datasets should be same")

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(itertools.chain.from_iterable(_fields(dataset[idx]) for dataset in self.datasets))

    def __len__(self) -> int:
        return len(self.datasets[0])


def _fields(sample: Any) -> Sequence[Any]:
    return sample if isinstance(sample, (list, tuple)) else [sample]


def _check_indexed(datasets: Sequence[Any]) -> None:
    if not datasets:
        raise AssertionError("input datasets should not be empty")
    if any(isinstance(dataset, IterableDataset) for dataset in datasets):
        raise AssertionError("an IterableDataset has no length and no index")


class ChainDataset(IterableDataset):
    """Iterable data sets one after the other."""

    def __init__(self, datasets: Sequence[IterableDataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or not all(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError("ChainDataset only support paddle.io.IterableDataset")

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """Data sets one after the other, under one index. `cumulative_sizes` are the numbers of samples up to the
    end of each.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        _check_indexed(self.datasets)
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Dataset]) -> list[int]:
        """The numbers of samples up to the end of each data set."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __getitem__(self, idx: int) -> Any:
        place = idx + len(self) if idx < 0 else idx
        if not 0 <= place < len(self):
            raise ValueError(f"index {idx} is outside of {len(self)} samples")
        number = bisect.bisect_right(self.cumulative_sizes, place)
        return self.datasets[number][place - ([0, *self.cumulative_sizes][number])]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class Subset(Dataset):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[int], generator: Any = None) -> list[Subset]:
    """Subsets of `lengths` samples drawn without repetition, by `generator` (with a method `permutation`) or
    NumPy's global random numbers.
    """
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = (np.random if generator is None else generator).permutation(len(dataset)).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - length : end]) for length, end in zip(lengths, ends, strict=True)]
