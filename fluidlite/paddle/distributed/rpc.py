"""`paddle.distributed.rpc`: functions of scripts that other workers call.

A function goes by its module and name. A worker runs those that its own script defines, and those of modules
that it has registered (`register`); nothing that they import. Arguments and results are what JSON can say,
tuples, arrays and bytes: nothing is pickled. Every message carries a proof that its sender holds the job's
key, which counts once, for one worker of one job; it goes over TLS where the environment names certificates.
"""

from __future__ import annotations

import builtins
import json
import secrets
import socket
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future as _Future
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as _Late
from http import HTTPStatus
from os import environ
from typing import Any

from fluidlite.base.errors import ArgumentError, CommunicatorError, FluidError, did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.objects import decode, encode
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.executor.comm.tcp.web import FAILURES, MOST_BYTES, JobHttpClient, JobHttpServer
from fluidlite.paddle.distributed.environment import ParallelEnv
from fluidlite.paddle.distributed.rendezvous import Rendezvous, deadline

__all__ = [
    "WorkerInfo",
    "get_all_worker_infos",
    "get_current_worker_info",
    "get_worker_info",
    "init_rpc",
    "register",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

_PATH = "/call"
_CALLS = 16  # that a worker makes at the same time; each waits for its answer in a thread


@dataclass(frozen=True)
class WorkerInfo:
    """A worker: its name, its number, and where it takes calls."""

    name: str
    rank: int
    ip: str
    port: int


class RpcFuture:
    """A call that is on its way; `wait` returns what the function returned, or raises what it raised."""

    def __init__(self, future: _Future[Any], timeout: float) -> None:
        self._future = future
        self._timeout = timeout

    def wait(self) -> Any:
        """The result; CommunicatorError where none comes in time."""
        try:
            return self._future.result(self._timeout)
        except _Late:
            raise CommunicatorError(f"no answer to a call within {self._timeout:g} s") from None


# ---------------------------------------------------------------------- what is called here
_registered: set[str] = {"__main__"}  # modules whose functions other workers may call


def register(module: types.ModuleType | str) -> None:
    """Let other workers call the functions that a module defines."""
    _registered.add(module if isinstance(module, str) else module.__name__)


def _function(module: str, name: str) -> Callable[..., Any]:
    """The function of a registered module. CommunicatorError for anything else."""
    if module not in _registered:
        raise CommunicatorError(
            f"{module}.{name} cannot be called on this worker: it has registered "
            f"{', '.join(sorted(_registered))} (rpc.register(module))"
        )
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if found is not None else None
    found = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    if not isinstance(found, types.FunctionType) or found.__module__ != module:
        raise CommunicatorError(f"module {module} of this worker defines no function {name}")
    return found


def _answer(body: bytes) -> bytes:
    """The encoded result of an encoded call."""
    try:
        call = decode(body)
        value = _function(call["module"], call["name"])(*call["args"], **call["kwargs"])
        return encode({"value": value})
    except Exception as error:  # told to the caller, whatever it is
        told = {"error": type(error).__name__, "text": str(error), "trace": traceback.format_exc()}
        return encode(told)


def _take_call(method: str, path: str, body: bytes) -> bytes | None:
    """The answer to a request of another worker; None for what is no call."""
    return _answer(body) if (method, path) == ("POST", _PATH) else None


# ---------------------------------------------------------------------- the workers
class _RpcPeers:
    """This worker, the others, and what it takes to reach them."""

    def __init__(self, name: str, rank: int, size: int, endpoint: str) -> None:
        self.rendezvous = Rendezvous("rpc", rank, size, endpoint)
        ip = _address(endpoint)
        key = job_key()
        # nobody knows its purpose, and so none of its calls counts, before all have met
        self.server = JobHttpServer((ip, 0), key, _take_call, secrets.token_hex(16))
        self.server.start("rpc")
        self.pool = ThreadPoolExecutor(_CALLS, "rpc")
        mine = json.dumps([[name, rank, ip, self.server.server_address[1]], secrets.token_hex(16)]).encode()
        told = [json.loads(part) for part in self.rendezvous.gather(mine)]
        found = [WorkerInfo(*info) for info, _ in told]
        job = told[0][1]
        self.by_name = {worker.name: worker for worker in found}
        self.here = found[rank]
        self.server.purpose = _purpose(job, self.here)
        self.ways = {
            each.name: JobHttpClient(each.ip, each.port, key, _purpose(job, each), name) for each in found
        }
        if len(self.by_name) != size:
            self.close()
            raise ArgumentError(
                f"workers need distinct names, but are called {[each.name for each in found]}"
            )

    def find(self, name: str) -> WorkerInfo:
        """The worker of that name."""
        if name not in self.by_name:
            hint = did_you_mean(name, self.by_name)
            raise ArgumentError(f"no worker is called {name!r}{hint} ({', '.join(self.by_name)})")
        return self.by_name[name]

    def close(self) -> None:
        """End: no call is made or taken any more."""
        self.pool.shutdown()
        self.server.stop()
        self.rendezvous.close()


def _purpose(job: str, receiver: WorkerInfo) -> str:
    """The calls that a worker of a job takes: none of another worker's, nor of another job's."""
    return f"rpc {job} {receiver.rank} {receiver.name}"


_workers: list[_RpcPeers] = []  # those of this process, while it takes part


def _mine() -> _RpcPeers:
    if not _workers:
        raise ArgumentError("there are no workers: call init_rpc first")
    return _workers[0]


def _address(endpoint: str) -> str:
    """The address of this host that the process at an endpoint would see."""
    host, _, port = endpoint.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))  # of datagrams: nothing is sent
        return str(probe.getsockname()[0])


