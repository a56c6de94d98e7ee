"""Job files, of docs/LAUNCH.md and of the command: roles that their processes find in the environment."""

from __future__ import annotations

import json
import lzma
import os
import pathlib
import re
import shlex
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml

from fluidlite.distributed import roles_from_environment
from fluidlite.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
from fluidlite.launching import LaunchOptions
from fluidlite.launching.job_files import (
    JobFile,
    commands_for_hosts,
    kubernetes_file,
    placed_on_hosts,
    slurm_file,
)

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "LAUNCH.md"
SECTION = PAGE.read_text(encoding="utf8").split("## Job files")[1].split("\n## ")[0]
(BY_HAND,) = re.findall(r"```text\n(.*?)```", SECTION, re.S)
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOB = LaunchOptions("train.py", ("--text", "it's $HOME"))
RUN = ["python", "-m", "fluidlite", "train.py", *JOB.arguments]
# stand-ins for the commands that the files call: the script leaves its environment in a file
COMMANDS = {
    "python": """import json, os, sys
seen = json.dumps({**os.environ, "ARGV": json.dumps(sys.argv[1:])})
open(f"{os.environ['SEEN']}/{os.getpid()}", "w").write(seen)
""",
    "scontrol": 'print("node7\\nnode8")',
    "srun": """import os, subprocess, sys
for rank in range(int(os.environ["SLURM_NTASKS"])):
    command = sys.argv[next(i for i, word in enumerate(sys.argv) if i and word[0] != "-"):]
    own = {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": os.environ["SLURM_NTASKS"]}
    subprocess.run(command, env={**os.environ, **own}, check=True)
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


def check_roles(
    found: list[dict[str, str]], trainers: int, monkeypatch: pytest.MonkeyPatch, servers: int = 1
) -> None:
    """There are so many servers and trainers, all with one key, and none is a rank of MPI."""
    roles = []
    for variables in found:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("PADDLE_")]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            role = PaddleCloudRoleMaker()
            role.generate_role()
            assert role.worker_num() == trainers and len(role.get_pserver_endpoints()) == servers
            roles.append((role.is_server(), role.server_index() if role.is_server() else role.worker_index()))
            assert roles_from_environment().by == "environment"
    wanted = [
        (kind, number) for kind, count in ((False, trainers), (True, servers)) for number in range(count)
    ]
    assert sorted(roles) == wanted
    (key,) = {variables["FLUIDLITE_JOB_KEY"] for variables in found}
    assert key


def test_by_hand(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_roles(environments(BY_HAND, tmp_path), 2, monkeypatch)


# ---------------------------------------------------------------------- what the command writes
def test_slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = slurm_file(JobFile(JOB, 3, 2))
    (tasks,) = re.findall("^#SBATCH --ntasks=(.*)$", text, re.M)
    found = environments(text, tmp_path, SLURM_NTASKS=tasks, SLURM_JOB_NODELIST="node[7-8]")
    places = {variables["PADDLE_PSERVERS_IP_PORT_LIST"] for variables in found}
    assert places == {"node7:6174,node8:6175"}
    assert {tuple(json.loads(variables["ARGV"])) for variables in found} == {tuple(RUN[1:])}
    check_roles(found, 3, monkeypatch, servers=2)


def test_slurm_without_servers_starts_ranks() -> None:
    text = slurm_file(JobFile(LaunchOptions("pack.train", is_module=True), 3, 0, "mine"))
    assert "#SBATCH --job-name=mine\n#SBATCH --ntasks=3\n" in text
    ranks = "python -m mpi4py -m fluidlite -m pack.train\n"
    assert re.search(rf"\nsrun --mpi=(pmi2|pmix) --kill-on-bad-exit=1 {ranks}\Z", text)


def test_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    service, servers, trainers = yaml.safe_load_all(kubernetes_file(JobFile(JOB, 3, 2, "mine", "an/image:1")))
    assert service["metadata"]["name"] == "mine" and service["spec"]["clusterIP"] == "None"
    found = []
    for job, count in ((servers, 2), (trainers, 3)):
        spec = job["spec"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", count, count)
        assert pod["subdomain"] == "mine" and container["image"] == "an/image:1"
        assert spec["template"]["metadata"]["labels"] == service["spec"]["selector"]
        assert container["command"] == RUN
        for index in range(count):
            found.append(variables_of(container["env"], index))
    places = "mine-pserver-0.mine:6174,mine-pserver-1.mine:6174"
    assert {variables["PADDLE_PSERVERS_IP_PORT_LIST"] for variables in found} == {places}
    check_roles(found, 3, monkeypatch, servers=2)


def variables_of(entries: list[dict[str, Any]], index: int) -> dict[str, str]:
    """The environment of pod number `index`, as Kubernetes makes it."""
    found: dict[str, str] = {}
    for entry in entries:
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == INDEX
            found[entry["name"]] = str(index)
        elif "secretKeyRef" in source:
            assert source["secretKeyRef"] == {"name": "mine-key", "key": "key"}
            found[entry["name"]] = "of the secret"
        else:
            found[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], entry["value"])
    return found


def test_kubernetes_without_servers_is_an_mpi_job() -> None:
    job = yaml.safe_load(kubernetes_file(JobFile(JOB, 3, 0)))
    assert job["kind"] == "MPIJob" and job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3
    (container,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert container["command"][:6] == ["mpirun", "-n", "3", "python", "-m", "mpi4py"]
    assert container["command"][6:] == RUN[1:]


def test_commands_for_hosts() -> None:
    text = commands_for_hosts(JobFile(JOB, 4, 2), ["a", "b"], "launch")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    (first, second) = [line for line in lines if line]
    assert first[0] == second[0] and first[0].startswith("FLUIDLITE_JOB_KEY=")
    assert first[1:9] == ["launch", "-n", "4", "--pservers", "2", "--hosts", "a,b", "--host"]
    assert first[9:] == ["a", "train.py", *JOB.arguments] and second[9] == "b"
    placed = placed_on_hosts(3, 2, ["a", "b"], 7000)
    assert placed.servers == ("a:7000", "b:7000") and placed.workers == ("a:7001", "b:7001", "a:7002")
    ranks = commands_for_hosts(JobFile(JOB, 4, 0), ["a", "b"], "launch")
    assert ranks.count("launch") == 1 and "KEY" not in ranks


# ------------------------------------------------------------------------------------------------ schemas
SCHEMAS = json.loads(
    lzma.decompress(
        (pathlib.Path(__file__).parents[1] / "golden" / "kubernetes_schemas.json.xz").read_bytes()
    )
)
KINDS = {
    "Job": "io.k8s.api.batch.v1.Job",
    "Service": "io.k8s.api.core.v1.Service",
    "pods": "io.k8s.api.core.v1.PodTemplateSpec",
}


def mistakes(version: str, kind: str, found: Any) -> list[str]:
    """The places at which an object breaks the published schema."""
    schema = {"$ref": f"#/definitions/{KINDS[kind]}", "definitions": SCHEMAS[version]}
    return [error.json_path for error in jsonschema.Draft202012Validator(schema).iter_errors(found)]


@pytest.mark.parametrize("version", SCHEMAS)
def test_kubernetes_takes_the_objects(version: str) -> None:
    for found in yaml.safe_load_all(kubernetes_file(JobFile(JOB, 3, 2, "mine", "an/image:1"))):
        assert mistakes(version, found["kind"], found) == []
        # a field that there is not, in the pods or in the object
        place = found["spec"].get("template", found)["spec"]
        place["unknown"] = 1
        assert mistakes(version, found["kind"], found) != []
    job = yaml.safe_load(kubernetes_file(JobFile(JOB, 3, 0)))
    for replicas in job["spec"]["mpiReplicaSpecs"].values():
        assert mistakes(version, "pods", replicas["template"]) == []
