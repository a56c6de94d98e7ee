"""Jobs on several machines as text: commands for each of them, or a file for Slurm or Kubernetes."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
from collections.abc import Sequence

from fluidlite.base.errors import ArgumentError
from fluidlite.base.records import dataclass
from fluidlite.launching.engines import understood_by_mpi
from fluidlite.launching.options import LaunchOptions

__all__ = ["JobFile", "commands_for_hosts", "kubernetes_file", "placed_on_hosts", "slurm_file"]

_FIRST_PORT = 6174
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")  # of things in Kubernetes


@dataclass(frozen=True)
class JobFile:
    """A job that another program starts.

    job: the script, and how many trainers (`worker_count`) and servers there are; no servers: ranks that
        reduce together.
    name, image: of the job, and of the container that holds FluidLite and the script.
    """

    job: LaunchOptions
    trainers: int
    servers: int
    name: str = "train"
    image: str = "example.org/train"

    @property
    def command(self) -> list[str]:
        """The command line of each process."""
        script = ["-m", self.job.script] if self.job.is_module else [self.job.script]
        # as `fluidlite-run`: scripts that import paddle find FluidLite
        return ["python", "-m", "fluidlite", *script, *self.job.arguments]

    @property
    def port(self) -> int:
        """That of the first server."""
        return self.job.first_port or _FIRST_PORT


# ---------------------------------------------------------------------- machines that one can log in to
def placed_on_hosts(trainers: int, servers: int, hosts: Sequence[str], first_port: int) -> LaunchOptions:
    """Endpoints of servers and trainers, in turn on each of the hosts, as options without a script."""
    first = first_port or _FIRST_PORT
    places = [f"{hosts[number % len(hosts)]}:{first + number // len(hosts)}" for number in range(servers)]
    # behind the servers of each host; nobody listens at a trainer's
    after = first + -(-servers // len(hosts))
    names = [f"{hosts[number % len(hosts)]}:{after + number // len(hosts)}" for number in range(trainers)]
    return LaunchOptions("", servers=tuple(places), workers=tuple(names))


def commands_for_hosts(file: JobFile, hosts: Sequence[str], program: str) -> str:
    """A command for each host, or, where mpiexec starts the processes of all, for the first one."""
    counts = ["-n", str(file.trainers)] + (["--pservers", str(file.servers)] if file.servers else [])
    ports = ["--start-port", str(file.job.first_port)] if file.job.first_port else []
    logs = ["--log-dir", file.job.log_dir] if file.job.log_dir else []
    script = file.command[3:]
    lines = []
    key = f"FLUIDLITE_JOB_KEY={secrets.token_hex(16)} " if file.servers else ""
    for host in hosts if file.servers else hosts[:1]:
        words = [program, *counts, "--hosts", ",".join(hosts), "--host", host, *ports, *logs, *script]
        lines.append(f"# on {host}\n{key}{shlex.join(words)}\n")
    if not file.servers:
        lines.append("# mpiexec reaches the other hosts by ssh and starts their processes\n")
    return "".join(lines)


# ---------------------------------------------------------------------- Slurm
def slurm_file(file: JobFile) -> str:
    """A file for `sbatch`."""
    head = f"#!/bin/bash\n#SBATCH --job-name={file.name}\n#SBATCH --ntasks={file.trainers + file.servers}\n"
    command = shlex.join(file.command)
    if not file.servers:
        # the ranks find each other by the MPI that mpi4py was built for
        ranks = shlex.join([*file.command[:1], "-m", "mpi4py", *file.command[1:]])
        return f"{head}srun --mpi={understood_by_mpi(os.environ)[0]} --kill-on-bad-exit=1 {ranks}\n"
    return f"""{head}\
hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
servers=
for ((number = 0; number < {file.servers}; number++)); do
    servers=$servers,${{hosts[number % ${{#hosts[@]}}]}}:$(({file.port} + number))
done
export PADDLE_PSERVERS_IP_PORT_LIST=${{servers#,}} PADDLE_TRAINERS_NUM={file.trainers}
export FLUIDLITE_JOB_KEY=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \\n')
# tasks in turn on all hosts, so that task N is on the host of server N; they are not MPI ranks
srun --mpi=none --kill-on-bad-exit=1 --distribution=cyclic bash -c '
    if ((SLURM_PROCID < {file.servers})); then
        IFS=, read -ra servers <<< "$PADDLE_PSERVERS_IP_PORT_LIST"
        export TRAINING_ROLE=PSERVER PADDLE_CURRENT_ENDPOINT=${{servers[SLURM_PROCID]}}
        export POD_IP=${{PADDLE_CURRENT_ENDPOINT%:*}} PADDLE_PORT=${{PADDLE_CURRENT_ENDPOINT##*:}}
    else
        export TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=$((SLURM_PROCID - {file.servers}))
    fi
    unset SLURM_STEP_NUM_TASKS
    exec "$@"' task {command}
"""


# ---------------------------------------------------------------------- Kubernetes
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def kubernetes_file(file: JobFile) -> str:
    """Objects for `kubectl apply`: a service and two indexed Jobs, or, for ranks that reduce together, an
    MPIJob of Kubeflow's MPI operator. ArgumentError for a name that Kubernetes does not take.
    """
    if not _NAME.fullmatch(file.name):
        raise ArgumentError(
            f"--name is {file.name!r}, but Kubernetes takes small letters, digits and - between them"
        )
    if not file.servers:
        return _mpi_job(file)
    name = file.name
    servers = ",".join(f"{name}-pserver-{number}.{name}:{file.port}" for number in range(file.servers))
    shared = [
        _plain("PADDLE_PSERVERS_IP_PORT_LIST", servers),
        _plain("PADDLE_TRAINERS_NUM", str(file.trainers)),
        f"{{name: FLUIDLITE_JOB_KEY, valueFrom: {{secretKeyRef: {{name: {name}-key, key: key}}}}}}",
    ]
    server = [
        _plain("TRAINING_ROLE", "PSERVER"),
        _indexed("NUMBER"),
        _plain("POD_IP", f"{name}-pserver-$(NUMBER).{name}"),
        _plain("PADDLE_PORT", str(file.port)),
    ]
    trainer = [_plain("TRAINING_ROLE", "TRAINER"), _indexed("PADDLE_TRAINER_ID")]
    return f"""\
# the key of the job: kubectl create secret generic {name}-key --from-literal=key=$(openssl rand -hex 16)
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{clusterIP: None, publishNotReadyAddresses: true, selector: {{part-of: {name}}}}}
---
{_indexed_job(file, "pserver", file.servers, server + shared)}---
{_indexed_job(file, "trainer", file.trainers, trainer + shared)}"""


def _plain(name: str, value: str) -> str:
    return f"{{name: {name}, value: {json.dumps(value)}}}"


def _indexed(name: str) -> str:
    """A variable that holds the number of the pod in its Job."""
    return f'{{name: {name}, valueFrom: {{fieldRef: {{fieldPath: "{_INDEX}"}}}}}}'


def _indexed_job(file: JobFile, kind: str, count: int, environment: Sequence[str]) -> str:
    lines = "".join(f"        - {variable}\n" for variable in environment)
    return f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: {file.name}-{kind}}}
spec:
  completionMode: Indexed
  completions: {count}
  parallelism: {count}
  backoffLimit: 0
  template:
    metadata: {{labels: {{part-of: {file.name}}}}}
    spec:
      subdomain: {file.name}
      restartPolicy: Never
      containers:
      - name: {kind}
        image: {json.dumps(file.image)}
        command: {json.dumps(file.command)}
        env:
{lines}"""


def _mpi_job(file: JobFile) -> str:
    ranks = [*file.command[:1], "-m", "mpi4py", *file.command[1:]]
    launcher = ["mpirun", "-n", str(file.trainers), *ranks]
    return f"""\
# for the MPI operator (https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi)
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: {file.name}}}
spec:
  slotsPerWorker: 1
  mpiImplementation: MPICH
  runPolicy: {{cleanPodPolicy: Running, backoffLimit: 0}}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: launcher
            image: {json.dumps(file.image)}
            command: {json.dumps(launcher)}
    Worker:
      replicas: {file.trainers}
      template:
        spec:
          containers:
          - name: worker
            image: {json.dumps(file.image)}
"""
