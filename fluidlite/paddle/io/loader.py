"""`paddle.io.DataLoader`: the batches of a data set, read ahead by a thread or by worker processes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite import reader as fluid_reader
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.paddle.io.datasets import IterableDataset
from fluidlite.paddle.io.samplers import BatchSampler
from fluidlite.paddle.io.workers import Fetch, Workers
from fluidlite.reading.queues import prefetched
from fluidlite.values.tensor import LoDTensor

__all__ = ["DataLoader", "default_collate_fn", "default_convert_fn"]


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Samples as a batch: numbers and arrays stacked, dicts and tuples by field, text as lists."""
    first = batch[0]
    if isinstance(first, np.ndarray):
        return np.stack(batch)
    if isinstance(first, (int, float, np.number, np.bool_)):
        return np.array(batch)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, dict):
        return {key: default_collate_fn([sample[key] for sample in batch]) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("fields number not same among samples")
        return [default_collate_fn(field) for field in zip(*batch, strict=True)]
    raise TypeError(
        "batch data can only contain: tensor, numpy.ndarray, dict, list, number, "
        f"but got {type(first).__name__}"
    )


def default_convert_fn(sample: Any) -> Any:
    """A sample as it is: what `batch_size=None` gives."""
    return sample


def _indexed(collate: Callable[[Any], Any] | None, dataset: Any) -> Fetch:
    """Batches of a data set with an index, from lists of indices; samples, where `collate` is None."""
    if collate is None:
        return lambda indices: dataset[indices[0]]
    return lambda indices: collate([dataset[index] for index in indices])


def _streamed(
    collate: Callable[[Any], Any] | None, batch_size: int | None, drop_last: bool, dataset: Any
) -> Fetch:
    """Batches of an iterable data set; StopIteration at its end."""
    samples = iter(dataset)

    def fetch(task: Any) -> Any:
        if collate is None:
            return next(samples)
        batch = [sample for _, sample in zip(range(batch_size or 1), samples, strict=False)]
        if not batch or (drop_last and len(batch) < (batch_size or 1)):
            raise StopIteration
        return collate(batch)

    return fetch


def _forever() -> Iterator[None]:
    """Tasks for streams, which end by themselves."""
    while True:
        yield None


class DataLoader:
    """An iterable over the batches of `dataset`; a pass begins with each `iter`.

    Parameters
    ----------
    feed_list, return_list: with `return_list=False` a batch is a list with a dict name -> LoDTensor for each
        of `places`, as `Executor.run` is fed; otherwise it is what `collate_fn` makes of the samples, with
        LoDTensors for arrays.
    batch_sampler, or batch_size, shuffle, drop_last: which samples make a batch. `batch_size=None` gives
        samples as they are.
    num_workers: processes that read, each every n-th batch; 0 for a thread of this process.
    prefetch_factor: batches that each worker reads ahead. persistent_workers: keep them for the next pass.
    timeout: seconds to wait for a worker's batch; 0 for ever. worker_init_fn: called in each with its number.

    ReaderError where a worker dies or lets wait too long; a data set's own errors come as they are.
    `use_buffer_reader` and `use_shared_memory` change nothing.
    """

    _workers: Workers | None = None  # where the constructor fails, too: the end of the object asks for them
    from_generator = staticmethod(fluid_reader.DataLoader.from_generator)
    from_dataset = staticmethod(fluid_reader.DataLoader.from_dataset)

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Any] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        if not return_list and feed_list is None:
            raise AssertionError("feed_list should be set when return_list=False")
        if num_workers < 0 or timeout < 0 or prefetch_factor < 1:
            raise AssertionError("num_workers, timeout and prefetch_factor should not be negative")
        self.dataset, self.return_list = dataset, return_list
        self.feed_list = list(feed_list or ())
        self.places = list(places) if isinstance(places, (list, tuple)) else [places]
        self.num_workers, self.prefetch_factor, self.timeout = num_workers, prefetch_factor, timeout
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.batch_size, self.drop_last = batch_size, drop_last
        self.batch_sampler = self._sampler(batch_sampler, shuffle)
        self.collate_fn = collate_fn or (default_collate_fn if self._batched else default_convert_fn)

    @property
    def _streams(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    @property
    def _batched(self) -> bool:
        return self.batch_size is not None or self.batch_sampler is not None

    def _sampler(self, given: Any, shuffle: bool) -> Any:
        """The lists of indices; None for a stream, which has none."""
        if self._streams:
            if shuffle:
                raise ValueError(f"IterableDataset not support shuffle, but got shuffle={shuffle}")
            if given is not None:
                raise ValueError("IterableDataset expect unspecified batch_sampler")
            return None
        if given is not None:
            if self.batch_size != 1 or shuffle or self.drop_last:
                raise AssertionError(
                    "batch_size/shuffle/drop_last should not be set when batch_sampler is given"
                )
            self.batch_size = None
            return given
        if self.batch_size is None:
            return None
        return BatchSampler(
            self.dataset, shuffle=shuffle, batch_size=self.batch_size, drop_last=self.drop_last
        )

    def __len__(self) -> int:
        if self._streams:
            raise ValueError("length of IterableDataset not supported")
        return len(self.dataset) if self.batch_sampler is None else len(self.batch_sampler)

    def __call__(self) -> Iterator[Any]:
        """The same as `iter`."""
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        batches = self._from_workers() if self.num_workers else self._from_thread()
        return map(_as_tensors, batches) if self.return_list else self._rounds(batches)

    def _make_fetch(self) -> Callable[[Any], Fetch]:
        collate = self.collate_fn if self._batched else None
        if self._streams:
            return functools.partial(_streamed, collate, self.batch_size, self.drop_last)
        return functools.partial(_indexed, collate)

    def _tasks(self) -> Iterator[Any]:
        if self._streams:
            return _forever()
        return iter(self.batch_sampler or ([index] for index in range(len(self.dataset))))

    def _from_thread(self) -> Iterator[Any]:
        make_fetch, dataset, tasks = self._make_fetch(), self.dataset, self._tasks

        def batches() -> Iterator[Any]:
            fetch = make_fetch(dataset)
            for task in tasks():
                try:
                    batch = fetch(task)
                except StopIteration:
                    return
                yield batch

        return prefetched(self.prefetch_factor * len(self.places), batches)

    def _from_workers(self) -> Iterator[Any]:
        if self._workers is None:
            self._workers = Workers(
                self.num_workers, self.dataset, self._make_fetch(), self.worker_init_fn, self.timeout
            )
        try:
            yield from self._workers.batches(self._tasks(), self.prefetch_factor)
        except BaseException:
            self._end_workers()  # they may be half through a pass
            raise
        if not self.persistent_workers:
            self._end_workers()

    def _end_workers(self) -> None:
        if self._workers is not None:
            self._workers.end()
        self._workers = None

    def __del__(self) -> None:
        self._end_workers()

    @short_tracebacks
    def _rounds(self, batches: Iterator[Any]) -> Iterator[Any]:
        """A dict for each place; the last round is left out where it has fewer batches than places."""
        names = [var.name for var in self.feed_list]
        group: list[Any] = []
        for batch in batches:
            group.append(dict(zip(names, map(_as_tensors, batch), strict=True)))
            if len(group) == len(self.places):
                yield group
                group = []


def _as_tensors(batch: Any) -> Any:
    """A batch with LoDTensors in place of its arrays."""
    if isinstance(batch, np.ndarray):
        return LoDTensor(batch)
    if isinstance(batch, dict):
        return {key: _as_tensors(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [_as_tensors(value) for value in batch]
    return batch
