"""`paddle.version`: the version whose names and results these are, in parts."""

from __future__ import annotations

import sys

__all__ = [
    "commit",
    "cuda",
    "cudnn",
    "full_version",
    "istaged",
    "major",
    "minor",
    "mkl",
    "patch",
    "rc",
    "show",
    "xpu",
    "xpu_xccl",
]

full_version = "1.8.5"
major = "1"
minor = "8"
patch = "5"
rc = "0"
istaged = True
commit = "FluidLite"
with_mkl = "OFF"


def show() -> None:
    """Print the version."""
    sys.stdout.write(f"full_version: {full_version}\n")


def mkl() -> str:
    """OFF: Intel's library computes no products here."""
    return with_mkl


def cuda() -> str:
    """False: nothing here is compiled for one version of CUDA."""
    return "False"


def cudnn() -> str:
    """False: nothing here is compiled for one version of cuDNN."""
    return "False"


def xpu() -> str:
    """False: there are no kernels for Kunlun's devices."""
    return "False"


def xpu_xccl() -> str:
    """False: Kunlun's devices have no collectives here."""
    return "False"
