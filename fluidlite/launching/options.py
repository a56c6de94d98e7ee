"""The options of a launcher, under the names that PaddlePaddle's launchers have for them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from fluidlite.base.command_line import PrintingParser
from fluidlite.base.errors import ArgumentError
from fluidlite.base.records import dataclass

__all__ = ["JOB_NAMES", "PADDLE_NAMES", "LaunchOptions", "RoleNames", "parse_options"]

_ELASTIC = "jobs are not elastic: a job whose process fails ends, and goes on from its checkpoint"
_REFUSED = {
    "http_port": "nothing here listens for HTTP: servers and trainers find each other at --servers",
    "heter_worker_num": "heterogeneous parameter servers are left out",
    "heter_workers": "heterogeneous parameter servers are left out",
    "auto_tuner_json": "there is no tuner of distributed strategies",
    "auto_parallel_config": "automatic parallelism has no configuration file here",
    "elastic_server": _ELASTIC,
}
_HOSTS = "hosts are named by --ips, or by Slurm's or PBS's allocation"
# values that say what is so anyway; others are refused
_ONLY = {
    "nnodes": (("1", "1:1"), _HOSTS),
    "rank": (("0", "-1"), _HOSTS),
    "elastic_level": (("0", "-1"), _ELASTIC),
    "max_restart": (("0",), _ELASTIC),
}
_WITHOUT_EFFECT = (
    "job_id log_level log_overwrite sort_ip enable_gpu_log print_config legacy with_gloo gloo_port "
    "elastic_timeout"
)


@dataclass(frozen=True)
class RoleNames:
    """How processes and their logs are called, as formats of their numbers."""

    trainer: str
    server: str
    trainer_log: str
    server_log: str

    def of(self, serves: bool) -> tuple[str, str]:
        """The formats of a server's name and log, or of a trainer's."""
        return (self.server, self.server_log) if serves else (self.trainer, self.trainer_log)


PADDLE_NAMES = RoleNames("worker {}", "server {}", "workerlog.{}", "serverlog.{}")
JOB_NAMES = RoleNames("trainer{}", "pserver{}", "trainer{}.log", "pserver{}.log")
"""The names that `fluidlite-transpile` gives to the roles of a job."""


@dataclass(frozen=True)
class LaunchOptions:
    """A job to start.

    Attributes
    ----------
    script, arguments: the training script, and what it is given.
    processes: how many there are on each host; 0 says as many as devices, or as Slurm or PBS has reserved.
    hosts: the addresses of the hosts; () for this one, or those that Slurm or PBS has reserved.
    devices: numbers of CUDA devices of each host, one for each process; () for none; None where nothing was
        said.
    servers, workers: endpoints of a job with parameter servers, or how many of them to start here.
    log_dir: where each process's output is kept; "" shows all of it on the terminal instead.
    first_port: of the endpoints that nobody named; 0 for ports that are free.
    here: the address of this host, where `servers` and `workers` name several.
    names: how processes and logs are called.
    shows_all: True to print the lines of all processes, each behind the name of its process.
    is_module: True if `script` is the name of a module.
    trace: a folder in which each process leaves its part of the job's timeline, "" for none.
    python_path: a folder that scripts import from before all others, "" for none.
    """

    script: str
    arguments: tuple[str, ...] = ()
    processes: int = 0
    hosts: tuple[str, ...] = ()
    devices: tuple[int, ...] | None = None
    servers: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    server_count: int = 0
    worker_count: int = 0
    log_dir: str = ""
    first_port: int = 0
    here: str = ""
    names: RoleNames = PADDLE_NAMES
    shows_all: bool = False
    is_module: bool = False
    python_path: str = ""
    trace: str = ""

    def for_script(self, script: str, *arguments: str) -> LaunchOptions:
        """The same job with another script."""
        return replace(self, script=script, arguments=arguments)

    @property
    def has_servers(self) -> bool:
        """True for a job with parameter servers."""
        return bool(self.servers or self.workers or self.server_count or self.worker_count)


def parse_options(arguments: Sequence[str], program: str, servers: bool = False) -> LaunchOptions:
    """The options of a command line; `servers` says that the job has parameter servers in any case.

    A mistake prints one line and ends the process with 2, as argparse does.
    """
    parser = _parser(program)
    found = parser.parse_args(list(arguments))
    try:
        return _options(found, servers)
    except ArgumentError as error:
        parser.error(str(error))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = PrintingParser(
        prog=program,
        description="Start the processes of a training job; if one fails, all are stopped (fluidlite docs "
        "launch).",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--nproc_per_node", type=int, default=0, help="processes on each host (default: one for each device)")
    add("--ips", "--cluster_node_ips", default="", help="the hosts, ip,ip; the first starts all by mpiexec")
    add(
        "--gpus",
        "--devices",
        "--selected_gpus",
        dest="devices",
        default=None,
        help="CUDA devices, 0,1: one for each process; 'cpu' for none",
    )
    add("--server_num", type=int, default=0, help="parameter servers to start on this host")
    add("--worker_num", "--trainer_num", type=int, default=0, help="trainers to start on this host")
    add("--servers", "--endpoints", default="", help="parameter servers of all hosts, ip:port,ip:port")
    add("--workers", "--trainers", default="", help="trainers of all hosts, ip:port,ip:port")
    add("--host", "--node_ip", default="", help="the address of this host among --servers and --workers")
    add("--start_port", "--started_port", type=int, default=0, help="the first port of this host's processes")
    add(
        "--log_dir", default="log", help="folder of each process's output (default: log; '' for the terminal)"
    )
    add("--run_mode", default=None, choices=("collective", "ps"), help="the kind of job, if it is not clear")
    for name in _WITHOUT_EFFECT.split():
        add(f"--{name}", default=None, help=argparse.SUPPRESS)  # change nothing that is computed
    for name, (values, why) in _ONLY.items():
        add(f"--{name}", action=_Only, help=argparse.SUPPRESS, const=(values, why))
    add("--master", default="", help=argparse.SUPPRESS)
    for name, why in _REFUSED.items():
        add(f"--{name}", action=_Only, help=argparse.SUPPRESS, const=((), why))
    add("script", help="the training script")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser


class _Only(argparse.Action):
    """An option that is refused with its reason, but for values (often none) that change nothing."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        accepted, why = self.const
        if values not in accepted:
            parser.error(f"{option_string}: {why}")
        setattr(namespace, self.dest, values)


