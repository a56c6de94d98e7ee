"""Making LoDTensors from arrays, lists of sequences, or at random."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.tensor import LoDTensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]


def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Any) -> LoDTensor:
    """A LoDTensor of `data`, whose rows fall into sequences of the given lengths (outermost level first).

    `data`: an array, a LoDTensor, or a list of sequences of integers (which becomes an int64 column). AssertionError
    where the lengths do not fit the rows.
    """
    if isinstance(data, LoDTensor):
        return create_lod_tensor(np.array(data), recursive_seq_lens, place)
    if isinstance(data, list):
        lengths = [len(sequence) for sequence in data]
        if [lengths] != [list(level) for level in recursive_seq_lens[-1:]]:
            raise AssertionError(f"data and recursive_seq_lens do not match: the sequences have lengths {lengths}")
        data = np.concatenate([np.asarray(sequence, dtype="int64").reshape(-1) for sequence in data]).reshape(-1, 1)
    if not isinstance(data, np.ndarray):
        raise TypeError("data should be either a LoDTensor, a Numpy array or a list.")
    tensor = LoDTensor()
    tensor.set(data, place)
    try:
        tensor.set_recursive_sequence_lengths(recursive_seq_lens)
    except ValueError as error:
        raise AssertionError(f"the provided lod info is invalid: {error}") from None
    return tensor


def create_random_int_lodtensor(recursive_seq_lens: Sequence[Sequence[int]], base_shape: Sequence[int], place: Any, low: int,
                                high: int) -> LoDTensor:
    """A LoDTensor of random int64 from `low` to `high` (both included), one row of `base_shape` for each element."""
    if not isinstance(base_shape, (list, tuple)):
        raise TypeError("base_shape should be a list")
    rows = sum(recursive_seq_lens[-1])
    data = np.random.default_rng().integers(low, high + 1, size=[rows, *base_shape], dtype="int64")
    return create_lod_tensor(data, recursive_seq_lens, place)
