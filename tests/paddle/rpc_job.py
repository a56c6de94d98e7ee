"""One worker that calls others: `rpc_job.py RANK SIZE ENDPOINT`."""

from __future__ import annotations

import sys
from textwrap import dedent
from typing import Any

import numpy as np
import rpc_work

from fluidlite.errors import CommunicatorError
from fluidlite.paddle.distributed import rpc

RANK, SIZE, ENDPOINT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def add(one: Any, other: Any = 0) -> Any:
    return one + other


def whose() -> str:
    return rpc.get_current_worker_info().name


def fail() -> None:
    raise ZeroDivisionError("as it was told to")


def refused(call: Any, error: type[Exception], *says: str) -> None:
    try:
        call()
    except error as found:
        assert all(text in str(found) for text in says), str(found)
        return
    raise AssertionError(f"nothing was raised, where {says} was to be")


def check() -> None:
    other = f"worker{(RANK + 1) % SIZE}"
    for _ in range(2):
        assert rpc.rpc_sync(other, add, args=(2, 3)) == 5
        assert rpc.rpc_sync(other, add, kwargs={"one": "a", "other": "b"}) == "ab"
        found = rpc.rpc_sync(other, add, (np.arange(3), np.ones((2, 1))))
        assert found.tolist() == [[1, 2, 3], [1, 2, 3]]
        futures = [rpc.rpc_async(f"worker{number}", whose) for number in range(SIZE)]
        assert [future.wait() for future in futures] == [f"worker{number}" for number in range(SIZE)]
    refused(lambda: rpc.rpc_sync(other, fail), ZeroDivisionError, "as it was told to", other)
    refused(lambda: rpc.rpc_sync(other, dedent, ("x",)), CommunicatorError, "rpc.register(module)")
    assert rpc.rpc_sync(other, rpc_work.double, (2,)) == 4
    refused(lambda: rpc.rpc_sync(other, add, ({1}, {2})), ValueError, "of type set", "nothing is pickled")
    refused(lambda: rpc.rpc_sync("nobody", add), ValueError, "no worker is called 'nobody'")
    refused(lambda: rpc.rpc_sync(other, lambda: 1), ValueError, "not a function of a module")
    refused(lambda: rpc.rpc_sync(other, rpc_work.wait, (2,), timeout=0.2), CommunicatorError, "")


def main() -> None:
    rpc.register(rpc_work)
    rpc.init_rpc(f"worker{RANK}", RANK, SIZE, ENDPOINT)
    assert [info.rank for info in rpc.get_all_worker_infos()] == list(range(SIZE))
    assert rpc.get_worker_info("worker1").rank == 1
    check()
    refused(lambda: rpc._function("rpc_work", "sleep"), CommunicatorError, "defines no function sleep")
    assert rpc._function("rpc_work", "Counter.count")(4) == 5
    rpc.shutdown()
    refused(rpc.get_all_worker_infos, ValueError, "call init_rpc first")
    sys.stdout.write(f"{RANK} is done\n")


if __name__ == "__main__":
    main()
