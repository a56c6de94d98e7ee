"""Switches of 2.x that programs take without an effect, and the state of its random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fluidlite.data_feeder import check_type
from fluidlite.paddle import defaults

__all__ = [
    "disable_signal_handler",
    "enable_grad",
    "get_rng_state",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_printoptions",
    "set_rng_state",
]


class _Gradients(contextlib.ContextDecorator):
    """A context, or a decorator, that changes nothing: programs say by `stop_gradient` what gets no gradient,
    and imperative mode alone records ops by itself.
    """

    def __init__(self, func: Callable[..., Any] | None = None) -> None:
        self._func = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._func is not None:
            return self._func(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *unused: Any) -> None:
        return None


class no_grad(_Gradients):
    __doc__ = _Gradients.__doc__


class enable_grad(_Gradients):
    __doc__ = _Gradients.__doc__


class set_grad_enabled(_Gradients):
    __doc__ = _Gradients.__doc__

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode


def is_grad_enabled() -> bool:
    """False: imperative mode alone records ops by itself."""
    return False


def disable_signal_handler() -> None:
    """Do nothing: Python's own handlers of signals are left as they are."""


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Take how tensors of imperative mode are printed: fetched values are arrays, which
    `numpy.set_printoptions` concerns.
    """
    numbers = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in numbers.items():
        check_type(value, name, (int, type(None)), "set_printoptions")
    check_type(sci_mode, "sci_mode", (bool, type(None)), "set_printoptions")


def _check_device(device: str | None) -> None:
    if device is not None and device.split(":")[0] not in ("cpu", "gpu", "xpu", "npu"):
        raise ValueError(
            "The device must be a string which is like 'cpu', 'gpu', 'gpu:x', 'xpu', 'xpu:x', 'npu', 'npu:x'"
        )


def get_rng_state(device: str | None = None) -> list[Any]:
    """The states of random generators: one, as all numbers are drawn on the host."""
    _check_device(device)
    return [defaults.generator().get_state()]


def set_rng_state(state_list: list[Any], device: str | None = None) -> None:
    """Go on as from `get_rng_state`."""
    _check_device(device)
    if len(state_list) != 1:
        raise ValueError(f"Length of state list should be equal to 1, but received {len(state_list)} states")
    defaults.generator().set_state(state_list[0])
