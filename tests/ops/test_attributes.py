"""Attributes as ops get them: as 32-bit numbers, and within the limits that 1.8.5 has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.attr_limits import broken_limit
from fluidlite.base.errors import EnforceNotMet

X = np.linspace(-1, 1, 12).reshape(3, 4)
THIRD = float(np.float32(0.3))
RESULTS = {
    "clip": ({"min": -0.3, "max": 0.3}, X.clip(-THIRD, THIRD)),
    "leaky_relu": ({"alpha": 0.3}, np.where(X > 0, X, X * THIRD)),
    "scale": ({"scale": 0.3}, X * THIRD),
    "fill_any_like": ({"value": 0.3}, np.full_like(X, THIRD)),
}


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("op_type", RESULTS)
def test_kernels_get_32_bit_numbers(op_type: str, naive: bool) -> None:
    attrs, wanted = RESULTS[op_type]
    block = fluid.Program().global_block()
    x = block.create_var(name="x", shape=X.shape, dtype="float64", is_data=True)
    out = block.create_var(name="out")
    block.append_op(type=op_type, inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    (found,) = exe.run(block.program, feed={"x": X}, fetch_list=[out])
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [
        ("lstm", {"gate_activation": "softsign"}),
        ("prior_box", {"min_sizes": []}),
        ("prior_box", {"variances": [0.1, 0.1, 0.2]}),
        ("density_prior_box", {"densities": [2, 0]}),
        ("sequence_mask", {"maxlen": 0}),
        ("layer_norm", {"epsilon": 0.0011}),
    ],
)
def test_values_beyond_a_limit(op_type: str, attrs: dict[str, Any]) -> None:
    (name,) = attrs
    assert f"attribute {name!r}" in (broken_limit(op_type, attrs) or "")


@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [("layer_norm", {"epsilon": THIRD / 300}), ("sequence_mask", {"maxlen": -1}), ("relu", {"axis": -9})],
)
def test_values_within_the_limits(op_type: str, attrs: dict[str, Any]) -> None:
    assert broken_limit(op_type, attrs) is None


def test_an_op_beyond_a_limit_is_refused() -> None:
    x = fluid.data("x", [2, 3])
    with pytest.raises(EnforceNotMet, match="'dropout_prob' is 1.5, but has to be between 0.0 and 1.0"):
        fluid.layers.dropout(x, 1.5)
