"""`fluid.default_scope_funcs`: a stack of scopes for each thread, from before programs had executors with
scopes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.values.scope import Scope

__all__ = ["enter_local_scope", "find_var", "get_cur_scope", "leave_local_scope", "scoped_function", "var"]


class _ScopeStack(threading.local):
    """One thread's scopes, the innermost last."""

    def __init__(self) -> None:
        self.scopes = [Scope()]


_stack = _ScopeStack()


def get_cur_scope() -> Scope:
    """The innermost scope of this thread."""
    return _stack.scopes[-1]


def enter_local_scope() -> None:
    """Make a scope inside the current one."""
    _stack.scopes.append(get_cur_scope().new_scope())


def leave_local_scope() -> None:
    """Drop the innermost scope; RuntimeError where there is only the outermost."""
    if len(_stack.scopes) == 1:
        raise RuntimeError("leave_local_scope without enter_local_scope: this is the outermost scope")
    _stack.scopes.pop()
    get_cur_scope().drop_kids()


def var(name: str) -> Any:
    """The variable `name` of the current scope, made where it is missing."""
    return get_cur_scope().var(name)


def find_var(name: str) -> Any:
    """The variable `name` of the current scope or of one around it; None where there is none."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], Any]) -> Any:
    """Call `func` in a scope of its own."""
    enter_local_scope()
    try:
        return func()
    finally:
        leave_local_scope()


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
