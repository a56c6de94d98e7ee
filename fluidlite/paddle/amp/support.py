"""Half precision on devices, and the imperative half of `paddle.amp`, which points to `paddle.static.amp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fluidlite.base.place import CUDAPlace
from fluidlite.paddle.device import current_place, place_of

__all__ = ["GradScaler", "auto_cast", "decorate", "is_bfloat16_supported", "is_float16_supported"]


def is_float16_supported(device: str | None = None) -> bool:
    """True on a CUDA device, where float16 is worth computing in: NumPy has it too, but slowly.

    `device` is "cpu", "gpu" or "gpu:1"; by default the one that `paddle.set_device` chose.
    """
    place = current_place() if device is None else place_of(device)
    return isinstance(place, CUDAPlace)


def is_bfloat16_supported(device: str | None = None) -> bool:
    """True: values are rounded to bfloat16 on every device. ValueError for a device that is not here."""
    if device is not None:
        place_of(device)
    return True


def _of_imperative_mode(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"paddle.amp.{name}() works in imperative mode, but FluidLite runs static graphs only: "
            "use paddle.static.amp.decorate(optimizer), which rewrites the program to half "
            "precision"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "RuntimeError: programs of mixed precision are made by `paddle.static.amp.decorate`."
    return refuse


auto_cast, GradScaler, decorate = (
    _of_imperative_mode(name) for name in ("auto_cast", "GradScaler", "decorate")
)
