"""A plugin of pytest for `on_device.py`: tests that are not begun in time are skipped, and a report is kept
that fits on a page. As a module it runs Python on the stand-in for CuPy: `python -m device_report FILE`.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import runpy
import sys
import time
from typing import Any

import pytest

_END = float(os.environ.get("DEVICE_END") or 1e12)
_FEW = 25  # failures that are shown
_outcomes: collections.Counter[str] = collections.Counter()
_failed: dict[str, str] = {}
_slowest: list[tuple[float, str]] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kernels' own tests first: they say most."""
    items.sort(key=lambda item: "test_cuda_" not in item.nodeid)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the time does not suffice for."""
    if time.time() > _END - 20:
        pytest.skip("the time is up")


def pytest_runtest_logreport(report: Any) -> None:
    """Count a test."""
    if report.when == "call" or report.outcome != "passed":
        reason = str(report.longrepr[-1]) if isinstance(report.longrepr, tuple) else ""
        _outcomes["not begun" if "the time is up" in reason else report.outcome] += 1
    if report.outcome == "failed":
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
        _failed[report.nodeid] = (lines or str(report.longrepr).splitlines()[-1:] or [""])[0][:200]
    if report.when == "call":
        _slowest.append((report.duration, report.nodeid))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts and the first failures, and keep all of them."""
    found = {"outcomes": dict(_outcomes), "failed": _failed, "slowest": sorted(_slowest, reverse=True)[:20]}
    folder = os.environ.get("DEVICE_REPORT")
    if folder:
        pathlib.Path(folder, "test.json").write_text(json.dumps(found, indent=1), encoding="utf8")
    terminalreporter.section("device")
    for name, text in list(_failed.items())[:_FEW]:
        terminalreporter.write_line(f"{name}: {text}")
    terminalreporter.write_line(", ".join(f"{count} {name}" for name, count in _outcomes.items()))


if __name__ == "__main__":
    import gpu_sim.plugin  # noqa: F401

    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-c":
        exec(sys.argv[1])
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
