"""docs/TRANSPILERS.md says what the modes and the recorded cases say."""

from __future__ import annotations

import pathlib

from transpiled_cases import CASES

from fluidlite.transpiler.modes import MODES

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "TRANSPILERS.md").read_text(encoding="utf8")


def test_the_number_of_cases() -> None:
    assert f"made of {len(CASES)} programs" in TEXT


def test_the_table_of_modes() -> None:
    rows = [
        f"| `{mode.name}` | {mode.about} | {', '.join(f'`{name}`' for name in mode.options)} |"
        for mode in MODES
    ]
    assert "\n".join(rows) in TEXT
