"""The command `hadoop fs`, which every HDFS client of fluid 1.x and of 2.x runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["HadoopEntry", "HadoopCommand", "entries"]


class HadoopEntry(NamedTuple):
    """A file or folder that `hadoop fs -ls` lists.

    size: bytes.
    modified: day and time, as text that sorts by time.
    """

    path: str
    is_folder: bool
    size: int
    modified: str


class HadoopCommand:
    """Runs `home/bin/hadoop fs` with options such as {"fs.default.name": "hdfs://host:port"}.

    time_limit: seconds that a command may take, its repetitions included; None waits without limit.
    pause: seconds between repetitions.

    Raises OSError where the command cannot be started, and subprocess.TimeoutExpired past the limit: each
    client says these in its own errors.
    """

    def __init__(
        self,
        home: str,
        options: Mapping[str, str] | None,
        time_limit: float | None = None,
        pause: float = 0.0,
    ) -> None:
        self.words = [f"{home}/bin/hadoop", "fs"]
        self.words += [f"-D{name}={value}" for name, value in (options or {}).items()]
        self._time_limit, self._pause = time_limit, pause

    def run(self, *arguments: str, tries: int = 5) -> subprocess.CompletedProcess[str]:
        """The first of at most `tries` runs that works, or the last one that fails."""
        end = None if self._time_limit is None else time.monotonic() + self._time_limit
        done = self._once(arguments, end)
        for _ in range(tries - 1):
            if done.returncode == 0:
                break
            time.sleep(self._pause)
            done = self._once(arguments, end)
        return done

    def _once(self, arguments: tuple[str, ...], end: float | None) -> subprocess.CompletedProcess[str]:
        left = None if end is None else max(0.0, end - time.monotonic())
        return subprocess.run(
            [*self.words, *arguments], capture_output=True, text=True, timeout=left, check=False
        )


def entries(listing: str) -> list[HadoopEntry]:
    """The rows of the text that `-ls` prints; its heading is left out."""
    rows = [line.split(None, 7) for line in listing.splitlines()]
    return [
        HadoopEntry(
            path=row[7], is_folder=row[0].startswith("d"), size=int(row[4]), modified=f"{row[5]} {row[6]}"
        )
        for row in rows
        if len(row) == 8
    ]
