"""The loop of a parameter server, the same over every transport: it reads messages, runs its blocks, and
answers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError, FluidError, FormatError, NanInfError, did_you_mean
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.server.blocks import BlockRunner
from fluidlite.executor.comm.server.program import ServerProgram
from fluidlite.executor.comm.server.rendezvous import Meeting
from fluidlite.executor.comm.server.state import state_of_server
from fluidlite.executor.comm.server.tables import Changes, add_rows
from fluidlite.executor.comm.session import Link
from fluidlite.executor.comm.terms import Form, Terms, fits, form_of
from fluidlite.executor.comm.wire import Incoming
from fluidlite.ir.block import Block
from fluidlite.values.serialize import replace_file, value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows, host

__all__ = ["ParameterServer"]

# of a trainer's time limit that a step may wait for the last trainer: the others then hear which one it was
PART = 0.8

_log = logging.getLogger("fluidlite.server")


class ParameterServer:
    """One `listen_and_serv` at work.

    A server is synchronous when its blocks merge what arrives: then a step is done when every trainer that is
    still there has said BARRIER. Otherwise each gradient is applied as it comes.
    """

    def __init__(self, program: ServerProgram, blocks: BlockRunner, link: Link) -> None:
        self.program, self.blocks, self.link = program, blocks, link
        self.here = set(range(program.trainers))
        self.synchronous = program.is_synchronous
        self.last_writer = program.last_writers()
        self.arrived: dict[str, int] = {}  # gradient of this step -> the trainer that has sent it
        self.at_barrier: dict[int, Any] = {}
        # by trainer: what is to be sent once it is updated
        self.wanted: dict[int, deque[tuple[Any, Message]]] = {}
        self.steps = (
            program.block.program.distribution.loaded_steps
        )  # that were done, before a checkpoint too
        self.meeting = Meeting(self)
        self.watch = Watch(self)
        self.takes = self._takes()
        self.changes = Changes(program.table_of_rows.values(), program.trainers)

    def _takes(self) -> dict[str, Form]:
        """What trainers may send, and how it is declared."""
        names = [*self.program.arriving, *self.program.schedule_inputs()]
        return {name: form_of(self.program.block, name) for name in names}

    def terms(self) -> Terms:
        """What this server expects of its trainers."""
        gives = {
            name: form_of(self.program.block, name)
            for name, var in self.program.block.vars.items()
            if var.persistable
        }
        return Terms(
            self.program.trainers,
            self.synchronous,
            self.takes,
            gives,
            bool(self.program.block.program.distribution.loaded_checkpoint),
            self.steps,
        )

    def check(self, coming: Incoming) -> None:
        """FormatError for a value that is not what this server expects under its name: asked before there
        is memory for it.
        """
        if coming.kind != Kind.SEND:
            if coming.nbytes and coming.kind not in (Kind.ROWS, Kind.MEET):
                raise FormatError(f"trainer {coming.trainer} sends a value with a question that has none")
            return
        form = self.takes.get(coming.name)
        if form is None:
            raise FormatError(self.unexpected(coming.trainer, coming.name))
        if not coming.fits_declared(form[1]) or not fits(form, coming.dtype, coming.declared_shape()):
            raise FormatError(
                f"trainer {coming.trainer} sends {coming.name!r} as {coming.text()}, and it is declared as "
                f"{form[0]}{list(form[1])}"
            )

    # ------------------------------------------------------------------ the loop
    def run(self) -> None:
        """Serve until all trainers have left. A signal to end ends the process well, as it does in fluid."""
        self._listen()
        stopped: list[str] = []
        try:
            with stopped_by_signals(self.link, stopped):
                self.serve()
        except Exception as error:
            self._end(stopped[0] if stopped else str(error))
            if stopped:
                raise SystemExit(0) from None
            raise
        self._end("")

    def _listen(self) -> None:
        endpoint = self.program.endpoint
        over_tcp = getattr(self.link, "listen_with_terms", None)
        if over_tcp is None:
            self.link.listen(endpoint, self.program.trainers)
        else:
            over_tcp(endpoint, self.terms(), self.check)

    def _end(self, why: str) -> None:
        """Let trainers over TCP know why the server stops; other transports tell them by themselves."""
        end = getattr(self.link, "end", None)
        if end is not None:
            end(why)

    def serve(self) -> None:
        """Take messages until nobody is left."""
        if self.program.schedule is not None and not self.synchronous:
            self.run_block(self.program.schedule)
        while self.here:
            found = self.link.next_message(self.watch.patience())
            if found is not None:
                self.handle(*found)
            for trainer, why in self.watch.overdue():
                self.give_up(trainer, why)

    def handle(self, to: Any, message: Message) -> None:
        """Do what one message asks for."""
        kind, trainer = message.kind, message.trainer
        if kind is Kind.LOST:
            self.watch.lose(trainer, message.name)
            return
        self.watch.hear(trainer)
        if kind in (Kind.SEND, Kind.BARRIER) and 0 <= trainer < self.program.trainers:
            self.here.add(trainer)  # one that was given up, or had left, may come back
        if kind is Kind.SEND:
            self.take(to, message)
        elif kind is Kind.COMPLETE:
            self.leave(trainer)
        elif kind is Kind.BARRIER:
            self.at_barrier[trainer] = to
            self.step_when_all_are_there()
            self.meeting.hold_when_all_are_there()
        elif kind is Kind.MEET:
            self.meeting.take(to, message)
        elif kind is Kind.WANT:
            self.wanted.setdefault(trainer, deque()).append((to, message))
        else:
            self.link.reply(to, self.answered(message))

    # ------------------------------------------------------------------ trainers that go
    def leave(self, trainer: int) -> None:
        """A trainer sends nothing more: what it has sent of a step that it does not end does not count."""
        self.here.discard(trainer)
        self.wanted.pop(trainer, None)
        if self.at_barrier.pop(trainer, None) is None:
            self.arrived = {name: sender for name, sender in self.arrived.items() if sender != trainer}
        self.meeting.come.pop(trainer, None)
        self.step_when_all_are_there()
        self.meeting.hold_when_all_are_there()

    def give_up(self, trainer: int, why: str) -> None:
        """A trainer is lost: go on without it, or stop, as FLAGS_rpc_lost_trainer says; asynchronous
        servers always go on.
        """
        policy = flags.get_flags("FLAGS_rpc_lost_trainer")["FLAGS_rpc_lost_trainer"]
        if policy not in ("stop", "go_on"):
            raise CommunicatorError(
                f"trainer {trainer} {why}; FLAGS_rpc_lost_trainer should be 'stop' or 'go_on', not {policy!r}"
            )
        if self.synchronous and policy == "stop":
            raise CommunicatorError(
                f"trainer {trainer} {why}, and a step cannot be done without it "
                "(with FLAGS_rpc_lost_trainer=go_on the others go on alone)"
            )
        _log.warning("trainer %d %s: the others go on without it", trainer, why)
        self.leave(trainer)

    # ------------------------------------------------------------------ gradients
    def take(self, to: Any, message: Message) -> None:
        """A gradient, or a trainer's count of its steps."""
        name = message.name
        if name not in self.takes:
            self.link.reply(to, Error(self.unexpected(message.trainer, name)))
            return
        if flags.check_nan_inf():
            check_finite(message)
        if name in self.program.table_of_rows:
            self.settle()
            table = self.blocks.find(self.program.table_of_rows[name])
            add_rows(table, message.value)
            self.changes.note(self.program.table_of_rows[name], message.value.ids, len(table))
        elif name in self.program.of_gradient and not self.synchronous:
            if self.program.trainer_id is not None:
                self.blocks.write(self.program.trainer_id, np.array([message.trainer]))
            self.blocks.hold(name, message.value)
            self.run_block(self.program.of_gradient[name])
        elif name in self.program.merged:
            self.blocks.hold(name, message.value)
            self.arrived[name] = message.trainer
        elif self.program.schedule is not None:
            self.blocks.write(name, self.blocks.find(name) + message.value)
            self.run_block(self.program.schedule)

    def unexpected(self, trainer: int, name: str) -> str:
        """What is wrong with a name that this server does not take."""
        return (
            f"trainer {trainer} sends {name!r}, which this server does not "
            f"expect{did_you_mean(name, list(self.takes))} "
            f"(it expects {', '.join(sorted(self.takes)) or 'nothing'})"
        )

    def step_when_all_are_there(self) -> None:
        """Once every trainer that is still there has sent its gradients: update, and let them go on."""
        if not self.here or not self.here <= set(self.at_barrier):
            return
        self.settle()
        if self.program.schedule is not None:
            self.blocks.run(self.program.schedule)
        for index, block in enumerate(self.program.of_gradient.values()):
            self.fill_gaps(block.ops[0].input("X"))
            self.blocks.run(block)
            self.give_wanted(index)
        self.steps += 1
        self.give_wanted(len(self.program.of_gradient))
        self.arrived.clear()
        waiting, self.at_barrier = self.at_barrier, {}
        for to in waiting.values():
            self.link.reply(to, None)

    def give_wanted(self, done: int) -> None:
        """Send what trainers want, each in the order in which it asked, as far as the blocks up to number
        `done` have updated it.
        """
        for waiting in self.wanted.values():
            while waiting and self.last_writer.get(waiting[0][1].name, -1) <= done:
                to, message = waiting.popleft()
                self.link.reply(to, self.answered(message))

    def fill_gaps(self, names: list[str]) -> None:
        """Trainers that have left, or had no gradient, do not pull the mean: they count as the mean of the
        others.
        """
        there = [name for name in names if name in self.arrived]
        if len(there) == len(names) or not there:
            if not there and names:
                raise CommunicatorError(f"no trainer has sent {names[0]!r} in this step")
            return
        values = [self.blocks.find(name) for name in there]
        if isinstance(values[0], SelectedRows):
            rows = np.concatenate([value.ids for value in values])
            mean: Any = SelectedRows(
                rows, values[0].height(), np.concatenate([value.array for value in values]) / len(values)
            )
        else:
            mean = sum(values[1:], values[0].copy()) / len(values)
        for name in names:
            if name not in self.arrived:
                self.blocks.hold(name, mean)

    def run_block(self, block: Block) -> None:
        """Run one of the server's blocks."""
        self.settle()
        self.blocks.run(block)

    def settle(self) -> None:
        """Values are about to change: answers that are on their way stay as they are."""
        settle = getattr(self.link, "settle", None)
        if settle is not None:
            settle()

    # ------------------------------------------------------------------ answers
    def answered(self, message: Message) -> Any:
        """The answer to a question, or what is wrong with it: one trainer's mistake does not end the
        server.
        """
        answers: dict[Kind, Callable[[Message], Any]] = {
            Kind.GET: self.held,
            Kind.WANT: self.held,
            Kind.ROWS: self.rows,
            Kind.SAVE: self.save,
            Kind.STATE: self.state,
            Kind.CHANGED: self.changed_rows,
        }
        try:
            return answers[message.kind](message)
        except (FluidError, ValueError, TypeError, IndexError, OSError) as error:
            return Error(str(error))

    def held(self, message: Message) -> Any:
        """The value of a variable that a trainer asks for."""
        value = self.blocks.find(message.name)
        if message.kind is Kind.GET and value is not None:
            self.remember(message, value)
        if value is None:
            known = [name for name, var in self.program.block.vars.items() if var.persistable]
            raise CommunicatorError(
                f"trainer {message.trainer} asks for {message.name!r}, which this server does not hold"
                f"{did_you_mean(message.name, known)}"
            )
        return value

    def remember(self, message: Message, value: Any) -> None:
        """Keep the value as this trainer knows it from now on."""
        copies = self.program.copies.get(message.name, ())
        if 0 <= message.trainer < len(copies):
            kept = self.blocks.find(copies[message.trainer])
            kept[...] = value

    def rows(self, message: Message) -> Any:
        """Rows of a table, or what a block of this server finds for ids."""
        if message.name in self.program.prefetches:
            return self.blocks.evaluate(self.program.prefetches[message.name], message.name, message.value)
        table, ids = self.held(message), message.value
        if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise CommunicatorError(
                f"trainer {message.trainer} asks for rows of {message.name!r} without saying which"
            )
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
            raise CommunicatorError(
                f"trainer {message.trainer} asks for rows {ids.min()} to {ids.max()} of {message.name!r}, "
                f"which has "
                f"{len(table)} here"
            )
        return table[ids]

    def changed_rows(self, message: Message) -> Any:
        """The rows of a table that have changed since this trainer asked last."""
        table = self.held(message)
        if message.name not in self.changes.rows:
            raise CommunicatorError(
                f"trainer {message.trainer} asks for the changes of {message.name!r}, which is no sparse "
                f"table here"
            )
        ids = self.changes.take(message.name, message.trainer, len(table))
        return SelectedRows(ids, len(table), table[ids])

    def state(self, message: Message) -> Any:
        """What this server holds besides parameters and accumulators."""
        return state_of_server(self.program.block, self.blocks.scope, self.blocks.random, self.steps)

    def save(self, message: Message) -> None:
        """Write the tables of the saving block into a folder, one file each."""
        if self.program.saving is None:
            raise ValueError("this server holds no table that is saved on demand")
        os.makedirs(message.name, exist_ok=True)
        for op in self.program.saving.ops:
            for name in op.input("X"):
                replace_file(
                    os.path.join(message.name, name), [value_bytes(LoDTensor(self.blocks.find(name)), None)]
                )


