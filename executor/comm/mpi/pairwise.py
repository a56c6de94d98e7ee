"""All-reduce of large arrays under `mpirun`, made of messages between pairs.

Of n ranks each reduces the n-th part of the array that is its own, in the order of the ranks, and sends the
result to the others: two exchanges of (n - 1) / n of the array. MPI's own all-reduce takes two to three times
as long for 64 MB on one machine (MPICH 5.0, Open MPI 5.0): it moves such arrays through small buffers, and so
do its requests in place.
"""

from __future__ import annotations

from typing import Any

from fluidlite.executor.comm.reduction import REDUCE, part_of
from fluidlite.executor.comm.wire import receive_buffer

__all__ = ["PairwiseReduction"]


class PairwiseReduction:
    """A request for the reduction of `source` into `target`, which may be `source`; no other call uses `tag`
    and the tag after it.

    It makes progress only where `Test` is called: when the others' values of this rank's part have come, it
    reduces them; when all results have come, it is done.
    """

    def __init__(self, mpi: Any, comm: Any, source: Any, target: Any, reduce_op: str, tag: int) -> None:
        self.mpi = mpi
        self.comm = comm
        self.reduce_op = reduce_op
        self.tag = tag
        self.source = source.reshape(-1)
        self.target = target.reshape(-1)
        self.parts = [part_of(self.source, rank, comm.size) for rank in range(comm.size)]
        self.others = [rank for rank in range(comm.size) if rank != comm.rank]
        self.mine = self.parts[comm.rank]
        # the others' values of this rank's part, one row for each
        self.theirs = receive_buffer((len(self.others), self.mine.stop - self.mine.start), self.source.dtype)
        places = zip(self.others, self.theirs, strict=True)
        self.requests = [comm.Irecv(place, rank, tag) for rank, place in places]
        self.requests += [comm.Isend(self.source[self.parts[rank]], rank, tag) for rank in self.others]
        self.is_reduced = False

    def Test(self) -> bool:
        """True if all is done; the method has the name that MPI's requests have for it."""
        if not self.mpi.Request.Testall(self.requests):
            return False
        if self.is_reduced:
            return True
        self.is_reduced = True
        self._reduce()
        tag = self.tag + 1
        mine = self.target[self.mine]
        self.requests = [self.comm.Irecv(self.target[self.parts[rank]], rank, tag) for rank in self.others]
        self.requests += [self.comm.Isend(mine, rank, tag) for rank in self.others]
        return bool(self.mpi.Request.Testall(self.requests))

    def _reduce(self) -> None:
        """Reduce this rank's part, in the order of the ranks. Only the last step may write over this rank's
        own values, for `target` may be `source`.
        """
        if not self.others:  # there is nothing to combine, and `target` may be another array
            self.target[...] = self.source
            return
        combine = REDUCE[self.reduce_op]
        operands = list(self.theirs)
        operands.insert(self.comm.rank, self.source[self.mine])
        total = operands[0]
        for operand in operands[1:-1]:
            total = combine(total, operand, out=self.theirs[0])
        combine(total, operands[-1], out=self.target[self.mine])
