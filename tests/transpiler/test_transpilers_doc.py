"""The Python in docs/TRANSPILERS.md runs, and prints what the text beside it says."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re

from transpiled_cases import CASES

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "TRANSPILERS.md"
TEXT = DOCUMENT.read_text(encoding="utf8")


def test_the_code_runs() -> None:
    output = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(output):
        for block in re.findall(r"```python\n(.*?)```", TEXT, re.S):
            exec(compile(block, str(DOCUMENT), "exec"), names)
    lines = output.getvalue().splitlines()
    assert lines[0] == "trainer0 ['send', 'send_barrier', 'recv', 'recv', 'fetch_barrier', 'concat']"
    assert "fc_0.w_0.block0: rows 0 to 499, on 10.0.0.2:6174" in lines
    assert lines[-1] == "['listen_and_serv', 'sum', 'scale', 'sgd']"


def test_the_number_of_cases() -> None:
    assert f"made of {len(CASES)} programs" in TEXT
