"""Tracebacks of errors that leave the library: the user's frames and the message.

A public function that fails calls `shorten` on the way out and raises again:

    try:
        ...
    except Exception as error:
        shorten(error)
        raise

Python then shows the lines of the user's program alone, in a terminal, in a notebook and in a test's report,
because the frames of the library are no longer in the error's `__traceback__`. Nothing is done where nothing
fails: since Python 3.11 a `try` costs nothing. `FLAGS_call_stack_level=2` keeps every frame.

Python 3.10 raises again with the traceback that it has stored elsewhere, and so shows all frames.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import pathlib
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

from fluidlite.base import flags
from fluidlite.base.errors import FluidError

__all__ = ["is_own_source", "short_tracebacks", "shorten"]

Function = TypeVar("Function", bound=Callable[..., Any])
_PACKAGES = ("fluidlite", "fluidlite.executor", "fluidlite.transpiler")  # each may lie in a folder of its own


@functools.cache
def _package_folders() -> tuple[str, ...]:
    """The folders of FluidLite's own source; to find them imports nothing."""
    specs = [importlib.util.find_spec(name) for name in _PACKAGES]
    # of a checkout, `fluidlite.__path__` also has the root, in which tests and examples stand
    files = [spec.origin for spec in specs if spec is not None and spec.origin]
    return tuple(f"{pathlib.Path(file).resolve().parent}{os.sep}" for file in files)


@functools.cache
def is_own_source(file: str) -> bool:
    """True for a file of FluidLite, whose frames are not the user's."""
    # guards and decorators stand between a layer and the line that calls it
    return file.startswith(_package_folders()) or file.endswith(("contextlib.py", "functools.py"))


@functools.cache
def _is_beneath(file: str) -> bool:
    """True for a file of Python's or NumPy's: called by the library, it tells a user nothing."""
    if "site-packages" in file or "dist-packages" in file:
        return f"{os.sep}numpy{os.sep}" in file
    return file.startswith((os.path.dirname(os.__file__), "<frozen "))


def shorten(error: BaseException) -> None:
    """Remove the library's frames from the tracebacks of an error and of those that it came from.

    A cause that happened in the library alone is not shown at all: it stays in `__context__`.
    """
    if flags.shows_all_frames():
        return
    chain = list(_chain(error))
    for each in chain:
        _shorten_one(each)
    for each in chain:
        came_from = each.__cause__ or each.__context__
        if isinstance(each, FluidError) and came_from is not None and came_from.__traceback__ is None:
            each.__context__ = came_from
            each.__cause__ = None


_HIDDEN = "The frames of FluidLite are hidden: FLAGS_call_stack_level=2 shows them."


def _shorten_one(error: BaseException) -> None:
    whole = error.__traceback__
    error.__traceback__ = _without_library(whole)
    # it may be a fault of the library, whose frames a report needs
    is_told = isinstance(error, FluidError) or _HIDDEN in getattr(error, "__notes__", ())
    if not is_told and _last(whole) is not _last(error.__traceback__) and hasattr(error, "add_note"):
        error.add_note(_HIDDEN)


def _last(trace: TracebackType | None) -> FrameType | None:
    """The frame that raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, the one that it came from, and so on."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _without_library(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the library's frames and those directly beneath them."""
    kept: list[TracebackType] = []
    in_library = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        in_library = (
            is_own_source(file) or file.startswith("<fluidlite ") or (in_library and _is_beneath(file))
        )
        if not in_library:
            kept.append(trace)
        trace = trace.tb_next
    # made anew: frames above may hold the old entries
    made: TracebackType | None = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def short_tracebacks(function: Function) -> Function:
    """A public function, or one that yields, whose errors show the user's frames."""

    @functools.wraps(function)
    def iterate(*args: Any, **kwargs: Any) -> Any:
        try:
            return (yield from function(*args, **kwargs))
        except Exception as error:
            shorten(error)
            raise

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    made: Any = iterate if inspect.isgeneratorfunction(function) else wrapper
    return made  # type: ignore[no-any-return]
