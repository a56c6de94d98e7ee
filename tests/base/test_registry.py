"""The registry finds an op by its type, whoever asks first."""

from __future__ import annotations

import concurrent.futures
import importlib
import subprocess
import sys
import threading
import time

import pytest
from waiting import LIMIT

from fluidlite.base import registry

EIGHT_AT_ONCE = """
import sys, threading
from fluidlite.base import registry

sys.setswitchinterval(1e-6)
start, wrong = threading.Barrier(8), []

def look(op_type):
    start.wait()
    try:
        assert registry.get(op_type).type == op_type
    except BaseException as error:
        wrong.append(f"{op_type}: {error!r}")

types = ["c_allreduce_sum", "mul", "sgd", "tanh_grad", "while", "softmax", "send", "top_k"]
threads = [threading.Thread(target=look, args=[op_type]) for op_type in types]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\\n".join(wrong))
"""


def test_threads_that_ask_first_all_find_their_op() -> None:
    ran = subprocess.run([sys.executable, "-c", EIGHT_AT_ONCE], capture_output=True, text=True, timeout=300)
    assert (ran.stdout.strip(), ran.stderr) == ("", "")


def test_an_op_whose_family_is_being_imported_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    declared, asked = threading.Event(), threading.Event()

    def import_module(name: str) -> None:
        op = registry.Op("half_made", "X -> Out")
        declared.set()
        asked.wait(LIMIT)
        time.sleep(0.05)  # the other thread has looked by then

        @op.kernel
        def _(X: object) -> object:
            return X

    def look() -> registry.Function | None:
        declared.wait(LIMIT)
        asked.set()
        return registry.get("half_made").compute

    monkeypatch.setattr(registry, "families", lambda: {"half_made": "toys"})
    monkeypatch.setattr(importlib, "import_module", import_module)
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    monkeypatch.setattr(registry, "_WHOLE", {})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(registry.get, "half_made"), pool.submit(look)
        assert first.result() and second.result() is not None
