"""What stands between a trainer's program and its servers in jobs that do not wait for each other.

While a communicator runs, `send` hands it gradients and goes on; it merges those of one variable, sends them,
and fetches parameters, which `recv` takes up where they have come. Over TCP two threads of its own do that
beside the computation. Other transports talk in the trainer's thread: under MPI by the clock, and in one
process (`local`) by counting alone, so that a job whose roles take turns is the same in every run.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.base.place import CUDAPlace, array_module
from fluidlite.executor.comm.background.merging import Group, Pending, Route, routes_of
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.requests import Wanted
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, host, on

__all__ = [
    "AsyncCommunicator",
    "BarrierCommunicator",
    "Communicator",
    "Pace",
    "Settings",
    "beside",
    "wanted_by",
]

Names: TypeAlias = "tuple[str, ...]"
_PREFIX = "communicator_"
_TICK = 0.01  # seconds: the unit of send_wait_times


class Pace(enum.Enum):
    """When a communicator does what it has to do."""

    THREADS = "threads"  # at once, beside the computation
    CLOCK = "clock"  # in `send` and `recv`, where it is time
    COUNT = "count"  # in `send` and `recv`, where enough has come


@dataclass(frozen=True)
class Settings:
    """What fluid's FLAGS_communicator_* say."""

    max_merge_var_num: int = 20  # values of one variable that go out as one
    send_queue_size: int = 20  # values of one variable that may wait besides those
    send_wait_times: int = 5  # hundredths of a second to wait for more of them
    min_send_grad_num_before_recv: int = 20  # gradients between two fetches of the parameters
    independent_recv_thread: bool = True  # fetch by that number; otherwise after whatever was sent
    is_sgd_optimizer: bool = True  # gradients that are merged add up; otherwise their mean goes out
    merge_sparse_grad: bool = True  # rows of one number are added up, even where there is one gradient
    fake_rpc: bool = False  # send nothing

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Settings:
        """From `given`, with or without FLAGS_ before the names, and for what is not there from the flags
        of the process.
        """
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
        raise ValueError(f"{name} should be a whole number, not {value!r}") from None


def beside(array: Any, value: Any) -> Any:
    """A value from the host where `array` is."""
    return value if isinstance(array, np.ndarray) else on(array_module(CUDAPlace(0)), value)


def wanted_by(op: Operator) -> list[Wanted]:
    """What a `recv` asks which server for."""
    return [
        Wanted(*pair)
        for pair in zip(op.attrs["epmap"], op.attrs["recv_varnames"] or op.output("Out"), strict=True)
    ]