def init_rpc(
    name: str, rank: int | None = None, world_size: int | None = None, master_endpoint: str | None = None
) -> None:
    """Be the worker called `name`, number `rank` of `world_size`, which meet at `ip:port`, where number 0 is.
    What is not given stands in PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM and PADDLE_MASTER_ENDPOINT. Returns
    when all have come.
    """
    if _workers:
        raise ArgumentError(f"this process is worker {_workers[0].here.name!r} already")
    env = ParallelEnv()
    rank = env.rank if rank is None else rank
    size = env.world_size if world_size is None else world_size
    endpoint = master_endpoint or environ.get("PADDLE_MASTER_ENDPOINT") or environ.get("PADDLE_MASTER", "")
    if not endpoint and size == 1:
        endpoint = "127.0.0.1:1"  # nobody listens there: there is nobody to meet
    if not endpoint or not 0 <= rank < size:
        raise ArgumentError(
            f"worker {rank} of {size} at {endpoint or 'no master_endpoint'}: rank has to be below "
            f"world_size, and master_endpoint ip:port"
        )
    workers = _RpcPeers(name, rank, size, endpoint)
    _workers.append(workers)
    # a worker that is called may ask who it is: so nobody calls before all know
    workers.rendezvous.gather(b"")


def shutdown() -> None:
    """Return when all workers have called it; then nobody takes calls any more."""
    workers = _mine()
    workers.pool.shutdown()
    workers.rendezvous.gather(b"")
    _workers.clear()
    workers.close()


def get_worker_info(name: str) -> WorkerInfo:
    """The worker of that name."""
    return _mine().find(name)


def get_all_worker_infos() -> list[WorkerInfo]:
    """All workers, by number."""
    return sorted(_mine().by_name.values(), key=lambda worker: worker.rank)


def get_current_worker_info() -> WorkerInfo:
    """This worker."""
    return _mine().here


# ---------------------------------------------------------------------- calls
def rpc_sync(
    to: str,
    fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = -1,
) -> Any:
    """The result of `fn(*args, **kwargs)` on the worker `to`; raises what it raises there. `timeout` is in
    seconds; without it FLAGS_rpc_deadline is the limit.
    """
    return rpc_async(to, fn, args, kwargs, timeout).wait()


def rpc_async(
    to: str,
    fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = -1,
) -> RpcFuture:
    """A call whose result is waited for later."""
    workers = _mine()
    worker = workers.find(to)
    if not isinstance(fn, types.FunctionType) or "<" in fn.__qualname__:
        raise ArgumentError(f"{fn!r} is not a function of a module, so another worker cannot find it by name")
    call = {
        "module": fn.__module__,
        "name": fn.__qualname__,
        "args": list(args or ()),
        "kwargs": dict(kwargs or {}),
    }
    body = encode(call)
    if len(body) > MOST_BYTES:
        raise ArgumentError(f"a call of {len(body)} bytes; the limit is {MOST_BYTES}")
    limit = float(timeout) if timeout and timeout > 0 else deadline()
    return RpcFuture(workers.pool.submit(_ask, workers.ways[to], worker, body, limit), limit)


def _ask(way: JobHttpClient, worker: WorkerInfo, body: bytes, limit: float) -> Any:
    """Send a call, and give its result or raise its error."""
    at = f"worker {worker.name!r} at {worker.ip}:{worker.port}"
    try:
        status, data = way.ask("POST", _PATH, body, limit)
    except FAILURES as error:
        raise CommunicatorError(f"{at} does not answer: {error}") from error
    if status != HTTPStatus.OK:
        raise CommunicatorError(f"{at} does not have this job's key, or did not accept the call")
    found = decode(data)
    if "value" not in found:
        raise _raised(worker, found)
    return found["value"]


def _raised(worker: WorkerInfo, found: Mapping[str, str]) -> Exception:
    """The error of a function on another worker, as the same exception where that is one of Python's."""
    text = f"worker {worker.name!r}: {found['text']}\n{found['trace']}"
    kind = vars(builtins).get(found["error"])
    if (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, (OSError, UnicodeError))
    ):
        return kind(text)
    return CommunicatorError(text) if found["error"] == "CommunicatorError" else FluidError(text)
