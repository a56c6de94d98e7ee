"""The rows of docs/DIFFERENCES.md beside recorded runs of PaddlePaddle: none is contradicted."""

from __future__ import annotations

from typing import Any

import pytest

from beside.backends import engine
from beside.row_cases import contradictions, held


@pytest.mark.parametrize("door", ["18", "26"])
def test_a_run_contradicts_no_row(door: str) -> None:
    backend = engine("plan")
    try:
        found: list[Any] = [line for item in held(door) for line in contradictions(backend, item)]
    finally:
        backend.close()
    assert found == []
