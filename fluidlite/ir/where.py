"""The place in the user's source that an op comes from."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import os
import pathlib
import sys
from dataclasses import dataclass, field

__all__ = ["Where", "user_location"]

_PACKAGES = ("fluidlite", "fluidlite.executor", "fluidlite.transpiler")  # each may lie in a folder of its own
_MOST_CALLERS = 100
_WRITTEN = 16  # frames of a stack that go into files: a test runner's is deeper


@dataclass(frozen=True)
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
        return f"{self.file}:{self.line}"

    def frames(self) -> tuple[Where, ...]:
        """The innermost frames, this one first: as many as files hold."""
        return (self, *self.callers)[:_WRITTEN]

    def callstack(self) -> list[str]:
        """A traceback as Paddle keeps it in `op_callstack`: two lines a frame, the innermost first."""
        lines = []
        for frame in self.frames():
            source = linecache.getline(frame.file, frame.line).strip()
            lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}\n')
            lines.append(f"    {source}\n")
        return lines


@functools.cache
def _package_folders() -> tuple[str, ...]:
    """The folders of FluidLite's own source; to find them imports nothing."""
    specs = [importlib.util.find_spec(name) for name in _PACKAGES]
    # of a checkout, `fluidlite.__path__` also has the root, in which tests and examples stand
    files = [spec.origin for spec in specs if spec is not None and spec.origin]
    return tuple(f"{pathlib.Path(file).resolve().parent}{os.sep}" for file in files)


@functools.cache
def _is_ours(file: str) -> bool:
    # guards and decorators stand between a layer and the line that calls it
    return file.startswith(_package_folders()) or file.endswith(("contextlib.py", "functools.py"))


@functools.cache
def _is_command(file: str) -> bool:
    # a command calls the user's code; how the command itself was started is not the user's
    return pathlib.Path(file).parts[-3:-1] == ("fluidlite", "cli")


def user_location() -> Where | None:
    """The innermost frame outside FluidLite, with those that called it."""
    # `inspect.stack` would read the source of every frame; this runs for each op that is appended
    frame = sys._getframe(1)
    called = ""
    while frame is not None and _is_ours(frame.f_code.co_filename):
        # a decorator's own function says nothing of what it stands around
        if frame.f_code.co_name not in ("wrapper", "inner", "__enter__", "__exit__"):
            called = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    frames: list[tuple[str, int, str]] = []
    while frame is not None and len(frames) <= _MOST_CALLERS:
        code = frame.f_code
        if not _is_ours(code.co_filename):
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
    return Where(*first, callers=tuple(Where(*frame) for frame in others), called=called)
