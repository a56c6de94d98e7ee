"""The rows of docs/DIFFERENCES.md beside recorded runs of PaddlePaddle: none is contradicted."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from beside.backends import engine
from beside.row_cases import contradictions, held
from beside.row_programs import RECORDED, differ, found_and_right, programs
from beside.rows import DOCS, REMARK, rows

SYSTEMS = {"18": fluid, "26": paddle}
# it depends on the memory of the run before: no case differs so each time that 1.8.5 runs it
AT_TIMES = {"levels-of-last-run"}
PAGE = (DOCS / "DIFFERENCES.md").read_text(encoding="utf8")


def rows_of_page() -> list[str]:
    """The rows of the page's tables of differences: what is said aloud is none."""
    parts = [part for part in PAGE.split("\n## ") if not part.startswith("Said aloud")]
    lines = [line for part in parts for line in part.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| what ")]


def test_each_row_of_the_page_is_shown() -> None:
    """By a case, by a program, or by a test that it names."""
    assert [row[:60] for row in rows_of_page() if not REMARK.match(row, 2)] == []
    of_page = {text.partition(";")[0].removeprefix("id: ") for text in REMARK.findall(PAGE)}
    shown = {item["row"] for door in RECORDED for item in held(door)}
    shown |= {name for door in RECORDED for name in programs(door)} | {row.id for row in rows() if row.test}
    assert of_page - shown == AT_TIMES, "rows that nothing shows"
    assert shown - of_page == set(), "what shows rows that the page does not have"


def test_each_row_says_who_is_affected() -> None:
    """Four cells: the case, who is affected, PaddlePaddle, FluidLite."""
    plain = [re.sub("`[^`]*`", "code", REMARK.sub("", row)) for row in rows_of_page()]
    cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in plain]
    assert [row for row in cells if len(row) != 4 or not all(row)] == []


@pytest.mark.parametrize("test", sorted({row.test for row in rows() if row.test}))
def test_a_test_that_a_row_names_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (DOCS.parent / file).read_text(encoding="utf8")


@pytest.mark.parametrize("door", ["18", "26"])
def test_a_run_contradicts_no_row(door: str) -> None:
    backend = engine("plan")
    try:
        found: list[Any] = [line for item in held(door) for line in contradictions(backend, item)]
    finally:
        backend.close()
    assert found == []


@pytest.mark.parametrize("door, name", [(door, name) for door in RECORDED for name in programs(door)])
def test_a_program_contradicts_no_row(door: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, right = found_and_right(*programs(door)[name], SYSTEMS[door])
    assert not differ(found, right), (found, right)
    recorded = json.loads(RECORDED[door].read_text(encoding="utf8"))[name]
    assert differ(recorded, right), f"PaddlePaddle finds {recorded}, too"
