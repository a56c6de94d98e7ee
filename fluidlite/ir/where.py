"""The place in the user's source that an op comes from."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import pathlib
import sys
from typing import NamedTuple

__all__ = ["Where", "user_location"]

_PACKAGES = ("fluidlite", "fluidlite.executor", "fluidlite.transpiler")  # each may lie in a folder of its own


class Where(NamedTuple):
    """A line of the user's source, and the function that it stands in."""

    file: str
    line: int
    function: str = "<module>"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def callstack(self) -> list[str]:
        """The two lines of a traceback that Paddle keeps in `op_callstack`."""
        source = linecache.getline(self.file, self.line).strip()
        return [f'  File "{self.file}", line {self.line}, in {self.function}\n', f"    {source}\n"]


@functools.cache
def _package_folders() -> tuple[str, ...]:
    """The folders of FluidLite's own source; to find them imports nothing."""
    specs = [importlib.util.find_spec(name) for name in _PACKAGES]
    folders = [path for spec in specs if spec is not None for path in spec.submodule_search_locations or ()]
    return tuple(str(pathlib.Path(path).resolve()) for path in folders)


@functools.cache
def _is_ours(file: str) -> bool:
    # guards and decorators stand between a layer and the line that calls it
    return file.startswith(_package_folders()) or file.endswith(("contextlib.py", "functools.py"))


def user_location() -> Where | None:
    """The innermost frame outside FluidLite."""
    # `inspect.stack` would read the source of every frame; this runs for each op that is appended
    frame = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else Where(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
