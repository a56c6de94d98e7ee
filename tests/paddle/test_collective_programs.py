"""Collective functions of 2.x: the ops that they append, and their signatures, are those of 2.6.2."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from golden.collectives_2x import SIGNATURES, programs
from golden.record_collectives_2x import ENVIRONMENT, ops_of, signature

import fluidlite as fluid
from fluidlite import paddle

RECORDED: Any = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "collectives_2x.json").read_text(encoding="utf8")
)
MINE = programs(paddle)


@pytest.mark.parametrize("name", sorted(RECORDED["programs"]))
def test_ops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    found = ops_of(paddle, fluid.unique_name, MINE[name])
    wanted = RECORDED["programs"][name]
    assert json.loads(json.dumps(found)) == wanted


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    assert signature(paddle, name) == RECORDED["signatures"][name]


def test_the_recording_has_all() -> None:
    assert sorted(MINE) == sorted(RECORDED["programs"]) and len(MINE) == 30
