"""Places: which device a program runs on, and the array module that does the work there."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingExtraError
from fluidlite.base.records import dataclass

__all__ = [
    "CPU_ONLY",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "Place",
    "array_module",
    "cpu_places",
    "cuda_pinned_places",
    "cuda_places",
    "get_cuda_device_count",
    "is_array",
    "is_compiled_with_cuda",
    "is_device_array",
]


CPU_ONLY = "FLUIDLITE_CPU_ONLY"
"""The environment variable of `fluidlite run --cpu`: whoever asks for a CUDA device gets the CPU."""


def _is_cpu_only() -> bool:
    return os.environ.get(CPU_ONLY, "0") not in ("", "0")


@dataclass(frozen=True)
class Place:
    """The memory that arrays live in; a `Place()` itself is none until `set_place` says which it is."""

    _stands_for: Place | None = field(default=None, init=False, repr=False, compare=False)

    def set_place(self, place: Place) -> None:
        """Stand for `place`."""
        # frozen, because places are keys of plans; this one field is left out of the comparison
        object.__setattr__(self, "_stands_for", place)

    def _itself(self) -> Place:
        return self if self._stands_for is None else self._stands_for

    def is_cpu_place(self) -> bool:
        """True if this is host memory."""
        return isinstance(self._itself(), CPUPlace)

    def is_gpu_place(self) -> bool:
        """True if this is a CUDA device."""
        return isinstance(self._itself(), CUDAPlace)

    def is_cuda_pinned_place(self) -> bool:
        """True if this is page-locked host memory."""
        return isinstance(self._itself(), CUDAPinnedPlace)

    def _type(self) -> int:
        """Paddle's number of the kind: 0 a CUDA device, 1 host memory, 2 page-locked host memory."""
        return _KINDS[type(self._itself())]

    def _equals(self, other: Place) -> bool:
        """True if both are of one kind; TypeError unless it is a place."""
        if not isinstance(other, Place):
            raise TypeError(f"_equals compares two places, but got {other!r}")
        return self._type() == other._type()

    def gpu_device_id(self) -> int:
        """The number of the CUDA device."""
        place = self._itself()
        return place.device_id if isinstance(place, CUDAPlace) else 0


@dataclass(frozen=True)
class CPUPlace(Place):
    """Host memory, NumPy arrays."""

    def __repr__(self) -> str:
        return "CPUPlace"


@dataclass(frozen=True)
class CUDAPlace(Place):
    """CUDA device `device_id`, CuPy arrays."""

    device_id: int = 0

    def __new__(cls, device_id: int = 0) -> Any:
        """A CPUPlace where the process is told to use the CPU only."""
        return CPUPlace() if _is_cpu_only() else super().__new__(cls)

    def __repr__(self) -> str:
        return f"CUDAPlace({self.device_id})"

    def get_device_id(self) -> int:
        """The number of the device."""
        return self.device_id


@dataclass(frozen=True)
class CUDAPinnedPlace(Place):
    """Page-locked host memory: what is fed from here reaches the device without a copy in between."""

    def __new__(cls) -> Any:
        """A CPUPlace where the process is told to use the CPU only."""
        return CPUPlace() if _is_cpu_only() else super().__new__(cls)

    def __repr__(self) -> str:
        return "CUDAPinnedPlace"


_KINDS: dict[type[Place], int] = {CUDAPlace: 0, CPUPlace: 1, CUDAPinnedPlace: 2}


def _cupy() -> Any:
    try:
        import cupy  # type: ignore[import-not-found]
        from cupy import cuda  # noqa: F401  a folder named cupy imports, too, but has none
    except ImportError as error:
        raise MissingExtraError(
            f"a CUDAPlace needs a CUDA device and CuPy ({error}): use CPUPlace(), run the script by "
            "`fluidlite run --cpu`, or install CuPy: pip install 'fluidlite[cuda12]' (or [cuda13])"
        ) from error
    return cupy


def array_module(place: Place) -> Any:
    """NumPy for host memory, CuPy for a device; MissingExtraError where CuPy is not installed."""
    return _cupy() if isinstance(place, CUDAPlace) else np


def is_device_array(value: Any) -> bool:
    """True for an array in a device's memory."""
    # the protocol that such arrays share: CuPy, which takes a second to import, need not be loaded to ask
    return hasattr(value, "__cuda_array_interface__")


def is_array(value: Any) -> bool:
    """True for an array of NumPy or CuPy, and for NumPy's scalars."""
    return isinstance(value, (np.ndarray, np.generic)) or is_device_array(value)


def get_cuda_device_count() -> int:
    """The number of CUDA devices; 0 without CuPy or without a driver."""
    try:
        return int(_cupy().cuda.runtime.getDeviceCount())
    except (MissingExtraError, RuntimeError):
        return 0


def is_compiled_with_cuda() -> bool:
    """True if programs can run on a CUDA device here."""
    return not _is_cpu_only() and get_cuda_device_count() > 0


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """`device_count` CPU places; by default as many as the environment variable CPU_NUM says, or 1."""
    return [CPUPlace()] * (device_count or int(os.environ.get("CPU_NUM", 1)))


def cuda_places(device_ids: list[int] | None = None) -> list[CUDAPlace]:
    """CUDA places; by default those of the environment variable FLAGS_selected_gpus, or all.
    AssertionError without CUDA.
    """
    if _is_cpu_only():
        return [CUDAPlace(index) for index in device_ids or [0]]
    assert is_compiled_with_cuda(), "Not compiled with CUDA"
    if device_ids is None:
        selected = os.environ.get("FLAGS_selected_gpus")
        device_ids = (
            [int(text) for text in selected.split(",")] if selected else list(range(get_cuda_device_count()))
        )
    return [CUDAPlace(index) for index in device_ids]


def cuda_pinned_places(device_count: int | None = None) -> list[CUDAPinnedPlace]:
    """Pinned places; by default as many as CPU_NUM says, or 1. AssertionError without CUDA."""
    assert _is_cpu_only() or is_compiled_with_cuda(), "Not compiled with CUDA"
    return [CUDAPinnedPlace()] * (device_count or int(os.environ.get("CPU_NUM", 1)))
