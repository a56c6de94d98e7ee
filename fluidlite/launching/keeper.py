"""The end of a job whose launcher cannot end it any more: killed, or stopped for good.

A file that runs by itself, `python keeper.py MARK FOLDER SECONDS`, on the standard library alone, beside a
launcher that holds the other end of its stdin: the end of that is the end of the launcher, however it came.
Then all processes whose environment holds MARK end, asked first, and what they left is removed: FOLDER, MPI's
files in shared memory, port files of servers. A launcher that has ended its job itself leaves little to do.

stdin: a line with the id of each command that was started, "suspended" and "resumed" where a terminal
suspends the launcher. One that is stopped otherwise counts as gone after SECONDS.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import shutil
import signal
import sys
import time

__all__ = ["Keeper", "main", "state_of"]

_LOOK = 1.0  # seconds between looks at the launcher and at the job's shared memory
_PATIENCE = 3.0  # seconds for processes to end when they are asked to
_LIMIT = 8.0  # seconds for their end in all
_PAUSE = 0.05
_SHARED = "/dev/shm/"
# what MPICH, UCX and Open MPI call theirs: any other file there is the user's
_OF_MPI = ("mpich_", "ucx_", "vader_segment.", "sm_segment.")
_STOPPED = ("T", "t")


def state_of(process: int) -> str:
    """The state of a process, such as "R" or "T" (stopped); "" where it is not there, or not known."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


class Keeper:
    """The facts of one job.

    commands: ids of the commands that were started, each the first of a process group.
    mapped: files of MPI in shared memory that processes of the job were seen to use.
    seen: processes of the job that were found at its end.
    """

    def __init__(self, mark: str, folder: str, seconds: float) -> None:
        self.mark = mark.encode()
        self.folder = pathlib.Path(folder)
        self.seconds = seconds
        self.launcher = os.getppid()
        self.commands: list[int] = []
        self.mapped: set[str] = set()
        self.seen: set[int] = set()
        self.is_suspended = False

    # ------------------------------------------------------------------ while the job runs
    def watch(self) -> None:
        """Return when the launcher has gone, or has been stopped for too long."""
        stopped = 0.0
        text = b""
        while True:
            if select.select([0], [], [], _LOOK)[0]:
                data = os.read(0, 4096)
                if not data:
                    return
                *lines, text = (text + data).split(b"\n")
                self._hear([line.decode() for line in lines])
            self._look_at_memory()
            if state_of(self.launcher) not in _STOPPED or self.is_suspended:
                stopped = 0.0
            elif not stopped:
                stopped = time.monotonic()
            elif time.monotonic() - stopped > self.seconds:
                sys.stderr.write(f"the launcher has been stopped for {self.seconds:g} s: its job ends\n")
                return

    def _hear(self, lines: list[str]) -> None:
        for line in lines:
            if line.isdigit():
                self.commands.append(int(line))
            else:
                self.is_suspended = line == "suspended"

    def _look_at_memory(self) -> None:
        """Note the files in shared memory that ranks use, which each leaves a note with its id."""
        with contextlib.suppress(OSError):
            for note in (self.folder / "reports" / "running").iterdir():
                if note.name.isdigit():
                    self._map(int(note.name))

    def _map(self, process: int) -> None:
        with contextlib.suppress(OSError):
            maps = pathlib.Path(f"/proc/{process}/maps").read_text(encoding="utf8", errors="replace")
            for line in maps.splitlines():
                _, found, path = line.partition(_SHARED)
                if found and path.startswith(_OF_MPI) and not path.endswith(" (deleted)"):
                    self.mapped.add(_SHARED + path)

    # ------------------------------------------------------------------ the end
    def end(self) -> None:
        """End what still runs, and remove what it left."""
        begin = time.monotonic()
        is_asked = False
        while running := self._running():
            waited = time.monotonic() - begin
            if waited > _LIMIT:
                break
            if not is_asked or waited > _PATIENCE:
                for process in running:
                    _signal(process, signal.SIGTERM if waited <= _PATIENCE else signal.SIGKILL)
                is_asked = True
            time.sleep(_PAUSE)
        self._clean()
        if state_of(self.launcher) in _STOPPED:
            _signal(self.launcher, signal.SIGCONT)  # to say how its job ended, and end

    def _running(self) -> list[int]:
        """The processes of the job; without a /proc, the commands that were started."""
        if not os.path.isdir("/proc/self"):
            return [process for process in self.commands if _is_there(process)]
        found = [int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
        mine = [process for process in found if self._is_marked(process)]
        for process in mine:
            if process not in self.seen:
                self._map(process)
        self.seen.update(mine)
        return mine

    def _is_marked(self, process: int) -> bool:
        try:
            environ = pathlib.Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            return False
        return self.mark in environ.split(b"\0") and state_of(process) not in ("Z", "X", "")

    def _clean(self) -> None:
        for process in {*self.seen, *self.commands}:
            with contextlib.suppress(OSError):
                os.unlink(f"/tmp/paddle.{process}.port")
        for path in self.mapped:
            with contextlib.suppress(OSError):
                os.unlink(path)
        shutil.rmtree(self.folder, ignore_errors=True)


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, number)
        os.kill(process, signal.SIGCONT)  # one that is stopped hears of nothing else but SIGKILL


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def main(arguments: list[str]) -> None:
    """Watch over the job that the arguments name, and end what is left of it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keeper = Keeper(arguments[0], arguments[1], float(arguments[2]))
    keeper.watch()
    keeper.end()


if __name__ == "__main__":
    main(sys.argv[1:])
