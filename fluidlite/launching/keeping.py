"""A launcher's side of its keeper (`keeper.py`), and commands that somebody has stopped."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping

from fluidlite.base import flags
from fluidlite.launching.keeper import state_of

__all__ = ["JobKeeper", "StoppedCommands"]

_KEEPER = str(pathlib.Path(__file__).with_name("keeper.py"))
_MARK = "FLUIDLITE_JOB_FOLDER"
_LAST = 12.0  # seconds for the keeper to end what is left
_QUIET = 2.0  # seconds that a command may be stopped before that is said
_LOOK = 0.5  # seconds between looks


def _deadline() -> float:
    return float(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"]) / 1000.0


class JobKeeper:
    """Inside the `with`, a process beside this one ends the job if this one cannot.

    mark: what its processes have to have in their environment, as NAME=VALUE.
    """

    def __init__(self, folder: str) -> None:
        self.mark = f"{_MARK}={folder}"
        environ = {name: value for name, value in os.environ.items() if name != _MARK}
        # a session of its own: neither a terminal that closes nor Ctrl-C ends it
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", _KEEPER, self.mark, folder, str(_deadline())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environ,
            cwd="/",
            start_new_session=True,
        )

    def tell(self, line: str) -> None:
        """A line for the keeper; nothing where it has gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def __enter__(self) -> JobKeeper:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST)


class StoppedCommands:
    """Commands of a job that are stopped (SIGSTOP): it is said, and does not last for ever.

    is_over: True once one has been stopped for FLAGS_rpc_deadline.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._since: dict[int, float] = {}
        self._said: set[int] = set()
        self._looked = 0.0

    def look(self, running: Mapping[int, str]) -> None:
        """Look at commands by their ids."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        limit = _deadline()
        for process, name in running.items():
            if state_of(process) != "T":
                self._since.pop(process, None)
                continue
            waited = now - self._since.setdefault(process, now)
            if waited > limit:
                self.is_over = True
                _say(name, process, f"for {limit:g} s: the job ends")
            elif waited > _QUIET and process not in self._said:
                self._said.add(process)
                _say(name, process, f"(kill -CONT {process}): the job ends if that lasts {limit:g} s")


def _say(name: str, process: int, text: str) -> None:
    sys.stderr.write(f"{pathlib.Path(name).name} (process {process}) is stopped {text}\n")
    sys.stderr.flush()
