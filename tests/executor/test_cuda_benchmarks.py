"""The benchmark of a device's kernels: each of its cases runs, over a few elements."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_kernels.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_kernels", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the names of their fields
    spec.loader.exec_module(module)
    return module


BENCHMARK = load()


@pytest.mark.gpu
@pytest.mark.parametrize("name", BENCHMARK.CASES)
def test_case(name: str) -> None:
    import cupy

    work = BENCHMARK.CASES[name](cupy, 3000)
    work.call()
    assert work.nbytes >= 3000


def test_every_kernel_is_measured() -> None:
    text = PATH.read_text(encoding="utf8")
    for factory in ("DeviceAttention", "DeviceRows", "DeviceRowKernel", "DeviceChannels", "DeviceRowSums"):
        assert f"{factory}(" in text
