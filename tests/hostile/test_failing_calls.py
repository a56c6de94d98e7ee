"""The system fails the n-th write, sync, rename, open, read or allocation of a save or a load: the set before
or the set after is there as a whole, and the error names file and reason.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from failing_calls_job import ALL

ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "1"))
_HERE = pathlib.Path(__file__).parent
_SHARED_MEMORY = pathlib.Path("/dev/shm")
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The library that fails calls."""
    if not sys.platform.startswith("linux") or COMPILER is None:
        pytest.skip("needs Linux and a C compiler, cc or gcc, which is not installed here")
    made = tmp_path_factory.mktemp("library") / "failing_calls.so"
    source = str(_HERE / "failing_calls.c")
    options = ["-O1", "-shared", "-fPIC", "-o", str(made), source, "-ldl"]
    built = subprocess.run([COMPILER, *options], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"the C library here has no malloc that can be replaced: {built.stderr[-200:]}")
    return made


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder in memory where there is one: hundreds of saves that are synced each take a disk minutes."""
    with tempfile.TemporaryDirectory(dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else tmp_path) as made:
        yield pathlib.Path(made)


def tried(way: str, library: pathlib.Path, folder: pathlib.Path, most: int) -> dict[str, Any]:
    """The report of the job: `counts` of the calls that were failed, and what was `wrong` after them."""
    done = subprocess.run(
        [sys.executable, str(_HERE / "failing_calls_job.py"), way, str(folder), str(most)],
        env={**os.environ, "LD_PRELOAD": str(library), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("way", ALL)
def test_each_call_fails_once(way: str, library: pathlib.Path, folder: pathlib.Path) -> None:
    found = tried(way, library, folder, 3 * ROUNDS)
    print(way, found["counts"])
    assert not found["wrong"], "\n".join(found["wrong"])
    assert all(found["counts"][f"save {kind}"] for kind in ("write", "fsync", "rename", "open", "allocate"))
    assert all(found["counts"][f"load {kind}"] for kind in ("open", "read", "allocate"))
