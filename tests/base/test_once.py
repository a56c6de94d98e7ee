"""Values that all threads share, whichever asks first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from fluidlite.base.once import once
from fluidlite.base.process import blas_switch
from fluidlite.executor.fast.onednn import library


def test_threads_that_ask_at_once_get_one_value() -> None:
    both_make = threading.Barrier(2)

    @once
    def value() -> object:
        both_make.wait(60)
        return object()

    with ThreadPoolExecutor(2) as threads:
        first, second = (future.result(60) for future in [threads.submit(value) for _ in range(2)])
    assert first is second is value()


def test_it_is_made_once() -> None:
    calls: list[int] = []

    @once
    def nothing() -> None:
        calls.append(1)

    assert nothing() is None and nothing() is None
    assert calls == [1]


def test_what_threads_must_share_is_such_a_value() -> None:
    for function in (library.engine, blas_switch):
        assert function.__code__ is once(object).__code__
