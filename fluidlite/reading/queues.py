"""Feeding programs from a thread: a bounded queue, the thread that fills it, and the reader that `read`
ops take from.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

from fluidlite.base.dtypes import to_vartype
from fluidlite.base.errors import EnforceNotMet, EOFException, FeedError, ReaderError
from fluidlite.base.forks import child_lock, in_child
from fluidlite.base.registry import Spec
from fluidlite.profiler import recorder
from fluidlite.values.tensor import LoDTensor

__all__ = ["BlockingQueue", "Feed", "Filler", "QueueReader", "drained", "prefetched"]

# How long `Filler.stop` waits for the user's generator to come back from making an item
STOP_SECONDS = 60.0


class BlockingQueue:
    """A bounded queue with an end: `close` lets the consumer have what is left, then EOFException; `fail`
    an error.

    A new one, and one that is `idle`, takes items that the user pushes by hand, but nobody waits for any
    before the first.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"the capacity of a queue must be at least 1, not {capacity}")
        self._capacity = capacity
        # not `queue.Queue`, which has no end and passes no error on
        self._items: deque[Any] = deque()
        self._changed = threading.Condition()
        self._open = True
        self._awaited = False
        self._killed = False
        self._failure: BaseException | None = None

    def renew(self) -> None:
        """Be open for use in the child of a fork, whichever thread of the parent was in it."""
        self._changed = threading.Condition()

    def reopen(self) -> None:
        """Forget everything and take items, of which the consumer waits for the first."""
        self.idle(awaited=True)

    def idle(self, awaited: bool = False) -> None:
        """Forget everything and take items."""
        with self._changed:
            self._items.clear()
            self._open = True
            self._killed = False
            self._awaited = awaited
            self._failure = None
            self._changed.notify_all()

    def push(self, item: Any) -> bool:
        """Add an item, waiting while the queue is full; False where it is closed, and the item is dropped.
        EnforceNotMet after `kill`.
        """
        with self._changed:
            self._refuse_killed()
            self._changed.wait_for(lambda: not self._open or len(self._items) < self._capacity)
            if self._open:
                self._items.append(item)
                self._awaited = True
                self._changed.notify_all()
            return self._open

    def pop(self) -> Any:
        """The next item, waiting for it; EOFException at the end, ReaderError where the source has failed."""
        with self._changed:
            recorder.timed("waiting", self._changed.wait_for)(
                lambda: self._items or not (self._open and self._awaited)
            )
            self._refuse_killed()
            if self._items:
                self._changed.notify_all()
                return self._items.popleft()
            if self._failure is not None:
                raise ReaderError(
                    f"the data reader raised {type(self._failure).__name__}: {self._failure}"
                ) from self._failure
            raise EOFException(
                "There is no next data: the reader has come to its end, or was not started (reader.start())"
            )

    def close(self) -> None:
        """Take no more items."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Take no more items, and raise `error` in the consumer once it has had what is left."""
        with self._changed:
            # after `close` nobody waits for more, and the error is of no interest
            if self._open:
                self._failure = error
            self._open = False
            self._changed.notify_all()

    def clear(self) -> None:
        """Close, and drop what is left."""
        with self._changed:
            self._items.clear()
            self._open = False
            self._failure = None
            self._changed.notify_all()

    def kill(self) -> None:
        """Close; whoever pushes or waits for an item gets EnforceNotMet from now on."""
        with self._changed:
            self._open = False
            self._killed = True
            self._changed.notify_all()

    def _refuse_killed(self) -> None:
        if self._killed:
            raise EnforceNotMet("Blocking queue is killed because the data reader raises an exception")

    def wait_for_inited(self, milliseconds: int) -> bool:
        """True: a queue is there as soon as it can be named."""
        return True

    def capacity(self) -> int:
        """The most items that may wait."""
        return self._capacity

    def size(self) -> int:
        """The number of items waiting."""
        # without the lock: a number that may be old the next moment anyway
        return len(self._items)


