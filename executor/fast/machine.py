"""Calls of machine code that a team shares without Python.

A team that runs Python functions wakes its threads twice: each waits for its work, then for Python's lock.
Where what the threads do is all machine code, the calls are written down, once for the same arrays, and the
threads take them from there: two products of 35 us take two threads 36 us, and 88 by functions of Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from fluidlite.base import flags
from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.loops.compiler import LoopCode, is_available, loop_of, widths
from fluidlite.executor.fast.machine_code import (
    BEGIN,
    CLOCK,
    DONE,
    FUNCTIONS,
    HEAD,
    MOST_RECORDS,
    POST,
    WAIT,
    WORKER,
    WORKERS,
    YIELD,
    machine_text,
)
from fluidlite.executor.fast.onednn.library import checked, library, part_stream
from fluidlite.executor.fast.onednn.matmul import AnyGemm, BlasGemm, Gemm, StackGemm
from fluidlite.executor.fast.onednn.primitive import Primitive, aligned, scratch
from fluidlite.executor.run.engine import ENGINE, EnginePart
from fluidlite.executor.run.team import Team, on_team, team_of

__all__ = ["NOW", "MachineCalls", "SharedCalls", "share_once"]

_FIRST_RUN = 2  # at which sharing pays: what runs once, as startup programs do, is not worth LLVM
_WORD = 8  # bytes
_LINE = 64
_ONE = 0x3F800000  # 1.0 in float32, as the low half of a word
_SYSTEM_CALLS = {WAIT: "sem_wait", POST: "sem_post", YIELD: "sched_yield", CLOCK: "clock_gettime"}
_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class MachineCalls(Protocol):
    """Calls of machine code: made here and now, or written down for whoever of a team will make them."""

    def code(self, function: Any, first: int, last: int, arguments: int) -> None:
        """A call of compiled code; its arguments stay where they are."""

    def primitive(self, primitive: Primitive, *addresses: int) -> None:
        """A call of a primitive."""

    def product(self, gemm: AnyGemm, left: int, right: int, out: int, *, rate: Array | None = None) -> None:
        """A product of matrices, less the number in `rate` times it where there is one."""

    def begin(self, out: Array, bias: Array | None, term: Array | None) -> None:
        """out = bias + term, or the one that there is, for a bias of one row."""

    def squares(self, x: Array, out: Array) -> None:
        """Write the sum of the squares of all numbers of an array without gaps: not finite if one of them
        is not.
        """

    def scratch(self, use: str, nbytes: int) -> int:
        """The address of bytes that last until the part asks for such of the same use again."""

    def keep(self, *things: Any) -> None:
        """Keep what nobody else holds until the calls so far are made."""


class _Now:
    """Calls that are made at once, on the thread that says so: of a part of a team's job, or without one."""

    def __init__(self, team: int = 0, part: int = 0) -> None:
        self.team = team
        self.part = part
        self.held: list[Array] = []

    def code(self, function: Any, first: int, last: int, arguments: int) -> None:
        function(first, last, arguments)

    def primitive(self, primitive: Primitive, *addresses: int) -> None:
        if primitive.scratch_bytes:
            addresses = (*addresses, self.scratch("scratchpad", primitive.scratch_bytes))
        primitive.run(*addresses)

    def product(self, gemm: AnyGemm, left: int, right: int, out: int, *, rate: Array | None = None) -> None:
        gemm.run(left, right, out, factor=1.0 if rate is None else -rate.item())

    def begin(self, out: Array, bias: Array | None, term: Array | None) -> None:
        if term is None:
            assert bias is not None
            np.copyto(out, bias)
        elif bias is None:
            np.copyto(out, term)
        else:
            np.add(term, bias, out=out)

    def squares(self, x: Array, out: Array) -> None:
        flat = x.reshape(-1)
        out[...] = np.dot(flat, flat)

    def scratch(self, use: str, nbytes: int) -> int:
        if not self.team:
            return scratch(use, nbytes)
        piece = _MACHINE.scratch(self.team, self.part, use, nbytes)
        self.held.append(piece)
        return address_of(piece)

    def keep(self, *things: Any) -> None:
        # the calls are made
        del things


NOW = _Now()


