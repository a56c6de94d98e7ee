"""Layers on sequences, recurrent layers and decoders: the programs that they build are PaddlePaddle
1.8.5's, and what they compute.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from layer_programs import build, read

import fluidlite as fluid

RECORDED = dict(read(str(pathlib.Path(__file__).parent / "layer_programs_sequence.txt")))


def comparable(found: list[str], wanted: list[str]) -> tuple[list[str], list[str]]:
    """The lines without the shapes that 1.8.5 leaves open, for which ours may say more."""
    pairs = []
    for ours, theirs in zip(found, wanted, strict=True):
        for name in re.findall(r"([\w.@/]+)\[\]", theirs):
            ours = re.sub(rf"(?<![\w.@/]){re.escape(name)}\[[-\d,]*\]", name + "[]", ours)
        pairs.append((ours, theirs))
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


@pytest.mark.parametrize("code", RECORDED)
def test_builds_what_paddle_builds(code: str) -> None:
    found, wanted = build(fluid, code), RECORDED[code]
    if wanted and wanted[0].startswith("raises"):
        assert found[0].startswith("raises") and wanted[0].split()[1] in found[0].split(), (
            f"{found} for {wanted}"
        )
        return
    assert len(found) == len(wanted), f"{found} for {wanted}"
    ours, theirs = comparable(found, wanted)
    assert ours == theirs
