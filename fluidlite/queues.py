"""Feeding programs from a thread: a bounded queue, the thread that fills it, and the reader that `read` ops take from."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fluidlite.dtypes import to_vartype
from fluidlite.errors import EOFException, FeedError, ReaderError
from fluidlite.registry import Spec
from fluidlite.tensor import LoDTensor

__all__ = ["BlockingQueue", "Filler", "QueueReader"]

# How long `Filler.stop` waits for the user's generator to come back from making an item
STOP_SECONDS = 60.0


class BlockingQueue:
    """A bounded queue with an end: `close` lets the consumer have what is left, then EOFException; `fail` an error."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"the capacity of a queue must be at least 1, not {capacity}")
        self.capacity = capacity
        self._items: deque[Any] = deque()
        self._changed = threading.Condition()
        self._open = False
        self._failure: BaseException | None = None

    def reopen(self) -> None:
        """Forget everything and take items."""
        with self._changed:
            self._items.clear()
            self._open, self._failure = True, None
            self._changed.notify_all()

    def push(self, item: Any) -> bool:
        """Add an item, waiting while the queue is full; False where it is closed, and the item is dropped."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open or len(self._items) < self.capacity)
            if self._open:
                self._items.append(item)
                self._changed.notify_all()
            return self._open

    def pop(self) -> Any:
        """The next item, waiting for it; EOFException at the end, ReaderError where the source has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or not self._open)
            if self._items:
                self._changed.notify_all()
                return self._items.popleft()
            if self._failure is not None:
                raise ReaderError(f"the data reader raised {type(self._failure).__name__}: {self._failure}") from self._failure
            raise EOFException("There is no next data: the reader has come to its end, or was not started (reader.start())")

    def close(self) -> None:
        """Take no more items."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Take no more items, and raise `error` in the consumer once it has had what is left."""
        with self._changed:
            if self._open:
                self._failure = error
            self._open = False
            self._changed.notify_all()

    def clear(self) -> None:
        """Close, and drop what is left."""
        with self._changed:
            self._items.clear()
            self._open, self._failure = False, None
            self._changed.notify_all()

    def size(self) -> int:
        """The number of items waiting."""
        return len(self._items)


class Filler:
    """A thread that puts what `source()` yields into a queue."""

    def __init__(self, queue: BlockingQueue, source: Callable[[], Iterable[Any]]) -> None:
        self.queue = queue
        self._thread = threading.Thread(target=_fill, args=(queue, source), name="fluidlite-reader", daemon=True)

    def start(self) -> None:
        """Open the queue and begin."""
        self.queue.reopen()
        self._thread.start()

    def stop(self) -> None:
        """Drop what is left and wait for the thread to end; ReaderError where the source does not come back."""
        self.queue.clear()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise ReaderError(f"the data reader has not come back for {STOP_SECONDS:.0f} s, and its thread cannot be ended")


def _fill(queue: BlockingQueue, source: Callable[[], Iterable[Any]]) -> None:
    """Body of the thread. It knows the queue and the source only, so that a loader can be collected while it runs."""
    items: Any = None
    try:
        items = iter(source())
        for item in items:
            if not queue.push(item):
                break
        if hasattr(items, "close"):
            items.close()
    except Exception as error:                                  # whatever the user's generator raises belongs to the consumer
        queue.fail(error)
    finally:
        queue.close()


class QueueReader:
    """What a variable of kind READER holds: the other end of a queue of batches.

    `specs` are the tensors of a batch; `checks` says for each whether its shape is held against the declared one.
    """

    def __init__(self, queue: BlockingQueue, specs: Sequence[Spec] = (), checks: Sequence[bool] = ()) -> None:
        self.queue, self.specs, self.checks = queue, specs, checks

    def read_next(self) -> list[LoDTensor]:
        """The next batch; EOFException at the end."""
        batch: list[LoDTensor] = self.queue.pop()
        if self.specs and len(batch) != len(self.specs):
            raise ReaderError(f"the data reader gave {len(batch)} tensors where {len(self.specs)} are declared")
        for number, (tensor, spec, check) in enumerate(zip(batch, self.specs, self.checks, strict=False)):
            if check:
                _check(tensor, spec, number)
        return batch


def _check(tensor: LoDTensor, spec: Spec, number: int) -> None:
    shape = tuple(tensor.shape())
    if len(shape) != len(spec.shape) or any(dim not in (-1, found) for dim, found in zip(spec.shape, shape, strict=False)):
        raise FeedError(f"tensor {number} of the data reader has shape {list(shape)}, and {list(spec.shape)} is declared")
    if to_vartype(tensor.array.dtype) != spec.dtype:
        raise FeedError(f"tensor {number} of the data reader has type {to_vartype(tensor.array.dtype)}, and {spec.dtype} is declared")
