"""Functions of jobs take what those of 2.6.2 take (`make_signatures.py` records them)."""

from __future__ import annotations

import gzip
import json
import pathlib

import pytest
from signatures import MODULES, signatures

_FILE = pathlib.Path(__file__).with_name("signatures_2x.json.gz")
RECORDED = json.loads(gzip.decompress(_FILE.read_bytes()))
_REFUSED = ("2 unused, 4 options", "0 self, 2 args, 4 kwargs")  # whatever the arguments

_WRAPPED = "2 args, 4 kwargs"  # in 2.6.2, whose wrapper says nothing of what it wraps


@pytest.fixture(scope="module")
def mine() -> dict[str, str]:
    return signatures("fluidlite.paddle")


@pytest.mark.parametrize("module", MODULES)
def test_what_is_here_takes_the_same(module: str, mine: dict[str, str]) -> None:
    here = {
        name: found
        for name, found in mine.items()
        if name.startswith(f"{module}.") and name in RECORDED and found not in _REFUSED
    }
    assert here
    different = {
        name: (found, RECORDED[name])
        for name, found in here.items()
        if plain(found) != plain(RECORDED[name]) and RECORDED[name] != _WRAPPED
    }
    assert not different


def plain(text: str) -> str:
    """A signature, in which lists that stand for nothing are tuples."""
    return text.replace("=[]", "=()")
