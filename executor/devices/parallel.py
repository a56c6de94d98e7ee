"""Running a program on several devices of one process: a thread, a scope and plans for each of them."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError, EOFException, FluidError
from fluidlite.base.forks import child_lock
from fluidlite.base.mpi_start import under_mpi
from fluidlite.base.place import CUDAPlace, Place
from fluidlite.base.process import blas_switch
from fluidlite.executor.comm.session import Session, current, use
from fluidlite.executor.comm.transports import process_session
from fluidlite.executor.devices.ring import DeviceBarrier, DeviceSession, Stopped
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope

__all__ = ["Devices", "Threads"]

Task = Callable[[int], None]
JOIN_SECONDS = 10.0


def _work(index: int, inbox: queue.SimpleQueue[Task | None], done: queue.SimpleQueue[int]) -> None:
    """Body of a thread: it knows its two queues only, so that its devices can be collected while it waits."""
    with np.errstate(all="ignore"):
        while (task := inbox.get()) is not None:
            task(index)
            # the thread would keep the task, and with it feeds and results, until the next one comes
            del task
            done.put(index)


def _end(inboxes: Sequence[queue.SimpleQueue[Task | None]]) -> None:
    for inbox in inboxes:
        inbox.put(None)


class Threads:
    """`threads(task)` runs task(0) here and task(1) ... task(count - 1) on standing threads, and returns when
    all are done.

    Tasks raise nothing. The threads end with `close`, or when this object is collected.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._process = -1
        # started at the first run, so that a program that is only compiled has none
        self._threads: list[threading.Thread] = []

    def _start(self) -> None:
        """Start the threads; in a forked process, which has none of its parent's, again."""
        self._inboxes: list[queue.SimpleQueue[Task | None]] = [
            queue.SimpleQueue() for _ in range(self.count - 1)
        ]
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(
                target=_work,
                args=(index + 1, inbox, self._done),
                daemon=True,
                name=f"fluidlite-device-{index + 1}",
            )
            for index, inbox in enumerate(self._inboxes)
        ]
        for thread in self._threads:
            thread.start()
        self._ending = weakref.finalize(self, _end, self._inboxes)
        self._process = os.getpid()

    def __call__(self, task: Task, stop: Callable[[], None]) -> None:
        """Run `task` for every number; `stop` is called when the user interrupts the wait for the others."""
        if self._process != os.getpid():
            self._start()
        for inbox in self._inboxes:
            inbox.put(task)
        task(0)
        interrupted: KeyboardInterrupt | None = None
        for _ in self._inboxes:
            try:
                self._done.get()
            except KeyboardInterrupt as error:
                interrupted = error
                stop()
                # the interrupted wait still has its answer to come
                self._done.get()
        if interrupted is not None:
            raise interrupted

    def close(self) -> None:
        """End the threads."""
        if self._process == os.getpid():
            self._ending()
            for thread in self._threads:
                thread.join(JOIN_SECONDS)
        self._process = -1
        self._threads = []


class Devices:
    """The devices that a program runs on, each with a scope of its own; device 0's is (or shows) the user's.

    What is persistable and not in a device's own scope is shared by all.
    """

    def __init__(
        self, places: Sequence[Place], scopes: Sequence[Scope], seconds: float | None = None
    ) -> None:
        self.places = list(places)
        self.scopes = list(scopes)
        limit = (
            flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"] / 1000.0
            if seconds is None
            else seconds
        )
        self.together = DeviceBarrier(len(places), limit)
        self.threads = Threads(len(places))
        # the devices are the threads
        self.executors = [Executor._of_threads(place, 1 if len(places) > 1 else None) for place in places]
        self._sessions: tuple[Session | None, list[DeviceSession]] | None = None
        self._busy = child_lock()

    def sessions(self) -> list[DeviceSession]:
        """The connections of each device, beyond which lie those of the calling thread or process."""
        outer = current() or (process_session(needs_servers=False) if under_mpi() else None)
        if self._sessions is None or self._sessions[0] is not outer:
            self._sessions = (
                outer,
                [DeviceSession(self.together, index, outer) for index in range(len(self.places))],
            )
        return self._sessions[1]

    def run(
        self,
        programs: Sequence[Program],
        feeds: Sequence[Mapping[str, Any]],
        fetches: Sequence[list[str]],
        naive: bool = False,
    ) -> list[list[Any]]:
        """Device i runs programs[i] with feeds[i], for as many devices as there are feeds; fetches[i] as
        LoDTensors.

        The first error of a device stops all of them, and is raised with the number of that device.
        """

        def step(index: int) -> list[Any]:
            executor = self.executors[index]
            executor.naive = naive
            return executor._run(
                programs[index], dict(feeds[index]), fetches[index], self.scopes[index], False
            )

        return self.each(step, len(feeds))

    def each(self, work: Callable[[int], Any], count: int | None = None) -> list[Any]:
        """work(i) in the thread of each of the first `count` devices; their results."""
        count = len(self.places) if count is None else count
        results: list[Any] = [None] * count
        errors: list[tuple[int, BaseException]] = []
        with self._busy:
            sessions = self.sessions()

            def task(index: int) -> None:
                if index >= count:
                    return
                try:
                    with use(sessions[index]), self._device(index):
                        results[index] = work(index)
                        sessions[index].finish()
                except BaseException as error:  # raised below, in the caller's thread
                    errors.append((index, error))
                    self.together.stop()

            # BLAS uses the threads that call it and no others: where there are several devices, they are
            switch = blas_switch() if len(self.places) > 1 else None
            with switch or contextlib.nullcontext():
                self.threads(task, self.together.stop)
            if errors:
                self.together.clear()
                self._sessions = None
        if errors:
            raise self._first(errors)
        return results

    def _device(self, index: int) -> Any:
        """A context in which a CUDA device is the one that a thread works on."""
        place = self.places[index]
        return (
            self.executors[index].xp.cuda.Device(place.device_id)
            if isinstance(place, CUDAPlace)
            else contextlib.nullcontext()
        )

    def _first(self, errors: list[tuple[int, BaseException]]) -> BaseException:
        """The error that stopped the others, with its device."""
        # devices that were merely stopped come last: their errors say nothing about the cause
        index, error = min(errors, key=lambda item: (isinstance(item[1], Stopped), item[0]))
        if isinstance(error, FluidError) and not isinstance(error, EOFException) and len(self.places) > 1:
            error.args = (f"{error}\n  on device {index} of {len(self.places)} ({self.places[index]!r})",)
        return error

    def drop(self) -> None:
        """Forget plans and their buffers."""
        for executor in self.executors:
            executor._plans.clear()

    def close(self) -> None:
        """End the threads, and forget plans and their buffers."""
        if not self._busy.acquire(timeout=self.together.seconds):
            raise CommunicatorError("cannot close the devices while a program runs on them")
        try:
            self.threads.close()
            self.drop()
        finally:
            self._busy.release()
