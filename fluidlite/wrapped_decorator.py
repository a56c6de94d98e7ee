"""`fluid.wrapped_decorator`: decorators that leave name and documentation alone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names

__all__ = ["signature_safe_contextmanager", "wrap_decorator"]


def wrap_decorator(decorator_func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The decorator, and what it decorates keeps its name, documentation and signature."""

    @functools.wraps(decorator_func)
    def decorate(func: Any) -> Any:
        return functools.wraps(func)(decorator_func(func))

    return decorate


signature_safe_contextmanager = wrap_decorator(contextlib.contextmanager)
"""`contextlib.contextmanager` under the name that fluid's programs import."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
