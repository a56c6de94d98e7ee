"""NCCL between threads (`fake_nccl`), as work of the streams that its calls name."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import fake_nccl
import numpy as np

from gpu_sim.streams import place_of, stream_of, submit

__all__ = ["module"]


def _bytes(count: int, kind: int) -> int:
    return count * np.dtype(fake_nccl.TYPES[kind]).itemsize


class Communicator(fake_nccl.NcclCommunicator):
    """A rank whose calls are ordered by streams: memory that other work may still write is an error."""

    def _submit(
        self, name: str, reads: tuple[int, int], writes: tuple[int, int], stream: int, run: Callable[[], None]
    ) -> None:
        def places(place: tuple[int, int]) -> list[Any]:
            return [place_of(*place)] if place[1] else []

        submit(f"NCCL {name}", places(reads), places(writes), run, stream_of(stream))

    def allReduce(self, source: int, target: int, count: int, kind: int, how: int, stream: int) -> None:
        size, call = _bytes(count, kind), super().allReduce
        run = lambda: call(source, target, count, kind, how, stream)
        self._submit("allReduce", (source, size), (target, size), stream, run)

    def reduce(
        self, source: int, target: int, count: int, kind: int, how: int, root: int, stream: int
    ) -> None:
        size, call = _bytes(count, kind), super().reduce
        run = lambda: call(source, target, count, kind, how, root, stream)
        written = size if self.rank == root else 0
        self._submit("reduce", (source, size), (target, written), stream, run)

    def reduceScatter(self, source: int, target: int, count: int, kind: int, how: int, stream: int) -> None:
        size, call = _bytes(count, kind), super().reduceScatter
        run = lambda: call(source, target, count, kind, how, stream)
        self._submit("reduceScatter", (source, size * self.count), (target, size), stream, run)

    def broadcast(self, source: int, target: int, count: int, kind: int, root: int, stream: int) -> None:
        size, call = _bytes(count, kind), super().broadcast
        run = lambda: call(source, target, count, kind, root, stream)
        self._submit("broadcast", (source, size), (target, size), stream, run)

    def allGather(self, source: int, target: int, count: int, kind: int, stream: int) -> None:
        size, call = _bytes(count, kind), super().allGather
        run = lambda: call(source, target, count, kind, stream)
        self._submit("allGather", (source, size), (target, size * self.count), stream, run)

    def send(self, source: int, count: int, kind: int, peer: int, stream: int) -> None:
        call = super().send
        run = lambda: call(source, count, kind, peer, stream)
        self._submit("send", (source, _bytes(count, kind)), (0, 0), stream, run)

    def recv(self, target: int, count: int, kind: int, peer: int, stream: int) -> None:
        call = super().recv
        run = lambda: call(target, count, kind, peer, stream)
        self._submit("recv", (0, 0), (target, _bytes(count, kind)), stream, run)


def module() -> types.ModuleType:
    """`cupy.cuda.nccl`."""
    found = types.ModuleType("cupy.cuda.nccl")
    found.__dict__.update(vars(fake_nccl.modules()[1]))
    found.__dict__["NcclCommunicator"] = Communicator
    return found
