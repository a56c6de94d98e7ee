"""Python objects among ranks: what JSON can say, arrays and bytes. Nothing is pickled."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError
from fluidlite.executor.comm.objects import decode, encode
from fluidlite.paddle.distributed.communication.group import Group
from fluidlite.paddle.distributed.communication.tensors import Members

__all__ = ["all_gather_object", "broadcast_object_list", "scatter_object_list"]


def _bytes(value: Any) -> Any:
    return np.frombuffer(encode(value), np.uint8)


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """Append every rank's object to a list."""
    members = Members(group)
    if members.rank >= 0:
        object_list.extend(decode(part.tobytes()) for part in members.ring.all_gather(_bytes(obj)))


def broadcast_object_list(object_list: list[Any], src: int, group: Group | None = None) -> None:
    """Let the lists of all ranks have the objects of rank `src`, in place."""
    members = Members(group)
    if members.rank < 0:
        return
    root = members.number(src, "src")
    is_root = members.rank == root
    if is_root and not object_list:
        raise ArgumentError("the list of objects to be broadcast is empty")
    data = _bytes(list(object_list)) if is_root else np.zeros(0, np.uint8)
    size = int(members.ring.broadcast(np.array([data.size]), root)[0])
    found = members.ring.broadcast(data if is_root else np.zeros(size, np.uint8), root)
    object_list[:] = decode(found.tobytes())


def scatter_object_list(
    out_object_list: list[Any],
    in_object_list: list[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
) -> None:
    """Put this rank's object of the list of rank `src` into `out_object_list`, in place."""
    members = Members(group)
    if members.rank < 0:
        return
    root = members.number(src, "src")
    given = list(in_object_list or []) if members.rank == root else []
    if members.rank == root and len(given) != members.size:
        raise ArgumentError(f"rank {src} scatters {len(given)} objects, but there are {members.size} ranks")
    nothing = np.zeros(0, np.uint8)
    parts = [_bytes(value) for value in given] or [nothing] * members.size
    out_object_list[:] = [decode(members.ring.all_to_all(parts)[root].tobytes())]
