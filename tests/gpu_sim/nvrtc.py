"""NVIDIA's compiler for kernels, which needs no device: the wheel that the `test` extra brings."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import pathlib
import threading

from gpu_sim.faults import KernelFault

__all__ = ["check", "version"]

# a kind of device, and not only its intermediate code: then registers and shared memory are counted out too
ARCHITECTURE = b"-arch=sm_80"
_lock = threading.Lock()


@functools.cache
def _library() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia")
    for folder in list(found.submodule_search_locations or ()) if found else []:
        for path in pathlib.Path(folder).rglob("libnvrtc.so*"):
            if "builtins" not in path.name and "alt" not in path.name:
                return ctypes.CDLL(str(path))
    raise AssertionError("the wheel nvidia-cuda-nvrtc-cu12 is not installed: pip install 'fluidlite[test]'")


@functools.cache
def version() -> tuple[int, int]:
    """The version of CUDA."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def check(text: str, name: str) -> None:
    """KernelFault with the compiler's words where CUDA does not take a text."""
    library, program = _library(), ctypes.c_void_p()
    # CuPy's own option, which gives the text no headers
    options = (ctypes.c_char_p * 2)(ARCHITECTURE, b"--std=c++17")
    with _lock:
        status = library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None
        )
        assert status == 0, f"nvrtcCreateProgram: {status}"
        status = library.nvrtcCompileProgram(program, 2, options)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcDestroyProgram(ctypes.byref(program))
    if status:
        raise KernelFault(f"kernel {name} does not compile for CUDA:\n{log.value.decode()[:4000]}\n{text}")
