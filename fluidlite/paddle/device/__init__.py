"""Devices of the 2.x door: places by name. A program runs where its executor's place says."""

from __future__ import annotations

import importlib
from typing import Any

from fluidlite.base.place import CPUPlace, CUDAPlace, Place, get_cuda_device_count, is_compiled_with_cuda
from fluidlite.base.records import dataclass
from fluidlite.base.refusals import Refusals
from fluidlite.paddle.device import cuda
from fluidlite.paddle.device.cuda import synchronize

xpu = importlib.import_module("fluidlite.paddle.device.xpu")  # made of its row in `base.left_out`
_REFUSED = Refusals(
    "paddle.device",
    "streams and events are for kernels that a script starts itself, and an executor runs whole programs",
    classes="Event Stream stream_guard",
    functions="current_stream set_stream",
)
__all__ = [
    *_REFUSED.names,
    "IPUPlace",
    "XPUPlace",
    "cuda",
    "current_place",
    "get_all_custom_device_type",
    "get_all_device_type",
    "get_available_custom_device",
    "get_available_device",
    "get_cuda_rng_state",
    "get_cudnn_version",
    "get_device",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_distribute",
    "is_compiled_with_ipu",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "place_of",
    "set_cuda_rng_state",
    "set_device",
    "synchronize",
    "xpu",
]


@dataclass
class _Chosen:
    place: Place | None = None


_chosen = _Chosen()


def current_place() -> Place:
    """The place that `set_device` chose; without it the first CUDA device, or the host."""
    if _chosen.place is not None:
        return _chosen.place
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


def set_device(device: str) -> Place:
    """Let executors that are given no place run on "cpu", "gpu" or "gpu:1". ValueError for another device."""
    _chosen.place = place_of(device)
    return _chosen.place


def place_of(device: str) -> Place:
    """The place that "cpu", "gpu" or "gpu:1" means. ValueError for one that is not here."""
    kind, _, number = device.lower().partition(":")
    if kind == "cpu" and not number:
        return CPUPlace()
    if kind != "gpu" or not (number.isdigit() or not number):
        raise ValueError(
            f"The device must be a string which is like 'cpu', 'gpu', 'gpu:0', but received {device!r}"
        )
    place = CUDAPlace(int(number or 0))
    if isinstance(place, CUDAPlace) and not is_compiled_with_cuda():
        raise ValueError(
            f"{device!r} needs a CUDA device and CuPy, and there is none here: use 'cpu', or `fluidlite run "
            "--cpu`"
        )
    return place


def get_device() -> str:
    """The device of `set_device` by name: "cpu", "gpu:0"."""
    place = current_place()
    return f"gpu:{place.device_id}" if isinstance(place, CUDAPlace) else "cpu"


def get_cudnn_version() -> int | None:
    """None: convolutions do not go through cuDNN's own version here."""
    return None


def is_compiled_with_xpu() -> bool:
    """False: there are no kernels for Kunlun's devices."""
    return False


class XPUPlace:
    """A Kunlun device, which nothing here runs on."""

    def __init__(self, device_id: int) -> None:
        raise ValueError(
            f"XPUPlace({device_id}): FluidLite has no kernels for XPU devices; use CPUPlace or CUDAPlace"
        )


class IPUPlace:
    """A Graphcore device, which nothing here runs on."""

    def __init__(self) -> None:
        raise ValueError("IPUPlace(): FluidLite has no kernels for IPU devices; use CPUPlace or CUDAPlace")


def is_compiled_with_ipu() -> bool:
    """False: there are no kernels for Graphcore's devices."""
    return False


def is_compiled_with_rocm() -> bool:
    """False: there are no kernels for AMD's devices."""
    return False


def is_compiled_with_cinn() -> bool:
    """False: Paddle's compiler is not here."""
    return False


def is_compiled_with_distribute() -> bool:
    """True: jobs of several processes run."""
    return True


def is_compiled_with_custom_device(device_type: str) -> bool:
    """False: devices are the host's and CUDA's."""
    return False


def get_all_device_type() -> list[str]:
    """The kinds of devices: "cpu", and "gpu" where there is a CUDA device."""
    return ["cpu", *(["gpu"] if is_compiled_with_cuda() else [])]


def get_all_custom_device_type() -> list[str]:
    """None."""
    return []


def get_available_device() -> list[str]:
    """The devices by name: "cpu", and "gpu:0" and so on."""
    return ["cpu", *(f"gpu:{number}" for number in range(get_cuda_device_count()))]


def get_available_custom_device() -> list[str]:
    """None."""
    return []


def get_cuda_rng_state() -> list[Any]:
    """The states of the devices' random generators: none, because random numbers are drawn on the host."""
    return []


def set_cuda_rng_state(state_list: list[Any]) -> None:
    """Take back what `get_cuda_rng_state` gave. ValueError for states of generators that are not here."""
    if len(state_list) != 0:
        raise ValueError(
            f"Length of cuda state list should be equal to the cuda device count, which is "
            f"{get_cuda_device_count()} with no random generator each, but received {len(state_list)} states"
        )


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
