"""`DataLoader` and `PyReader`: batches from a generator, made ahead by a thread, for feeding or for `read`
ops.

An iterable loader yields what `Executor.run` is fed. One that is not puts a `read` op into the program:
`start()` begins a pass over the data, runs take batches until EOFException, `reset()` makes ready for the
next pass.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fluidlite.base.errors import ReaderError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import CPUPlace
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.data_feeder import DataFeeder
from fluidlite.dataloader import BatchSampler, Dataset, default_collate_fn
from fluidlite.dataset import DatasetBase
from fluidlite.framework import default_main_program
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.reading.decorators import batch as batched
from fluidlite.reading.queues import Feed, drained
from fluidlite.reading.variables import create_double_buffer, create_py_reader, queue_in_scope, reader_name
from fluidlite.values.tensor import LoDTensor

__all__ = ["DataLoader", "PyReader", "default_collate_fn"]

Batch: TypeAlias = "list[LoDTensor]"
SampleSource: TypeAlias = "Callable[[], Iterable[Any]]"


_keeps_order = [True]


def keep_data_loader_order(*args: bool) -> bool | None:
    """Without an argument, whether devices take batches in the order of the data; with one, a wish that it be
    so or not. Here they always do.
    """
    assert len(args) <= 1, f"keep_data_loader_order takes one argument, not {len(args)}"
    if not args:
        return _keeps_order[0]
    assert isinstance(args[0], bool), f"keep_data_loader_order takes True or False, not {args[0]!r}"
    _keeps_order[0] = args[0]
    return None


class DataLoaderBase:
    """The part that all loaders share: a loader is iterated over, called, or asked for its next batch."""

    iterable = True
    # a pass that `next` began, and the pass that `iter` gave last, which the loop over it holds
    _pass: Iterator[Any] | None = None
    _given: weakref.ref[Generator[Any, None, None]] | None = None

    def _batches(self) -> Generator[Any, None, None]:
        raise AssertionError("Data source of DataLoader has not set yet")

    def __iter__(self) -> Iterator[Any]:
        if not self.iterable:
            raise AssertionError("DataLoader is not iterable")
        found = self._batches()
        self._given = weakref.ref(found)
        return found

    def __call__(self) -> DataLoaderBase:
        return self

    def __next__(self) -> Any:
        if self._pass is None:
            running = self._given() if self._given is not None else None
            self._pass = iter(self) if running is None else running
        try:
            return next(self._pass)
        except BaseException:
            self._pass = None
            raise

    def _reset(self) -> None:
        """End the pass that runs; the next one begins with the first batch."""
        running = self._given() if self._given is not None else None
        self._pass = self._given = None
        if running is not None:
            running.close()

    def next(self) -> Any:
        """The next batch; StopIteration at the end of a pass, after which the next begins."""
        return next(self)

    @classmethod
    def _check_input_array(cls, item: Any) -> Any:
        """A field of a batch as an array; TypeError where its rows differ in length."""
        try:
            array = np.asarray(item)
        except ValueError:  # what newer NumPys say to rows of different lengths
            array = np.empty(0, object)
        if array.dtype == object:
            raise TypeError(
                "a field of a batch has rows of different lengths: give a LoDTensor "
                "(fluid.create_lod_tensor) or pad them"
            )
        return array


class GeneratorLoader(DataLoaderBase):
    """The loader that `DataLoader.from_generator` makes; see there."""

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        drop_last: bool = True,
    ) -> None:
        if not capacity:
            raise ValueError("Please give value to capacity.")
        if not feed_list:
            raise Exception("Feed list must be given under static mode.")
        self.feed_list = list(feed_list)
        self.capacity, self.iterable, self.return_list, self.drop_last = (
            int(capacity),
            iterable,
            return_list,
            drop_last,
        )
        self.places: list[Any] = []
        self.source: Callable[[], Iterable[Batch]] | None = None
        self._feed = Feed(self.capacity)
        if not iterable:
            self._append_read(default_main_program().current_block(), use_double_buffer)

    def _append_read(self, block: Block, use_double_buffer: bool) -> None:
        """The ops that make a reader and read a batch from it into the variables of `feed_list`."""
        queue = queue_in_scope(reader_name("lod_tensor_blocking_queue"), self._feed.queue)
        reader = create_py_reader(
            block,
            reader_name("create_py_reader"),
            queue,
            [var.spec for var in self.feed_list],
            [var.need_check_feed for var in self.feed_list],
        )
        buffered = reader_name("double_buffer")
        if use_double_buffer:
            reader = create_double_buffer(block, buffered, reader)
        block.append_op(
            type="read",
            inputs={"Reader": [reader]},
            outputs={"Out": self.feed_list},
            attrs={"drop_last": self.drop_last},
        )

    @property
    def queue(self) -> Any:
        """The queue that `read` ops take from."""
        return self._feed.queue

    # ------------------------------------------------------------------ iterating
    def _batches(self) -> Generator[Any, None, None]:
        if self.source is None:
            raise AssertionError("Data source of DataLoader has not set yet")
        return _rounds(
            drained(self.capacity, self.source),
            [var.name for var in self.feed_list],
            len(self.places),
            self.return_list,
            self.drop_last,
        )

    # ------------------------------------------------------------------ reading by ops
    def start(self) -> None:
        """Begin a pass over the data."""
        if self.iterable:
            raise AssertionError("start() cannot be called when DataLoader is iterable")
        self._feed.start()

    def reset(self) -> None:
        """End a pass over the data."""
        if self.iterable:
            raise AssertionError("reset() cannot be called when DataLoader is iterable")
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._feed.reset()

    # ------------------------------------------------------------------ sources
    def set_sample_generator(
        self, reader: SampleSource, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Take data from a generator of samples, each one value for each variable; they are put into
        batches here.
        """
        if batch_size <= 0:
            raise AssertionError("batch_size must be larger than 0")
        return self.set_sample_list_generator(
            batched(_as_rows(reader, len(self.feed_list)), batch_size, drop_last), places
        )

    def set_sample_list_generator(self, reader: SampleSource, places: Any = None) -> GeneratorLoader:
        """Take data from a generator of batches, each a list of samples."""
        feeder = DataFeeder(self.feed_list, CPUPlace())

        def tensors() -> Iterator[Batch]:
            for rows in reader():
                found = feeder.feed(rows)
                yield [found[name] for name in feeder.feed_names]

        return self._set(tensors, places)

    def set_batch_generator(self, reader: SampleSource, places: Any = None) -> GeneratorLoader:
        """Take data from a generator of batches, each one array or LoDTensor for each variable."""
        count = len(self.feed_list)

        def tensors() -> Iterator[Batch]:
            for arrays in reader():
                yield _as_tensors(arrays, count)

        return self._set(tensors, places)

    def _set(self, tensors: Callable[[], Iterable[Batch]], places: Any) -> GeneratorLoader:
        if self.iterable:
            if places is None:
                raise AssertionError("Places cannot be None when DataLoader is iterable")
            self.places = list(places) if isinstance(places, (list, tuple)) else [places]
        self.source = self._feed.source = tensors
        return self