class Watch:
    """Which trainers have gone without a word, and since when."""

    def __init__(self, server: ParameterServer) -> None:
        self.server = server
        self.lost: dict[int, tuple[float, str]] = {}  # trainer -> when its connection was lost, and how
        self.waiting = 0.0  # since when some trainer is at the barrier
        self.over_tcp = hasattr(
            server.link, "listen_with_terms"
        )  # other transports find by themselves that nobody can go on

    @staticmethod
    def limit(name: str) -> float:
        """A time limit in seconds, from its flag in milliseconds."""
        return float(flags.get_flags(name)[name]) / 1000.0

    def lose(self, trainer: int, why: str) -> None:
        """A connection has ended: the trainer may come back for a while."""
        if trainer in self.server.here:
            self.lost[trainer] = time.monotonic(), why

    def hear(self, trainer: int) -> None:
        """A trainer has said something."""
        self.lost.pop(trainer, None)

    def patience(self) -> float | None:
        """Seconds until somebody is overdue; None while nobody is waited for."""
        now, wait = time.monotonic(), self.limit("FLAGS_rpc_lost_trainer_wait")
        if not self.server.at_barrier or not self.over_tcp:
            self.waiting = 0.0
        elif not self.waiting:
            self.waiting = now
        ends = [since + wait for since, _ in self.lost.values()]
        if self.waiting:
            ends.append(self.waiting + PART * self.limit("FLAGS_rpc_deadline"))
        return max(0.0, min(ends) - now) if ends else None

    def overdue(self) -> Iterator[tuple[int, str]]:
        """The trainers whose time is over, and why."""
        now, wait = time.monotonic(), self.limit("FLAGS_rpc_lost_trainer_wait")
        for trainer, (since, why) in list(self.lost.items()):
            if now - since >= wait and self.lost.pop(trainer, None) is not None:
                yield trainer, f"has gone without a word {now - since:.1f} s ago ({why})"
        if self.waiting and now - self.waiting >= PART * self.limit("FLAGS_rpc_deadline"):
            for trainer in sorted(self.server.here - set(self.server.at_barrier)):
                yield (
                    trainer,
                    f"has not come to the barrier where the others have been for {now - self.waiting:.1f} s",
                )
            self.waiting = 0.0


def check_finite(message: Message) -> None:
    """NanInfError, with the trainer and the variable, where a gradient holds a NaN or an infinity."""
    array = host(message.value.array if isinstance(message.value, SelectedRows) else message.value)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise NanInfError(
            f"trainer {message.trainer} sends {message.name!r} with {int((~np.isfinite(array)).sum())} of "
            f"{array.size} elements "
            f"that are no finite numbers ({what} among them)"
        )


@contextlib.contextmanager
def stopped_by_signals(link: Link, stopped: list[str]) -> Iterator[None]:
    """Inside, SIGTERM and SIGINT have the link stop, unless the program has handlers of its own; `stopped`
    then says which.
    """
    stop = getattr(link, "stop", None)
    mine = stop is not None and threading.current_thread() is threading.main_thread()
    ours = [
        number
        for number in (signal.SIGTERM, signal.SIGINT)
        if mine and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    ]

    def handler(number: int, frame: Any) -> None:
        stopped.append(f"it was told to stop ({signal.Signals(number).name})")
        assert stop is not None
        stop(stopped[0])

    before = {number: signal.signal(number, handler) for number in ours}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
