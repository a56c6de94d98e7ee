"""Options -> the commands that make a job: one for all ranks, or one for each server and trainer."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from fluidlite.base.cores import usable_cores
from fluidlite.base.errors import ArgumentError
from fluidlite.base.mpi_start import LAUNCHED, mpi_place
from fluidlite.base.place import get_cuda_device_count
from fluidlite.base.records import dataclass
from fluidlite.launching.engines import Allocation, find_allocation, start_command
from fluidlite.launching.options import LaunchOptions
from fluidlite.launching.ports import HeldPorts

__all__ = ["JobPlan", "ProcessPlan", "plan_job", "rank_command"]

_RANK = str(pathlib.Path(__file__).with_name("rank.py"))
_FIRST_PORT = 6170  # of ranks under mpiexec: names, for nobody listens there


@dataclass(frozen=True)
class ProcessPlan:
    """One command.

    names: of the processes that it starts: itself, or all ranks of an mpiexec.
    logs: the files that get their output.
    serves: True for a parameter server, which ends when its trainers have.
    """

    names: tuple[str, ...]
    logs: tuple[str, ...]
    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    serves: bool = False

    @property
    def name(self) -> str:
        """The process, or all of them."""
        return self.names[0] if len(self.names) == 1 else "the ranks"


@dataclass(frozen=True)
class JobPlan:
    """The commands of a job on this host.

    log_dir: the folder of the files that get the processes' output.
    shown: the files whose lines are also shown on the terminal -> what stands in front of each line.
    logs: patterns of all logs that a job in this folder may have left.
    is_remote: True if processes of other hosts print to the command that starts them.
    """

    processes: tuple[ProcessPlan, ...]
    log_dir: str
    shown: Mapping[str, str]
    logs: tuple[str, ...]
    is_remote: bool = False

    @property
    def names(self) -> list[str]:
        """All processes that are started from here."""
        return [name for process in self.processes for name in process.names]


def plan_job(
    options: LaunchOptions, report_folder: str, ports: HeldPorts, environ: Mapping[str, str] | None = None
) -> JobPlan:
    """The commands for a job; processes that fail say so in `report_folder`, those that no port is named for
    get some of `ports`. ArgumentError where the options cannot be followed, MissingExtraError where what
    starts processes is not there.
    """
    environ = os.environ if environ is None else environ
    # files in any case: what mpiexec says of a failure is not mixed with what the processes say
    log_dir = str(pathlib.Path(options.log_dir or f"{report_folder}.logs").absolute())
    if options.has_servers:
        processes = _with_servers(options, report_folder, log_dir, ports, environ)
    else:
        processes = _ranks(options, report_folder, log_dir, environ)
    patterns = tuple(options.names.of(serves)[1].format("[0-9]*") for serves in (False, True))
    return JobPlan(processes, log_dir, _shown(options, processes), patterns, len(options.hosts) > 1)


def _shown(options: LaunchOptions, processes: Sequence[ProcessPlan]) -> dict[str, str]:
    """The logs that are shown, with what stands in front of their lines."""
    logs = [log for each in processes for log in each.logs]
    names = [name for each in processes for name in each.names]
    if options.shows_all:
        width = max(map(len, names))
        return {log: f"{name.ljust(width)} | " for log, name in zip(logs, names, strict=True)}
    if not options.log_dir:
        return dict.fromkeys(logs, "")
    # this host's first trainer: on other hosts than the first it is not number 0
    return {next((each.logs[0] for each in processes if not each.serves), logs[0]): ""}


def _command(note: Mapping[str, Any], options: LaunchOptions) -> tuple[str, ...]:
    """A process that runs the script after it has read the note."""
    return (sys.executable, "-u", _RANK, json.dumps(note), options.script, *options.arguments)


def _imports(options: LaunchOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """The variable by which Python looks into the folder that scripts import from first."""
    if not options.python_path:
        return {}
    before = environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([options.python_path, *([before] if before else [])])}


def _threads(environ: Mapping[str, str], processes: int) -> dict[str, str]:
    """Each process's share of the cores: more threads than cores slow each other down."""
    if "OMP_NUM_THREADS" in environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, usable_cores() // processes))}


