"""Arguments of a wrong kind, for every layer: what 1.8.5 checks is refused, by an error of its class."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from recorded.record_wrong_kinds import KNOWN, differences, load
from recorded.wrong_kinds import raised

import fluidlite as fluid

RECORDED = load()
LINES = KNOWN.read_text().splitlines()


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_arguments_of_wrong_kinds(name: str) -> None:
    def found(case: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return raised(fluid, case)

    word = name.rpartition(".")[2]
    assert differences(name, RECORDED[name], found) == [line for line in LINES if line.split()[0] == word]
