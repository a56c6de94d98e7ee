"""`fluid.annotations`: functions that have a successor."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names

__all__ = ["deprecated"]


def deprecated(since: str, instead: str, extra_message: str = "") -> Callable[[Any], Any]:
    """Mark a function: its documentation, and a DeprecationWarning at each call, name what to use
    `instead`.
    """

    def decorate(func: Any) -> Any:
        message = f"API {func.__name__} is deprecated since {since}. Please use {instead} instead."
        if extra_message:
            message += "\n" + extra_message

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return func(*args, **kwargs)

        wrapper.__doc__ = f"{func.__doc__ or ''}\n    {message}"
        return wrapper

    return decorate


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
