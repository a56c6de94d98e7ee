"""Communicators: they stand between a trainer's program and its servers where trainers do not wait for each
other.

While a communicator runs, `send` gives it gradients and returns; it merges those of one variable, sends them,
and fetches parameters, which `recv` takes over when they have come. Over TCP two threads of its own do that
beside the computation. Over other transports the trainer's thread does: under MPI by the clock, and in one
process (`local`) by counting alone, so that a job whose roles take turns is the same in every run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.base.place import CUDAPlace, array_module
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.background.merging import MergedValues, PendingValues, Route, routes_of
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.requests import Wanted, wanted_by
from fluidlite.executor.comm.session import Pace, Session
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, host, on, rebinds

__all__ = [
    "AsyncCommunicator",
    "BarrierCommunicator",
    "CommunicatorSettings",
    "TrainerCommunicator",
    "where_lies",
]

Names: TypeAlias = "tuple[str, ...]"
_PREFIX = "communicator_"
_TICK = 0.01  # seconds: the unit of send_wait_times


@dataclass(frozen=True)
class CommunicatorSettings:
    """The values of fluid's FLAGS_communicator_*."""

    max_merge_var_num: int = 20  # values of one variable that go out as one
    send_queue_size: int = 20  # values of one variable that may wait besides those
    send_wait_times: int = 5  # hundredths of a second to wait for more of them
    min_send_grad_num_before_recv: int = 20  # gradients between two fetches of the parameters
    independent_recv_thread: bool = True  # fetch by that number; otherwise after whatever was sent
    is_sgd_optimizer: bool = True  # gradients that are merged add up; otherwise their mean goes out
    merge_sparse_grad: bool = True  # rows of one number are added up, even where there is one gradient
    fake_rpc: bool = False  # send nothing

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> CommunicatorSettings:
        """From `given`, with or without FLAGS_ before the names; else from the flags of the process."""
        found: dict[str, Any] = {}
        for name, default in vars(cls()).items():
            full = "FLAGS_" + _PREFIX + name
            text = given.get(_PREFIX + name, given.get(full))
            value = flags.get_flags(full)[full] if text is None else text
            found[name] = type(default)(_number(full, value))
        return cls(**found)


def _number(name: str, value: Any) -> int:
    try:
        return int({"true": 1, "false": 0}.get(str(value).lower(), value))
    except (TypeError, ValueError):
        raise ValueError(f"{name} should be an integer, not {value!r}") from None


def where_lies(array: Any, value: Any) -> Any:
    """A value of the host, on the host or device where `array` lies."""
    return value if isinstance(array, np.ndarray) else on(array_module(CUDAPlace(0)), value)


