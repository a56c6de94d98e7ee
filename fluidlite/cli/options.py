"""The arguments of `fluidlite-transpile`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import fluidlite
from fluidlite.cli.errors import UsageError
from fluidlite.cli.parsing import Parser
from fluidlite.show import FORMATS
from fluidlite.transpiler.modes import LOCAL, NO_MODE, all_modes, mode_names

__all__ = ["SHELLS", "SOURCE_HELP", "add_job", "add_program", "count", "job_modes", "parse_options", "parser"]

SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
examples:
  fluidlite-transpile train.py                                a table: processes, their ops, bytes a step
  fluidlite-transpile train.py --trainers 8 --pservers 4 -- --batch 32    arguments after -- go to the script
  fluidlite-transpile train.py --role pserver0 --format text  what one process runs
  fluidlite-transpile train.py --diff --role trainer0         changes against the original program
  fluidlite-transpile train.py -o out --format html           one HTML page of all programs
  fluidlite-transpile models.resnet:build --mode grad_allreduce --trainers 16 --cost --gbits 25 --gflops 500
  fluidlite-transpile train.py --mode geo_sgd --trainers 4 --verify --steps 20 && echo right
  fluidlite-transpile saved/__model__ --startup saved/__startup__ --check && echo fits
  cat program.txt | fluidlite-transpile - --async --config enable_dc_asgd=true --check

exit code: 0; 1 when --check or --verify finds something; 2 when the arguments, the script or the program are
not right.
"""
SOURCE_HELP = (
    "a training script (run up to its first Executor.run), module:function, a saved program (ProgramDesc "
    "such as __model__, "
    "text, JSON), a folder that holds a __model__ or one .pdmodel, or - for stdin"
)


_SHOWS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("diff", (), "show the ops that are inserted, removed and changed against the original"),
    ("cost", ("--plan",), "estimate traffic, memory and the time of a step"),
    ("check", (), "check all roles against each other; exit code 1 when something is wrong"),
    (
        "verify",
        (),
        "run the job in this process, and compare it with its reference; exit code 1 when it differs",
    ),
)


def parser() -> Parser:
    """The parser of `fluidlite-transpile`."""
    made = Parser(
        prog="fluidlite-transpile",
        description="Show the programs that every process of a distributed training job would run.",
        epilog=f"modes:\n{_modes()}\n\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # a shortened option would mean something else once another begins like it
        allow_abbrev=False,
    )
    made.add_argument("source", nargs="?", metavar="SOURCE", help=SOURCE_HELP)
    add_program(made)
    made.add_argument("--version", action="version", version=f"fluidlite {fluidlite.__version__}")
    made.add_argument(
        "--completion", metavar="SHELL", help=f"print a completion script for {', '.join(SHELLS)}"
    )
    add_job(made.add_argument_group("the job"))
    _add_output(made.add_argument_group("what to show (default: a table of the roles)"))
    _add_proof(made.add_argument_group("the proof that --verify makes"))
    _add_machines(made.add_argument_group("the machines that --cost assumes"))
    return made


def job_modes() -> tuple[str, ...]:
    """The names that --mode takes."""
    return (*mode_names(), LOCAL.name, NO_MODE)


def _modes() -> str:
    """A line for each mode."""
    width = max(map(len, mode_names()))
    lines = [f"  {mode.name.ljust(width)}  {mode.about}" for mode in (*all_modes(), LOCAL)]
    return "\n".join([*lines, f"  {NO_MODE.ljust(width)}  another name for it: the unchanged program"])


def add_program(made: Parser) -> None:
    """Options that say which program of a source is meant."""
    made.add_argument(
        "--startup", metavar="FILE", help=f"the startup program, if {made.source} is a saved program"
    )
    made.add_argument(
        "--program",
        metavar="NAME",
        help="the script's variable that holds the main program, if it has several training programs",
    )


