"""Kernels in CUDA C, compiled by NVRTC to know that CUDA takes them, and by the C++ compiler with its address
and undefined-behaviour sanitizers to run them over all threads of a launch.

A process of its own, which reads launches from a pipe, runs the kernels: what the sanitizers find ends that
process, and is an error here. A launch runs in two orders of threads and blocks, which must agree: a missing
barrier shows.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
import subprocess
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_sim import compiled
from gpu_sim.arrays import ndarray
from gpu_sim.faults import KernelFault
from gpu_sim.streams import Range, submit

__all__ = ["RawKernel"]

# limits of a launch that all devices share
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
MAX_PARAMETER_BYTES = 4096
MAX_SHARED_BYTES = 48 * 1024
_BOUNDS = re.compile(r"__launch_bounds__\(\s*(\d+)")


@dataclass(frozen=True)
class _Launch:
    """The numbers of a launch, checked as CUDA does."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int

    def check(self, text: str) -> None:
        """KernelFault for what CUDA refuses."""
        self._within("grid", self.grid, MAX_GRID)
        self._within("block", self.block, MAX_BLOCK)
        bounds = _BOUNDS.search(text)
        limit = min(MAX_THREADS, int(bounds[1])) if bounds else MAX_THREADS
        threads = int(np.prod(self.block))
        if threads > limit:
            raise KernelFault(f"kernel {self.name}: {threads} threads in a block, of {limit}")
        if self.shared_bytes > MAX_SHARED_BYTES:
            raise KernelFault(f"kernel {self.name}: {self.shared_bytes} bytes of shared memory")

    def _within(self, what: str, sizes: tuple[int, ...], limits: tuple[int, ...]) -> None:
        if not all(1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
            raise KernelFault(f"kernel {self.name}: CUDA launches no {what} of {sizes}")


def _sizes(given: Any) -> tuple[int, ...]:
    first, second, third = (*map(int, given), 1, 1, 1)[:3]
    return first, second, third


class RawKernel:
    """`kernel(grid, block, arguments)`."""

    def __init__(self, code: str, name: str, options: Any = (), backend: str = "nvrtc", **_: Any) -> None:
        self.code = code
        self.name = name
        self.made: compiled.Module | None = None
        compiled.announce(code, name)

    def compile(self) -> None:
        """Make the module."""
        self._module()

    def _module(self) -> compiled.Module:
        if self.made is None:
            self.made = compiled.module(self.code, self.name)
        return self.made

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, **_: Any) -> None:
        for item in args:
            if isinstance(item, np.ndarray):
                raise TypeError(f"Unsupported type {type(item)}: kernel {self.name} takes a host array")
        launch = _Launch(self.name, _sizes(grid), _sizes(block), shared_mem)
        launch.check(self.code)
        if (
            sum(8 if isinstance(item, ndarray) else np.asarray(item).nbytes for item in args)
            > MAX_PARAMETER_BYTES
        ):
            raise KernelFault(f"kernel {self.name}: more than {MAX_PARAMETER_BYTES} bytes of parameters")
        made = self._module()
        arrays = [item for item in args if isinstance(item, ndarray)]
        assert all(item.flags.c_contiguous for item in arrays), f"kernel {self.name} takes a strided array"
        written = [
            item
            for number, item in enumerate(args)
            if isinstance(item, ndarray) and not made.is_read_only(number)
        ]
        ranges = [item.range for item in arrays], [item.range for item in written]
        submit(f"kernel {self.name}", *ranges, lambda: self._launch(made, launch, args, written))

    def _launch(self, made: compiled.Module, launch: _Launch, args: Any, written: list[ndarray]) -> None:
        regions = _regions([item for item in args if isinstance(item, ndarray) and item.size])
        one, other = (_run(made, launch, args, regions, backwards) for backwards in (False, True))
        for region, left, right in zip(regions, one, other, strict=True):
            if left is None or right is None:
                continue
            if left != right:
                self._compare(region, left, right, written)
            ctypes.memmove(region.start, left, len(left))

    def _compare(self, region: _Region, left: bytes, right: bytes, written: list[ndarray]) -> None:
        for item in written:
            start = item.values.ctypes.data - region.start
            if not 0 <= start < len(left) or not item.size:
                continue
            first, second = (np.frombuffer(part, item.dtype, item.size, start) for part in (left, right))
            # atomic additions come in any order, so floats may differ in their last bits
            is_float = item.dtype.kind == "f"
            is_same = np.allclose if is_float else np.array_equal
            if not is_same(first, second, equal_nan=is_float):
                raise KernelFault(f"kernel {self.name}: another order of threads gives other results")