def _as_rows(reader: SampleSource, count: int) -> SampleSource:
    """Samples of a single variable may come bare."""

    def rows() -> Iterator[Any]:
        for sample in reader():
            bare = count == 1 and (not isinstance(sample, (list, tuple)) or len(sample) != 1)
            yield (sample,) if bare else sample

    return rows


def _as_tensors(arrays: Any, count: int) -> Batch:
    """A batch as LoDTensors; ReaderError where it has not one for each variable."""
    if isinstance(arrays, (np.ndarray, LoDTensor)) and count == 1:
        arrays = [arrays]
    found = [item if isinstance(item, LoDTensor) else LoDTensor(np.array(item, order="C")) for item in arrays]
    if len(found) != count:
        raise ReaderError(
            f"a batch has {len(found)} fields where feed_list has {count} variables; pass a reader "
            "made by paddle.batch to set_sample_list_generator"
        )
    return found


@short_tracebacks
def _rounds(
    batches: Iterator[Batch], names: Sequence[str], places: int, return_list: bool, drop_last: bool
) -> Generator[Any, None, None]:
    """Batches in groups of one a device, as `Executor.run` is fed: dicts, or lists with `return_list`."""
    group: list[Any] = []
    for tensors in batches:
        group.append(tensors if return_list else dict(zip(names, tensors, strict=True)))
        if len(group) == places:
            yield group
            group = []
    if group and not drop_last:
        yield group


