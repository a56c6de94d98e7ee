"""Trainers that come together at a server, as they do to save a checkpoint: it passes on what they bring."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.wire import pack

__all__ = ["TrainerRendezvous"]


class TrainerRendezvous:
    """The trainers that have come, until all that are still there have.

    With GATHER the one of the lowest number gets what all have brought, in the order of their numbers, and
    the others get nothing. With SHARE all get what that one has brought.
    """

    def __init__(self, reply: Callable[[Any, Any], None]) -> None:
        self._reply = reply
        self._come: dict[int, tuple[Any, Message]] = {}

    def come(self, to: Any, message: Message) -> None:
        """A trainer has come."""
        self._come[message.trainer] = to, message

    def leave(self, trainer: int) -> None:
        """A trainer does not take part any more."""
        self._come.pop(trainer, None)

    def answer_when_complete(self, here: Collection[int], at_barrier: Collection[int]) -> None:
        """Answer where all trainers that are still `here` have come. Where those who are missing wait at the
        barrier of a step, and so for those who have come, the answer is an error.
        """
        if not self._come or not set(here) <= {*self._come, *at_barrier}:
            return
        calls = {(message.kind, message.name) for _, message in self._come.values()}
        names = sorted({name for _, name in calls})
        # each of the two groups waits for the other one, and nobody else is there to end that
        absent = sorted(set(at_barrier) - set(self._come))
        if absent:
            self._refuse(
                f"trainer {_numbers(self._come)} saves or loads a checkpoint ({names[0]}), but "
                f"trainer {_numbers(absent)} ends a step: all trainers have to take part after the "
                "same step"
            )
        elif len(calls) > 1:
            self._refuse(f"trainers do not save or load the same checkpoint: {', '.join(names)}")
        else:
            self._answer()

    def _answer(self) -> None:
        come = self._come
        self._come = {}
        order = sorted(come)
        values = [come[trainer][1].value for trainer in order]
        for trainer in order:
            answer = None
            if come[trainer][1].kind is Kind.SHARE:
                answer = values[0]
            elif trainer == order[0]:
                answer = pack(values)
            self._reply(come[trainer][0], answer)

    def _refuse(self, why: str) -> None:
        come = self._come
        self._come = {}
        for to, _ in come.values():
            self._reply(to, Error(why))


def _numbers(trainers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(trainers)))