# ---------------------------------------------------------------------- memory
@dataclass(frozen=True)
class _Region:
    """Memory that the arguments of a launch share, or one of them has for itself."""

    start: int
    stop: int
    skew: int
    """How far its start is from a place where the widest loads may begin."""


def _regions(arrays: list[ndarray]) -> list[_Region]:
    ranges: list[Range] = sorted((item.range for item in arrays), key=lambda place: place[1:])
    found: list[_Region] = []
    for memory, start, stop in ranges:
        if found and start < found[-1].stop:
            last = found.pop()
            found.append(_Region(last.start, max(last.stop, stop), last.skew))
        else:
            found.append(_Region(start, stop, (start - memory.low) % 16))
    return found


# ---------------------------------------------------------------------- the process that runs kernels
_lock = threading.Lock()
_processes: list[Any] = []


def _process() -> Any:
    if not _processes:
        pipe = subprocess.PIPE
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
        started = subprocess.Popen([compiled.server()], stdin=pipe, stdout=pipe, stderr=pipe, env=env)
        weakref.finalize(started, _end, started)
        _processes.append(started)
    return _processes[0]


def _end(process: Any) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            pipe.close()


def _run(
    made: compiled.Module, launch: _Launch, args: Any, regions: list[_Region], backwards: bool
) -> list[bytes | None]:
    """The bytes of each region after a launch in an order; None for one that is only read."""
    message = _message(made, launch, args, regions, backwards)
    # ranks are threads, and take turns
    with _lock:
        process = _process()
        try:
            process.stdin.write(message)
            process.stdin.flush()
            return [_answer(process) for _ in regions]
        except (BrokenPipeError, EOFError):
            process.wait()
            report = process.stderr.read().decode(errors="replace")
            _end(_processes.pop())
            raise KernelFault(f"kernel {launch.name}: {report[:3000]}") from None


def _message(
    made: compiled.Module, launch: _Launch, args: Any, regions: list[_Region], backwards: bool
) -> bytes:
    path, name = os.fsencode(made.path), made.name.encode()
    parts = [
        struct.pack("<q", len(path)),
        path,
        struct.pack("<q", len(name)),
        name,
        struct.pack("<6q", *launch.grid, *launch.block),
        struct.pack("<4q", backwards, made.waits, launch.shared_bytes, len(regions)),
    ]
    for region in regions:
        parts += [
            struct.pack("<2q", region.stop - region.start, region.skew),
            ctypes.string_at(region.start, region.stop - region.start),
        ]
    parts.append(struct.pack("<q", len(args)))
    for item in args:
        parts += _argument(item, regions)
    return b"".join(parts)


def _argument(item: Any, regions: list[_Region]) -> list[bytes]:
    if not isinstance(item, ndarray):
        data = np.asarray(item).tobytes()
        return [struct.pack("<2q", -1, len(data)), data]
    address = item.values.ctypes.data
    for number, region in enumerate(regions):
        if region.start <= address < region.stop:
            return [struct.pack("<2q", number, address - region.start)]
    return [struct.pack("<2q", EMPTY, 0)]


EMPTY = 2**31  # the region of an array without elements


def _answer(process: Any) -> bytes | None:
    (count,) = struct.unpack("<q", _read(process, 8))
    return None if count < 0 else _read(process, count)


def _read(process: Any, count: int) -> bytes:
    data: bytes = process.stdout.read(count)
    if len(data) != count:
        raise EOFError
    return data