# ---------------------------------------------------------------------- ranks that reduce together
def _ranks(
    options: LaunchOptions, report_folder: str, log_dir: str, environ: Mapping[str, str]
) -> tuple[ProcessPlan, ...]:
    allocation = find_allocation(environ)
    on_each, count = _counts(options, allocation)
    _check_first_host(options)
    note = _note(options, report_folder, log_dir, on_each, count)
    note["environ"] |= _threads(environ, min(on_each, count))
    command = _command(note, options)
    names, logs = (
        tuple(form.format(rank) for rank in range(count)) for form in options.names.of(serves=False)
    )
    if count == 1 and not options.hosts:
        return (ProcessPlan(names, logs, command, _imports(options, environ)),)
    start = start_command(
        count, options.hosts if len(options.hosts) > 1 else (), on_each, allocation, environ
    )
    return (ProcessPlan(names, logs, (*start, *command), _imports(options, environ)),)


def _note(
    options: LaunchOptions, report_folder: str, log_dir: str, on_each: int, count: int
) -> dict[str, Any]:
    """The note that ranks are given."""
    hosts = options.hosts or ("127.0.0.1",)
    return {
        **_of_process(options, report_folder, log_dir, serves=False),
        "devices": _devices(options),
        "on_each": on_each,
        "endpoints": _endpoints(hosts, count, on_each, options.first_port or _FIRST_PORT),
        "environ": {"TRAINING_ROLE": "TRAINER"},
        "first": {LAUNCHED: str(count)} if options.shows_all and count > 1 else {},
    }


def _of_process(options: LaunchOptions, report_folder: str, log_dir: str, serves: bool) -> dict[str, Any]:
    """The entries that the notes of all processes have."""
    name, log = options.names.of(serves)
    return {
        "reports": report_folder,
        "logs": log_dir,
        "name": name,
        "log": log,
        "module": options.is_module,
        "brief": options.shows_all,
        "trace": options.trace,
    }


def rank_command(options: LaunchOptions) -> tuple[str, ...]:
    """The note, the script and its arguments, for a process that is a rank already: another launcher has
    started it, has its output, and hears of its end.
    """
    _, count = mpi_place() or (0, 1)
    note = _note(options, "", "", options.processes or count, count)
    if options.devices is None:
        note["devices"] = None  # a scheduler gives each process its own
    return (json.dumps(note), options.script, *options.arguments)


def _counts(options: LaunchOptions, allocation: Allocation) -> tuple[int, int]:
    """How many processes each host has, and how many there are."""
    if options.processes or options.devices or options.hosts:
        on_each = options.processes or len(options.devices or ()) or max(1, get_cuda_device_count())
        return on_each, on_each * max(1, len(options.hosts))
    if allocation.processes:
        return allocation.processes, allocation.processes
    count = 1 if options.devices is not None else max(1, get_cuda_device_count())
    return count, count


def _devices(options: LaunchOptions) -> list[int] | None:
    """The devices of each host's processes; [] hides them all; None leaves them as they are."""
    if options.devices is not None:
        return list(options.devices)
    found = get_cuda_device_count()
    return list(range(found)) if found else None


def _check_first_host(options: LaunchOptions) -> None:
    """ArgumentError on a host that is not the first: mpiexec starts its processes from there."""
    if len(options.hosts) > 1 and options.hosts[0] not in _addresses(options.here):
        raise ArgumentError(
            f"this host is not {options.hosts[0]}, the first of --ips: run the command only there, "
            "and mpiexec starts the processes of all hosts (give this host's address with --host "
            "if it is that one)"
        )


