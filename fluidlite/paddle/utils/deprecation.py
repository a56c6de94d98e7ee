"""`paddle.utils.deprecated` and `try_import`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fluidlite.base.errors import MissingExtraError
from fluidlite.ir.warned import warn_user

__all__ = ["deprecated", "try_import"]


def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for functions that are to go: calls warn (`level` 0 or 1), or are RuntimeErrors (2)."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        text = f"API {function.__module__}.{function.__qualname__} is deprecated"
        text += f" since {since}, and will be removed in future versions." if since else "."
        text += f" Please use {update_to} instead." if update_to else ""
        text += f" Reason: {reason}" if reason else ""

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if level == 2:
                raise RuntimeError(text)
            warn_user(text, category=DeprecationWarning)
            return function(*args, **kwargs)

        return called

    return decorate


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """A module; MissingExtraError, which is an ImportError, with `err_msg` where it is not installed."""
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise MissingExtraError(
            err_msg
            or f"Failed importing {module_name}. Some names need packages that are installed by hand, "
            f"usually with `pip install {module_name}`."
        ) from error
