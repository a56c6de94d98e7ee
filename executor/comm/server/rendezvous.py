"""Trainers that come together at a server, as they do to save a checkpoint: it passes on what they bring."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.executor.comm.messages import Error, Message

__all__ = ["SHARE", "Meeting", "pack", "unpack"]

SHARE = "share "  # what begins the name of a meeting in which all get what the first trainer brings


def pack(items: Sequence[Any]) -> Any:
    """Arrays of bytes in one."""
    parts = [
        np.frombuffer(struct.pack("<Q", item.size), np.uint8) if head else item
        for item in items
        for head in (True, False)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def unpack(packed: Any) -> list[Any]:
    """What `pack` was given; FormatError for other bytes."""
    found, place = [], 0
    while place < packed.size:
        (size,) = struct.unpack("<Q", packed[place : place + 8].tobytes().ljust(8, b"\xff"))
        place += 8
        if size > packed.size - place:
            raise FormatError("what trainers have brought to a meeting is cut off")
        found.append(packed[place : place + size])
        place += size
    return found


class Meeting:
    """Those who have come, until all trainers that are still there have.

    The first of them gets what everybody has brought, in the order of their numbers; the others get nothing.
    In a meeting that shares, all get what the first has brought.
    """

    def __init__(self, server: Any) -> None:
        self.server = server  # its `here`, `at_barrier`, `synchronous` and `link` are looked at
        self.come: dict[int, tuple[Any, Message]] = {}

    def take(self, to: Any, message: Message) -> None:
        """A trainer has come."""
        self.come[message.trainer] = to, message
        self.hold_when_all_are_there()

    def hold_when_all_are_there(self) -> None:
        """Hold the meeting, or call it off where those who are missing wait for those who have come."""
        here, waiting = self.server.here, set(self.server.at_barrier)
        names = {message.name for _, message in self.come.values()}
        if self.come and here <= set(self.come) | waiting:
            absent = sorted(waiting - set(self.come))
            if absent:
                self._call_off(
                    f"trainer {', '.join(map(str, sorted(self.come)))} saves or loads a checkpoint "
                    f"({min(names)}), but trainer "
                    f"{', '.join(map(str, absent))} ends a step: all trainers have to take part, after the "
                    f"same step"
                )
            elif len(names) > 1:
                self._call_off(
                    f"trainers do not save or load the same checkpoint: {', '.join(sorted(names))}"
                )
            else:
                self._hold()

    def _hold(self) -> None:
        come, self.come = self.come, {}
        order = sorted(come)
        values = [come[trainer][1].value for trainer in order]
        shared = come[order[0]][1].name.startswith(SHARE)
        for trainer in order:
            answer = values[0] if shared else pack(values) if trainer == order[0] else None
            self.server.link.reply(come[trainer][0], answer)

    def _call_off(self, why: str) -> None:
        come, self.come = self.come, {}
        for to, _ in come.values():
            self.server.link.reply(to, Error(why))