class SharedCalls:
    """`run(key, parts, work)`: work(calls, number) for each part, on a team.

    From the second run on, the calls that the parts make are written down, and shared as they are by the runs
    that follow with the same key: it holds the address of everything that they read and write.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.runs = 0
        self.key: Hashable = None
        self.recording: _Recording | None = None

    def run(self, key: Hashable, parts: int, work: Callable[[MachineCalls, int], None]) -> None:
        """Compute all parts; OneDnnError where the library fails."""
        self.runs += 1
        # code that is there costs nothing, be it the first run of a size
        team = _team(self.threads, parts) if self.runs >= _FIRST_RUN or _MACHINE.addresses else None
        if team is None:
            _by_python(self.threads, parts, work)
            return
        if self.recording is None or key != self.key:
            self.forget()
            self.recording, self.key = _Recording(self.threads, parts, work), key
        self.recording.run(team)

    def forget(self) -> None:
        """Write the calls down again at the next run: something has moved, although the key is the same."""
        if self.recording is not None:
            self.recording.release()
            self.recording = None


def share_once(threads: int, parts: int, work: Callable[[MachineCalls, int], None]) -> None:
    """work(calls, number) for each part, on a team of threads; OneDnnError where the library fails."""
    team = _team(threads, parts)
    if team is None:
        _by_python(threads, parts, work)
        return
    recording = _Recording(threads, parts, work)
    recording.run(team)
    recording.release()


def _by_python(threads: int, parts: int, work: Callable[[MachineCalls, int], None]) -> None:
    size = min(threads, parts)
    on_team(size, lambda part: work(_Now(size, part) if size > 1 else NOW, part), parts)


def _team(threads: int, parts: int) -> Team | None:
    """The team of so many threads, if it shares calls of machine code."""
    functions = _MACHINE.functions() if threads > 1 and 1 < parts <= MOST_RECORDS else None
    if functions is None:
        return None
    team = team_of(threads)
    if team.sharing is None:
        team.share_by(_RecordSharing(functions, threads - 1))
    return team


class _Recording:
    """The calls of some parts, as records that threads of a team take one by one."""

    def __init__(self, team: int, parts: int, work: Callable[[MachineCalls, int], None]) -> None:
        self.team = team
        self.held: list[Any] = []
        """The arrays that hold arguments."""
        self.taken: list[tuple[Primitive, Any]] = []
        self.status = np.zeros(1, np.int64)
        functions = _MACHINE.functions()
        assert functions is not None
        self.functions = functions
        records = []
        for number in range(parts):
            part = _PartCalls(self, number)
            work(part, number)
            records.append(part.record())
        self.records = self.block(records)
        self.count = parts

    def block(self, words: Sequence[Any]) -> Array:
        """Words that stay where they are."""
        made = np.array(words, np.int64)
        self.held.append(made)
        return made

    def run(self, team: Team) -> None:
        """Make all calls on the team; OneDnnError where the library fails."""
        team.run_records(self.count, address_of(self.records))
        if self.status[0]:
            status, self.status[0] = int(self.status[0]), 0
            checked(status, "a call that threads share")

    def release(self) -> None:
        """Give back the arguments of primitives."""
        for primitive, held in self.taken:
            primitive.give_back(held)
        self.taken = []


class _PartCalls:
    """Writes down the calls of one part."""

    def __init__(self, recording: _Recording, number: int) -> None:
        self.recording = recording
        self.number = number
        self.calls: list[tuple[int, int, int, int]] = []

    def record(self) -> tuple[int, int, int, int]:
        """The part as one record."""
        if len(self.calls) == 1:
            return self.calls[0]
        table = self.recording.block(self.calls)
        return self.recording.functions["sequence"], 0, len(self.calls), address_of(table)

    def _append(self, function: str, last: int, words: Sequence[Any]) -> Array:
        block = self.recording.block(words)
        self.calls.append((self.recording.functions[function], 0, last, address_of(block)))
        return block

    def _head(self, function: int, alone: bool = True) -> tuple[int, int, int]:
        """The words at the head of a block for a function of a library, oneDNN where it must be kept to one
        thread.
        """
        return function, _limit() if alone else 0, address_of(self.recording.status)

    def code(self, function: Any, first: int, last: int, arguments: int) -> None:
        self.calls.append((_place_of(function), first, last, arguments))

    def primitive(self, primitive: Primitive, *addresses: int) -> None:
        if primitive.scratch_bytes:
            addresses = (*addresses, self.scratch("scratchpad", primitive.scratch_bytes))
        held = primitive.take(addresses)
        self.recording.taken.append((primitive, held))
        stream = part_stream(self.number).value
        passed = ctypes.addressof(held.passed)
        head = self._head(_execute())
        self._append("execute", 1, [*head, primitive.handle.value, stream, len(held.passed), passed])

    def product(self, gemm: AnyGemm, left: int, right: int, out: int, *, rate: Array | None = None) -> None:
        one, offsets = (gemm.gemm, gemm.offsets) if isinstance(gemm, StackGemm) else (gemm, None)
        moved = [0 if array is None else address_of(array) for array in (rate, offsets)]
        self.recording.held += [rate, offsets]
        count = 1 if offsets is None else len(offsets)
        is_blas = isinstance(one, BlasGemm)
        which = "blas" if is_blas else "product"
        head = self._head(_product_place(is_blas), not is_blas)
        kept = _ONE if one.kept else 0
        self._append(which, count, [*head, *one.described, left, right, out, kept, _ONE, *moved])

    def begin(self, out: Array, bias: Array | None, term: Array | None) -> None:
        which = BEGIN[-1] if bias is not None and term is not None else BEGIN[bias is None]
        places = [0 if array is None else address_of(array) for array in (out, bias, term)]
        strides = [0 if array is None else array.strides[0] // array.itemsize for array in (out, term)]
        self._append(which, len(out), [*places, out.shape[1], *strides])

    def squares(self, x: Array, out: Array) -> None:
        self._append("squares", 1, [address_of(x), address_of(out), x.size])

    def scratch(self, use: str, nbytes: int) -> int:
        piece = _MACHINE.scratch(self.recording.team, self.number, use, nbytes)
        # a larger one may take its place, which others get then
        self.recording.held.append(piece)
        return address_of(piece)

    def keep(self, *things: Any) -> None:
        self.recording.held += things


@functools.cache
def _execute() -> int:
    """The address of the function that runs a primitive."""
    return _place_of(library().dnnl_primitive_execute)


@functools.cache
def _limit() -> int:
    """The address of the function that keeps the library to a number of threads."""
    return _place_of(library().omp_set_num_threads)


@functools.cache
def _product_place(is_blas: bool) -> int:
    """The address of the function that multiplies matrices."""
    return _place_of(BlasGemm.function() if is_blas else Gemm.function())


def _place_of(function: Any) -> int:
    """The address of a function of ctypes."""
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


# ---------------------------------------------------------------------- the code
class _SharedMachine(EnginePart):
    """The compiled functions, which outlive a fork, and the memory that parts of teams' jobs work in."""

    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        """Those of the functions, once they are compiled and wanted."""
        self._scratch: dict[tuple[int, int, str], Array] = {}

    @functools.cached_property
    def code(self) -> LoopCode:
        """The code of the functions."""
        return loop_of(machine_text(widths()[1]))

    def functions(self) -> dict[str, int] | None:
        """The addresses of the functions; None until they are compiled, and where that is not wanted."""
        if flags.fast_loops() == "off":
            return None
        if not self.addresses:
            if not _can_sleep():
                return None
            code = self.code
            if code.function is None and (flags.fast_loops() == "wait" or flags.is_deterministic()):
                # no step is to differ from the same one in another run
                code.compile()
            if code.function is None:
                code.ask()
                return None
            table = np.zeros(len(FUNCTIONS), np.int64)
            code.function(0, 0, address_of(table))
            self.addresses.update(zip(FUNCTIONS, table.tolist(), strict=True))
        return self.addresses

    def scratch(self, team: int, part: int, use: str, nbytes: int) -> Array:
        """Bytes for a part of a team's job: its jobs come one after the other."""
        held = self._scratch.get((team, part, use))
        if held is None or len(held) < nbytes:
            held = self._scratch[team, part, use] = aligned(nbytes)
        return held


