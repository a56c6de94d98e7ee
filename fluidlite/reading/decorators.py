"""Readers, functions without arguments that return an iterable of samples, and functions that make new
ones of them.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from fluidlite.ir.guarded import guarded
from fluidlite.reading.queues import prefetched

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "ComposeNotAligned",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "multiprocess_reader",
    "shuffle",
    "xmap_readers",
]

Reader: TypeAlias = "Callable[[], Iterable[Any]]"
# What a buffer of size 0 holds, which in Paddle has no bound
_UNBOUNDED = 1 << 30


class ComposeNotAligned(ValueError):
    """Composed readers do not all have the same number of samples."""


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list[Any]]]:
    """A reader of lists of `batch_size` samples; the last may be shorter unless `drop_last`."""
    batch_size = int(batch_size)
    if batch_size <= 0:
        raise ValueError(f"batch_size should be a positive integeral value, but got batch_size={batch_size}")

    def batches() -> Iterator[list[Any]]:
        samples = iter(reader())
        while group := list(itertools.islice(samples, batch_size)):
            if len(group) == batch_size or not drop_last:
                yield group

    return batches


def cache(reader: Reader) -> Callable[[], Iterator[Any]]:
    """A reader that keeps all samples in memory; it reads them at once."""
    samples = tuple(reader())
    return lambda: iter(samples)


def map_readers(func: Callable[..., Any], *readers: Reader) -> Callable[[], Iterator[Any]]:
    """A reader of `func(a, b, ...)` for samples a, b, ... of the readers, as long as the shortest."""
    return lambda: map(func, *(reader() for reader in readers))


def shuffle(reader: Reader, buf_size: int) -> Callable[[], Iterator[Any]]:
    """A reader that shuffles each `buf_size` samples among themselves with the module `random`, which a
    program may seed.
    """

    def shuffled() -> Iterator[Any]:
        samples = iter(reader())
        while group := list(itertools.islice(samples, max(1, buf_size))):
            random.shuffle(group)
            yield from group

    return shuffled


def chain(*readers: Reader) -> Callable[[], Iterator[Any]]:
    """A reader of the first reader's samples, then the second's, and so on."""
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


def compose(*readers: Reader, **kwargs: Any) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """A reader of flat tuples made of one sample of each; ComposeNotAligned for unequal ends unless
    `check_alignment=False`.
    """
    check_alignment = kwargs.pop("check_alignment", True)

    def composed() -> Iterator[tuple[Any, ...]]:
        sources = [iter(reader()) for reader in readers]
        end = object()
        for samples in itertools.zip_longest(*sources, fillvalue=end):
            if any(sample is end for sample in samples):
                if check_alignment:
                    raise ComposeNotAligned("outputs of readers are not aligned.")
                return
            yield tuple(
                part for sample in samples for part in (sample if isinstance(sample, tuple) else (sample,))
            )

    return composed


def buffered(reader: Reader, size: int) -> Callable[[], Iterator[Any]]:
    """A reader that a thread reads up to `size` samples ahead."""
    return lambda: prefetched(size if size > 0 else _UNBOUNDED, reader)


def firstn(reader: Reader, n: int) -> Callable[[], Iterator[Any]]:
    """A reader of the first `n` samples."""
    return lambda: itertools.islice(reader(), n)


def xmap_readers(
    mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False
) -> Callable[[], Iterator[Any]]:
    """A reader of `mapper(sample)`, computed by `process_num` threads up to `buffer_size` samples ahead.

    The samples keep their order with `order`, and come as they are ready without.
    """

    def mapped() -> Iterator[Any]:
        from concurrent.futures import ThreadPoolExecutor  # start-up time

        with ThreadPoolExecutor(process_num, thread_name_prefix="fluidlite-xmap") as pool:
            waiting: deque[Future[Any]] = deque()
            try:
                for sample in reader():
                    waiting.append(pool.submit(mapper, sample))
                    if len(waiting) >= max(1, buffer_size):
                        yield _next_result(waiting, order)
                while waiting:
                    yield _next_result(waiting, order)
            finally:
                for future in waiting:
                    # the consumer may break off: what has not begun need not be computed
                    future.cancel()

    return mapped


def _next_result(waiting: deque[Future[Any]], order: bool) -> Any:
    from concurrent.futures import FIRST_COMPLETED, wait  # start-up time

    if order:
        return waiting.popleft().result()
    done = next(iter(wait(waiting, return_when=FIRST_COMPLETED).done))
    waiting.remove(done)
    return done.result()


def multiprocess_reader(
    readers: list[Reader], use_pipe: bool = True, queue_size: int = 1000
) -> Callable[[], Iterator[Any]]:
    """A reader of the samples of all readers, as they come; ValueError for a sample that is None.

    Each reader runs in a thread of this process, not in a process as in Paddle, so samples may be of any type
    and `use_pipe` makes no difference.
    """
    if not isinstance(readers, list) or not readers:
        raise AssertionError(f"multiprocess_reader takes a list of at least one reader, not {readers!r}")

    def merged() -> Iterator[Any]:
        for sample in prefetched(queue_size, *readers):
            if sample is None:
                raise ValueError("sample has None")
            yield sample

    return merged


globals().update(guarded(__name__, __all__))
