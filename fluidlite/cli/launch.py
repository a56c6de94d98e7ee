"""`fluidlite-launch`: start all processes of a job on this machine, or write what starts them on others."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace

import fluidlite
from fluidlite.base.errors import ArgumentError, did_you_mean
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError, near_file
from fluidlite.cli.parsing import Parser
from fluidlite.cli.scripts.process import CHILDREN
from fluidlite.launching import JOB_NAMES, LaunchOptions, start
from fluidlite.launching.engines import find_allocation
from fluidlite.launching.job_files import (
    JobFile,
    commands_for_hosts,
    kubernetes_file,
    placed_on_hosts,
    slurm_file,
)

__all__ = ["main", "parser"]

PROGRAM = "fluidlite-launch"
_MOST = 4096  # processes of a job on one machine: more are a slip of the finger
_EXAMPLES = """\
examples:
  fluidlite-launch -n 4 --pservers 2 train.py --mode pserver     4 trainers and 2 servers, over TCP
  fluidlite-launch -n 4 train.py --mode grad_allreduce           4 trainers that all-reduce, by mpiexec
  fluidlite-launch -n 2 -m package.train --epochs 3              a module; the arguments after it go to it
  fluidlite-launch -n 4 --log-dir logs train.py                  also a file for each process
  fluidlite-launch -n 8 --pservers 2 --hosts a,b train.py        prints the command for each machine
  fluidlite-launch -n 8 --pservers 2 --slurm train.py > job.sh   a file for sbatch
  fluidlite-launch -n 8 --pservers 2 --kubernetes train.py > job.yaml

Each line of output begins with the name of its process. When a process fails, its traceback is shown, the
others are stopped, and the command exits with that process's exit code; it exits with 2 when the command line
is wrong, and with 130 after Ctrl-C.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: that of the process that failed first, or 0."""
    return run_command(PROGRAM, _run, argv)


def parser() -> Parser:
    """The parser of what stands before the script."""
    made = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [options] SCRIPT [arguments of the script]",
        description="Start the processes of a training job; if one fails, all are stopped (fluidlite docs "
        "launch).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("-n", "--trainers", metavar="N", type=_count, default=0, help="number of trainer processes")
    add("--pservers", metavar="N", type=_count, default=0, help="number of parameter servers (default: none)")
    add("-m", dest="module", metavar="MODULE", help="run a module as the script")
    add("--log-dir", metavar="DIR", default="", help="keep each process's output in DIR/trainer0.log, ...")
    add("--devices", metavar="0,1", help="CUDA devices, one for each trainer; cpu for none")
    add(
        "--trace",
        metavar="FILE",
        default="",
        help="write the timeline of all processes, for chrome://tracing",
    )
    add("--start-port", metavar="P", type=_port, default=0, help="the first port (default: free ones)")
    add("--version", action="version", version=f"fluidlite {fluidlite.__version__}")
    many = made.add_argument_group("several machines: nothing is started; the text is written to stdout")
    many.add_argument("--hosts", metavar="A,B", help="write the command for each of these machines")
    many.add_argument("--host", metavar="A", help="with --hosts: start the processes of this machine, A")
    many.add_argument("--slurm", action="store_true", help="write a file for sbatch")
    many.add_argument("--kubernetes", action="store_true", help="write objects for kubectl apply")
    many.add_argument("--name", metavar="NAME", default="", help="of a Slurm or Kubernetes job")
    many.add_argument("--image", metavar="IMAGE", default="", help="Kubernetes: container with the script")
    return made


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer between 1 and {_MOST}")
    return int(text)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number between 1 and 65535")
    return int(text)


# ---------------------------------------------------------------------- the command line
def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, with the script's name in `script`, and the script's arguments; UsageError in one line."""
    made = parser()
    mine, rest = made.split(argv)
    options, unknown = made.parse_known_args(mine)
    if unknown:
        name = unknown[0].split("=", 1)[0]
        raise UsageError(
            f"there is no option {name!r}{did_you_mean(name, made.options())} (options of the "
            "script come after its name)"
        )
    if options.module is None and not rest:
        raise UsageError(f"no script is given: {made.usage} (see --help)")
    options.script = options.module or rest.pop(0)
    _check(options, rest)
    return options, rest