class Filler:
    """Threads, one a source, that put what `source()` yields into a queue; the last one to end closes it."""

    def __init__(self, queue: BlockingQueue, *sources: Callable[[], Iterable[Any]]) -> None:
        self.queue = queue
        _fillers.add(self)
        running = _Running(len(sources))
        self._threads = [
            # daemon: a generator that waits for ever must not keep the process from ending
            threading.Thread(
                target=_fill, args=(queue, source, running), name="fluidlite-reader", daemon=True
            )
            for source in sources
        ]

    def start(self) -> None:
        """Open the queue and begin."""
        self.queue.reopen()
        for thread in self._threads:
            thread.start()

    def forget(self) -> None:
        """Tell the consumer in the child of a fork that the threads have stayed in the parent."""
        self.queue.renew()
        if any(thread.ident is not None for thread in self._threads):
            self.queue.fail(
                ReaderError("this reader was started before the process was forked: start it in the child")
            )

    def stop(self) -> None:
        """Drop what is left and wait for the threads to end; ReaderError where a source does not come
        back.
        """
        self.queue.clear()
        for thread in self._threads:
            # the user's generator may stop its own loader, and its thread cannot wait for itself
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(STOP_SECONDS)
                if thread.is_alive():
                    raise ReaderError(
                        f"the data reader has not returned for {STOP_SECONDS:.0f} s, and its "
                        "thread cannot be stopped"
                    )


_fillers: WeakSet[Filler] = WeakSet()


@in_child
def _forget_fillers() -> None:
    for filler in _fillers:
        filler.forget()


class _Running:
    """The number of threads that still fill a queue."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = child_lock()

    def end(self) -> bool:
        """One fewer; whether it was the last."""
        with self._lock:
            self._count -= 1
            return self._count == 0


def _fill(queue: BlockingQueue, source: Callable[[], Iterable[Any]], running: _Running) -> None:
    """Body of a thread. It knows the queue and the source only, so that a loader can be collected while it
    runs.
    """
    try:
        items = iter(source())
        for item in items:
            if not queue.push(item):
                break
        # generators and files: their `finally` must run here, not when the collector comes by
        if hasattr(items, "close"):
            items.close()
    # whatever the user's generator raises belongs to the consumer
    except Exception as error:
        queue.fail(error)
    finally:
        if running.end():
            queue.close()


def drained(capacity: int, *sources: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """The items of the sources, made up to `capacity` items ahead by a thread each; ReaderError where one of
    them raises.
    """
    queue = BlockingQueue(capacity)
    filler = Filler(queue, *sources)
    filler.start()
    try:
        while True:
            yield queue.pop()
    except EOFException:
        return
    finally:
        # also when the consumer breaks off, so that no thread goes on reading
        filler.stop()


def prefetched(capacity: int, *sources: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """`drained`, but the sources' errors come as they are."""
    try:
        yield from drained(capacity, *sources)
    except ReaderError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None


class Feed:
    """The feeding end of a reader that `read` ops take from: `start` begins a pass over the data, `reset`
    ends it.
    """

    def __init__(self, capacity: int) -> None:
        self.queue = BlockingQueue(capacity)
        self.source: Callable[[], Iterable[Any]] | None = None
        self._filler: Filler | None = None

    def start(self) -> None:
        """Begin a pass; one that is running ends."""
        if self.source is None:
            raise ReaderError("the reader has no source of data: decorate it with a generator first")
        self.reset()
        self._filler = Filler(self.queue, self.source)
        self._filler.start()

    def reset(self) -> None:
        """End the pass and drop what was made ahead."""
        if self._filler is not None:
            self._filler.stop()
            self.queue.idle()
        self._filler = None


class QueueReader:
    """The value of a variable of kind READER: the other end of a queue of batches.

    `specs` are the tensors of a batch; `checks` says for each whether its shape is held against the declared
    one.
    """

    def __init__(self, queue: BlockingQueue, specs: Sequence[Spec] = (), checks: Sequence[bool] = ()) -> None:
        self.queue = queue
        self.specs = specs
        self.checks = checks

    def read_next(self) -> list[LoDTensor]:
        """The next batch; EOFException at the end."""
        batch: list[LoDTensor] = self.queue.pop()
        if self.specs and len(batch) != len(self.specs):
            raise ReaderError(
                f"the data reader gave {len(batch)} tensors where {len(self.specs)} are declared"
            )
        for number, (tensor, spec, check) in enumerate(zip(batch, self.specs, self.checks, strict=False)):
            if check:
                _check(tensor, spec, number)
        return batch


def _check(tensor: LoDTensor, spec: Spec, number: int) -> None:
    shape = tuple(tensor.shape())
    if len(shape) != len(spec.shape) or any(
        dim not in (-1, found) for dim, found in zip(spec.shape, shape, strict=False)
    ):
        raise FeedError(
            f"tensor {number} of the data reader has shape {list(shape)}, and {list(spec.shape)} is declared"
        )
    if to_vartype(tensor.array.dtype) != spec.dtype:
        raise FeedError(
            f"tensor {number} of the data reader has type {to_vartype(tensor.array.dtype)}, and {spec.dtype} "
            f"is declared"
        )
