"""Options of launchers, and the commands that they become, without starting anything."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import pytest

from fluidlite.errors import ArgumentError
from fluidlite.launching import options as module
from fluidlite.launching.engines import find_allocation
from fluidlite.launching.options import LaunchOptions, parse_options
from fluidlite.launching.plan import plan_job
from fluidlite.launching.ports import HeldPorts


def options(*arguments: str, servers: bool = False) -> LaunchOptions:
    return parse_options([*arguments, "train.py"], "launch", servers)


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        (("--nproc_per_node", "4"), {"processes": 4}),
        (("--ips", "10.0.0.1,10.0.0.2"), {"hosts": ("10.0.0.1", "10.0.0.2")}),
        (("--cluster_node_ips=10.0.0.1",), {"hosts": ("10.0.0.1",)}),
        (("--gpus", "0,2"), {"devices": (0, 2)}),
        (("--selected_gpus", "1"), {"devices": (1,)}),
        (("--devices", "cpu"), {"devices": ()}),
        (("--server_num=2", "--worker_num=3"), {"server_count": 2, "worker_count": 3}),
        (("--server_num=2", "--trainer_num=3"), {"server_count": 2, "worker_count": 3}),
        (
            ("--servers", "a:1,b:2", "--workers", "a:3;b:4"),
            {"servers": ("a:1", "b:2"), "workers": ("a:3", "b:4")},
        ),
        (("--started_port", "7000"), {"first_port": 7000}),
        (("--log_dir", "x", "--job_id", "7"), {"log_dir": "x"}),
        (("--run_mode", "ps"), {"server_count": 2, "worker_count": 2}),
    ],
    ids=str,
)
def test_options(arguments: tuple[str, ...], wanted: dict[str, Any]) -> None:
    assert options(*arguments) == LaunchOptions("train.py", **{"log_dir": "log", **wanted})


def test_what_stands_behind_the_script_is_the_scripts() -> None:
    found = parse_options(["--gpus", "0", "train.py", "--gpus", "7", "--epochs=2"], "launch")
    assert found.devices == (0,) and found.arguments == ("--gpus", "7", "--epochs=2")
    assert options(servers=True).server_count == 2


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("--http_port", "80"), "--http_port: nothing here listens for HTTP"),
        (("--nnodes", "2"), "--nnodes: hosts are named by --ips"),
        (("--max_restart", "1"), "--max_restart: jobs are not elastic"),
        (("--rank", "1"), "--rank: hosts are named by --ips"),
        (("--master", "127.0.0.1:6170"), "--master: hosts are named by --ips"),
        (("--nproc_per_node", "2", "--server_num", "1"), "for jobs without servers"),
        (("--server_num", "1"), "servers, but no trainers"),
        (("--worker_num", "1"), "trainers, but no servers"),
        (
            ("--servers", "a:1,b:1", "--server_num", "1", "--workers", "a:2"),
            "names 2 endpoints, but --server_num is",
        ),
        (("--servers", "a", "--workers", "a:2"), "a should be ip:port"),
        (("--gpus", "x"), "should be numbers of devices"),
        (("--gpus", "0,1", "--nproc_per_node", "3"), "--gpus names 2 devices"),
        (("--nproc_per_node", "-1"), "--nproc_per_node is -1"),
        (("--nproc", "2"), "the following arguments are required|unrecognized arguments"),
    ],
    ids=range(14),
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    with pytest.raises(SystemExit) as ended:
        options(*arguments)
    assert ended.value.code == 2
    assert re.search(says, capsys.readouterr().err.splitlines()[-1])


def test_every_refusal_has_a_reason() -> None:
    assert all(len(why.split()) > 4 for why in module._REFUSED.values())


# ---------------------------------------------------------------------- commands
@pytest.fixture
def bin(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder of programs: an mpiexec of MPICH, beside the Python that starts jobs, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    executable(folder / "mpiexec.hydra", "echo HYDRA build details")
    (folder / "mpiexec").symlink_to(folder / "mpiexec.hydra")
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


def executable(path: pathlib.Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def commands(bin: pathlib.Path, *arguments: str, **environ: str) -> list[tuple[str, ...]]:
    path = {"PATH": f"{bin}:/bin:/usr/bin"}
    with HeldPorts() as ports:
        plan = plan_job(options(*arguments), "reports", ports, {**path, **environ})
    return [each.command for each in plan.processes]


def start(bin: pathlib.Path, *arguments: str, **environ: str) -> list[str]:
    """The words in front of the process that the one command starts."""
    (command,) = commands(bin, *arguments, **environ)
    return [
        pathlib.Path(word).name if "/bin/" in word else word for word in command[: command.index("-u") - 1]
    ]


def test_mpich(bin: pathlib.Path) -> None:
    assert start(bin, "--nproc_per_node", "4") == ["mpiexec", "-n", "4"]
    hosts = ("--ips", "10.0.0.1,10.0.0.2", "--nproc_per_node", "2", "--host", "10.0.0.1")
    assert start(bin, *hosts) == ["mpiexec", "-n", "4", "-hosts", "10.0.0.1,10.0.0.2", "-ppn", "2"]


def test_open_mpi(bin: pathlib.Path) -> None:
    (bin / "mpiexec").unlink()
    executable(bin / "mpiexec", "echo 'mpiexec (Open MPI) 5.0.7'")
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    assert start(bin, "--nproc_per_node", "4") == ["mpiexec", "-n", "4", "--oversubscribe", *as_root]
    hosts = ("--ips", "10.0.0.1,10.0.0.2", "--nproc_per_node", "2", "--host", "10.0.0.1")
    assert start(bin, *hosts)[-2:] == ["-host", "10.0.0.1:2,10.0.0.2:2"]


def test_slurm(bin: pathlib.Path) -> None:
    executable(bin / "srun", "echo MPI plugin types are... none pmix pmi2")
    allocation = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}
    assert start(bin, **allocation) == ["srun", "--ntasks", "8", "--kill-on-bad-exit=1", "--mpi=pmi2"]
    assert start(bin, "--nproc_per_node", "2", **allocation)[:3] == ["srun", "--ntasks", "2"]
    (bin / "mpiexec").unlink()
    executable(bin / "mpiexec", "echo 'mpiexec (Open MPI) 5.0.7'")
    assert start(bin, **allocation)[-1] == "--mpi=pmix"
    executable(bin / "srun", "echo MPI plugin types are... none")
    assert start(bin, **allocation)[-1] == "--kill-on-bad-exit=1"


def test_pbs(bin: pathlib.Path, tmp_path: pathlib.Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("a\na\nb\n")
    assert start(bin, PBS_NODEFILE=str(nodes)) == ["mpiexec", "-n", "3", "-f", str(nodes)]


def test_no_scheduler() -> None:
    assert find_allocation({"PATH": "/nowhere", "SLURM_JOB_ID": "7"}).by == ""
    assert find_allocation({"PBS_NODEFILE": "/nowhere"}).by == ""


def test_ranks_of_several_hosts(bin: pathlib.Path) -> None:
    (command,) = commands(bin, "--ips", "a,b", "--nproc_per_node", "2", "--host", "a")
    note = json.loads(command[command.index("-u") + 2])
    assert note["endpoints"] == ["a:6170", "a:6171", "b:6170", "b:6171"] and note["on_each"] == 2


def test_a_host_that_is_not_the_first(bin: pathlib.Path) -> None:
    with pytest.raises(
        ArgumentError, match="this host is not a, the first of --ips: run the command only there"
    ):
        commands(bin, "--ips", "a,b", "--host", "b")


def test_servers_of_several_hosts(bin: pathlib.Path) -> None:
    found = commands(
        bin, "--servers", "10.0.0.1:1,10.0.0.2:1", "--workers", "10.0.0.1:2,10.0.0.2:2", "--host", "10.0.0.2"
    )
    notes = [json.loads(command[command.index("-u") + 2]) for command in found]
    assert [(note["log"], note["number"]) for note in notes] == [("serverlog.{}", 1), ("workerlog.{}", 1)]
    server, worker = (note["environ"] for note in notes)
    assert server["TRAINING_ROLE"] == "PSERVER" and server["PADDLE_CURRENT_ENDPOINT"] == "10.0.0.2:1"
    assert worker["PADDLE_TRAINER_ID"] == "1" and worker["PADDLE_TRAINERS_NUM"] == "2"
    assert server["PADDLE_PSERVERS_IP_PORT_LIST"] == "10.0.0.1:1,10.0.0.2:1"
    with pytest.raises(ArgumentError, match=r"this host is not one of 10\.0\.0\.1, 10\.0\.0\.2"):
        commands(bin, "--servers", "10.0.0.1:1", "--workers", "10.0.0.2:2", "--host", "10.0.0.3")


def test_each_host_shows_its_first_trainer(bin: pathlib.Path) -> None:
    servers, workers = "10.0.0.1:1,10.0.0.3:1", "10.0.0.1:2,10.0.0.2:2,10.0.0.2:3"
    shown = []
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        chosen = options("--servers", servers, "--workers", workers, "--host", host)
        shown.extend(plan_job(chosen, "reports", HeldPorts(), {"PATH": str(bin)}).shown)
    assert shown == ["workerlog.0", "workerlog.1", "serverlog.1"]  # the last has servers only


def test_local_places_differ(bin: pathlib.Path) -> None:
    found = commands(bin, "--server_num", "3", "--worker_num", "2")
    environ = json.loads(found[0][found[0].index("-u") + 2])["environ"]
    servers, workers, meeting = (
        environ[name].split(",")
        for name in ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_GLOO_HTTP_ENDPOINT")
    )
    assert len({*servers, *workers, *meeting}) == 6 and len(found) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held on Linux")
def test_ports_are_kept_for_who_binds_to_them() -> None:
    with HeldPorts() as ports:
        (port,) = ports.find(1)
        with socket.create_server(("127.0.0.1", port)):
            pass
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))  # as one that gets a port by chance
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    "given",
    [
        ("--master", "127.0.0.1:6170", "--nnodes", "1", "--rank", "0"),
        ("--max_restart", "0", "--elastic_level", "-1", "--elastic_timeout", "30"),
        ("--legacy", "1", "--with_gloo", "0", "--gloo_port", "6767", "--log_overwrite", "True"),
    ],
)
def test_options_of_2x_that_say_what_is_so_anyway(given: tuple[str, ...]) -> None:
    found = parse_options((*given, "--nproc_per_node", "2", "train.py"), "launch")
    assert found == parse_options(("--nproc_per_node", "2", "train.py"), "launch")


@pytest.mark.parametrize("module", ["launch", "launch_ps", "fleet.launch"])
def test_help_says_that_a_disk_is_full(module: str) -> None:
    name = f"fluidlite.paddle.distributed.{module}"
    with open("/dev/full", "w", encoding="utf8") as full:
        done = subprocess.run(
            [sys.executable, "-m", name, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.endswith(": error: No space left on device, where the output goes\n")
    assert done.stderr.count("\n") == 1
