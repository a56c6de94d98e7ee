"""`fluid.contrib.reader.distributed_reader`: each trainer its batches of a common reader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["distributed_batch_reader"]


def distributed_batch_reader(batch_reader: Callable[[], Iterable[Any]]) -> Callable[[], Iterator[Any]]:
    """A reader of every n-th batch, where this is one of the n trainers that PADDLE_TRAINERS_NUM and
    PADDLE_TRAINER_ID count.

    Batches that are left over where n does not divide their number are left out, so that all trainers take as
    many steps.
    """
    trainers, trainer = int(os.getenv("PADDLE_TRAINERS_NUM", "1")), int(os.getenv("PADDLE_TRAINER_ID", "0"))
    if not 0 <= trainer < trainers:
        raise AssertionError(f"PADDLE_TRAINER_ID={trainer} must be less than PADDLE_TRAINERS_NUM={trainers}")

    def read() -> Iterator[Any]:
        mine: Any = None
        for number, batch in enumerate(batch_reader()):
            if number % trainers == trainer:
                mine = batch
            if number % trainers == trainers - 1:
                yield mine

    return read
