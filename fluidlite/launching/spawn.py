"""Processes that run a function."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError, CommunicatorError
from fluidlite.executor.comm.objects import encode
from fluidlite.launching.options import LaunchOptions
from fluidlite.launching.start import start

__all__ = ["SpawnedJob", "spawn"]

_SPAWNED = str(pathlib.Path(__file__).with_name("spawned.py"))


class SpawnedJob:
    """The processes of a job; `join` returns when they have ended."""

    def __init__(self, options: LaunchOptions, work: bytes) -> None:
        self._options = options
        self._work = work
        self._code: int | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="fluidlite-spawn-") as folder:
            path = pathlib.Path(folder) / "work"
            path.write_bytes(self._work)
            try:
                self._code = start(self._options.for_script(_SPAWNED, str(path)), "spawn")
            except BaseException as error:  # raised by `join`, in the thread that waits
                self._error = error

    def begin(self) -> None:
        """Start beside this thread."""
        self._thread.start()

    def run(self) -> None:
        """Start here, and return when all have ended: then Ctrl-C ends them too."""
        self._run()
        self._check()

    def join(self, timeout: float | None = None) -> bool:
        """True when all have ended, False after `timeout` seconds; CommunicatorError where one has failed."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._check()
        return True

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._code:
            raise CommunicatorError(f"a spawned process failed with exit code {self._code}: see above")


def spawn(
    function: Callable[..., Any], arguments: Sequence[Any], options: LaunchOptions, join: bool
) -> SpawnedJob:
    """Run `function(*arguments)` in the processes of a job. ArgumentError where the function is not one of a
    module's or script's, or an argument cannot be sent (nothing is pickled).
    """
    name = getattr(function, "__qualname__", "")
    if not callable(function) or not name or "<" in name:
        raise ArgumentError(
            f"{function!r} is not a function of a module or script, so other processes cannot find it"
        )
    main = sys.modules["__main__"]
    is_script = function.__module__ == "__main__"
    script = getattr(main, "__file__", None) if is_script else ""
    if script is None:
        raise ArgumentError(
            f"{name} was defined interactively, and other processes cannot find it: put it into a file"
        )
    work = {
        "module": function.__module__,
        "script": str(pathlib.Path(script).absolute()) if script else "",
        "name": name,
        "arguments": list(arguments),
        "path": [entry for entry in sys.path if entry],
    }
    job = SpawnedJob(options, encode(work))
    if join:
        job.run()
    else:
        job.begin()
    return job
