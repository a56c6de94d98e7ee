"""Arrays in NumPy's format between processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fluidlite.values import npy


def test_threads_read_at_the_same_time() -> None:
    # one of some million ended in a SystemError of CPython 3.11, where nothing kept the threads apart
    data = npy.bytes_of_all([np.arange(6), np.ones((2, 3), "float32")])
    with ThreadPoolExecutor(4) as pool:
        for first, second in pool.map(npy.arrays_of, [data] * 400):
            assert first.tolist() == [0, 1, 2, 3, 4, 5] and second.shape == (2, 3)


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        npy.bytes_of(np.array([{}], dtype=object))


def test_an_array_comes_back() -> None:
    given = np.arange(6, dtype="int16").reshape(2, 3)[:, ::-1]
    np.testing.assert_array_equal(npy.array_of(npy.bytes_of(given)), given)