_MACHINE = ENGINE.add(_SharedMachine())


@functools.cache
def _can_sleep() -> bool:
    """True where LLVM is installed and the system has semaphores without names."""
    if not is_available():
        return False
    try:
        _RecordSharing.check()
    except (AttributeError, OSError):
        return False
    return True


@functools.cache
def _system() -> Any:
    return ctypes.CDLL(None)


def _semaphore() -> Array:
    """A semaphore, in bytes that must stay where they are; OSError where there are none."""
    system = _system()
    made = aligned(_LINE)
    made.fill(0)
    if system.sem_init(ctypes.c_void_p(address_of(made)), 0, 0):
        raise OSError("sem_init")
    return made


class _RecordSharing:
    """How the threads of a team sleep, and share what is written down: one for each team."""

    def __init__(self, functions: dict[str, int], workers: int) -> None:
        names = ("share", "serve", "recall")
        self._share, self._serve, self._recall = (_SIGNATURE(functions[name]) for name in names)
        self._semaphores = [_semaphore() for _ in range(workers + 1)]
        done, *wakes = map(address_of, self._semaphores)
        held = aligned((HEAD + WORKER * workers) * _WORD)
        held.fill(0)
        self._state = held.view(np.int64)
        system = _system()
        calls = map(_place_of, (getattr(system, name) for name in _SYSTEM_CALLS.values()))
        self._state[list(_SYSTEM_CALLS)] = list(calls)
        self._state[[DONE, WORKERS]] = done, workers
        for worker, place in enumerate(wakes):
            self._state[HEAD + WORKER * worker] = place
        self._place = address_of(self._state)

    @staticmethod
    def check() -> None:
        """AttributeError or OSError where the system lacks what is needed."""
        _semaphore()
        for name in _SYSTEM_CALLS.values():
            getattr(_system(), name)

    def share(self, count: int, records: int) -> None:
        """Make the calls of so many records, with the workers that are there in time."""
        self._share(count, records, self._place)

    def serve(self, worker: int) -> None:
        """Make calls of records, as they come, until Python is wanted."""
        self._serve(worker, 0, self._place)

    def call_back(self, worker: int) -> None:
        """Have a worker return to Python."""
        self._recall(worker, 0, self._place)
