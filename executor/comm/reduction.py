"""What ranks agree on before they reduce, and how."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError

__all__ = ["REDUCE", "check_alike"]

REDUCE: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def check_alike(ring_id: int, places: Sequence[tuple[str, Any, str]]) -> None:
    """CommunicatorError where ranks met for different things: `places` holds what, the value, and the role of each."""
    def of(place: tuple[str, Any, str]) -> tuple[str, Any]:
        what, value, _ = place
        return what, None if value is None or "gather" in what else (value.shape, value.dtype)

    first = places[0]
    for other in places[1:]:
        if of(other) != of(first):
            raise CommunicatorError(f"the ranks of ring {ring_id} do not agree: {_text(first)}, {_text(other)}")


def _text(place: tuple[str, Any, str]) -> str:
    what, value, role = place
    shape = "nothing" if value is None else f"{value.dtype}{list(value.shape)}"
    return f"{role} wants {what} of {shape}"
