"""Proofs of random jobs of FluidLite by itself: its static check, a run beside one process, and programs that
come back from text, JSON and bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fluidlite as fluid
from beside.jobs import (
    Built,
    Job,
    build,
    config_of,
    endpoints_of,
    feeds_of,
    program_differences,
    program_facts,
)
from fluidlite.distributed.cluster import verify_job
from fluidlite.ir.program import Program
from fluidlite.ir.text import parse
from fluidlite.show.json import parse as parse_json
from fluidlite.show.json import program_json
from fluidlite.transpiler import make_job
from fluidlite.transpiler.check.report import check

NAMES = {"sync": "pserver", "async": "async", "half_async": "half_async", "geo": "geo_sgd"}


def prove(job: Job) -> Job:
    """Faults of a job of FluidLite by itself: {} for none, else the property and what it found.

    check: the static check reports something. verify: the job's end is not that of its reference. text, json,
    bytes: a role's program does not come back. devices: two devices end elsewhere than one.
    """
    found: Job = {}
    try:
        made = _programs_of(job)
        programs = {role.name: made.programs(role) for role in made.roles}
    except fluid.errors.TranspilerError as error:
        return {"refused": str(error)}
    _prove_static(found, made, programs)
    _prove_runs(found, made, job)
    _prove_devices(found, job)
    return found


def _prove_static(found: Job, made: Any, programs: Job) -> None:
    report = check(made)
    if not report.ok:
        found["check"] = str(report)
    for role, pair in programs.items():
        for name, program in (("main", pair.main), ("startup", pair.startup)):
            text = str(program)
            again = {
                "text": str(parse(text)) == text,
                "json": str(parse_json(program_json(program))) == text,
                "bytes": _survives_bytes(program),
            }
            for form in (form for form, same in again.items() if not same):
                found.setdefault(form, f"{role}.{name} is another program")


def _survives_bytes(program: Program) -> bool:
    """True if a program comes back from bytes, which fill in defaults once, and then say the same again."""
    read = Program.parse_from_string(program.desc.serialize_to_string())
    data = read.desc.serialize_to_string()
    same = not program_differences("", program_facts(program), program_facts(read))
    return same and Program.parse_from_string(data).desc.serialize_to_string() == data


def _prove_runs(found: Job, made: Any, job: Job) -> None:
    try:
        proof = verify_job(made, feeds_of(fluid, job))
        if not proof.equal and proof.rounding > WELL_CONDITIONED:
            proof = verify_job(_programs_of(calm(job)), feeds_of(fluid, job))
    except Exception as error:  # a job that ends early is what is looked for
        found["verify"] = f"{type(error).__name__}: {error}"
        return
    if not proof.ok and proof.rounding < LOST:
        found["verify"] = str(proof)


WELL_CONDITIONED = 3e-7  # what rounding may make of a job that is judged as it is
LOST = 0.1  # where rounding alone makes as much, as layer_norm of equal numbers does, nothing can be told


def calm(job: Job) -> Job:
    """The same job with steps that follow the gradient: signs, and roots of its square, make noise large."""
    return dict(job, optimizer=["SGD", {}], rate=0.01, schedule=None, regularizer=None)


def _programs_of(job: Job) -> Any:
    built = build(fluid, job)
    return make_job(
        built.main,
        built.startup,
        NAMES[job["mode"]],
        trainers=job["trainers"],
        endpoints=endpoints_of(job),
        sync_mode=job["mode"] == "sync",
        config=config_of(fluid, job),
    )


# layers of which two halves of a batch make something else than the whole
MIXING = frozenset(["batch_norm", "dropout"])


def _prove_devices(found: Job, job: Job) -> None:
    """Data parallel training on two devices beside one, where both compute the same."""
    if job["loss"] != "mean" or MIXING & {layer[1] for layer in job["layers"]} or job["trainers"] % 2:
        return
    built = build(fluid, calm(job))
    first: Job = {}
    ends = [_end_on(built, job, devices, first) for devices in (1, 2)]
    for name, value in ends[0].items():
        error = float(np.abs(ends[1][name] - value).max() / (np.abs(value).max() or 1.0))
        if not error < 1e-4:
            found["devices"] = f"{name} ends {error:.1e} apart"


def _end_on(built: Built, job: Job, devices: int, first: Job) -> Job:
    """The parameters after training on so many devices, from the values that `first` has or is given."""
    scope, exe = fluid.core.Scope(), fluid.Executor(fluid.CPUPlace())
    names = [param.name for param in built.main.all_parameters()]
    with fluid.scope_guard(scope):
        exe.run(built.startup)
        for name in names:
            held = scope.find_var(name).get_tensor()
            held.set(first.setdefault(name, np.array(held)), fluid.CPUPlace())
        program = built.main
        if devices > 1:
            loss = next(
                op.output_arg_names[0] for op in program.global_block().ops if op.attr("op_role") == 256
            )
            program = fluid.CompiledProgram(program).with_data_parallel(
                loss_name=loss, places=fluid.cpu_places(devices)
            )
        for feed in feeds_of(fluid, job):
            exe.run(program, feed=feed)
        return {name: np.array(scope.find_var(name).get_tensor()) for name in names}
