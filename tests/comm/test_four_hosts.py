"""A job on four hosts, each a network namespace of this machine: two servers, two trainers, and one cable."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
from waiting import until

pytestmark = pytest.mark.slow
JOB = str(pathlib.Path(__file__).with_name("four_hosts_job.py"))
NET = "10.77.0"
SERVERS, WORKERS = f"{NET}.1:6174,{NET}.2:6174", f"{NET}.3:6180,{NET}.4:6180"


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


class Hosts:
    """Four hosts at a switch: namespaces with a cable each to a bridge in a fifth."""

    def __init__(self) -> None:
        self.mark = f"fl{os.getpid()}"
        self.switch = f"{self.mark}s"

    def build(self) -> str:
        """Make them; the reason where this machine does not allow it."""
        if shutil.which("ip") is None:
            return "there is no command `ip`"
        made = ip("netns", "add", self.switch)
        if made.returncode:
            return made.stderr.strip()
        commands = [f"-n {self.switch} link add br0 type bridge", f"-n {self.switch} link set br0 up"]
        for number in range(1, 5):
            host = f"{self.mark}h{number}"
            commands += [
                f"netns add {host}",
                f"-n {host} link add eth0 type veth peer name port{number} netns {self.switch}",
                f"-n {self.switch} link set port{number} master br0",
                f"-n {self.switch} link set port{number} up",
                f"-n {host} address add {NET}.{number}/24 dev eth0",
                f"-n {host} link set eth0 up",
                f"-n {host} link set lo up",
            ]
        failed = [done.stderr.strip() for done in (ip(*each.split()) for each in commands) if done.returncode]
        return failed[0] if failed else ""

    def remove(self) -> None:
        for name in (self.switch, *(f"{self.mark}h{number}" for number in range(1, 5))):
            ip("netns", "del", name)

    def cable(self, number: int, state: str) -> None:
        """Pull a host's cable out of the switch ("down"), or plug it in ("up")."""
        done = ip("-n", self.switch, "link", "set", f"port{number}", state)
        assert done.returncode == 0, done.stderr

    def launch(self, number: int, folder: pathlib.Path, **flags: str) -> subprocess.Popen[str]:
        """The one command of the job, on this host."""
        command = [sys.executable, "-m", "fluidlite.paddle.distributed.launch", "--host", f"{NET}.{number}"]
        options = ["--servers", SERVERS, "--workers", WORKERS, "--log_dir", str(folder / f"log{number}")]
        return subprocess.Popen(
            ["ip", "netns", "exec", f"{self.mark}h{number}", *command, *options, JOB],
            env={**os.environ, "OMP_NUM_THREADS": "1", "FLUIDLITE_JOB_KEY": "four hosts", **flags},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    reason = made.build()
    if reason:
        made.remove()
        pytest.skip(f"no network namespaces on this machine: {reason}")
    yield made
    made.remove()


def costs(text: str) -> np.ndarray:
    return np.array([float(cost) for cost in re.findall(r"^step \d+ ([\d.]+)$", text, re.M)])


def wait_for_step(step: int, folder: pathlib.Path) -> None:
    """Wait until the second trainer, which is on host 4, has made a step."""
    until(lambda: any(len(costs(log.read_text())) > step for log in (folder / "log4").glob("workerlog.*")))


def ended(jobs: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each host's command."""
    try:
        said = [job.communicate(timeout=300) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
            job.wait()
    return [(job.returncode, *text) for job, text in zip(jobs, said, strict=True)]


def alone() -> np.ndarray:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PADDLE_")}
    return costs(
        subprocess.run([sys.executable, JOB], env=env, capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("number", [4, 2], ids=["trainer", "server"])
def test_a_host_unplugged_and_plugged_in_again(number: int, hosts: Hosts, tmp_path: pathlib.Path) -> None:
    jobs = [hosts.launch(host, tmp_path) for host in range(1, 5)]
    wait_for_step(5, tmp_path)
    hosts.cable(number, "down")
    time.sleep(3)
    before = len(costs((tmp_path / "log4" / "workerlog.1").read_text()))
    time.sleep(1)
    assert len(costs((tmp_path / "log4" / "workerlog.1").read_text())) == before < 20  # it waits
    hosts.cable(number, "up")
    found = ended(jobs)
    assert [code for code, _, _ in found] == [0, 0, 0, 0], found
    servers = [f"listening at {endpoint}\n" for endpoint in SERVERS.split(",")]
    assert [found[0][1], found[1][1]] == servers
    both = np.array([costs(found[2][1]), costs(found[3][1])])
    np.testing.assert_allclose(both.mean(0), alone(), rtol=1e-5, atol=2e-6)


def test_a_host_that_stays_unplugged(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    flags = {"FLAGS_rpc_deadline": "10000", "FLAGS_rpc_lost_trainer_wait": "1000"}
    jobs = [hosts.launch(host, tmp_path, **flags) for host in range(1, 5)]
    wait_for_step(5, tmp_path)
    hosts.cable(4, "down")
    start = time.monotonic()
    found = ended(jobs)
    assert time.monotonic() - start < 60
    assert [code for code, _, _ in found] == [1, 1, 1, 1], found
    assert all("trainer 1" in errors for _, _, errors in found[:3]), found
