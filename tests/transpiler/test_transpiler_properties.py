"""What holds for every mode: the same bytes in every process, no network, time in proportion to the
program.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import transpiled_roles
from transpiled_cases import CASES

import fluidlite as fluid
from fluidlite.transpiler.roles import make_job

HERE = pathlib.Path(__file__).parent
# one of each mode and way to keep in step, with what is easiest to get into a different order
SAMPLE = (
    "sync_adam",
    "async_two_tables",
    "sync_decay_piecewise",
    "async_decay_noam",
    "place_hash",
    "place_whole_adam",
    "place_five_servers",
    "step_half_async",
    "step_at_run_time",
    "step_dc_asgd",
    "sync_repeated",
    "sync_distributed",
    "geo_two_tables",
    "geo_adam",
    "nccl2_hierarchical",
    "nccl2_two_rings",
    "grad_allreduce_two_optimizers",
    "local_sgd_batch_norm",
    "single_process_multi_thread_adam",
    "grad_allreduce_four",
    "sync_clip_global_norm_old",
    "sync_l2_each",
)


def digest(name: str, source: tuple[Any, Any]) -> str:
    """The hash of all roles' bytes, each transpiled from a copy of the source programs."""
    programs = transpiled_roles.roles(fluid, CASES[name], lambda: (source[0].clone(), source[1].clone()))
    stream = b"".join(role.encode() + programs[role].desc.serialize_to_string() for role in sorted(programs))
    return f"{name} {len(stream)} {hashlib.sha256(stream).hexdigest()}"


def digests() -> str:
    """A line a case."""
    return "\n".join(digest(name, transpiled_roles.build(fluid, CASES[name])) for name in SAMPLE)


def digests_in_process(seed: str) -> str:
    code = "import test_transpiler_properties; print(test_transpiler_properties.digests())"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE)}
    # the call stacks that programs hold name this process's files: from the same folder
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=HERE
    ).stdout


def test_the_same_bytes_in_every_process() -> None:
    first, second = (digests_in_process(seed).splitlines() for seed in ("1", "271828"))
    assert len(first) == len(SAMPLE)
    assert first == second


@pytest.mark.parametrize("name", SAMPLE[::3])
def test_a_second_time_gives_the_same(name: str) -> None:
    source = transpiled_roles.build(fluid, CASES[name])
    assert digest(name, source) == digest(name, source)


def test_nothing_touches_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a transpiler opened a socket")

    for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    assert digests()


# ---------------------------------------------------------------------- growth
def chain(layers: int) -> tuple[Any, Any]:
    """8 `layers` + 3 ops."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 16])
        for _ in range(layers):
            x = fluid.layers.fc(x, 16, act="relu")
        fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(x))
    return main, startup


def all_roles(mode: str, main: Any, startup: Any) -> None:
    job = make_job(main, startup, mode, trainers=2, endpoints=2)
    for role in job.roles[::2]:  # a trainer, and a server where there are some
        job.programs(role)


def calls_in(run: Callable[[], None]) -> int:
    """How many functions are called, of Python and of C."""
    count = 0

    def see(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


MODES = ("pserver", "geo_sgd", "nccl2", "grad_allreduce", "local_sgd", "single_process_multi_thread")


@pytest.mark.parametrize("mode", MODES)
def test_calls_grow_with_the_program(mode: str) -> None:
    """Twice the program, twice the calls; a walk of the program for each op would make it four times."""
    counts = []
    for layers in (5, 20, 40):  # the first imports what is imported late
        main, startup = chain(layers)
        counts.append(calls_in(lambda main=main, startup=startup: all_roles(mode, main, startup)))
    assert counts[2] < 2.3 * counts[1], counts


@pytest.mark.parametrize("mode", MODES)
def test_time_grows_with_the_program(mode: str) -> None:
    """The same for what a walk over a list costs, which calls nothing: eight times the program in less
    than twenty times the time.
    """
    times = []
    for layers in (25, 200):
        main, startup = chain(layers)
        best = float("inf")
        for _ in range(2):
            begin = time.process_time()
            all_roles(mode, main, startup)
            best = min(best, time.process_time() - begin)
        times.append(best)
    assert times[1] < 20 * times[0], times


def test_a_large_job_is_quick() -> None:
    """803 ops, 100 servers, 1000 trainers; the limits are twice what is promised of an idle machine."""
    main, startup = chain(100)
    job = make_job(main, startup, "pserver", trainers=1000, endpoints=100)
    begin = time.process_time()
    job.trainer(0)
    assert time.process_time() - begin < 0.4
    times = []
    for endpoint in job.endpoints[
        :3
    ]:  # the collector may choose one of them for a walk through the heap of all tests
        begin = time.process_time()
        job.server(endpoint)
        times.append(time.process_time() - begin)
    assert min(times) < 0.2, times
