"""Modules of kernels, made by the C++ compiler; the same text is compiled once, in all runs of the tests."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gpu_sim import nvrtc
from gpu_sim.faults import KernelFault

__all__ = ["Module", "announce", "module", "server"]

HERE = pathlib.Path(__file__).parent
# beside what else is built of this checkout: `make clean` removes it
KEPT = HERE.parents[1] / "build" / "gpu-sim"
FLAGS = [
    "-std=c++17",
    "-O0",
    "-g1",
    "-w",
    "-fPIC",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]
_DYNAMIC = re.compile(r"extern\s+__shared__\s+([\w ]+?)\s*(\w+)\s*\[\s*\]\s*;")
_WAITS = re.compile(r"__sync|_sync\(")
_lock = threading.RLock()
_announced: dict[str, str] = {}


@dataclass(frozen=True)
class Module:
    """A compiled kernel."""

    path: pathlib.Path
    name: str
    read_only: frozenset[int]
    """The parameters that are pointers to constants."""
    waits: bool
    """True if its threads wait for each other."""

    def is_read_only(self, number: int) -> bool:
        """True if the kernel cannot write through a parameter."""
        return number in self.read_only


def announce(text: str, name: str) -> None:
    """A kernel that will be launched: those of a plan are compiled together, for a compiler's start takes ten
    times as long as a small kernel.
    """
    # kernels with macros or functions of their own may not know each other
    if "#" not in text and text.count("__global__") == 1:
        with _lock:
            _announced[name] = text


def module(text: str, name: str) -> Module:
    """The module of a kernel."""
    # ranks are threads: one of them compiles, and the others find what it made
    with _lock:
        return _module(text, name)


@functools.cache
def _module(text: str, name: str) -> Module:
    head = re.search(rf'extern\s+"C"\s+__global__.*?\b{name}\s*\(([^)]*)\)', text, re.DOTALL)
    if head is None:
        raise KernelFault(f'the text has no extern "C" __global__ kernel {name}:\n{text}')
    parameters = head[1].split(",")
    read_only = frozenset(i for i, each in enumerate(parameters) if "const" in each.partition("*")[0])
    path = _place(text, name)
    if not path.exists() and _announced.get(name) == text:
        _compile_together()
    _kept(path, lambda to: _compile_kernels({name: text}, to))
    return Module(path, name, read_only, bool(_WAITS.search(text)))


def _place(text: str, name: str) -> pathlib.Path:
    return _path(f"{text}\n{name}\n{_header()}\n{nvrtc.version()}", ".so")


def _compile_together() -> None:
    """Compile what has been announced and nobody has compiled; what does not compile is found out alone."""
    wanted = {name: text for name, text in _announced.items() if not _place(text, name).exists()}
    _announced.clear()
    if len(wanted) < 2:
        return
    with tempfile.TemporaryDirectory(dir=KEPT) as folder, contextlib.suppress(KernelFault):
        made = pathlib.Path(folder) / "made.so"
        _compile_kernels(wanted, made)
        for name, text in wanted.items():
            with contextlib.suppress(FileExistsError):
                os.link(made, _place(text, name))


def _compile_kernels(texts: dict[str, str], target: pathlib.Path) -> None:
    names = " ".join(texts)
    nvrtc.check("\n".join(texts.values()), names)
    source = ['#include "cuda_on_host.h"']
    for name, text in texts.items():
        host = _DYNAMIC.sub(r"\1* \2 = (\1*)dynamic_shared_memory;", text)
        source += [f'#line 1 "{name}.cu"', host, f"SERVED({name})"]
    path = target.with_suffix(".cpp")
    path.write_text("\n".join([*source, ""]), encoding="utf8")
    try:
        options = [f"-I{_header().parent}", "-shared", str(path), "-o", str(target)]
        _compile(options, f"kernel {names}", "\n".join(texts.values()))
    finally:
        path.unlink()


@functools.cache
def _header() -> pathlib.Path:
    """The header, precompiled: most of the time of a small kernel would go into reading it."""
    given = HERE / "cuda_on_host.h"

    def make(target: pathlib.Path) -> None:
        target.mkdir()
        header = target / given.name
        shutil.copy(given, header)
        _compile(["-x", "c++-header", str(header), "-o", f"{header}.gch"], "the header", "")

    return _kept(_path(given.read_text(encoding="utf8"), "-header"), make) / given.name


@functools.cache
def server() -> pathlib.Path:
    """The program that runs kernels."""
    path = HERE / "server.cpp"
    own = "\n".join((HERE / name).read_text(encoding="utf8") for name in ("server.cpp", "cuda_on_host.h"))

    def make(target: pathlib.Path) -> None:
        options = ["-O1", "-rdynamic", f"-I{HERE}", str(path), "-o", str(target), "-ldl"]
        _compile(options, "the server", "")

    return _kept(_path(own, "-server"), make)


def _compile(options: list[str], what: str, text: str) -> None:
    command = [_compiler(), *FLAGS, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelFault(f"{what} does not compile:\n{done.stderr[:4000]}\n{text}")


@functools.cache
def _compiler() -> str:
    found = shutil.which("g++") or shutil.which("c++")
    assert found, "the stand-in for a device needs a C++ compiler"
    return found


@functools.cache
def _compiler_version() -> str:
    return subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout


def _path(content: str, suffix: str) -> pathlib.Path:
    """The place of what is made of a content."""
    given = "\n".join([content, *FLAGS, _compiler_version()])
    return KEPT / (hashlib.sha256(given.encode()).hexdigest()[:24] + suffix)


def _kept(path: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """A file or folder, made by `make` where it is not there yet."""
    if path.exists():
        return path
    KEPT.mkdir(parents=True, exist_ok=True)
    # whole or not at all: several processes of one test run make the same at once
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        made = pathlib.Path(folder) / f"made{path.suffix}"
        make(made)
        with contextlib.suppress(OSError):  # another has put a folder there meanwhile
            made.replace(path)
    return path
