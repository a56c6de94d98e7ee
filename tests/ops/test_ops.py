"""Every row of the op table: forward against a reference, gradient against differences."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator

import pytest
from optest import Case, check_forward, check_gradient

import fluidlite as fluid

TABLES = sorted(
    path.stem
    for path in (pathlib.Path(__file__).parent / "op_tables").glob("*.py")
    if path.stem != "__init__"
)
CASES: list[Case] = [case for table in TABLES for case in importlib.import_module(f"op_tables.{table}").CASES]


@pytest.fixture(autouse=True)
def _checked() -> Iterator[None]:
    fluid.set_flags({"FLAGS_check_buffers": True})
    yield
    fluid.set_flags({"FLAGS_check_buffers": False})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward(case: Case) -> None:
    check_forward(case)


@pytest.mark.parametrize("case", [case for case in CASES if case.grad], ids=str)
def test_gradient(case: Case) -> None:
    check_gradient(case)
