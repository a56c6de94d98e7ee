"""The job files of docs/LAUNCH.md: roles that their processes find in the environment."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from fluidlite.incubate.fleet.base.role_maker import PaddleCloudRoleMaker

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "LAUNCH.md"
SECTION = PAGE.read_text(encoding="utf8").split("## Job files")[1].split("\n## ")[0]
BY_HAND, SLURM, KUBERNETES = re.findall(r"```text\n(.*?)```", SECTION, re.S)
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# stand-ins for the commands that the files call: the script leaves its environment in a file
COMMANDS = {
    "python": """import json, os
open(f"{os.environ['SEEN']}/{os.getpid()}", "w").write(json.dumps(dict(os.environ)))
""",
    "scontrol": 'print("node7\\nnode8")',
    "srun": """import os, subprocess, sys
for rank in range(int(os.environ["SLURM_NTASKS"])):
    subprocess.run(sys.argv[1:], env={**os.environ, "SLURM_PROCID": str(rank)}, check=True)
""",
}


def environments(script: str, folder: pathlib.Path, **variables: str) -> list[dict[str, str]]:
    """The environment of each process that a job file starts."""
    bin_, seen = folder / "bin", folder / "seen"
    bin_.mkdir()
    seen.mkdir()
    for name, text in COMMANDS.items():
        (bin_ / name).write_text(f"#!{sys.executable}\n{text}", encoding="utf8")
        (bin_ / name).chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PADDLE_", "SLURM_"))}
    path = f"{bin_}{os.pathsep}{clean['PATH']}"
    subprocess.run(
        ["bash", "-c", script], env={**clean, **variables, "PATH": path, "SEEN": str(seen)}, check=True
    )
    return [json.loads(file.read_text()) for file in seen.iterdir()]


def check_roles(found: list[dict[str, str]], trainers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are one server and `trainers` trainers, all with one key."""
    roles = []
    for variables in found:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("PADDLE_")]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            role = PaddleCloudRoleMaker()
            role.generate_role()
            assert role.worker_num() == trainers and len(role.get_pserver_endpoints()) == 1
            roles.append((role.is_server(), role.server_index() if role.is_server() else role.worker_index()))
    assert sorted(roles) == [*((False, number) for number in range(trainers)), (True, 0)]
    (key,) = {variables["FLUIDLITE_JOB_KEY"] for variables in found}
    assert key


def test_by_hand(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_roles(environments(BY_HAND, tmp_path), 2, monkeypatch)


def test_slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tasks,) = re.findall("^#SBATCH --ntasks=(.*)$", SLURM, re.M)
    found = environments(SLURM, tmp_path, SLURM_NTASKS=tasks, SLURM_JOB_NODELIST="node[7-8]")
    assert {variables["PADDLE_PSERVERS_IP_PORT_LIST"] for variables in found} == {"node7:6174"}
    check_roles(found, int(tasks) - 1, monkeypatch)


def test_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    service, *jobs = KUBERNETES.split("---\n")
    assert "metadata: {name: job}" in service and "clusterIP: None" in service
    found = []
    for job in jobs:
        assert "completionMode: Indexed" in job and "subdomain: job" in job
        (count,) = {int(number) for number in re.findall("(?:completions|parallelism): (.*)", job)}
        plain = re.findall(r'{name: (\w+), value: "?([^"}]+)"?}', job)
        assert "{secretKeyRef: {name: job-key, key: key}}" in job
        for index in range(count):
            variables = {**dict(plain), "FLUIDLITE_JOB_KEY": "of the secret"}
            if INDEX in job:
                (name,) = re.findall(rf'name: (\w+)\n +valueFrom: .*"{re.escape(INDEX)}"', job)
                variables[name] = str(index)
            found.append(variables)
    check_roles(found, 3, monkeypatch)
