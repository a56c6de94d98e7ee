"""Numbers that docs/TRANSPILERS.md gives."""

from __future__ import annotations

import pathlib

from transpiled_cases import CASES

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "TRANSPILERS.md"


def test_the_number_of_cases() -> None:
    assert f"made of {len(CASES)} programs" in DOCUMENT.read_text(encoding="utf8")
