"""Processes of a job that end without a word: whichever it is, and however, it is named."""

from __future__ import annotations

import pathlib
import re

import pytest
from launcher import launch

SCRIPT = str(pathlib.Path(__file__).with_name("dying_fleet.py"))
WORDS = {"leave": r"without an error, as os\._exit\(0\) does", "kill": "by signal 9"}
CODES = {"leave": {1}, "kill": {1, 137}}


@pytest.mark.parametrize("how", ["leave", "kill"])
@pytest.mark.parametrize("who", ["trainer", "server"])
def test_a_process_that_ends_without_a_word_is_named(who: str, how: str, tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "-n", "2", "--pservers", "2", SCRIPT, who, how)
    assert done.returncode in CODES[how], done
    name = {"trainer": "trainer1", "server": "pserver0"}[who]
    assert re.match(f"{name} (ended|exited) .*{WORDS[how]}", done.stderr), done