def _endpoints(hosts: Sequence[str], count: int, on_each: int, first_port: int) -> list[str]:
    """The names of the ranks, host by host."""
    return [f"{hosts[rank // on_each % len(hosts)]}:{first_port + rank % on_each}" for rank in range(count)]


# ---------------------------------------------------------------------- servers and trainers
def _with_servers(
    options: LaunchOptions, report_folder: str, log_dir: str, ports: HeldPorts, environ: Mapping[str, str]
) -> tuple[ProcessPlan, ...]:
    servers, workers, meeting = _places(options, ports)
    here = _addresses(options.here)
    mine = [place for place in (*servers, *workers) if _host(place) in here]
    if not mine:
        raise ArgumentError(
            "this host is not one of "
            f"{', '.join(sorted({_host(place) for place in (*servers, *workers)}))}: give its "
            "address with --host"
        )
    shared = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(workers),
        "PADDLE_TRAINERS_NUM": str(len(workers)),
        **_meeting_place(meeting, environ),
        **_threads(environ, len(mine)),
    }
    found, imports = [], _imports(options, environ)
    for serves, places in ((True, servers), (False, workers)):
        name, log = options.names.of(serves)
        for number, place in enumerate(places):
            if _host(place) in here:
                hinted = {LAUNCHED: str(len(mine))} if options.shows_all and not (serves or number) else {}
                note = {
                    **_of_process(options, report_folder, log_dir, serves),
                    "number": number,
                    "environ": {**shared, **_role(serves, number, place), **hinted},
                }
                command = _command(note, options)
                names, logs = (name.format(number),), (log.format(number),)
                found.append(ProcessPlan(names, logs, command, imports, serves))
    return tuple(found)


def _role(serves: bool, number: int, place: str) -> dict[str, str]:
    """The variables that tell a process which one it is."""
    host, _, port = place.rpartition(":")
    found = {"PADDLE_CURRENT_ENDPOINT": place, "POD_IP": host, "PADDLE_PORT": port}
    if serves:
        return {**found, "TRAINING_ROLE": "PSERVER", "PADDLE_PSERVER_ID": str(number)}
    return {**found, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(number)}


def _places(options: LaunchOptions, ports: HeldPorts) -> tuple[Sequence[str], Sequence[str], str]:
    """The endpoints of servers, of trainers, and the place where they exchange small values: beside server 0,
    one port above those that are named for its host, so that all hosts name the same.
    """
    servers, workers, first = options.servers, options.workers, options.first_port
    counts = 0 if servers else options.server_count, 0 if workers else options.worker_count
    missing = sum(counts)
    is_named = bool(first or servers or workers)
    found = range(first, first + missing) if first else ports.find(missing + (not is_named))
    here = [f"127.0.0.1:{port}" for port in found]
    servers = servers or tuple(here[: counts[0]])
    workers = workers or tuple(here[counts[0] : missing])
    if not is_named:
        return servers, workers, here[-1]
    host = _host(servers[0])
    named = [int(place.rpartition(":")[2]) for place in (*servers, *workers) if _host(place) == host]
    return servers, workers, f"{host}:{max(named) + 1}"


def _meeting_place(place: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where the processes of a fleet exchange small values."""
    if any(environ.get(f"PADDLE_GLOO_{name}") for name in ("HTTP_ENDPOINT", "FS_PATH")):
        return {}
    return {"PADDLE_WITH_GLOO": "1", "PADDLE_GLOO_RENDEZVOUS": "3", "PADDLE_GLOO_HTTP_ENDPOINT": place}


def _host(place: str) -> str:
    return place.rpartition(":")[0]


def _addresses(here: str) -> set[str]:
    """The names that this host has for itself."""
    if here:
        return {here}
    name = socket.gethostname()
    found = {"127.0.0.1", "localhost", name}
    try:
        found.update(socket.gethostbyname_ex(name)[2])
    except OSError:
        return found  # a host whose name nobody resolves
    return found
