"""Making LoDTensors from arrays, nested lists of sequences, or at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.imported_names import imported_names
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.guarded import guarded
from fluidlite.values.tensor import LoDTensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]


@short_tracebacks
def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Any) -> LoDTensor:
    """A LoDTensor of `data`, whose rows fall into sequences of the given lengths (outermost level first).

    `data`: an array, a LoDTensor, or lists nested as deep as there are levels, whose items become rows of one
    column. AssertionError where lists have other lengths, EnforceNotMet where the lengths do not fit the
    rows.
    """
    if isinstance(data, LoDTensor):
        return create_lod_tensor(np.array(data), recursive_seq_lens, place)
    if isinstance(data, list):
        return create_lod_tensor(
            _rows_of(data, [list(level) for level in recursive_seq_lens]), recursive_seq_lens, place
        )
    if not isinstance(data, np.ndarray):
        raise TypeError("data should be either a LoDTensor, a Numpy array or a list")
    tensor = LoDTensor()
    tensor.set(data, place)
    tensor.set_recursive_sequence_lengths(recursive_seq_lens)
    return tensor


def _rows_of(data: list[Any], wanted: list[list[int]]) -> Array:
    """The items of nested lists, in rows [..., 1]."""
    items: list[Any] = data
    for lengths in wanted:
        found = [len(sequence) for sequence in items]
        if found != lengths:
            raise AssertionError(
                f"data and recursive_seq_lens do not match: lists have lengths {found}, not {lengths}"
            )
        items = [item for sequence in items for item in sequence]
    return np.array(items)[..., None]


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]], base_shape: Sequence[int], place: Any, low: int, high: int
) -> LoDTensor:
    """A LoDTensor of int64 from `low` to `high`, both included, one row of `base_shape` for each step of a
    sequence.

    The numbers are those of NumPy's global generator, which callers seed as they did for fluid.
    """
    if not isinstance(base_shape, list):
        raise AssertionError("base_shape should be a list")
    rows = sum(recursive_seq_lens[-1])
    data = np.random.randint(low, high + 1, size=[rows, *base_shape]).astype("int64")
    return create_lod_tensor(data, recursive_seq_lens, place)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
