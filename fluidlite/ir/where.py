"""The place in the user's source that an op comes from."""

from __future__ import annotations

import functools
import linecache
import os
import pathlib
import stat
import sys
from dataclasses import dataclass, field

from fluidlite.base.notebooks import cell_of
from fluidlite.base.plain_text import printable
from fluidlite.base.tracebacks import is_own_source

__all__ = ["Where", "is_source", "source_line", "source_lines", "user_location"]

_MOST_CALLERS = 100
_LARGEST_SOURCE = 4 << 20
_WRITTEN = 16  # frames of a stack that go into files: a test runner's is deeper


@dataclass(frozen=True, slots=True)
class Where:
    """A line of the user's source, the function that it stands in, and how the program came there.

    `callers` are the lines that called that function, the innermost first, up to the level of a module;
    `called` names FluidLite's function that the line itself called. Both are left out of comparisons:
    not every format keeps them.
    """

    file: str
    line: int
    function: str = "<module>"
    callers: tuple[Where, ...] = field(default=(), compare=False, repr=False)
    called: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return printable(f"{cell_of(self.file)}:{self.line}")

    def frames(self) -> tuple[Where, ...]:
        """The innermost frames, this one first: as many as files hold."""
        return (self, *self.callers)[:_WRITTEN]

    def callstack(self) -> list[str]:
        """A traceback as Paddle keeps it in `op_callstack`: two lines a frame, the innermost first."""
        lines = []
        for frame in self.frames():
            source = source_line(frame.file, frame.line)
            lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}\n')
            lines.append(f"    {source}\n")
        return lines


def source_lines(file: str) -> list[str]:
    """The lines of a source file; none of what is no file of Python.

    A model may name any file of this machine as its source: one with secrets, or a device without an end.
    Names such as `<stdin>` are those of texts in Python's cache.
    """
    return linecache.getlines(file) if is_source(file) else []


def source_line(file: str, line: int) -> str:
    """The text of one line, without the blanks around it."""
    lines = source_lines(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def is_source(file: str) -> bool:
    """True if Python has the text of a file, or may read it from the disk."""
    if file in linecache.cache or file.startswith("<"):
        return True
    try:
        found = os.stat(file) if file.endswith(".py") else None
    except (OSError, ValueError):
        return False
    return found is not None and stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST_SOURCE


@functools.cache
def _is_command(file: str) -> bool:
    # a command calls the user's code; how the command itself was started is not the user's
    return pathlib.Path(file).parts[-3:-1] == ("fluidlite", "cli")


def user_location() -> Where | None:
    """The innermost frame outside FluidLite, with those that called it."""
    # `inspect.stack` would read the source of every frame; this runs for each op that is appended
    frame = sys._getframe(1)
    called = ""
    while frame is not None and is_own_source(frame.f_code.co_filename):
        # a decorator's own function says nothing of what it stands around
        if frame.f_code.co_name not in ("wrapper", "inner", "__enter__", "__exit__"):
            called = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    frames: list[tuple[str, int, str]] = []
    while frame is not None and len(frames) <= _MOST_CALLERS:
        code = frame.f_code
        if not is_own_source(code.co_filename):
            frames.append((code.co_filename, frame.f_lineno, code.co_name))
        elif _is_command(code.co_filename):
            break
        if code.co_name == "<module>":
            break
        frame = frame.f_back  # type: ignore[assignment]
    return _place(tuple(frames), called) if frames else None


@functools.lru_cache(maxsize=4096)
def _place(frames: tuple[tuple[str, int, str], ...], called: str) -> Where:
    """The place with these frames; a layer makes several ops in one."""
    first, *others = frames
    return Where(*first, callers=tuple(_frame(*frame) for frame in others), called=called)


# many places have their outer callers in common
_frame = functools.lru_cache(maxsize=4096)(Where)
