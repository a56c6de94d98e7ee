"""Running the processes of a job: their output, the first failure, and the end of all."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.base.records import dataclass
from fluidlite.launching.deaths import DeathWatch
from fluidlite.launching.keeping import JobKeeper, StoppedCommands
from fluidlite.launching.plan import JobPlan, ProcessPlan
from fluidlite.launching.rank import LEFT

__all__ = ["run_job"]

_LOOK = 0.02  # seconds between looks at the processes
_OTHERS = 0.1  # seconds in which one that failed even earlier may still say so
_PATIENCE = 5.0  # seconds for a process to end when it is asked to
_SERVERS = 20.0  # seconds for servers to end by themselves once all trainers have: they may be saving
_LOST = 3.0  # seconds in which whatever started a process may say itself that it died
_CHUNK = 1 << 16
_INTERRUPTED = 130
_RUNNING = "running"  # folder of a file for each process, called by its id, that holds its name
_LINES = 20  # of the output of a process that says nothing of its end


@dataclass(frozen=True)
class _Failure:
    """The last words of a process: when, its name, its exit code, and the traceback."""

    time: float
    name: str
    code: int
    text: str
    log: str
    log_size: int


class _Stop(Exception):
    """Somebody wants the job to end: Ctrl-C, or a signal; the exit code says which."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


def run_job(make_plan: Callable[[str], JobPlan], program: str = "") -> int:
    """Run a job until all its processes have ended, and give the exit code: that of the process that failed
    first, whose traceback is printed once. `make_plan` gives the commands for a folder that reports go to;
    a `program` with a name says that it was interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="fluidlite-job-", ignore_cleanup_errors=True) as folder:
        reports = pathlib.Path(folder) / "reports"
        (reports / _RUNNING).mkdir(parents=True)
        plan = make_plan(str(reports))
        with JobKeeper(folder) as keeper:
            job = _RunningJob(plan, reports, keeper)
            try:
                with _signals(keeper):
                    return job.run()
            except _Stop as stop:
                code = stop.code
            finally:
                job.end()
        if program:
            why = "interrupted" if code == _INTERRUPTED else "terminated"
            sys.stderr.write(f"{program}: {why}; {job.count()} ended\n")
        return code


@contextlib.contextmanager
def _signals(keeper: JobKeeper) -> Iterator[None]:
    """Inside the `with`, signals to end are a _Stop, and one that suspends is told to the keeper; only the
    main thread hears of signals.
    """

    def stop(number: int, frame: object) -> None:
        raise _Stop(_INTERRUPTED if number == signal.SIGINT else 128 + number)

    def suspend(number: int, frame: object) -> None:
        keeper.tell("suspended")
        os.kill(os.getpid(), signal.SIGSTOP)
        keeper.tell("resumed")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ends = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ends.append(signal.SIGHUP)  # a terminal that closes; `nohup` ignores it
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in ends}
    if hasattr(signal, "SIGTSTP"):
        before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prctl() -> Callable[[int, int], int] | None:
    """Linux's call of that name; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    return found


_PRCTL = _prctl()
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG


def _set_parent_death() -> None:
    assert _PRCTL is not None
    _PRCTL(_PARENT_DEATH, signal.SIGTERM)


# between fork and exec: what a launcher that is killed cannot do any more, the system does
_end_with_parent = None if _PRCTL is None else _set_parent_death


