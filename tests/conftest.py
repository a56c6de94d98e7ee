"""Every test starts with empty default programs and an empty scope; slow tests run only with `-m slow`."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

# A test imports the helper that lies beside it, and now and then one of another room, by its bare name.
# Packages (`tests.comm.ring_cases`) would need the repository's root on the path: then `import executor` and
# `import transpiler` would find the folders of that name, and no test would notice a wrong import name.
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), *sorted({str(path.parent) for path in HERE.glob("*/test_*.py")})]

import fluidlite as fluid  # noqa: E402


@pytest.fixture(autouse=True)
def _own_programs_and_scope() -> Iterator[None]:
    """What a test leaves in the default programs or the global scope is gone before the next: the tests pass
    in any order, on any number of workers.
    """
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" not in config.getoption("-m"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: run with -m slow"))
