"""Kernels in CUDA C, compiled by the C++ compiler with its address and undefined-behaviour sanitizers, and
run over all threads of a launch.

Each kernel is a process of its own that reads a launch from a pipe: what the sanitizers find ends that
process, and is an error here. A launch runs in two orders of threads and blocks, which must agree: a missing
barrier shows.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading
import weakref
from typing import Any

import numpy as np

from gpu_sim.arrays import ndarray
from gpu_sim.streams import submit

__all__ = ["KernelFault", "RawKernel"]

HERE = pathlib.Path(__file__).parent
FLAGS = ["-std=c++17", "-O0", "-g", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class KernelFault(AssertionError):
    """A mistake in a kernel, found by a sanitizer or by comparing two orders of threads."""


@functools.cache
def _folder() -> pathlib.Path:
    return pathlib.Path(tempfile.mkdtemp(prefix="fluidlite-kernels-"))


_compiling = threading.Lock()


def _program(text: str, name: str) -> pathlib.Path:
    # ranks are threads: one of them compiles, and the others find what it made
    with _compiling:
        return _compiled(text, name)


@functools.cache
def _compiled(text: str, name: str) -> pathlib.Path:
    """The program that serves a kernel."""
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler, "the stand-in for a device needs a C++ compiler"
    source = f'#include "cuda_on_host.h"\n#line 1 "{name}.cu"\n{text}\nint main() {{ serve(&{name}); }}\n'
    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    program = _folder() / f"{name}-{digest}"
    path = program.with_suffix(".cpp")
    path.write_text(source, encoding="utf8")
    done = subprocess.run(
        [compiler, *FLAGS, f"-I{HERE}", str(path), "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise KernelFault(f"kernel {name} does not compile:\n{done.stderr[:4000]}\n{text}")
    return program


class RawKernel:
    """`kernel(grid, block, arguments)`."""

    def __init__(self, code: str, name: str, options: Any = (), backend: str = "nvrtc", **_: Any) -> None:
        self.code = code
        self.name = name
        self.process: Any = None

    def compile(self) -> None:
        """Make the program."""
        _program(self.code, self.name)

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, **_: Any) -> None:
        for item in args:
            if isinstance(item, np.ndarray):
                raise TypeError(f"Unsupported type {type(item)}: kernel {self.name} takes a host array")
        arrays = [item for item in args if isinstance(item, ndarray)]
        assert all(item.flags.c_contiguous for item in arrays), f"kernel {self.name} takes a strided array"
        ranges = [item.range for item in arrays]
        submit(self.name, ranges, ranges, lambda: self._launch(grid, block, args))

    def _launch(self, grid: Any, block: Any, args: Any) -> None:
        first, second = (self._run(grid, block, args, order) for order in (0, 1))
        for item, one, other in zip(args, first, second, strict=True):
            if one is None:
                continue
            left, right = (np.frombuffer(part, item.dtype).reshape(item.shape) for part in (one, other))
            # atomic additions come in any order, so floats may differ in their last bits
            is_float = item.dtype.kind == "f"
            is_same = np.allclose if is_float else np.array_equal
            if not is_same(left, right, equal_nan=is_float):
                raise KernelFault(f"kernel {self.name}: another order of threads gives other results")
            item.values[...] = left

    def _run(self, grid: Any, block: Any, args: Any, order: int) -> list[bytes | None]:
        """The bytes of each array after a launch in an order; None for what is no array."""
        process = self._process()
        sizes = [*grid, 1, 1, 1][:3] + [*block, 1, 1, 1][:3]
        parts = [struct.pack("<8q", *map(int, sizes), order, len(args))]
        for item in args:
            data = item.values.tobytes() if isinstance(item, ndarray) else np.asarray(item).tobytes()
            parts += [struct.pack("<q", len(data)), data]
        try:
            process.stdin.write(b"".join(parts))
            process.stdin.flush()
            return [_answer(process) if isinstance(item, ndarray) else None for item in args]
        except (BrokenPipeError, EOFError):
            process.wait()
            report = process.stderr.read().decode(errors="replace")
            self.process = None
            raise KernelFault(f"kernel {self.name}: {report[:3000]}") from None

    def _process(self) -> Any:
        if self.process is None:
            program = _program(self.code, self.name)
            pipe = subprocess.PIPE
            env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
            self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe, env=env)
            weakref.finalize(self, _end, self.process)
        return self.process


def _answer(process: Any) -> bytes | None:
    """The bytes of an array after a launch; None for one that the kernel only reads."""
    (count,) = struct.unpack("<q", _read(process, 8))
    return None if count < 0 else _read(process, count)


def _read(process: Any, count: int) -> bytes:
    data: bytes = process.stdout.read(count)
    if len(data) != count:
        raise EOFError
    return data


def _end(process: Any) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            pipe.close()
