"""`fluidlite-transpile`: what every process of a distributed job runs, as a table, files, a page, a
difference, an estimate of its cost, or a check.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from fluidlite.cli.capture import Captured
from fluidlite.cli.completion import completion
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError
from fluidlite.cli.exchange import exchange_of
from fluidlite.cli.files import write_job
from fluidlite.cli.jobs import job_of
from fluidlite.cli.options import parse_options, parser
from fluidlite.cli.reports import check_data, cost_data, recommendation
from fluidlite.cli.sources import load
from fluidlite.cli.tables import cost_text, roles_text
from fluidlite.show import FORMATS
from fluidlite.show.diff import Baseline, diff_text
from fluidlite.show.html import job_page
from fluidlite.transpiler.check.report import check
from fluidlite.transpiler.cost.estimate import CostEstimate, estimate
from fluidlite.transpiler.cost.model import Port
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["main", "parser"]

STEPS = 10  # of a proof


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 1 when --check or --verify found something, 2 when the
    user must change something.
    """
    return run_command("fluidlite-transpile", _run, argv)


def _run(argv: Sequence[str]) -> int:
    options, script_argv = parse_options(argv)
    if options.completion:
        sys.stdout.write(completion(options.completion))
        return 0
    _check_outputs(options)
    batches = (options.steps or STEPS) if options.feeds == "script" else 0
    captured = load(options.source, script_argv, options.startup, options.program, batches)
    job, title = _job(options, captured)
    return _verify(job, captured.feeds, options) if options.verify else _show(job, title, options)


def _job(options: argparse.Namespace, captured: Captured) -> tuple[Job, str]:
    job = job_of(options, captured)
    # an unknown role is an error before anything is written
    if options.role is not None:
        job.role(options.role)
    return job, captured.title


def _check_outputs(options: argparse.Namespace) -> None:
    """UsageError where the options do not go together; before the script is run, which may take a while."""
    if options.verify:
        others = (options.output, options.role, options.diff, options.cost, options.check)
        if any(others) or options.format not in (None, ["json"]):
            raise UsageError(
                "--verify shows only its proof (as JSON with --json): it cannot be combined with "
                "--output, --role, --diff, --cost or --check"
            )
    elif options.json:
        if options.output or options.diff or options.format or not (options.cost or options.check):
            raise UsageError(
                "--json can only be used with --cost, --check and --verify, and writes to stdout only"
            )
    elif options.format and not options.output:
        if len(options.format) > 1:
            raise UsageError("several formats need a folder: -o DIR")
        if options.format == ["pb"] and sys.stdout.isatty():
            raise UsageError("pb is a binary format: redirect the output to a file, or use -o DIR")
        if options.diff or options.cost or options.check:
            raise UsageError(
                "--format without -o writes a program to stdout: it cannot be combined with "
                "--diff, --cost or --check"
            )


# ------------------------------------------------------------------------------------------------ showing
def _show(job: Job, title: str, options: argparse.Namespace) -> int:
    colour = _colour()
    if options.json:
        return _data(job, options)
    if options.format and not options.output:
        _to_stdout(job, title, options)
        return 0
    if options.output:
        names = write_job(job, _roles(job, options), options.format or ["text"], options.output, title)
        sys.stdout.write(f"{len(names)} file{'s' if len(names) > 1 else ''} in {options.output}\n")
    if options.diff:
        sys.stdout.writelines(_diffs(job, options, colour))
    if options.cost:
        found = _cost(job, options)
        sys.stdout.write(f"{recommendation(found)}\n\n{cost_text(found, colour, options.full)}")
    if options.check:
        report = check(job)
        sys.stdout.write(f"{report}\n")
        return 0 if report.ok else 1
    if not (options.diff or options.cost):
        role = None if options.role is None else job.role(options.role)
        sys.stdout.write(roles_text(job, _cost(job, options), role, colour))
    return 0


def _data(job: Job, options: argparse.Namespace) -> int:
    """The estimate, the check, or both as one JSON object."""
    report = check(job) if options.check else None
    cost = cost_data(_cost(job, options)) if options.cost else {}
    found = cost if report is None else check_data(report)
    if cost and report is not None:
        found = {"plan": cost, "check": check_data(report)}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0 if report is None or report.ok else 1


def _cost(job: Job, options: argparse.Namespace) -> CostEstimate:
    """The cost of the job on the machines that were described."""
    usual = Port()
    port = Port(
        options.latency_us * 1e-6 if options.latency_us else usual.latency_s,
        options.gbits * 1e9 / 8 if options.gbits else usual.bytes_per_s,
    )
    return estimate(
        job,
        port,
        options.batch,
        options.sequence,
        options.compute_ms / 1e3 if options.compute_ms else None,
        options.gflops * 1e9 if options.gflops else None,
    )


def _verify(job: Job, feeds: Sequence[Mapping[str, object]], options: argparse.Namespace) -> int:
    """Run the job in this process and show what came of it."""
    from fluidlite.cli.proofs import proof_json, prove  # with the executor: 0.2 s that only proofs take

    proof = prove(job, feeds, options.batch, options.steps or STEPS, options.sequence, options.seed)
    sys.stdout.write(proof_json(proof) if options.format or options.json else f"{proof}\n")
    return 0 if proof.ok else 1


def _colour() -> bool:
    """Colours are for terminals, unless NO_COLOR (no-color.org) is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _roles(job: Job, options: argparse.Namespace) -> Sequence[JobRole]:
    return job.roles if options.role is None else [job.role(options.role)]


def _to_stdout(job: Job, title: str, options: argparse.Namespace) -> None:
    """One role's main program, or the page of the job."""
    (name,) = options.format
    role = job.roles[0] if options.role is None else job.role(options.role)
    if name == "html":
        data = job_page(job, title, exchange_of(job, options.batch)).encode()
    else:
        data = FORMATS[name].render(job.programs(role).main)
    sys.stdout.flush()
    sys.stdout.buffer.write(data if name == "pb" or data.endswith(b"\n") else data + b"\n")
    sys.stdout.buffer.flush()


def _diffs(job: Job, options: argparse.Namespace, colour: bool) -> Iterator[str]:
    """The asked role's difference; else those of the first trainer and the first server, which stand for
    the others.
    """
    baselines = {"main": Baseline(job.main), "startup": Baseline(job.startup)}
    first = {role.kind: role for role in reversed(job.roles)}
    roles = list(reversed(first.values())) if options.role is None else [job.role(options.role)]
    for role in roles:
        made = job.programs(role)
        place = f" at {role.endpoint}" if role.endpoint else ""
        for which, program in (("main", made.main), ("startup", made.startup)):
            text = diff_text(baselines[which].diff(program), colour)
            yield f"{role.name}{place}: {which} program against the original\n{text}\n"


if __name__ == "__main__":
    sys.exit(main())
