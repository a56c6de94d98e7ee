"""Signatures of rules and kernels that are written for more than one op: the registry reads from a signature
what a function needs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

__all__ = ["takes", "with_attrs"]

Function: TypeAlias = Callable[..., Any]


def _keywords(names: Iterable[str]) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names])


def takes(names: Iterable[str]) -> Callable[[Function], Function]:
    """Gives a function of `**values` the parameters `names`."""
    signature = _keywords(names)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(**values: Any) -> Any:
            return function(**values)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def with_attrs(names: Iterable[str]) -> Callable[[Function], Function]:
    """Lets a rule or kernel take the attributes `names` as one mapping, its parameter `attrs`."""
    names = tuple(names)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def gather(**arguments: Any) -> Any:
            return function(attrs={name: arguments.pop(name) for name in names}, **arguments)

        own = [name for name in inspect.signature(function).parameters if name != "attrs"]
        gather.__signature__ = _keywords([*own, *names])  # type: ignore[attr-defined]
        return gather

    return decorate
