"""Quantised values and heads of detectors of 2.x in onnxruntime, as 2.6.2 computed them."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest
from golden.saved_ops_2x import PATH, unpacked

import fluidlite.paddle as paddle
from fluidlite.base.errors import UnsupportedError
from fluidlite.saving.onnx.export import onnx_model

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra [onnx] has no wheel for this machine")
CASES: dict[str, Any] = json.loads(gzip.decompress(PATH.read_bytes()))
# ops that ONNX has nothing like, or whose scale is looked for in training
REFUSED = ("stft", "two steps", "nms3 regions", "collect", "nms3 pixels", "nms3 nothing")
PARAMETERS = ("ZeroPoint", "Scale")  # which files keep


@pytest.mark.parametrize("name", CASES)
def test_as_recorded(name: str) -> None:
    case = CASES[name]
    program = paddle.static.Program.parse_from_string(base64.b64decode(case["program"]))
    feed = {each: unpacked(array) for each, array in case["feed"].items()}
    for each in [each for each in feed if each.startswith(PARAMETERS)]:
        program.global_block().var(each).persistable = True
        paddle.static.global_scope().var(each).get_tensor().set(feed.pop(each), paddle.CPUPlace())
    try:
        data = onnx_model(program, list(feed), list(case["results"]))
    except UnsupportedError:
        assert name.startswith(REFUSED)
        return
    found = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feed)
    for value, packed in zip(found, case["results"].values(), strict=True):
        expected = unpacked(packed)
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6)
