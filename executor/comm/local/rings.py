"""Rings whose ranks are threads of one process. The ranks of a call do its work together, in the order of the
ranks, so that results never depend on the order in which they come.

Each rank of an all-reduce reduces one share of the elements for all ranks, when all have come and it waits
for anything: one thread alone would use one core.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.local.network import LocalRole
from fluidlite.executor.comm.reduction import RankCall, check_alike, part_of, reduce_part, reducible
from fluidlite.executor.comm.rings import HostRing, ReductionRequest, moved_to
from fluidlite.values.tensor import host

__all__ = ["LocalRing"]


class _RingRendezvous:
    """The ranks that have come to one collective call, with their calls and the arrays for the result."""

    def __init__(self, size: int) -> None:
        self.calls: list[RankCall | None] = [None] * size
        self.targets: list[Any] = [None] * size
        self.shares_done = 0

    def is_complete(self) -> bool:
        """True if all ranks have come."""
        return None not in self.calls


class LocalRing(HostRing):
    """Rank `rank` of a ring whose ranks are threads; `key` is the same for all of them."""

    def __init__(self, role: LocalRole, key: Hashable, ring_id: int, rank: int, size: int) -> None:
        super().__init__(ring_id, rank, size)
        self.role = role
        self.network = role.network
        self.key = key
        self._count = 0

    # ------------------------------------------------------------------ collective calls
    def _come(self, call: RankCall, target: Any = None) -> tuple[_RingRendezvous, str]:
        """Come to the next call; the others come when they will. The text says what a wait is for."""
        self._count += 1
        key = self.key, self._count
        network = self.network
        with network.changed:
            rendezvous: _RingRendezvous = network.ring_calls.setdefault(key, _RingRendezvous(self.size))
            if rendezvous.calls[self.rank] is not None:
                raise CommunicatorError(f"two processes claim to be rank {self.rank} of ring {self.ring_id}")
            rendezvous.calls[self.rank] = call
            rendezvous.targets[self.rank] = target
            if rendezvous.is_complete():
                del network.ring_calls[key]
                network.changed.notify_all()
        return rendezvous, f"the other ranks of ring {self.ring_id} ({call.what}, call {self._count})"

    def values_of(self, rendezvous: _RingRendezvous, waited_for: str) -> list[Any]:
        """Every rank's value, once all have come."""
        with self.network.changed:
            self.role.wait(rendezvous.is_complete, waited_for)
        calls = [call for call in rendezvous.calls if call is not None]
        check_alike(self.ring_id, calls)
        return [call.value for call in calls]

    def _gather(self, what: str, value: Any, ragged: bool = False) -> list[Any]:
        """Copies of every rank's value: those of the others stay as they are when their threads go on."""
        return self.values_of(*self._come(RankCall(what, value.copy(), self.role.name, ragged)))

    def _note_bytes(self, nbytes: int) -> None:
        """Note what this rank would send to its neighbour, were the ring one of machines."""
        self.role.count(f"ring {self.ring_id}", nbytes)

    # ------------------------------------------------------------------ what a HostRing needs
    def _start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        rendezvous, text = self._come(RankCall(f"all-reduce {reduce_op}", source, self.role.name), target)
        self._note_bytes(source.nbytes * 2 * (self.size - 1) // self.size)  # as a ring all-reduce sends
        return _LocalReduction(self, rendezvous, reduce_op, text)

    def _broadcast(self, array: Any, root: int) -> Any:
        self._note_bytes(array.nbytes)
        return self._gather(f"broadcast from {root}", array)[root].copy()

    def _all_gather(self, array: Any, what: str = "all-gather") -> list[Any]:
        self._note_bytes(array.nbytes * (self.size - 1))
        return [part.copy() for part in self._gather(what, array, ragged=True)]

    def reduce_scatter(self, value: Any, reduce_op: str = "sum") -> Any:
        """This rank's rows of the reduction, which it alone adds up."""
        self.check_shares(value)
        array = host(value)
        work, work_op = reducible(array, reduce_op)
        self._note_bytes(array.nbytes * (self.size - 1) // self.size)
        rows = len(array) // self.size
        mine = slice(self.rank * rows, (self.rank + 1) * rows)
        sources = [part[mine].reshape(-1) for part in self._gather(f"reduce-scatter {reduce_op}", work)]
        total = np.empty(sources[0].shape, work.dtype)
        reduce_part(sources, [total], work_op, slice(0, total.size))
        found = total.view(np.bool_) if array.dtype == np.bool_ else total.astype(array.dtype, copy=False)
        return moved_to(value, found.reshape(rows, *array.shape[1:]))

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """The parts for this rank, of which nobody else takes a copy."""
        self.check_parts(parts)
        arrays = [np.ascontiguousarray(host(part)) for part in parts]
        sizes = np.array([len(array) for array in arrays], np.int64)
        ends = [np.cumsum(counts) for counts in self._gather("sizes of an all-to-all", sizes)]
        found = self._gather("all-to-all", np.concatenate(arrays), ragged=True)
        self._note_bytes(sum(array.nbytes for array in arrays) - arrays[self.rank].nbytes)
        mine = [
            everything[: int(end[self.rank])][int(end[self.rank - 1]) if self.rank else 0 :].copy()
            for end, everything in zip(ends, found, strict=True)
        ]
        return [moved_to(parts[0], part) for part in mine]

    # ------------------------------------------------------------------ from rank to rank
    def send(self, value: Any, peer: int) -> None:
        """Put a copy of a value where rank `peer` takes it."""
        self.check_peer(peer)
        with self.network.changed:
            self.network.rank_values[self.key, self.rank, peer].append(host(value).copy())
            self.network.changed.notify_all()

    def receive(self, peer: int) -> Any:
        """Take the next value that rank `peer` has put there."""
        self.check_peer(peer)
        with self.network.changed:
            box = self.network.rank_values[self.key, peer, self.rank]
            self.role.wait(lambda: bool(box), f"rank {peer} of ring {self.ring_id} to send")
            return box.popleft()


class _LocalReduction:
    """An all-reduce that this rank has started."""

    def __init__(self, ring: LocalRing, rendezvous: _RingRendezvous, reduce_op: str, text: str) -> None:
        self.ring = ring
        self.rendezvous = rendezvous
        self.reduce_op = reduce_op
        self.text = text
        self.shared = False
        ring.role.reductions.append(self)

    def poll(self) -> None:
        """Do nothing: a thread does its share when it waits."""

    def is_ready(self) -> bool:
        """True if this rank can do its share."""
        return not self.shared and self.rendezvous.is_complete()

    def is_done(self) -> bool:
        """True if all ranks have done theirs."""
        return self.rendezvous.shares_done == self.ring.size

    def share(self) -> None:
        """Reduce this rank's share of the elements into the targets of all ranks."""
        self.shared = True
        sources = [value.reshape(-1) for value in self.ring.values_of(self.rendezvous, self.text)]
        targets = [target.reshape(-1) for target in self.rendezvous.targets]
        reduce_part(sources, targets, self.reduce_op, part_of(sources[0], self.ring.rank, self.ring.size))
        with self.ring.network.changed:
            self.rendezvous.shares_done += 1
            if self.is_done():
                self.ring.network.changed.notify_all()

    def wait(self) -> None:
        """Return once every element of the target is there. Others may wait for another reduction first:
        they get this rank's share of it meanwhile.
        """
        ring = self.ring
        started = self.ring.role.reductions
        while not self.is_done():
            for other in [other for other in started if other.is_ready()]:
                other.share()
            with ring.network.changed:
                ring.role.wait(
                    lambda: self.is_done() or any(other.is_ready() for other in started), self.text
                )
        started[:] = [other for other in started if not other.shared]
