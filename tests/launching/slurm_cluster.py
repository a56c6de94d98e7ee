"""A real Slurm on this machine: munged, slurmctld and slurmd with files of their own."""

from __future__ import annotations

import contextlib
import getpass
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ports import free_endpoint

DAEMONS = ("munged", "slurmctld", "slurmd")
CPUS = 8  # Slurm may give away more than the machine has
START = 60.0  # seconds for the node to become idle

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=10
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ReturnToService=2
JobRequeue=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName={host} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """The daemons that are not installed."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    return [name for name in DAEMONS if shutil.which(name, path=path) is None]


@dataclass(frozen=True)
class Slurm:
    """A cluster of one node; its commands run in `folder` with `environ`."""

    folder: pathlib.Path
    environ: dict[str, str]

    def run(self, *command: str, limit: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm, or one that calls them."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def batch(self, text: str, *options: str, limit: float = 180.0) -> tuple[int, str]:
        """The exit code and the output of a job file, once the job has ended."""
        output = self.folder / "job.out"
        output.unlink(missing_ok=True)
        file = self.folder / "job.sh"
        file.write_text(text)
        sent = self.run("sbatch", "--parsable", f"--output={output}", *options, str(file))
        assert sent.returncode == 0, sent.stderr
        return self._end_of(sent.stdout.strip(), limit), output.read_text()

    def _end_of(self, job: str, limit: float) -> int:
        """The exit code of a job that has ended; `sbatch --wait` looks once in half a minute."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            shown = self.run("scontrol", "show", "job", job).stdout
            found = re.search(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)", shown)
            code = re.search(r"ExitCode=(\d+):(\d+)", shown)
            if found and code:
                return int(code[1]) or int(code[2])
            time.sleep(0.5)
        raise AssertionError(f"job {job} has not ended after {limit:g} s:\n{shown}")


def _start(*command: str, environ: dict[str, str], log: pathlib.Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environ, stdout=file, stderr=file)


def _wait_until_idle(slurm: Slurm) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if slurm.run("sinfo", "--noheader", "--format=%T").stdout.strip() == "idle":
            return
        time.sleep(0.2)
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in slurm.folder.glob("*.log"))
    raise RuntimeError(f"Slurm has no idle node after {START:g} s:\n{logs}")


@contextlib.contextmanager
def cluster(folder: pathlib.Path) -> Iterator[Slurm]:
    """A running cluster whose files lie in `folder`."""
    host = socket.gethostname().split(".")[0]
    ports = [free_endpoint().rpartition(":")[2] for _ in range(2)]
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=host,
            controller_port=ports[0],
            node_port=ports[1],
            folder=folder,
            user=getpass.getuser(),
            cpus=CPUS,
        )
    )
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
        "SLURM_CONF": str(configuration),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/usr/local/sbin",
        "OMP_NUM_THREADS": "1",
    }
    files = [f"--{kind}={folder}/munge.{end}" for kind, end in (("socket", "sock"), ("key-file", "key"))]
    files += [f"--{kind}-file={folder}/munge.{kind}" for kind in ("log", "pid", "seed")]
    daemons = []
    try:
        for command in (
            ("munged", "--foreground", "--force", *files),
            ("slurmctld", "-D", "-f", str(configuration)),
            ("slurmd", "-D", "-f", str(configuration)),
        ):
            daemons.append(_start(*command, environ=environ, log=folder / f"{command[0]}.out.log"))
            time.sleep(0.5)  # each looks for the one before when it starts
        slurm = Slurm(folder, environ)
        _wait_until_idle(slurm)
        yield slurm
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(20)
