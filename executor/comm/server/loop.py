"""The loop of a parameter server, the same over every transport: it takes messages, runs its blocks, and
answers.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError, NanInfError
from fluidlite.executor.comm.links import ServerLink
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.server.admission import Admission
from fluidlite.executor.comm.server.answers import Answers
from fluidlite.executor.comm.server.blocks import BlockRunner
from fluidlite.executor.comm.server.liveness import LivenessMonitor, interrupted_by_signals
from fluidlite.executor.comm.server.program import ServerProgram
from fluidlite.executor.comm.server.rendezvous import TrainerRendezvous
from fluidlite.executor.comm.server.tables import ChangedRows, add_rows
from fluidlite.executor.comm.session import Session
from fluidlite.executor.comm.terms import Form, Terms, form_of
from fluidlite.executor.comm.traced import traced_server_link
from fluidlite.ir.block import Block
from fluidlite.values.tensor import SelectedRows, host

__all__ = ["ParameterServer"]

_RENDEZVOUS = (Kind.GATHER, Kind.SHARE)
_MOST_WANTED = 1 << 16  # values that one trainer asks for in one step

_log = logging.getLogger("fluidlite.server")


class ParameterServer:
    """One `listen_and_serv` at work.

    A synchronous server does a step when every trainer that is still there has said BARRIER. An asynchronous
    one applies each gradient as it comes.

    Attributes
    ----------
    here: the trainers that have not left.
    arrived: gradient of this step -> the trainer that has sent it.
    at_barrier: trainer that has ended the step -> the address for the answer.
    wanted: by trainer, the questions that are answered once the step has updated what they ask for.
    steps: the steps that are done, those before a checkpoint included.
    takes: form of each value that trainers may send.
    """

    def __init__(self, program: ServerProgram, blocks: BlockRunner, session: Session) -> None:
        self.program = program
        self.blocks = blocks
        self.here = set(range(program.trainers))
        self.is_synchronous = program.is_synchronous
        self.arrived: dict[str, int] = {}
        self.at_barrier: dict[int, Any] = {}
        self.wanted: dict[int, deque[tuple[Any, Message]]] = {}
        self.steps = program.block.program.distribution.loaded_steps
        self.left: dict[
            int, int
        ] = {}  # trainers that have left since the last step -> steps they took part in
        self.takes = self._declared_forms()
        self.last_writer = program.last_writers()
        self.changed = ChangedRows(program.table_of_rows.values(), program.trainers)
        self.answers = Answers(program, blocks, self.changed, lambda: self.steps)
        self.admission = Admission(program, self.takes)
        link = session.listen(program.endpoint, self.terms(), self.admission.check)
        self.link: ServerLink = traced_server_link(link, program.endpoint)
        self.rendezvous = TrainerRendezvous(self.link.reply)
        self.liveness = LivenessMonitor(limits_waits=not self.link.ends_waits)

    # ------------------------------------------------------------------ what trainers are told and asked
    def _declared_forms(self) -> dict[str, Form]:
        program = self.program
        if self.is_synchronous:
            # the sums that its blocks make of these nobody sends, nor counts of steps, which it counts itself
            names = program.merged
        else:
            names = [*program.arriving, *program.schedule_inputs()]
        return {name: form_of(self.program.block, name) for name in names}

    def terms(self) -> Terms:
        """The terms that trainers have to meet."""
        block = self.program.block
        held = [name for name, var in block.vars.items() if var.persistable or self.program.is_by_hand]
        return Terms(
            trainers=self.program.trainers,
            synchronous=self.is_synchronous,
            takes=self.takes,
            gives={name: form_of(block, name) for name in held},
            resumed=bool(block.program.distribution.loaded_checkpoint),
            steps=self.steps,
        )

    # ------------------------------------------------------------------ the loop
    def run(self) -> None:
        """Serve until all trainers have left. A signal to end ends the process well, as it does in fluid."""
        signals: list[str] = []
        try:
            with interrupted_by_signals(self.link, signals):
                self.serve()
        except Exception as error:  # trainers hear why before it is raised
            self.link.close(signals[0] if signals else str(error))
            if signals:
                raise SystemExit(0) from None
            raise
        self.link.close()

    def serve(self) -> None:
        """Take messages until no trainer is left."""
        if self.program.schedule is not None and not self.is_synchronous:
            self._run_block(self.program.schedule)  # the first gradient may come before a count of steps
        while self.here:
            found = self.link.next_message(self.liveness.patience(bool(self.at_barrier)))
            if found is not None:
                self.handle(*found)
            for trainer, why in self.liveness.overdue(self.here - set(self.at_barrier)):
                self.give_up(trainer, why)

    def handle(self, to: Any, message: Message) -> None:
        """Do what one message asks for."""
        kind = message.kind
        trainer = message.trainer
        if kind is Kind.LOST:
            if trainer in self.here:
                self.liveness.lose(trainer, message.name)
            return
        self.liveness.hear(trainer)
        if kind in (Kind.SEND, Kind.BARRIER) and 0 <= trainer < self.program.trainers:
            self.here.add(trainer)  # one that was given up, or had left, may come back
        if kind is Kind.SEND:
            self._take(to, message)
        elif kind is Kind.COMPLETE:
            self.left[trainer] = self.steps
            self.leave(trainer)
        elif kind is Kind.BARRIER:
            if self.at_barrier.get(trainer) == to and to is not None:
                self.link.reply(to, Error(f"trainer {trainer} ends a step that it has already ended"))
                return
            self.at_barrier[trainer] = to
            self._go_on()
        elif kind in _RENDEZVOUS:
            self.rendezvous.come(to, message)
            self.rendezvous.answer_when_complete(self.here, self.at_barrier)
        elif kind is Kind.WANT:
            self._want(to, message)
        else:
            self.link.reply(to, self.answers.to(message))

    def _want(self, to: Any, message: Message) -> None:
        """Keep a question until the step is done; one more than a program can have is refused."""
        asked = self.wanted.setdefault(message.trainer, deque())
        if len(asked) < _MOST_WANTED:
            asked.append((to, message))
        else:
            text = f"trainer {message.trainer} asks for more than {_MOST_WANTED} values in one step"
            self.link.reply(to, Error(text))

    def _go_on(self) -> None:
        """Do what the trainers that are there may have waited for."""
        self._step_when_complete()
        self.rendezvous.answer_when_complete(self.here, self.at_barrier)

    # ------------------------------------------------------------------ trainers that go
    def leave(self, trainer: int) -> None:
        """A trainer sends nothing more: what it has sent of a step that it does not end does not count."""
        self.here.discard(trainer)
        self.wanted.pop(trainer, None)
        # one that has ended the step before it left has sent all of its gradients
        if self.at_barrier.pop(trainer, None) is None:
            self.arrived = {name: sender for name, sender in self.arrived.items() if sender != trainer}
        self.rendezvous.leave(trainer)
        self._go_on()

    def give_up(self, trainer: int, why: str) -> None:
        """A trainer is lost: go on without it, or stop, as FLAGS_rpc_lost_trainer says; asynchronous
        servers always go on.
        """
        policy = flags.get_flags("FLAGS_rpc_lost_trainer")["FLAGS_rpc_lost_trainer"]
        if policy not in ("stop", "go_on"):
            raise CommunicatorError(
                f"trainer {trainer} {why}; FLAGS_rpc_lost_trainer should be 'stop' or 'go_on', not {policy!r}"
            )
        if self.is_synchronous and policy == "stop":
            raise CommunicatorError(
                f"trainer {trainer} {why}, and a step cannot be completed without it (with "
                "FLAGS_rpc_lost_trainer=go_on the others continue alone)"
            )
        _log.warning("trainer %d %s: the others continue without it", trainer, why)
        self.leave(trainer)

    # ------------------------------------------------------------------ gradients
    def _take(self, to: Any, message: Message) -> None:
        """Take a gradient, rows of a table, or a trainer's count of its steps."""
        name = message.name
        program = self.program
        if name not in self.takes:
            self.link.reply(to, Error(self.admission.unexpected(message.trainer, name)))
            return
        if flags.check_nan_inf():
            check_finite(message)
        if name in program.table_of_rows:
            self._add_rows(program.table_of_rows[name], message.value)
        elif name in program.of_gradient and not self.is_synchronous:
            if program.trainer_id is not None:
                self.blocks.write(program.trainer_id, np.array([message.trainer]))
            self.blocks.hold(name, message.value)
            self._run_block(program.of_gradient[name])
        elif name in program.merged:
            self.blocks.hold(name, message.value)
            self.arrived[name] = message.trainer
        elif program.schedule is not None:
            self.blocks.write(name, self.blocks.find(name) + message.value)
            self._run_block(program.schedule)

    def _add_rows(self, name: str, change: SelectedRows) -> None:
        self.link.keep_replies()  # rows are added in place
        table = self.blocks.find(name)
        add_rows(table, change)
        self.changed.note(name, change.ids, len(table))

    def _run_block(self, block: Block) -> None:
        """Run one of the server's blocks, which changes values that may be on their way to trainers."""
        self.link.keep_replies()
        self.blocks.run(block)

    # ------------------------------------------------------------------ steps of a synchronous server
    def _step_when_complete(self) -> None:
        """Once every trainer that is still there has sent its gradients: update, and let them go on."""
        if not self.here or not self.here <= set(self.at_barrier):
            return
        if not self.is_synchronous:
            self._end_of_applied_step()
            return
        missing = self._sent_by_nobody()
        if missing:
            self._refuse_step(missing)
            return
        if self.left:
            self._report_left()
        self.link.keep_replies()
        if self.program.schedule is not None:
            self.blocks.run(self.program.schedule)
        for gradient in self.program.of_gradient:
            self._fill_gaps(self.program.terms_of(gradient))
        for number, block in enumerate(self.program.step_blocks):
            self.blocks.run(block)
            self._answer_wanted(number)
        self.steps += 1
        self.arrived.clear()
        self._let_go_on()

    def _sent_by_nobody(self) -> list[str]:
        """The gradients that no trainer has sent in this step."""
        terms = {name: self.program.terms_of(name) for name in self.program.of_gradient}
        return [name for name, sent in terms.items() if sent and self.arrived.keys().isdisjoint(sent)]

    def _refuse_step(self, missing: list[str]) -> None:
        """Tell the trainers that end a step without gradients; the parameters stay as they are."""
        waiting = self.at_barrier
        self.at_barrier = {}
        who = ", ".join(map(str, sorted(waiting)))
        text = f"trainer {who} ended a step, and no trainer has sent {', '.join(map(repr, missing))}"
        for trainer, to in waiting.items():
            for asked, _ in self.wanted.pop(trainer, ()):
                self.link.reply(asked, Error(text))
            self.link.reply(to, Error(text))

    def _end_of_applied_step(self) -> None:
        """The end of a step whose gradients, of a single trainer, were applied as they came."""
        if self.program.schedule is not None:
            self._run_block(self.program.schedule)  # the rate of the next step
        self.steps += 1
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Answer the trainers that are at the barrier, and first what they have asked for."""
        self._answer_wanted(len(self.program.step_blocks))
        waiting = self.at_barrier
        self.at_barrier = {}
        for to in waiting.values():
            self.link.reply(to, None)

    def _report_left(self) -> None:
        """Say who takes no part in this step any more, though others do: ranks should have as many steps."""
        others = sorted(self.here)
        go_on = f"trainer{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
        for trainer, steps in self.left.items():
            _log.warning(
                "trainer %d left after step %d; these continue without it: %s", trainer, steps, go_on
            )
        self.left.clear()

    def _answer_wanted(self, done: int) -> None:
        """Send what trainers want, each in the order in which it asked, as far as the blocks up to number
        `done` have updated it: values travel while the other blocks run.
        """
        for waiting in self.wanted.values():
            while waiting and self.last_writer.get(waiting[0][1].name, -1) <= done:
                to, message = waiting.popleft()
                self.link.reply(to, self.answers.to(message))

    def _fill_gaps(self, names: list[str]) -> None:
        """Give the gradients that did not come the mean of the others: a trainer that has left, or had no
        gradient, does not pull the mean of all.
        """
        there = [name for name in names if name in self.arrived]
        if len(there) == len(names):
            return
        mean = _mean([self.blocks.find(name) for name in there])
        for name in names:
            if name not in self.arrived:
                self.blocks.hold(name, mean)


def _mean(values: list[Any]) -> Any:
    """The mean of gradients; of sparse ones the rows of all, each divided by their number."""
    if not isinstance(values[0], SelectedRows):
        return sum(values[1:], values[0].copy()) / len(values)
    ids = np.concatenate([value.ids for value in values])
    rows = np.concatenate([value.array for value in values])
    return SelectedRows(ids, values[0].height(), rows / len(values))


def check_finite(message: Message) -> None:
    """NanInfError, with the trainer and the variable, where a gradient holds a NaN or an infinity."""
    array = host(message.value.array if isinstance(message.value, SelectedRows) else message.value)
    if array.dtype.kind != "f":
        return
    wrong = int((~np.isfinite(array)).sum())
    if wrong:
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise NanInfError(
            f"trainer {message.trainer} sends {message.name!r} with {wrong} of {array.size} "
            f"elements that are not finite ({what} among them)"
        )
