"""Facts that `fluid.core` tells of the machine and of Paddle's compiled module."""

from __future__ import annotations

import ctypes
import pathlib
import platform
import subprocess
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import FluidError
from fluidlite.base.refusals import Refusals
from fluidlite.values.tensor import LoDTensor

__all__ = [
    "COMPILED",
    "avx_supported",
    "from_dlpack",
    "get_glibc_ver",
    "less_than_ver",
    "load_dso",
    "run_shell_command",
    "set_eager_deletion_mode",
    "set_fuse_parameter_group_size",
    "set_fuse_parameter_memory_size",
]

COMPILED = Refusals(
    "fluid.core",
    "FluidLite is written in Python and has no compiled module",
    functions="get_dso_path pre_load",
)


def avx_supported() -> bool:
    """True if the processor says that it has AVX; where it does not say, False."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf8")
    except OSError:  # only Linux has this file
        return False
    return any(line.startswith("flags") and "avx" in line.split() for line in text.splitlines())


def run_shell_command(cmd: str) -> str | None:
    """The standard output of a command line, None where it prints nothing; FluidError where it writes to its
    standard error.
    """
    done = subprocess.run(cmd, shell=True, capture_output=True, text=True, check=False)
    if done.stderr:
        raise FluidError(f"{cmd!r}: {done.stderr}")
    return done.stdout.strip() or None


def get_glibc_ver() -> str:
    """The version of the C library, such as "2.31"."""
    return platform.libc_ver()[1]


def less_than_ver(a: str, b: str) -> bool:
    """True if version `a` comes before `b`, by the numbers between the points."""
    return [int(part) for part in a.split(".")] < [int(part) for part in b.split(".")]


def load_dso(dso_absolute_path: str | None) -> None:
    """Load a shared library; nothing for None. OSError where it cannot be loaded."""
    if dso_absolute_path:
        ctypes.CDLL(dso_absolute_path)


class _Capsule:
    """A capsule of DLPack in the form that NumPy takes."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **unused: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU


def from_dlpack(capsule: Any) -> LoDTensor:
    """A tensor of what another library shows in a capsule of DLPack in host memory."""
    return LoDTensor(np.array(np.from_dlpack(_Capsule(capsule))))


# ------------------------------------------------------------------------------------------------ flags
def set_eager_deletion_mode(threshold: float, fraction: float, fast_mode: bool) -> None:
    """Set the flags of eager deletion, which are kept and change nothing: plans reuse memory in any case."""
    flags.set_flags(
        {
            "FLAGS_eager_delete_tensor_gb": float(threshold),
            "FLAGS_memory_fraction_of_eager_deletion": float(fraction),
            "FLAGS_fast_eager_deletion_mode": bool(fast_mode),
        }
    )


def set_fuse_parameter_group_size(size: int) -> None:
    """Set the number of gradients that are reduced together."""
    flags.set_flags({"FLAGS_fuse_parameter_groups_size": int(size)})


def set_fuse_parameter_memory_size(size: float) -> None:
    """Set the megabytes of gradients that are reduced together."""
    flags.set_flags({"FLAGS_fuse_parameter_memory_size": float(size)})
