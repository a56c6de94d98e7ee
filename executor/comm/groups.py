"""Rings that processes form by their numbers, without a program that joins them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from fluidlite.executor.comm.nccl.rings import NcclRing, unique_id
from fluidlite.executor.comm.session import Session

__all__ = ["form_ring"]

_NAME_BYTES = 128  # as long as NCCL's unique ids


def form_ring(
    session: Session, ring_id: int, members: Sequence[int], endpoints: Sequence[str], on_device: bool = False
) -> None:
    """Make the ring of the processes `members`, in this order, and wait until all of them make it.

    endpoints: what the members are called, as the startup programs of the job call them too. A process that
    is no member does nothing, and one that is not connected to as many others neither: programs are built
    and looked at there. `on_device` has NCCL do what it can of the ring.
    """
    here, count = session.place
    if here not in members or max(members) >= count:
        return
    rank = list(members).index(here)

    def make() -> bytes:
        return unique_id() if on_device else secrets.token_bytes(_NAME_BYTES)

    name = session.agree_on_id(endpoints, rank, make)
    session.join(ring_id, rank, len(members), name)
    if on_device:
        session.replace_ring(NcclRing(session.ring(ring_id), name))
