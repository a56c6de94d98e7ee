"""Programs on several devices against what PaddlePaddle 1.8.5's data parallel executor computed
(make_data_parallel.py).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import data_parallel_programs as programs
import numpy as np
import pytest

import fluidlite as fluid

# two losses share their parameters here
pytestmark = pytest.mark.filterwarnings("ignore:minimize. .*updated twice:UserWarning")

RECORDED = json.loads(
    (pathlib.Path(__file__).parents[1] / "recorded" / "data_parallel.json").read_text(encoding="utf8")
)
CASES = [(item, devices) for item in programs.CASES for devices in item.devices]


@pytest.mark.parametrize(
    ("item", "devices"), CASES, ids=[f"{item.name}-{devices}" for item, devices in CASES]
)
def test_as_recorded(item: Any, devices: int) -> None:
    wanted = RECORDED[f"{item.name} {devices}"]
    exe = fluid.Executor(fluid.CPUPlace())
    fetched, held = programs.train(fluid, item, devices, exe)
    exe.close()
    for found, expected in zip(fetched, wanted["fetched"], strict=True):
        for value, number in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, number, rtol=2e-5, atol=2e-6)
    assert set(wanted["held"]) <= set(held)
    for name, value in wanted["held"].items():
        np.testing.assert_allclose(held[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