class Communicator:
    """The part that all modes share: it belongs to one `session`, and to the trainer's `program`."""

    def __init__(self, program: Program, settings: Settings) -> None:
        ops = program.global_block().ops
        self.settings = settings
        self.receives = {tuple(op.output("Out")): op for op in ops if op.type == "recv"}
        self.trainer = max((op.attrs.get("trainer_id", 0) for op in ops), default=0)
        self.session: Any = None
        self.running = False
        self.pace = Pace.COUNT
        self.changed = threading.Condition(threading.RLock())
        self.failure: BaseException | None = None
        self.threads: list[threading.Thread] = []
        self.came: dict[Names, list[Any]] = {}  # outputs of a `recv` -> what came last for it
        self.spare: dict[Names, list[Any]] = {}  # memory that the next values are read into
        self.version = 0
        self.unfetched = False  # whether gradients were sent since
        self.shown: dict[Names, int] = {}  # outputs of a `recv` -> the version that it has shown

    # ------------------------------------------------------------------ its life
    def start(self, session: Any) -> None:
        """Work for `session` from now on; CommunicatorError where another communicator does."""
        other = getattr(session, "communicator", None)
        if other is not None and other is not self:
            raise CommunicatorError("another communicator of this process is running: stop it first")
        session.communicator, self.session, self.running, self.pace = self, session, True, Pace(session.pace)
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
                        f"{thread.name} has not ended within {limit:g} s: some server does not answer"
                    )
            self.check()
            self.finish()
        finally:
            self.threads = []
            self.session.communicator = None

    def check(self) -> None:
        """Raise what went wrong in a thread."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def loops(self) -> Sequence[Callable[[], None]]:
        """What its threads do; each returns soon after `running` is False."""
        return ()

    def finish(self) -> None:
        """Send what is left."""

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # raised again where the trainer comes by
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

    def before_run(self) -> None:
        """A program is about to run."""
        self.check()

    # ------------------------------------------------------------------ what ops of the program do
    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """A `send` gives its values."""
        raise CommunicatorError(f"a {type(self).__name__} cannot run {op.call_text()}")

    def barrier(self, op: Operator) -> None:
        """A `send_barrier`: nothing to wait for."""

    def refresh(self) -> None:
        """Before a `recv`: fetch parameters where it is time to."""
        self.check()

    def newest(self, op: Operator, again: bool, into: Sequence[Any] = ()) -> Sequence[Any] | None:
        """What has come for a `recv`, copied `into` arrays; None where nothing has since it was asked
        last, unless `again`.
        """
        self.refresh()
        key = tuple(op.output("Out"))
        with self.changed:
            parts = self.came.get(key)
            if parts is not None and not again and self.shown.get(key) == self.version:
                return None
            if parts is not None:
                self.shown[key] = self.version
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
        """Send a value to where it belongs."""
        if self.settings.fake_rpc:
            return
        trainer = max(self.trainer, *self.session.contacted.values(), 0)
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
            wanted += [
                item._replace(into=into)
                for item, into in zip(items, self.spare.get(key) or [None] * len(items), strict=True)
            ]
        found = self.session.requests.fetch(wanted, self.trainer)
        with self.changed:
            self.spare, self.came = (
                self.came,
                {key: [host(part) for part in found[low:high]] for key, (low, high) in spans.items()},
            )
            self.version += 1
            self.unfetched = False


class AsyncCommunicator(Communicator):
    """Gradients go out when there are enough of them, or no more have come for a while; parameters come
    every so many gradients.
    """

    def __init__(self, program: Program, settings: Settings) -> None:
        super().__init__(program, settings)
        self.routes: dict[Operator, list[Route]] = {}
        self.pending: dict[str, Pending] = {}
        self.since_fetch = 0
        self.scope: Scope | None = None  # of the last `send`

    # ------------------------------------------------------------------ the trainer's thread
    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """Take gradients, or a count of steps; waits where too many are on their way."""
        self.check()
        self.scope = context.scope
        routes = self.routes.get(op) or self.routes.setdefault(op, routes_of(op))
        with self.changed:
            for route, value in zip(routes, values, strict=True):
                pending = self.pending.get(route.key) or self.pending.setdefault(
                    route.key, Pending(route, self.settings.max_merge_var_num)
                )
                if self.threads:
                    most = self.settings.max_merge_var_num + self.settings.send_queue_size
                    if pending.count >= most:
                        self.wait(lambda: pending.count < most, f"to send {route.key}")  # noqa: B023  (called before the next round)
                elif self.is_late(pending):
                    self.send_now([pending], all_of_them=True)
                pending.add(value)
                self.since_fetch += not route.counts
                self.changed.notify_all()
        if not self.threads:
            self.send_now(self.pending.values())

    def refresh(self) -> None:
        """Fetch parameters where it is time to, and no thread does."""
        super().refresh()
        if not self.threads and self.is_time_to_fetch():
            self.since_fetch = 0
            self.fetch()

    def is_time_to_fetch(self) -> bool:
        """Whether there is a reason to ask for parameters."""
        if self.settings.independent_recv_thread:
            return self.since_fetch > self.settings.min_send_grad_num_before_recv
        return self.unfetched

    def is_late(self, pending: Pending) -> bool:
        """Without threads: whether what waits of a variable should not wait for this step's value."""
        return self.pace is Pace.CLOCK and bool(pending.groups) and self.rest(pending) <= 0

    def finish(self) -> None:
        """Send what is left, and fetch what came of it."""
        self.send_now(list(self.pending.values()), all_of_them=True)
        if self.scope is not None:
            self.fetch()
            self.show_in(self.scope)

    def before_run(self) -> None:
        """Let the program begin with what has come meanwhile."""
        super().before_run()
        if self.threads and self.scope is not None:
            self.show_in(self.scope)

    def show_in(self, scope: Scope) -> None:
        """Give the parameters what came last, where their `recv` has not done so."""
        with self.changed:
            for key in [key for key in self.came if self.shown.get(key) != self.version]:
                names, parts = self.receives[key].output("Out"), self.came[key]
                for name, value in zip(
                    names, parts if len(parts) == len(names) else [np.concatenate(parts)], strict=True
                ):
                    held = scope.find_var(name)
                    if (
                        held is not None
                        and isinstance(held.value, LoDTensor)
                        and held.value.array is not None
                    ):
                        held.value.array[...] = beside(held.value.array, value)
                self.shown[key] = self.version

    # ------------------------------------------------------------------ sending
    def rest(self, pending: Pending) -> float:
        """Seconds until what waits goes out although there is not enough of it."""
        return pending.last + _TICK * self.settings.send_wait_times - time.monotonic()

    def send_now(self, some: Iterable[Pending], all_of_them: bool = False) -> None:
        """Send what is full, or everything."""
        with self.changed:
            taken = [(pending.route, group) for pending in some for group in pending.take(all_of_them)]
            self.unfetched = self.unfetched or bool(taken)
        self.send_groups(taken)

    def send_groups(self, taken: Sequence[tuple[Route, Group]]) -> None:
        """Merge and send."""
        for route, group in taken:
            mean = not (self.settings.is_sgd_optimizer or route.counts)
            self.post(route, group.merged(mean, self.settings.merge_sparse_grad))

    # ------------------------------------------------------------------ threads
    def loops(self) -> Sequence[Callable[[], None]]:
        """One thread that sends, and one that fetches where it is not the sender's work."""
        return (self.sending, self.fetching) if self.settings.independent_recv_thread else (self.sending,)

    def sending(self) -> None:
        """Send what is full, and what has waited long enough."""
        while self.running:
            with self.changed:
                ripe = [
                    pending for pending in self.pending.values() if pending.groups and self.rest(pending) <= 0
                ]
                taken = [
                    (pending.route, group)
                    for pending in self.pending.values()
                    for group in pending.take(pending in ripe)
                ]
                if not taken:
                    rests = [self.rest(pending) for pending in self.pending.values() if pending.groups]
                    self.changed.wait(min(rests, default=None))
                    continue
                self.unfetched = True
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


class BarrierCommunicator(AsyncCommunicator):
    """Half-asynchronous: `send_barrier` sends all gradients and fetches the parameters, without waiting for
    other trainers.

    With `endpoints` it also waits for the step of these servers, as synchronous trainers do.
    """

    def __init__(
        self, program: Program, settings: Settings, endpoints: Sequence[str] = (), trainer: int = 0
    ) -> None:
        super().__init__(program, settings)
        self.endpoints, self.trainer = list(endpoints), max(trainer, self.trainer)

    def loops(self) -> Sequence[Callable[[], None]]:
        """None: the trainer waits at the barrier anyway."""
        return ()

    def barrier(self, op: Operator) -> None:
        """Send, and fetch."""
        self.send_now(list(self.pending.values()), all_of_them=True)
        if self.endpoints:
            self.session.requests.end_step(self.endpoints, self.trainer)
        self.fetch()

    def is_time_to_fetch(self) -> bool:
        """No: the last barrier has done so."""
        return False

    def is_late(self, pending: Pending) -> bool:
        """No: the next barrier sends everything."""
        return False

    def finish(self) -> None:
        """Send what is left; in step with the others nothing can be."""
        if not self.endpoints:
            super().finish()
