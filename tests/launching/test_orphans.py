"""Launchers that end, or stop, without a word to their jobs: nothing of a job outlives its launcher, neither
processes nor files.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from mpi_jobs import MPIEXEC
from waiting import LIMIT, until

from fluidlite.launching.keeper import Keeper

HERE = pathlib.Path(__file__).parent
NAME = "FLUIDLITE_TEST_OF_ORPHANS"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
needs_mpi = [
    pytest.mark.mpi,
    pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install 'fluidlite[mpi]'"),
]
JOBS = [
    pytest.param(("-n", "2", str(HERE / "launched.py"), "wait"), marks=needs_mpi, id="ranks"),
    pytest.param(
        ("-n", "1", "--pservers", "1", str(HERE / "dying_fleet.py"), "nobody", "never"), id="servers"
    ),
]


class Launched:
    """A launcher whose job runs, and what belongs to it."""

    def __init__(self, folder: pathlib.Path, arguments: tuple[str, ...], **environ: str) -> None:
        self.folder = folder
        env = {**os.environ, NAME: str(folder), "TMPDIR": str(folder), **environ}
        command = [sys.executable, "-m", "fluidlite.cli.launch", "--log-dir", str(folder / "log"), *arguments]
        self.log = (folder / "said").open("wb")
        self.child = subprocess.Popen(
            command, env=env, cwd=folder, stdout=self.log, stderr=self.log, start_new_session=True
        )
        until(lambda: any(path.stat().st_size for path in folder.glob("log/*0.log")))
        until(lambda: len(list(self.folder.glob("fluidlite-job-*/reports/running/*"))) >= 2)
        time.sleep(1.5)  # the keeper looks at the ranks' memory once a second
        self.shared = {path for process in self.processes() for path in shared(process)}

    def processes(self) -> list[int]:
        mark = f"{NAME}={self.folder}".encode()
        paths = [path for path in pathlib.Path("/proc").glob("[0-9]*") if mark in read(path / "environ")]
        return [int(path.name) for path in paths if b"\nState:\tZ" not in read(path / "status")]

    def command(self, name: str) -> int:
        """The process of the job that runs a program of this name."""
        return next(
            process
            for process in self.processes()
            if read(pathlib.Path(f"/proc/{process}/cmdline")).split(b"\0")[0].endswith(name.encode())
        )

    def leaves_nothing(self, within: float) -> None:
        """Check that nothing lives, and nothing is left in memory or in folders."""
        until(lambda: not self.processes(), within)
        assert not list(self.folder.glob("fluidlite-job-*"))
        assert not [path for path in self.shared if os.path.exists(path)]

    def close(self) -> None:
        for process in self.processes():
            os.kill(process, signal.SIGKILL)
        self.child.wait(LIMIT)
        self.log.close()


def read(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def shared(process: int) -> set[str]:
    lines = read(pathlib.Path(f"/proc/{process}/maps")).decode(errors="replace").splitlines()
    return {
        line[line.index("/dev/shm/") :] for line in lines if "/dev/shm/" in line and "(deleted)" not in line
    }


@pytest.mark.parametrize(
    "send",
    [
        lambda child: child.kill(),
        lambda child: child.send_signal(signal.SIGHUP),
        lambda child: os.killpg(child.pid, signal.SIGHUP),
        lambda child: os.killpg(child.pid, signal.SIGKILL),
    ],
    ids=["kill", "hang-up", "a terminal closes", "kill its group"],
)
@pytest.mark.parametrize("arguments", JOBS)
def test_nothing_outlives_a_launcher(
    arguments: tuple[str, ...], send: Callable[[subprocess.Popen[bytes]], None], tmp_path: pathlib.Path
) -> None:
    launched = Launched(tmp_path, arguments)
    try:
        send(launched.child)
        launched.child.wait(LIMIT)
        launched.leaves_nothing(within=LIMIT)
    finally:
        launched.close()


@pytest.mark.parametrize("arguments", JOBS)
def test_a_stopped_launcher_does_not_wait_for_ever(
    arguments: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    launched = Launched(tmp_path, arguments, FLAGS_rpc_deadline="3000")
    try:
        launched.child.send_signal(signal.SIGSTOP)
        launched.leaves_nothing(within=LIMIT)
        assert launched.child.wait(LIMIT) != 0
        assert "the launcher has been stopped for 3 s: its job ends" in (tmp_path / "said").read_text()
    finally:
        launched.close()


@pytest.mark.parametrize("arguments", JOBS[:1])
@pytest.mark.parametrize("is_killed", [False, True], ids=["and left", "and its launcher killed"])
def test_a_stopped_mpiexec_does_not_wait_for_ever(
    is_killed: bool, arguments: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    launched = Launched(tmp_path, arguments, FLAGS_rpc_deadline="200000" if is_killed else "4000")
    try:
        os.kill(launched.command("mpiexec"), signal.SIGSTOP)
        if is_killed:
            launched.child.kill()
        launched.leaves_nothing(within=LIMIT)
        assert launched.child.wait(LIMIT) != 0
        # at the same limit a rank may give up waiting for the other one
        assert is_killed or ") is stopped (kill -CONT " in (tmp_path / "said").read_text()
    finally:
        launched.close()


def test_files_of_users_in_shared_memory_stay() -> None:
    """Only MPI's own files are left over by a job: others may be the data of a user."""
    mark = f"_fluidlite_{os.getpid()}"
    files = [pathlib.Path("/dev/shm", name + mark) for name in ("data_set", "mpich_shm")]
    keeper = Keeper("NAME=value", "/nowhere", 1.0)
    try:
        held = [np.memmap(file, np.uint8, "w+", shape=64) for file in files]
        keeper._map(os.getpid())
        assert {path for path in keeper.mapped if mark in path} == {str(files[1])}
        del held
    finally:
        for file in files:
            file.unlink()
