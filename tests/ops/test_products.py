"""Products in panels give what a product gives, for any number of rows, columns and any strides."""

from __future__ import annotations

import numpy as np
import pytest

from fluidlite.ops.kernels.products import gate_product, product


@pytest.mark.parametrize("rows", [0, 1, 3, 10, 33])
@pytest.mark.parametrize("columns", [1, 200, 517])
def test_product(rows: int, columns: int) -> None:
    random = np.random.default_rng(0)
    left, right = random.random((rows, 700)), random.random((700, columns))
    wanted = left @ right
    np.testing.assert_allclose(product(np, left, right), wanted)
    np.testing.assert_allclose(product(np, left, np.ascontiguousarray(right.T).T), wanted)
    np.testing.assert_allclose(product(np, np.asfortranarray(left), right), wanted)
    out = np.empty((rows, columns + 3))[:, :columns]
    np.testing.assert_allclose(product(np, left, right, out), wanted)


@pytest.mark.parametrize("size", [1, 100, 256, 257])
def test_gate_product(size: int) -> None:
    random = np.random.default_rng(0)
    left, weight = random.random((9, 700)), random.random((700, 3 * size))
    out = np.empty((3, 9, size))
    gate_product(np, left, weight, out)
    np.testing.assert_allclose(out.swapaxes(0, 1).reshape(9, -1), left @ weight)
