"""Every test starts with empty default programs and an empty scope; slow tests run only with `-m slow`, those
of devices where there is one.
"""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest

# A machine that is busy with other things is no fault of what is tested.
hypothesis.settings.register_profile(
    "house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("house")
# A test imports the helper that lies beside it, and now and then one of another room, by its bare name.
# Packages (`tests.comm.ring_cases`) would need the repository's root on the path: then `import executor` and
# `import transpiler` would find the folders of that name, and no test would notice a wrong import name.
# `nohup make test` ignores the signal, and what is started inherits that: launchers would not hear of it
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ["FLAGS_check_plans"] = "1"  # every plan of every test is verified between its passes
# what is kept between processes is kept for this run of the tests alone
CACHE = tempfile.mkdtemp(prefix="fluidlite-tests-")
os.environ["XDG_CACHE_HOME"] = CACHE
# array calls, unless a test says otherwise; `make test-fast` runs all with compiled loops
os.environ.setdefault("FLAGS_fast_loops", "off")
HERE = pathlib.Path(__file__).parent
if sys.dont_write_bytecode:
    # kept in build/, not beside the sources: without it each of some 400 processes compiles for 0.6 s what
    # the one before has compiled, and each worker compiles all tests, 7 s
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(HERE.parent / "build" / "bytecode")
    os.environ.update(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=sys.pycache_prefix)
sys.path[:0] = [str(HERE), *sorted({str(path.parent) for path in HERE.glob("*/test_*.py")})]

from mpi_jobs import MPIEXEC  # noqa: E402

import fluidlite as fluid  # noqa: E402
from fluidlite.base.place import get_cuda_device_count  # noqa: E402


@pytest.fixture(autouse=True)
def main() -> Iterator[fluid.Program]:
    """The default main program of one test, new as its startup program, names and scope are: the tests pass
    in any order, on any number of workers.
    """
    program = fluid.Program()
    with (
        fluid.program_guard(program, fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield program


@pytest.fixture(autouse=True)
def draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The random numbers of one test, the same in each run: what an executor and NumPy draw without a seed
    begins with the test's name and `TEST_SEED`. With chance, one test of thousands failed now and then where
    rounding met a sum near 0; `TEST_SEED=1 make test` looks for such tests.
    """
    name = f"{os.environ.get('TEST_SEED', 0)} {request.node.nodeid}".encode()
    seeds, fresh = np.random.SeedSequence(list(name)), np.random.default_rng

    def seeded(seed: Any = None) -> np.random.Generator:
        return fresh(seeds.spawn(1)[0] if seed is None else seed)

    monkeypatch.setattr(np.random, "default_rng", seeded)
    np.random.seed(zlib.crc32(name))


@pytest.fixture
def exe() -> Iterator[fluid.Executor]:
    """An executor on the CPU, closed afterwards."""
    executor = fluid.Executor(fluid.CPUPlace())
    yield executor
    executor.close()


@pytest.fixture
def flags() -> Iterator[Callable[..., None]]:
    """`flags(rpc_deadline=50)` sets FLAGS_rpc_deadline for the rest of one test."""
    before: dict[str, Any] = {}

    def change(**values: Any) -> None:
        for name, value in values.items():
            before.setdefault(f"FLAGS_{name}", fluid.get_flags(f"FLAGS_{name}")[f"FLAGS_{name}"])
            fluid.set_flags({f"FLAGS_{name}": value})

    yield change
    fluid.set_flags(before)


def pytest_sessionstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Tests that were collected stay to the end: no collection of garbage walks through them again, which
    took a second of each.
    """
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Remove what was kept for this run: each worker of one has a folder of its own."""
    # a thread may still compile into it
    shutil.rmtree(CACHE, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = {}
    if "slow" not in config.getoption("-m"):
        missing["slow"] = "slow: run with -m slow"
    if MPIEXEC is None:
        missing["mpi"] = "no mpiexec: pip install 'fluidlite[mpi]'"
    # the stand-in of gpu_sim has devices, too
    if get_cuda_device_count() == 0:
        missing["gpu"] = "needs a CUDA device"
    for item in items:
        for mark in missing.keys() & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason=missing[mark]))