class DataLoader(DataLoaderBase):
    """A loader over a data set with a length and an index; `from_generator` makes one over a generator.

    Each batch is a list with a dict name -> LoDTensor for each of `places`, or with a list of tensors with
    `return_list`. Samples are read ahead by one thread, so `num_workers`, `use_shared_memory`, `timeout` and
    `worker_init_fn` change nothing.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Variable] | None = None,
        places: Any = None,
        return_list: bool = False,
        batch_sampler: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
    ) -> None:
        if not isinstance(dataset, Dataset) and not (
            hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        ):
            raise AssertionError("dataset should be subclass instance of paddle.io.Dataset")
        if feed_list is None and not return_list:
            raise AssertionError("feed_list should be set when return_list=False")
        if places is None:
            raise AssertionError("places cannot be None")
        if num_workers < 0:
            raise AssertionError("num_workers should be a non-negative value")
        self.dataset, self.return_list = dataset, return_list
        self.feed_list = list(feed_list or ())
        self.places = list(places) if isinstance(places, (list, tuple)) else [places]
        self.batch_sampler = (
            batch_sampler
            if batch_sampler is not None
            else BatchSampler(dataset, shuffle=shuffle, batch_size=batch_size, drop_last=drop_last)
        )
        self.collate_fn = collate_fn or default_collate_fn

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def _batches(self) -> Generator[Any, None, None]:
        dataset, collate, sampler = self.dataset, self.collate_fn, self.batch_sampler

        def tensors() -> Iterator[Batch]:
            for indices in sampler:
                arrays = collate([dataset[index] for index in indices])
                yield _as_tensors(arrays, len(self.feed_list) or len(arrays))

        return _rounds(
            drained(2 * len(self.places), tensors),
            [var.name for var in self.feed_list],
            len(self.places),
            self.return_list,
            drop_last=True,
        )

    @staticmethod
    def from_dataset(dataset: Any, places: Any, drop_last: bool = True) -> DatasetLoader:
        """A loader of the batches of a data set in files (`fluid.DatasetFactory`): lists with a dict for each
        of `places`. `drop_last` leaves out those that are not full.
        """
        return DatasetLoader(dataset, places, drop_last)

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader of batches for the variables `feed_list`, made up to `capacity` ahead by a thread.

        Parameters
        ----------
        iterable: True for a loader that is iterated over, False for one that a `read` op reads, which is
            appended to the main program now.
        return_list: an iterable loader yields lists of tensors in place of dicts.
        drop_last: leave out the last batches where they are fewer than the devices.

        `use_double_buffer` and `use_multiprocess` change nothing but the ops: a thread makes the batches in
        any case.
        """
        return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)


class DatasetLoader(DataLoaderBase):
    """The loader of `DataLoader.from_dataset`; AssertionError unless it is a data set."""

    def __init__(self, dataset: Any, places: Any, drop_last: bool) -> None:
        assert isinstance(dataset, DatasetBase), "dataset must be type of DatasetBase"
        self.dataset, self.drop_last = dataset, drop_last
        self.places = list(places) if isinstance(places, (list, tuple)) else [places]

    def _batches(self) -> Generator[Any, None, None]:
        self.dataset._prepare_to_run()
        yield from self.dataset.groups(len(self.places), self.drop_last)


class PyReader(DataLoaderBase):
    """The older name of `DataLoader.from_generator`, with `decorate_*` for `set_*`."""

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        self._loader = GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list)
        self.iterable = iterable

    @property
    def queue(self) -> Any:
        """The queue that `read` ops take from."""
        return self._loader.queue

    def _batches(self) -> Generator[Any, None, None]:
        return self._loader._batches()

    def start(self) -> None:
        """Begin a pass over the data."""
        self._loader.start()

    def reset(self) -> None:
        """End a pass over the data."""
        self._loader.reset()

    def _reset(self) -> None:
        super()._reset()
        self._loader._reset()

    def decorate_sample_generator(
        self, sample_generator: SampleSource, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> None:
        """Take data from a generator of samples; see `GeneratorLoader.set_sample_generator`."""
        self._loader.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: SampleSource, places: Any = None) -> None:
        """Take data from a generator of lists of samples."""
        self._loader.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: SampleSource, places: Any = None) -> None:
        """Take data from a generator of batches."""
        self._loader.set_batch_generator(reader, places)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
