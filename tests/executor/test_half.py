"""Rounding to half precision."""

from __future__ import annotations

import numpy as np

from fluidlite.executor.run.half import as_float16


def test_float16_is_rounded_as_numpy_does() -> None:
    rng = np.random.RandomState(0)
    spread = rng.normal(size=20000) * 10.0 ** rng.uniform(-9, 5, 20000)
    corners = [0.0, -0.0, np.inf, -np.inf, 2.0**-24, 2.0**-25, -(2.0**-25), 2.0**-14, 65519.0, 65520.0]
    values = np.concatenate((spread, corners)).astype("float32")
    with np.errstate(over="ignore"):
        wanted = values.astype("float16")
    assert np.array_equal(as_float16(values).view("uint16"), wanted.view("uint16"))
    assert np.isnan(as_float16(np.array([np.nan, 1e-6], "float32"))[0])
