"""`paddle.device.cuda`: CUDA devices, by CuPy."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import UnsupportedError
from fluidlite.base.place import CUDAPlace, array_module, get_cuda_device_count
from fluidlite.base.refusals import Refusals

_REFUSED = Refusals(
    "paddle.device.cuda",
    "streams and events are for kernels that a script starts itself, and an executor runs whole programs",
    classes="Event Stream stream_guard",
    functions="current_stream max_memory_allocated max_memory_reserved",
)
__all__ = [
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "memory_allocated",
    "memory_reserved",
    "synchronize",
    *_REFUSED.names,
]


def device_count() -> int:
    """The number of CUDA devices; 0 without CuPy."""
    return get_cuda_device_count()


def _cupy(function: str, device: Any) -> tuple[Any, int]:
    """CuPy, and the number of a device; UnsupportedError without one."""
    if not device_count():
        raise UnsupportedError(
            f"The API paddle.device.cuda.{function} needs a CUDA device and CuPy, and there is none here"
        )
    if isinstance(device, CUDAPlace):
        device = device.device_id
    if isinstance(device, str):
        device = device.partition(":")[2] or 0
    return array_module(CUDAPlace(0)), int(device or 0)


def empty_cache() -> None:
    """Give memory that no array uses back to the device."""
    if device_count():
        _cupy("empty_cache", None)[0].get_default_memory_pool().free_all_blocks()


def synchronize(device: Any = None) -> None:
    """Wait until a device has done what it was told."""
    cupy, number = _cupy("synchronize", device)
    with cupy.cuda.Device(number):
        cupy.cuda.runtime.deviceSynchronize()


def memory_allocated(device: Any = None) -> int:
    """The bytes of a device's memory that arrays use."""
    cupy, number = _cupy("memory_allocated", device)
    with cupy.cuda.Device(number):
        return int(cupy.get_default_memory_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """The bytes of a device's memory that this process holds."""
    cupy, number = _cupy("memory_reserved", device)
    with cupy.cuda.Device(number):
        return int(cupy.get_default_memory_pool().total_bytes())


def get_device_properties(device: Any = None) -> dict[str, Any]:
    """The facts that CUDA's runtime states of a device."""
    cupy, number = _cupy("get_device_properties", device)
    found: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(number)
    return found


def get_device_name(device: Any = None) -> str:
    """The name of a device."""
    name = get_device_properties(device)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The major and the minor number of what a device can do."""
    facts = get_device_properties(device)
    return int(facts["major"]), int(facts["minor"])


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