class TrainerCommunicator:
    """The part that the communicators of all modes share: threads, errors, and fetched parameters.

    Attributes
    ----------
    receives: outputs of each `recv` of the trainer's program -> the op.
    trainer: the number of the trainer.
    session: the one that it works for, once started.
    changed: the lock of what the trainer's thread and the others share, notified when it changes.
    failure: an error of a thread, to be raised in the trainer's.
    """

    def __init__(self, program: Program, settings: CommunicatorSettings) -> None:
        ops = program.global_block().ops
        self.settings = settings
        self.receives = {tuple(op.output("Out")): op for op in ops if op.type == "recv"}
        self.trainer = max((op.attrs.get("trainer_id", 0) for op in ops), default=0)
        self.session_or_none: Session | None = None
        self.running = False
        self.pace = Pace.COUNT
        self.changed = threading.Condition(threading.RLock())
        self.failure: BaseException | None = None
        self.threads: list[threading.Thread] = []
        self.fetched: dict[Names, list[Any]] = {}  # outputs of a `recv` -> the values that came last
        self.spare: dict[Names, list[Any]] = {}  # memory that the next values are read into
        self.version = 0  # of what was fetched
        self.taken: dict[Names, int] = {}  # outputs of a `recv` -> the version that it has taken over
        self.sent_since_fetch = False

    @property
    def session(self) -> Session:
        """The session that it works for."""
        assert self.session_or_none is not None, "start the communicator before a program uses it"
        return self.session_or_none

    # ------------------------------------------------------------------ its life
    def start(self, session: Session) -> None:
        """Work for `session` from now on; CommunicatorError where another communicator does."""
        session.run_communicator(self)
        self.session_or_none = session
        self.running = True
        self.pace = session.pace
        if self.pace is Pace.THREADS:
            self.threads = [
                threading.Thread(
                    target=self._guarded, args=(loop,), name=f"communicator-{loop.__name__}", daemon=True
                )
                for loop in self.loops()
            ]
            for thread in self.threads:
                thread.start()

    def stop(self) -> None:
        """Send what is left, and end; raises what went wrong in the threads."""
        if not self.running:
            return
        with self.changed:
            self.running = False
            self.changed.notify_all()
        limit = self._limit()
        try:
            for thread in self.threads:
                thread.join(limit)
                if thread.is_alive():
                    raise CommunicatorError(
                        f"{thread.name} has not stopped within {limit:g} s: some server does not answer"
                    )
            self.check()
            self.finish()
        finally:
            self.threads = []
            self.session.run_communicator(None)

    def flush(self) -> None:
        """Send what has come so far, and write the parameters that result from it into the scope."""
        if self.running:
            session = self.session
            # its end does just that, and no thread then has a gradient in its hands
            self.stop()
            self.start(session)

    def check(self) -> None:
        """Raise what went wrong in a thread."""
        if self.failure is not None:
            failure = self.failure
            self.failure = None
            raise failure

    def loops(self) -> Sequence[Callable[[], None]]:
        """The work of its threads; each returns soon after `running` is False."""
        return ()

    def finish(self) -> None:
        """Send what is left."""

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # raised again in the trainer's thread, by `check`
            with self.changed:
                self.failure = self.failure or error
                self.changed.notify_all()

    @staticmethod
    def _limit() -> float:
        return float(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"]) / 1000.0

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        """With the lock held: wait for a thread; raises what went wrong there."""
        limit = self._limit()
        done = self.changed.wait_for(lambda: self.failure is not None or ready(), limit)
        self.check()
        if not done:
            raise CommunicatorError(
                f"the trainer has waited {limit:g} s for its communicator {what}: some server does not answer"
            )

    def before_run(self, scope: Scope) -> None:
        """A program is about to run: raise what went wrong in a thread."""
        self.check()

    def restart_from_parameters(self) -> None:
        """The parameters were loaded. Only geo-SGD, which sends differences, has to know."""

    # ------------------------------------------------------------------ ops of the program
    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """Take the values of a `send`."""
        raise CommunicatorError(f"a {type(self).__name__} cannot run {op.call_text()}")

    def barrier(self, op: Operator) -> None:
        """A `send_barrier`: nothing has to be waited for."""

    def refresh(self) -> None:
        """Before a `recv`: fetch parameters where it is time to."""
        self.check()

    def newest(self, op: Operator, again: bool, into: Sequence[Any] = ()) -> Sequence[Any] | None:
        """The newest values for a `recv`, copied `into` arrays; None where none has come since it was asked
        last, unless `again`.
        """
        self.refresh()
        key = tuple(op.output("Out"))
        with self.changed:
            parts = self.fetched.get(key)
            if parts is not None and not again and self.taken.get(key) == self.version:
                return None
            if parts is not None:
                self.taken[key] = self.version
                targets = into or [np.empty_like(part) for part in parts]
                for target, part in zip(targets, parts, strict=True):
                    np.copyto(target, part)
                return targets
        if not again:
            return None
        found: list[Any] = self.session.requests.fetch(wanted_by(op), op.attrs["trainer_id"])
        return found

    # ------------------------------------------------------------------ servers
    def post(self, route: Route, value: Any) -> None:
        """Send a value to its servers."""
        if self.settings.fake_rpc:
            return
        trainer = self.session.trainer(self.trainer)
        for (name, endpoint), piece in zip(route.targets, route.pieces(value), strict=True):
            self.session.post(endpoint, Message(Kind.SEND, trainer, name, piece))

    def fetch(self) -> None:
        """Ask the servers for all parameters that the program receives."""
        if not self.receives:
            return
        wanted: list[Wanted] = []
        spans: dict[Names, tuple[int, int]] = {}
        for key, op in self.receives.items():
            items = wanted_by(op)
            spans[key] = (len(wanted), len(wanted) + len(items))
            memory = self.spare.get(key) or [None] * len(items)
            wanted += [item._replace(into=into) for item, into in zip(items, memory, strict=True)]
        found = self.session.requests.fetch(wanted, self.trainer)
        with self.changed:
            self.spare = self.fetched
            self.fetched = {
                key: [host(part) for part in found[low:high]] for key, (low, high) in spans.items()
            }
            self.version += 1
            self.sent_since_fetch = False


class AsyncCommunicator(TrainerCommunicator):
    """Sends gradients when there are enough of them, or no more have come for a while, and fetches parameters
    every so many gradients.
    """

    def __init__(self, program: Program, settings: CommunicatorSettings) -> None:
        super().__init__(program, settings)
        self.routes: dict[Operator, list[Route]] = {}
        self.pending: dict[str, PendingValues] = {}
        self.since_fetch = 0
        self.scope: Scope | None = None  # of the last `send`

    # ------------------------------------------------------------------ the trainer's thread
    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """Take gradients, or a count of steps; waits where too many of a variable are not sent yet."""
        self.check()
        self.scope = context.scope
        routes = self.routes.get(op) or self.routes.setdefault(op, routes_of(op))
        with self.changed:
            for route, value in zip(routes, values, strict=True):
                pending = self._pending_of(route)
                self._make_room(pending)
                pending.add(value)
                self.since_fetch += not (route.counts or route.replaces)
                self.changed.notify_all()
        if not self.threads:
            self.send_now(self.pending.values())

    def _pending_of(self, route: Route) -> PendingValues:
        found = self.pending.get(route.key)
        if found is None:
            found = self.pending[route.key] = PendingValues(route, self.settings.max_merge_var_num)
        return found

    def _make_room(self, pending: PendingValues) -> None:
        """Wait until the sending thread has taken enough of a variable's values; without one, send them here
        where they should not wait for the value that comes.
        """
        if not self.threads:
            if self.is_late(pending):
                self.send_now([pending], take_all=True)
            return
        most = self.settings.max_merge_var_num + self.settings.send_queue_size
        if pending.count >= most:
            self.wait(lambda: pending.count < most, f"to send {pending.route.key}")

    def refresh(self) -> None:
        """Fetch parameters where it is time to, and no thread does."""
        super().refresh()
        if not self.threads and self.is_time_to_fetch():
            self.since_fetch = 0
            self.fetch()

    def is_time_to_fetch(self) -> bool:
        """True if there is a reason to ask for parameters."""
        if self.settings.independent_recv_thread:
            return self.since_fetch > self.settings.min_send_grad_num_before_recv
        return self.sent_since_fetch

    def is_late(self, pending: PendingValues) -> bool:
        """Without threads: True if the values of a variable should not wait for this step's."""
        return self.pace is Pace.CLOCK and bool(pending.groups) and self.rest(pending) <= 0

    def finish(self) -> None:
        """Send what is left, and fetch the parameters that result from it."""
        self.send_now(list(self.pending.values()), take_all=True)
        if self.scope is not None:
            self.fetch()
            self.write_to(self.scope)

    def before_run(self, scope: Scope) -> None:
        """Have the program begin with the parameters that have come meanwhile."""
        super().before_run(scope)
        if self.threads and self.scope is not None:
            self.write_to(self.scope)

    def write_to(self, scope: Scope) -> None:
        """Write the parameters that came last into the scope, where their `recv` has not taken them over."""
        with self.changed:
            for key in [key for key in self.fetched if self.taken.get(key) != self.version]:
                names = self.receives[key].output("Out")
                parts = self.fetched[key]
                values = parts if len(parts) == len(names) else [np.concatenate(parts)]
                for name, value in zip(names, values, strict=True):
                    _write(scope, name, value)
                self.taken[key] = self.version

    # ------------------------------------------------------------------ sending
    def rest(self, pending: PendingValues) -> float:
        """Seconds until the values of a variable go out although there are not enough of them."""
        return pending.last + _TICK * self.settings.send_wait_times - time.monotonic()

    def send_now(self, some: Iterable[PendingValues], take_all: bool = False) -> None:
        """Send what is full, or everything."""
        with self.changed:
            taken = [(pending.route, group) for pending in some for group in pending.take(take_all)]
            self.sent_since_fetch = self.sent_since_fetch or bool(taken)
        self.send_groups(taken)

    def send_groups(self, taken: Sequence[tuple[Route, MergedValues]]) -> None:
        """Merge and send."""
        for route, group in taken:
            mean = not (self.settings.is_sgd_optimizer or route.counts)
            self.post(route, group.merged(mean, self.settings.merge_sparse_grad))

    # ------------------------------------------------------------------ threads
    def loops(self) -> Sequence[Callable[[], None]]:
        """One thread that sends, and one that fetches unless the sender does that too."""
        return (self.sending, self.fetching) if self.settings.independent_recv_thread else (self.sending,)

    def sending(self) -> None:
        """Send what is full, and what has waited long enough."""
        while self.running:
            with self.changed:
                waiting = [pending for pending in self.pending.values() if pending.groups]
                taken = [
                    (pending.route, group)
                    for pending in waiting
                    for group in pending.take(take_all=self.rest(pending) <= 0)
                ]
                if not taken:
                    self.changed.wait(min((self.rest(pending) for pending in waiting), default=None))
                    continue
                self.sent_since_fetch = True
                self.changed.notify_all()
            self.send_groups(taken)
            if not self.settings.independent_recv_thread:
                self.fetch()

    def fetching(self) -> None:
        """Fetch parameters when enough gradients have come."""
        while self.running:
            with self.changed:
                if self.since_fetch <= self.settings.min_send_grad_num_before_recv:
                    self.changed.wait()
                    continue
                self.since_fetch = 0
            self.fetch()


def _write(scope: Scope, name: str, value: Any) -> None:
    """Write a value into the array that a variable holds, if it holds one."""
    held = scope.find_var(name)
    if held is not None and isinstance(held.value, LoDTensor) and held.value.array is not None:
        held.value.array[...] = where_lies(held.value.array, value)
        rebinds.writes += 1


class BarrierCommunicator(AsyncCommunicator):
    """Half-asynchronous: at `send_barrier` it sends all gradients and fetches the parameters, without waiting
    for other trainers.

    With `endpoints` it also waits for the step of these servers, as synchronous trainers do.
    """

    def __init__(
        self,
        program: Program,
        settings: CommunicatorSettings,
        endpoints: Sequence[str] = (),
        trainer: int = 0,
    ) -> None:
        super().__init__(program, settings)
        self.endpoints, self.trainer = list(endpoints), max(trainer, self.trainer)

    def loops(self) -> Sequence[Callable[[], None]]:
        """No threads: the trainer waits at the barrier anyway."""
        return ()

    def barrier(self, op: Operator) -> None:
        """Send, and fetch."""
        self.send_now(list(self.pending.values()), take_all=True)
        if self.endpoints:
            self.session.requests.end_step(self.endpoints, self.trainer)
        self.fetch()

    def is_time_to_fetch(self) -> bool:
        """False: the last barrier has fetched them."""
        return False

    def is_late(self, pending: PendingValues) -> bool:
        """False: the next barrier sends everything."""
        return False

    def finish(self) -> None:
        """Send what is left; after a synchronous step nothing is."""
        if not self.endpoints:
            super().finish()
