"""The rows of docs/DIFFERENCES.md beside recorded runs of PaddlePaddle: none is contradicted."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import fluidlite as fluid
from beside.backends import engine
from beside.row_cases import contradictions, held
from beside.row_programs import RECORDED, differ, found_and_right, programs


@pytest.mark.parametrize("door", ["18", "26"])
def test_a_run_contradicts_no_row(door: str) -> None:
    backend = engine("plan")
    try:
        found: list[Any] = [line for item in held(door) for line in contradictions(backend, item)]
    finally:
        backend.close()
    assert found == []


@pytest.mark.parametrize("name", programs("18"))
def test_a_program_contradicts_no_row(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, right = found_and_right(*programs("18")[name], fluid)
    assert not differ(found, right), (found, right)
    recorded = json.loads(RECORDED["18"].read_text(encoding="utf8"))[name]
    assert differ(recorded, right), f"PaddlePaddle finds {recorded}, too"