def add_job(group: Any, mode: str | None = "pserver") -> None:
    """Options that describe a job; `mode` is what --mode is where it is not given."""
    group.add_argument(
        "--mode",
        default=mode,
        metavar="MODE",
        help=f"one of {', '.join(job_modes())} (default: {mode or 'no job'})",
    )
    group.add_argument(
        "--trainers", type=count, default=None, metavar="N", help="number of trainer processes (default: 2)"
    )
    group.add_argument(
        "--pservers", default=None, metavar="N", help="number of servers (default: 2), or their endpoints"
    )
    group.add_argument(
        "--endpoints",
        metavar="IP:PORT,...",
        help="endpoints of the servers, or of the trainers in modes without servers",
    )
    pace = group.add_mutually_exclusive_group()
    pace.add_argument(
        "--sync",
        dest="sync",
        action="store_true",
        default=None,
        help="all trainers synchronise at each step (default)",
    )
    pace.add_argument(
        "--async", dest="sync", action="store_false", help="servers apply each gradient when it arrives"
    )
    group.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a field of DistributeTranspilerConfig; may be repeated: slice_var_up=false, "
        "min_block_size=1024, ...",
    )


def _add_output(group: Any) -> None:
    group.add_argument("--role", metavar="NAME", help="only this role: trainer0, pserver1, ...")
    group.add_argument("--trainer-id", type=int, metavar="N", help="the same as --role trainerN")
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="write a file for each role and program (html: one page for all)",
    )
    group.add_argument(
        "--format",
        action="append",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)} (default: text); repeatable with -o; without -o the role's main program "
        "goes to stdout",
    )
    group.add_argument(
        "--batch",
        type=count,
        default=32,
        metavar="N",
        help="samples a step and trainer, for bytes and times (default: 32)",
    )
    for name, others, text in _SHOWS:
        group.add_argument(f"--{name}", *others, dest=name, action="store_true", help=text)

    group.add_argument(
        "--full",
        action="store_true",
        help="with --cost: also memory and traffic of each role and link, and other numbers of trainers",
    )
    group.add_argument("--json", action="store_true", help="--cost, --check or --verify as JSON")


def _add_proof(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--steps", type=count, metavar="K", help="number of steps (default: 10)")
    group.add_argument(
        "--feeds",
        metavar="WHICH",
        help="random (default), or script: the batches that the script itself feeds",
    )
    group.add_argument(
        "--seed",
        type=_whole,
        metavar="N",
        help="seed of random batches, and of the order of messages in asynchronous jobs",
    )


def _add_machines(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--gbits",
        type=_speed,
        metavar="X",
        help="each machine's port: 10^9 bits a second, each way (default: 10)",
    )
    group.add_argument(
        "--latency-us", type=_speed, metavar="X", help="latency of each message in microseconds (default: 50)"
    )
    group.add_argument(
        "--gflops",
        type=_speed,
        metavar="X",
        help="speed of a trainer, in 10^9 multiplications and additions a second",
    )
    group.add_argument(
        "--compute-ms",
        type=_speed,
        metavar="X",
        help="or: duration of a trainer's forward and backward pass in milliseconds",
    )
    group.add_argument(
        "--sequence",
        type=count,
        default=1,
        metavar="N",
        help="mean steps of a sample that is a sequence (default: 1)",
    )


def _whole(text: str) -> int:
    # digits of other scripts are digits too, and `int` does not read all of them ("²")
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer between 0 and {(1 << 32) - 1}")
    return int(text)


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # NaN fails every comparison, so it is refused as well
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def count(text: str) -> int:
    """A number of things, as argparse reads it."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer between 1 and 1000000")
    return int(text)


def parse_options(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and what stands after `--`; UsageError in one line."""
    made = parser()
    options, rest = made.parse(argv)
    made.choose(options, "mode", job_modes())
    if options.full and not options.cost:
        raise UsageError("--full can only be used with --cost")
    if options.json and options.format not in (None, ["json"]):
        raise UsageError(f"--json conflicts with --format {options.format[0]}: give only one of them")
    made.choose(options, "format", tuple(FORMATS))
    made.choose(options, "completion", SHELLS)
    made.choose(options, "feeds", ("random", "script"))
    if not options.verify and (options.steps, options.feeds, options.seed) != (None, None, None):
        raise UsageError("--steps, --feeds and --seed can only be used with --verify")
    if options.source is None and options.completion is None:
        raise UsageError(
            "no program is given: give a script, module:function, a saved program, or - (see --help)"
        )
    if options.gflops and options.compute_ms:
        raise UsageError("--gflops and --compute-ms set the same value: give only one of them")
    if options.trainer_id is not None:
        if options.role not in (None, f"trainer{options.trainer_id}"):
            raise UsageError(
                f"--role {options.role} and --trainer-id {options.trainer_id} name different roles: "
                "give only one of them"
            )
        options.role = f"trainer{options.trainer_id}"
    return options, rest