def _check(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """UsageError where options contradict each other, or there is no such script."""
    wanted = [name for name in ("slurm", "kubernetes", "hosts") if getattr(options, name)]
    if len(wanted) > 1:
        raise UsageError(
            f"--{wanted[0]} and --{wanted[1]} start a job in different ways: give only one of them"
        )
    if options.trace and wanted and not options.host:
        raise UsageError(
            f"--trace needs a job that runs on this machine, but --{wanted[0]} starts no process"
        )
    if options.host and not options.hosts:
        raise UsageError("--host selects one of --hosts: give --hosts as well")
    if options.image and not options.kubernetes:
        raise UsageError("--image can only be used with --kubernetes")
    if options.name and not (options.kubernetes or options.slurm):
        raise UsageError("--name can only be used with --slurm and --kubernetes")
    if not options.trainers and not options.devices and not find_allocation(os.environ).processes:
        behind = " (options come before the script)" if {"-n", "--trainers"} & set(arguments) else ""
        raise UsageError(f"the number of trainers is not given: add for example -n 4{behind}")
    if options.hosts is None and not (options.slurm or options.kubernetes) and options.module is None:
        _check_script(options.script)


def _check_script(script: str) -> None:
    path = pathlib.Path(script)
    if path.is_dir():
        raise UsageError(f"{script} is a folder: give the path of a script in it")
    if not path.is_file():
        raise UsageError(f"no such file: {script}{near_file(path)}")
    if not os.access(path, os.R_OK):
        raise UsageError(f"cannot read {script}: permission denied")


# ---------------------------------------------------------------------- the job
def _run(argv: Sequence[str]) -> int:
    options, arguments = _parse(argv)
    job = LaunchOptions(
        options.script,
        tuple(arguments),
        log_dir=options.log_dir,
        first_port=options.start_port,
        devices=_devices(options.devices),
        names=JOB_NAMES,
        shows_all=True,
        is_module=options.module is not None,
        python_path=CHILDREN,  # where scripts find FluidLite as `paddle`
    )
    trainers = options.trainers or len(job.devices or ())
    if job.devices and trainers != len(job.devices):
        raise UsageError(
            f"-n is {trainers}, but --devices names {len(job.devices)} devices: give one for each trainer"
        )
    name = options.name or "train"
    file = JobFile(job, trainers, options.pservers, name, options.image or JobFile.image)
    hosts = _hosts(options.hosts)
    if options.slurm or options.kubernetes:
        sys.stdout.write(slurm_file(file) if options.slurm else kubernetes_file(file))
        return 0
    if hosts and not options.host:
        sys.stdout.write(commands_for_hosts(file, hosts, PROGRAM))
        return 0
    placed = _placed(file, hosts, options.host)
    return _traced(placed, options.trace) if options.trace else start(placed, PROGRAM)


def _traced(job: LaunchOptions, path: str) -> int:
    """Run the job, and write what its processes have recorded."""
    from fluidlite.executor.timeline import merge_traces  # with the executor: 0.2 s that only this takes

    folder = pathlib.Path(path).resolve().parent
    if not folder.is_dir() or pathlib.Path(path).is_dir():
        raise UsageError(f"cannot write {path}: its folder does not exist, or it is a folder itself")
    with tempfile.TemporaryDirectory(prefix="fluidlite-trace-") as parts:
        code = start(replace(job, trace=parts), PROGRAM)
        count = merge_traces(parts, path)
    sys.stderr.write(f"{PROGRAM}: the timeline of {count} processes is in {path}\n")
    return code


def _placed(file: JobFile, hosts: Sequence[str], here: str | None) -> LaunchOptions:
    """The job with its processes placed: on this machine, or on several of which this is one."""
    job = file.job
    if not hosts:
        if file.servers:
            return replace(job, worker_count=file.trainers, server_count=file.servers)
        return replace(job, processes=file.trainers)
    if here not in hosts:
        raise ArgumentError(f"--host is {here}, which is not in --hosts {','.join(hosts)}")
    if file.servers:
        placed = placed_on_hosts(file.trainers, file.servers, hosts, job.first_port)
        return replace(job, servers=placed.servers, workers=placed.workers, here=here or "")
    if file.trainers % len(hosts):
        raise ArgumentError(f"{file.trainers} trainers cannot be divided evenly among {len(hosts)} hosts")
    return replace(job, processes=file.trainers // len(hosts), hosts=tuple(hosts), here=here or "")


def _hosts(text: str | None) -> list[str]:
    hosts = [] if text is None else [part.strip() for part in text.split(",")]
    if text is not None and (not all(hosts) or any(" " in host or ":" in host for host in hosts)):
        raise UsageError(f"--hosts is {text!r}, but should be names or addresses such as a,b")
    twice = {host for host in hosts if hosts.count(host) > 1}
    if twice:
        raise UsageError(f"--hosts names {sorted(twice)[0]} twice")
    return hosts


def _devices(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if text == "cpu":
        return ()
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--devices is {text!r}, but should be numbers of devices such as 0,1, or cpu")
    return tuple(int(part) for part in parts)


if __name__ == "__main__":
    sys.exit(main())