class _Process:
    """A command that runs, and the last of what it prints itself."""

    def __init__(self, plan: ProcessPlan, show: Callable[[bytes], None], mark: str) -> None:
        self.plan = plan
        self.said = b""
        name, _, value = mark.partition("=")
        # a session of its own: Ctrl-C reaches the launcher alone, which ends all in order
        self.child = subprocess.Popen(
            plan.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **plan.environ, name: value},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self.reader = threading.Thread(target=self._read, args=(show,), daemon=True)
        self.reader.start()

    def _read(self, show: Callable[[bytes], None]) -> None:
        assert self.child.stdout is not None
        while data := os.read(self.child.stdout.fileno(), _CHUNK):
            self.said = (self.said + data)[-_CHUNK:]
            show(data)

    def signal_all(self, number: int) -> None:
        """Send a signal to the command and what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, number)
            os.killpg(self.child.pid, signal.SIGCONT)  # one that is stopped would not hear of it


class _RunningJob:
    """The processes of a job, and what is shown of them."""

    def __init__(self, plan: JobPlan, reports: pathlib.Path, keeper: JobKeeper) -> None:
        self.plan = plan
        self.stops = StoppedCommands()
        self.reports = reports
        self.logs = pathlib.Path(plan.log_dir)
        self.shown: dict[str, int] = {}  # log -> bytes
        self.stopping = False
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            for path in (path for pattern in plan.logs for path in self.logs.glob(pattern)):
                path.unlink()  # of a job before
        except OSError as error:
            why = error.strerror or error
            raise ArgumentError(f"cannot keep logs in {plan.log_dir}: {why}") from None
        self.deaths = DeathWatch(reports / _RUNNING)
        self.processes: list[_Process] = []
        for each in plan.processes:
            self.processes.append(_Process(each, self._show, keeper.mark))
            keeper.tell(str(self.processes[-1].child.pid))

    # ------------------------------------------------------------------ output
    def _show(self, data: bytes) -> None:
        """Print what comes from a command itself: the output of processes on other hosts. Where one has
        failed, it is mpiexec's opinion on that.
        """
        if self.plan.is_remote and not self.stopping and not self._failures():
            _print(data)

    def _sizes(self) -> dict[str, int]:
        """The bytes of each log that is shown, as far as it is there."""
        paths = [self.logs / name for name in self.plan.shown]
        return {path.name: path.stat().st_size for path in paths if path.exists()}

    def _follow(self, ends: Mapping[str, int], whole: bool = False) -> None:
        """Print what has been added to the logs that are shown: of those in `ends` up to a position, and only
        whole lines unless `whole`.
        """
        for name, prefix in self.plan.shown.items():
            path = self.logs / name
            if not path.exists():
                continue  # of a process that has said nothing yet, or of another host
            start = self.shown.get(path.name, 0)
            with path.open("rb") as file:
                file.seek(start)
                data = file.read(max(0, ends[path.name] - start) if path.name in ends else -1)
            if not whole:
                data = data[: data.rfind(b"\n") + 1]
            self.shown[path.name] = start + len(data)
            if data:
                _print(_with_prefix(data, prefix.encode()))

    # ------------------------------------------------------------------ running
    def run(self) -> int:
        """The exit code, when all has ended or something has failed."""
        trained = 0.0  # when the last trainer ended
        lost = 0.0  # when one was seen to have ended without a word
        while True:
            # before the look for failures: a process reports one before it prints it
            sizes = self._sizes()
            if self._failures():
                time.sleep(_OTHERS)
                return self._failed(min(self._failures(), key=lambda failure: failure.time))
            self._follow(sizes)
            for process in self.processes:
                code = process.child.poll()
                if code:
                    return self._ended(process, code)
            running = [process for process in self.processes if process.child.poll() is None]
            self.stops.look({process.child.pid: process.plan.command[0] for process in running})
            if self.stops.is_over:
                return 1
            if self.deaths.first:
                lost = lost or time.monotonic()
                if time.monotonic() - lost > _LOST:
                    return self._left(self.deaths.first)
            if not running:
                break
            if all(process.plan.serves for process in running):
                trained = trained or time.monotonic()
                if time.monotonic() - trained > _SERVERS:
                    break  # trainers that did not say goodbye: nobody talks to the servers any more
            time.sleep(_LOOK)
        self._drain()
        left = self._left_behind()
        if left is not None:
            return self._left(left)
        return 0

    def _left_behind(self) -> str | None:
        """The name of the process that has left the others alone by `os._exit(0)`, after which an mpiexec
        kills them silently; None where there is none, or all have ended so.
        """
        serving = {name for each in self.processes if each.plan.serves for name in each.plan.names}
        gone = [path for path in self._started() if not _is_alive(int(path.name))]
        ends = {path.read_text(encoding="utf8"): path.with_suffix(LEFT) for path in gone}
        ends = {name: path for name, path in ends.items() if name not in serving}
        left = sorted((path.stat().st_mtime, name) for name, path in ends.items() if path.exists())
        if not ends or len(left) == len(self.plan.names) - len(serving):
            return None
        return left[0][1] if left else self.deaths.first or min(ends)

    def _left_by_themselves(self) -> list[str]:
        """The processes that have called `os._exit(0)`, in this order."""
        notes = [path.with_suffix(LEFT) for path in self._started()]
        ends = [path for path in notes if path.exists() and path.read_text(encoding="utf8") == "0"]
        ends.sort(key=lambda path: path.stat().st_mtime)
        return [path.with_suffix("").read_text(encoding="utf8") for path in ends]

    def _started(self) -> list[pathlib.Path]:
        return [path for path in (self.reports / _RUNNING).iterdir() if path.name.isdigit()]

    def _left(self, name: str) -> int:
        """The end of a process without an exit code that says so, and silently."""
        self._follow({}, whole=True)
        others = ", and the others were ended" if len(self.plan.names) > 1 else ""
        sys.stderr.write(
            f"{name} exited with code 0 in the middle of the job without an error, as os._exit(0) "
            f"does{others}\n"
        )
        sys.stderr.flush()
        return 1

    def _drain(self) -> None:
        for process in self.processes:
            if process.child.poll() is not None:
                process.reader.join(_PATIENCE)
        self._follow({}, whole=True)

    def _failures(self) -> list[_Failure]:
        found = []
        for path in self.reports.iterdir():
            if path.is_file() and path.suffix != ".new":
                said: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
                found.append(_Failure(**said))
        return found

    # ------------------------------------------------------------------ failing
    def _failed(self, first: _Failure) -> int:
        """Show the logs as they were before their processes failed, and the first failure."""
        self._follow({each.log: each.log_size for each in self._failures()}, whole=True)
        others = ", and the others were ended" if len(self.plan.names) > 1 else ""
        sys.stdout.flush()
        text = f":\n{first.text}" if first.text else "\n"
        before = self._died_before()
        sys.stderr.write(f"{before}{first.name} failed with exit code {first.code}{others}{text}")
        sys.stderr.flush()
        return first.code

    def _died_before(self) -> str:
        """A line on the process that ended without a report before the others failed for want of it; "" where
        there is none.
        """
        name = self.deaths.first
        # of ranks an mpiexec kills all when one has failed, so that none of them says much
        codes = [each.child.poll() for each in self.processes if each.plan.names == (name,)]
        if not codes or name in {failure.name for failure in self._failures()}:
            return ""
        return f"{name} ended {_how(codes[0])}, and so\n"

    def _ended(self, process: _Process, code: int) -> int:
        """The end of a process that has reported nothing, or has only just."""
        time.sleep(_OTHERS)
        failures = self._failures()
        if failures:
            return self._failed(min(failures, key=lambda failure: failure.time))
        process.reader.join(_PATIENCE)
        left = self._left_by_themselves()
        if left:
            return self._left(left[0])  # the code is that of the ranks that mpiexec killed for it
        self._follow({}, whole=True)
        by = _how(code)
        killed = self.deaths.first if len(process.plan.names) > 1 else ""
        last = b"\n".join(process.said.splitlines()[-_LINES:]).decode(errors="replace")
        others = ", and the others were ended" if len(self.plan.names) > 1 else ""
        said = f":\n{last}\n" if last and not killed else "\n"
        sys.stderr.write(f"{killed or process.plan.name} ended {by}{others}{said}")
        sys.stderr.flush()
        return 128 - code if code < 0 else code

    def count(self) -> str:
        """The processes of the job in words."""
        names = self.plan.names
        return f"all {len(names)} processes have" if len(names) > 1 else f"{names[0]} has"

    def end(self) -> None:
        """End what still runs: asked first, then without asking."""
        self.stopping = True
        self.deaths.end()
        for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
            running = [process for process in self.processes if process.child.poll() is None]
            for process in running:
                process.signal_all(number)
            until = time.monotonic() + patience
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.child.wait(max(0.0, until - time.monotonic()))
        for process in self.processes:
            process.signal_all(signal.SIGKILL)  # what a command left behind in its session
            process.reader.join(1.0)


def _how(code: int | None) -> str:
    """The end of a process in words; None where its exit code is not known."""
    if not code:
        return "without an error, as os._exit(0) does"
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def _is_alive(number: int) -> bool:
    """True if a process of that id runs."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _with_prefix(data: bytes, prefix: bytes) -> bytes:
    """Lines with the name of their process in front; of a line that was written over, its last form."""
    if not prefix:
        return data
    lines = data.removesuffix(b"\n").split(b"\n")
    return b"".join(prefix + line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in lines)


def _print(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
