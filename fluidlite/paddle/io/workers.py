"""Processes that read samples: each makes every n-th batch, so that batches come in the same order with any
number of workers.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import itertools
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import sharedctypes
from typing import Any

import numpy as np

from fluidlite.base.errors import ReaderError
from fluidlite.base.records import dataclass

__all__ = ["Fetch", "WorkerInfo", "Workers", "get_worker_info"]

Fetch = Callable[
    [Any], Any
]  # a task, such as a list of indices -> a batch; StopIteration where a stream ends
_ENDED = "ended"  # the answer of a worker whose stream has come to its end; a batch is never a string


@dataclass(frozen=True)
class WorkerInfo:
    """A worker process: its number `id`, how many there are, and its copy of the data set."""

    id: int
    num_workers: int
    dataset: Any


@dataclass
class _ThisProcess:
    """The worker that this process is, if it is one."""

    info: WorkerInfo | None = None
    make_fetch: Callable[[Any], Fetch] | None = None
    fetch: Fetch | None = None


_this = _ThisProcess()


def get_worker_info() -> WorkerInfo | None:
    """The worker that this process is; None in a process that is none."""
    return _this.info


def _begin(
    info: WorkerInfo,
    pids: ctypes.Array[ctypes.c_int],
    seed: int,
    make_fetch: Callable[[Any], Fetch],
    init: Callable[[int], None] | None,
) -> None:
    """Make this process a worker. Its random numbers are its own: a copy of its parent's would repeat what
    the other workers draw.
    """
    _this.info, _this.make_fetch = info, make_fetch
    pids[info.id] = os.getpid()
    np.random.seed((seed + info.id) % 2**32)
    if init is not None:
        init(info.id)


def _work(task: Any) -> Any:
    assert _this.fetch is not None, "the process has already started"
    try:
        return _this.fetch(task)
    except StopIteration:
        return _ENDED


def _start() -> None:
    """Begin a pass in this worker."""
    assert _this.info is not None and _this.make_fetch is not None, "the process has already started"
    _this.fetch = _this.make_fetch(_this.info.dataset)


class Workers:
    """`count` processes, each an executor of its own: a task goes to a certain worker, and its error comes
    back with the worker's traceback.

    make_fetch: called in the worker with its copy of the data set at the start of a pass.
    init: called in each worker with its number.
    timeout: seconds to wait for a batch; 0 to wait for ever.
    """

    def __init__(
        self,
        count: int,
        dataset: Any,
        make_fetch: Callable[[Any], Fetch],
        init: Callable[[int], None] | None,
        timeout: float,
    ) -> None:
        # forked: the data set and its functions need not be pickled, and pages are shared
        context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
        seed = int(np.random.randint(0, 2**31))
        self.timeout = timeout or None
        # each worker writes its own, as the executors do not tell
        self.pids: ctypes.Array[ctypes.c_int] = sharedctypes.RawArray(ctypes.c_int, count)
        self.executors = [
            concurrent.futures.ProcessPoolExecutor(
                1, context, _begin, (WorkerInfo(number, count, dataset), self.pids, seed, make_fetch, init)
            )
            for number in range(count)
        ]

    def batches(self, tasks: Iterable[Any], ahead: int) -> Iterator[Any]:
        """The batches of `tasks` in order, of which each worker has up to `ahead` in work; a worker whose
        stream has ended gets no more.
        """
        for executor in self.executors:
            self._result(executor.submit(_start))
        left = iter(tasks)
        waiting: deque[tuple[Any, Any]] = deque()
        for executor, task in zip(itertools.cycle(self.executors), left, strict=False):
            waiting.append((executor, executor.submit(_work, task)))
            if len(waiting) == ahead * len(self.executors):
                break
        # the worker whose batch is taken gets the next task, so that turns stay as they were
        while waiting:
            executor, future = waiting.popleft()
            batch = self._result(future)
            if isinstance(batch, str) and batch == _ENDED:
                waiting = deque(pair for pair in waiting if pair[0] is not executor)
                continue
            for task in itertools.islice(left, 1):
                waiting.append((executor, executor.submit(_work, task)))
            yield batch

    def _result(self, future: concurrent.futures.Future[Any]) -> Any:
        try:
            return future.result(self.timeout)
        except concurrent.futures.TimeoutError:
            self._kill()
            raise ReaderError(
                f"a worker of the DataLoader has not returned a batch for {self.timeout} s"
            ) from None
        except BrokenProcessPool as error:
            raise ReaderError(
                "a worker of the DataLoader has exited without an error, or was killed"
            ) from error

    def _kill(self) -> None:
        """End the processes in the midst of their work: Python waits at its exit for those that are left,
        and one that gives no batch may never end.
        """
        for pid in filter(None, self.pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)

    def end(self) -> None:
        """End the processes; what they have in work is dropped."""
        for executor in self.executors:
            executor.shutdown(wait=False, cancel_futures=True)
