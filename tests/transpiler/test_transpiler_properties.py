"""Properties of every mode: the same bytes in every process, no network, time in proportion to the
program.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import transpiled_roles
from transpiled_cases import CASES

import fluidlite as fluid
from fluidlite.transpiler.modes import make_job

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


def steps_in(run: Callable[[], None]) -> tuple[int, int]:
    """How many functions are called, of Python and of C, and how many lines of Python run: a loop over a list
    counts each time round, whether or not it calls anything.
    """
    calls = lines = 0

    def see_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def see_line(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return see_line

    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(see_call)
    sys.settrace(see_line)
    try:
        run()
    finally:
        sys.settrace(before[1])
        sys.setprofile(before[0])
    return calls, lines


MODES = ("pserver", "geo_sgd", "nccl2", "grad_allreduce", "local_sgd", "single_process_multi_thread")


@pytest.mark.parametrize("mode", MODES)
def test_work_grows_with_the_program(mode: str) -> None:
    """Six times the program, hardly more than six times the work; a walk of the program for each op would
    make it 36 times. Counted, not timed: the numbers are the same on a busy machine.
    """
    counts = []
    for layers in (5, 20, 120):  # the first imports what is imported late
        main, startup = chain(layers)
        counts.append(steps_in(lambda main=main, startup=startup: all_roles(mode, main, startup)))
    _, small, large = counts
    assert large[0] < 6.6 * small[0] and large[1] < 6.6 * small[1], counts


@pytest.mark.parametrize("mode", MODES)
def test_time_grows_with_the_program(mode: str) -> None:
    """The same for what no line shows, a walk over a list in C: eight times the program in less than twenty
    times the time. Of five pairs of measurements the best counts: another process may take the caches from
    one of them, but a walk too many is in all.
    """
    small, large = chain(25), chain(200)
    ratios = []
    for _ in range(5):
        ratios.append(seconds(lambda: all_roles(mode, *large)) / seconds(lambda: all_roles(mode, *small)))
        if ratios[-1] < 20:
            return
    pytest.fail(f"eight times the program in {ratios} times the time")


def seconds(run: Callable[[], None]) -> float:
    """CPU time of this process, without the collector's walks through the heap of all tests."""
    gc.collect()
    gc.disable()
    begin = time.process_time()
    try:
        run()
        return time.process_time() - begin
    finally:
        gc.enable()


def test_a_large_job_is_quick() -> None:
    """803 ops, 100 servers, 1000 trainers; the limits are twice what is promised of an idle machine."""
    main, startup = chain(100)
    job = make_job(main, startup, "pserver", trainers=1000, endpoints=100)
    assert min(seconds(partial(job.trainer, number)) for number in range(3)) < 0.4
    assert min(seconds(partial(job.server, endpoint)) for endpoint in job.endpoints[:3]) < 0.2
