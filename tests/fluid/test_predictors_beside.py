"""Predictors on models of 1.8.5 give what PaddlePaddle 1.8.5's give: `golden/predict_1x.py` runs on both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import predict_1x

from fluidlite import core

FOUND = predict_1x.observe(core)
WANTED = predict_1x.read(predict_1x.HERE / "predict_1x.json.gz")


def compare(found: Any, wanted: Any, rtol: float) -> None:
    """Results with equal names, shapes, types and levels of detail, and nearly equal values."""
    for out, expected in zip(found, wanted, strict=True):
        for key in ("shape", "lod", "dtype"):
            assert out[key] == expected[key]
        np.testing.assert_allclose(out["values"], expected["values"], rtol=rtol, atol=1e-5)


def test_every_method_of_paddle_is_there() -> None:
    # the C++ class of all configurations
    bases = {f"{name}.Config" for name in core.__all__ if name.endswith("Predictor")}
    assert not set(predict_1x.missing(core, WANTED["methods"])) - bases


@pytest.mark.parametrize("case", [case for case in WANTED if case != "methods"])
def test_as_in_paddle(case: str) -> None:
    if case.endswith(" names"):
        assert FOUND[case] == WANTED[case]
    else:
        # the gru that 1.8.5's optimizer fuses is not exact: see below
        compare(FOUND[case], WANTED[case], 1e-2 if case.startswith("tagger") else 1e-4)


def test_the_tagger_is_what_the_executor_of_paddle_gives() -> None:
    with np.load(str(predict_1x.HERE / "models" / "tagger" / "example.npz")) as arrays:
        exact = arrays["out/0"]
    np.testing.assert_allclose(FOUND["tagger folder"][0]["values"], exact, rtol=1e-5)
    assert np.abs(WANTED["tagger folder"][0]["values"] - exact).max() > 1e-3
