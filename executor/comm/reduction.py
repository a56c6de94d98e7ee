"""The arithmetic of collective calls, and the check that all ranks make the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.errors import CommunicatorError

__all__ = ["REDUCE", "RankCall", "call_text", "check_alike", "part_of", "reduce_part", "reducible"]

REDUCE: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
_CHUNK = 1 << 15  # elements that stay in a core's cache from the sum to the copies of it
_HALVES = frozenset({"float16", "bfloat16"})
_OF_BYTES = {"sum": "max", "prod": "min"}  # the reductions of truths, as those of bytes that are 0 or 1


def reducible(array: Any, reduce_op: str) -> tuple[Any, str]:
    """A contiguous array of a type that every transport adds correctly, and the reduction of its elements
    that `reduce_op` amounts to.

    Half floats are added as float32 and rounded once. Truths are reduced as bytes: their sum is true if one
    of them is. The array is the given one where nothing has to be changed.
    """
    if array.dtype.name in _HALVES:
        return array.astype(np.float32), reduce_op
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array).view(np.uint8), _OF_BYTES.get(reduce_op, reduce_op)
    if array.dtype.kind not in "fiu":
        raise CommunicatorError(f"arrays of {array.dtype} cannot be reduced")
    return (array if array.flags.c_contiguous else np.ascontiguousarray(array)), reduce_op


def part_of(array: Any, index: int, count: int) -> slice:
    """The elements of a flat array that rank `index` of `count` reduces."""
    return slice(index * array.size // count, (index + 1) * array.size // count)


def reduce_part(sources: Sequence[Any], targets: Sequence[Any], reduce_op: str, part: slice) -> None:
    """Reduce some elements of all sources, in the order of the ranks, into every target (which may be the
    sources).
    """
    for start in range(part.start, part.stop, _CHUNK):
        _reduce_chunk(sources, targets, reduce_op, slice(start, min(start + _CHUNK, part.stop)))


def _reduce_chunk(sources: Sequence[Any], targets: Sequence[Any], reduce_op: str, chunk: slice) -> None:
    total = targets[0][chunk]
    if len(sources) == 1:
        total[...] = sources[0][chunk]
    else:
        combine = REDUCE[reduce_op]
        combine(sources[0][chunk], sources[1][chunk], out=total)
        for source in sources[2:]:
            combine(total, source[chunk], out=total)
    for target in targets[1:]:
        target[chunk] = total


class RankCall(NamedTuple):
    """The collective call of one rank: its name and options as text, its value, and the rank's role.

    ragged: True where the values of the ranks may differ in their first dimension.
    """

    what: str
    value: Any
    role: str
    ragged: bool = False

    def form(self) -> Any:
        """The part of the call that has to be the same on all ranks."""
        if self.value is None:
            return self.what, None
        shape = self.value.shape[1:] if self.ragged else self.value.shape
        return self.what, shape, self.value.dtype


def call_text(what: str, value: Any) -> str:
    """A collective call with its value, as errors name it."""
    if value is None:
        return f"{what} of nothing"
    return f"{what} of {value.dtype}{list(value.shape)}"


def check_alike(ring_id: int, calls: Sequence[RankCall]) -> None:
    """CommunicatorError where the ranks of a ring do not make the same call."""
    first = calls[0].form()
    if any(call.form() != first for call in calls):
        wishes = ", ".join(f"{call.role} wants {call_text(call.what, call.value)}" for call in calls)
        raise CommunicatorError(f"the ranks of ring {ring_id} do not agree: {wishes}")
