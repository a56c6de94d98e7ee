"""Ops that saved models of 2.x hold, each as 2.6.2 wrote and computed it (`golden/saved_ops_2x.py`)."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest
from golden.saved_ops_2x import PATH, unpacked

import fluidlite.paddle as paddle
from fluidlite.base import registry

CASES: dict[str, Any] = json.loads(gzip.decompress(PATH.read_bytes()))


def loaded(name: str) -> Any:
    return paddle.static.Program.parse_from_string(base64.b64decode(CASES[name]["program"]))


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_as_recorded(name: str, naive: bool) -> None:
    case, program = CASES[name], loaded(name)
    known = [registry.find(op.type) is not None for op in program.global_block().ops]
    assert all(known)
    exe = paddle.static.Executor()
    exe.naive = naive
    feed = {name: unpacked(array) for name, array in case["feed"].items()}
    found = exe.run(program, feed=feed, fetch_list=list(case["results"]), return_numpy=False)
    for value, packed in zip(found, case["results"].values(), strict=True):
        expected, value = unpacked(packed), np.asarray(value)
        assert value.shape == expected.shape and value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6)