def _options(found: argparse.Namespace, servers: bool) -> LaunchOptions:
    if found.master and not found.nnodes:  # where hosts of several machines would meet
        raise ArgumentError(f"--master: {_HOSTS}")
    options = LaunchOptions(
        script=found.script,
        arguments=tuple(found.arguments),
        processes=found.nproc_per_node,
        hosts=_list(found.ips),
        devices=_devices(found.devices),
        servers=_list(found.servers),
        workers=_list(found.workers),
        server_count=found.server_num,
        worker_count=found.worker_num,
        log_dir=found.log_dir,
        first_port=found.start_port,
        here=found.host,
    )
    if (servers or found.run_mode == "ps") and not options.has_servers:
        options = _with_counts(options)
    _check(options)
    return options


def _with_counts(options: LaunchOptions) -> LaunchOptions:
    """Two servers and two trainers, as 1.8's `launch_ps` starts where it is told nothing."""
    return replace(options, server_count=2, worker_count=2)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace(";", ",").split(",") if part.strip())


def _devices(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if text.strip().lower() in ("", "cpu"):
        return ()
    parts = _list(text)
    if not all(part.isdigit() for part in parts):
        raise ArgumentError(f"--gpus is {text!r}, but should be numbers of devices such as 0,1, or cpu")
    return tuple(int(part) for part in parts)


def _check(options: LaunchOptions) -> None:
    """ArgumentError where options contradict each other."""
    counts = {
        "--nproc_per_node": options.processes,
        "--server_num": options.server_count,
        "--worker_num": options.worker_count,
    }
    for name, count in counts.items():
        if count < 0:
            raise ArgumentError(f"{name} is {count}")
    if options.has_servers and (options.processes or options.hosts):
        raise ArgumentError(
            "--nproc_per_node and --ips are for jobs without servers; those with servers name --server_num "
            "and --worker_num, or --servers and --workers"
        )
    for name, places, count in (
        ("server", options.servers, options.server_count),
        ("worker", options.workers, options.worker_count),
    ):
        if places and count and len(places) != count:
            raise ArgumentError(f"--{name}s names {len(places)} endpoints, but --{name}_num is {count}")
        wrong = [place for place in places if ":" not in place]
        if wrong:
            raise ArgumentError(f"--{name}s: {', '.join(wrong)} should be ip:port")
    if options.has_servers and not (options.servers or options.server_count):
        raise ArgumentError("the job has trainers, but no servers: give --server_num or --servers")
    if options.has_servers and not (options.workers or options.worker_count):
        raise ArgumentError("the job has servers, but no trainers: give --worker_num or --workers")
    if options.devices and options.processes and options.processes != len(options.devices):
        raise ArgumentError(
            f"--nproc_per_node is {options.processes}, but --gpus names {len(options.devices)} devices"
        )
