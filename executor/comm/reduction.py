"""What ranks agree on before they reduce, and how elements are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError

__all__ = ["REDUCE", "check_alike", "part_of", "reducible", "said"]

REDUCE: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
_CHUNK = 1 << 15  # elements that stay in a core's cache from the sum to the copies of it
_HALVES = frozenset({"float16", "bfloat16"})


def reducible(array: Any, how: str) -> tuple[Any, str]:
    """An array of a type that every transport adds correctly, and the reduction of its elements that `how`
    means.

    Half floats are added as float32 and rounded once; truths as bytes, for which a sum is whether one is
    true. The array is the one that was given where nothing has to be changed, and it is contiguous.
    """
    if array.dtype.name in _HALVES:
        return array.astype(np.float32), how
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array).view(np.uint8), {"sum": "max", "prod": "min"}.get(how, how)
    if array.dtype.kind not in "fiu":
        raise CommunicatorError(f"arrays of {array.dtype} cannot be reduced")
    return (array if array.flags.c_contiguous else np.ascontiguousarray(array)), how


def part_of(array: Any, index: int, count: int) -> slice:
    """The elements of a flat array that rank `index` of `count` puts together."""
    return slice(index * array.size // count, (index + 1) * array.size // count)


def reduce_part(sources: Sequence[Any], targets: Sequence[Any], how: str, part: slice) -> None:
    """Put some elements of all sources together, in the order of the ranks, into every target (which may
    be the sources).
    """
    first = targets[0]
    for start in range(part.start, part.stop, _CHUNK):
        here = slice(start, min(start + _CHUNK, part.stop))
        if len(sources) == 1:
            first[here] = sources[0][here]
        for index, source in enumerate(sources[1:]):
            REDUCE[how](first[here] if index else sources[0][here], source[here], out=first[here])
        for target in targets[1:]:
            target[here] = first[here]


def said(what: str, value: Any) -> str:
    """What a rank wants, as errors spell it."""
    return f"{what} of {'nothing' if value is None else f'{value.dtype}{list(value.shape)}'}"


def check_alike(ring_id: int, places: Sequence[tuple[str, Any, str]]) -> None:
    """CommunicatorError where ranks met for different things: `places` holds what, the value, and the role
    of each.
    """

    def of(place: tuple[str, Any, str]) -> tuple[str, Any]:
        what, value, _ = place
        if value is None:
            return what, None
        return what, (value.shape[1:] if "gather" in what else value.shape, value.dtype)

    if any(of(place) != of(places[0]) for place in places):
        raise CommunicatorError(
            f"the ranks of ring {ring_id} do not agree: "
            + ", ".join(f"{role} wants {said(what, value)}" for what, value, role in places)
        )
