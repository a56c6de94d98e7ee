"""The modes: the ways in which the processes of a job train together, each an object in a file of its own.

`MODES` is the list that the command, scripts, proofs, estimates and the documentation go through. A new mode
is a file with a subclass of `TrainingMode`, and one line here.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes.async_ import Async
from fluidlite.transpiler.modes.geo_sgd import GeoSgd
from fluidlite.transpiler.modes.grad_allreduce import GradAllReduceMode
from fluidlite.transpiler.modes.half_async import HalfAsync
from fluidlite.transpiler.modes.job import CommunicatorNeed, Job, Reference, TrainingMode, endpoints_of
from fluidlite.transpiler.modes.local import Local
from fluidlite.transpiler.modes.local_sgd import LocalSgdMode
from fluidlite.transpiler.modes.multi_thread import MultiThreadMode
from fluidlite.transpiler.modes.nccl2 import Nccl2
from fluidlite.transpiler.modes.pserver import Pserver
from fluidlite.transpiler.modes.single_process_multi_thread import SingleProcessMultiThreadMode

__all__ = [
    "LOCAL",
    "MODES",
    "NO_MODE",
    "CommunicatorNeed",
    "Job",
    "TrainingMode",
    "Reference",
    "all_modes",
    "make_job",
    "mode_called",
    "mode_names",
    "mode_of_config",
]

MODES: tuple[TrainingMode, ...] = (
    Pserver(),
    Async(),
    HalfAsync(),
    GeoSgd(),
    GradAllReduceMode(),
    Nccl2(),
    LocalSgdMode(),
    SingleProcessMultiThreadMode(),
    MultiThreadMode(),
)
LOCAL = Local()
"""No job: what scripts are started in by themselves."""
NO_MODE = "none"
"""Another name for it, for those who want to see a program and have no job in mind."""


def all_modes() -> tuple[TrainingMode, ...]:
    """The modes of jobs, as they are now: whoever lists or names modes asks here."""
    return MODES


def mode_names() -> tuple[str, ...]:
    """The names of all modes."""
    return tuple(mode.name for mode in all_modes())


def mode_called(name: str) -> TrainingMode:
    """The mode of that name; TranspilerError with the nearest one."""
    known: dict[str, TrainingMode] = {mode.name: mode for mode in (*all_modes(), LOCAL)}
    if name == NO_MODE:
        return LOCAL
    if name not in known:
        raise TranspilerError(f"no mode {name!r}{did_you_mean(name, known)} (modes: {', '.join(known)})")
    return known[name]


def mode_of_config(config: DistributeTranspilerConfig) -> TrainingMode:
    """The mode that fluid's configuration asks for, by `mode` and, where several share that, by
    `collective_mode`; TranspilerError with the nearest name.
    """
    wanted = str(config.mode)
    asked = [mode for mode in all_modes() if mode.config_mode]
    shared = {mode.name: mode for mode in asked if mode.config_mode == wanted}
    if not shared:
        known = list(dict.fromkeys(mode.config_mode for mode in asked))
        raise TranspilerError(
            f"no mode {config.mode!r}{did_you_mean(wanted, known)} (config.mode is one of {', '.join(known)})"
        )
    if len(shared) == 1:
        return next(iter(shared.values()))
    name = config.collective_mode
    if name not in shared:
        raise TranspilerError(
            f"invalid collective_mode: {name}{did_you_mean(str(name), shared)} (one of {', '.join(shared)})"
        )
    return shared[str(name)]


def _asynchronous(mode: TrainingMode, config: DistributeTranspilerConfig) -> TrainingMode:
    """The mode whose trainers go on by themselves; one process has nobody to wait for."""
    found = mode.asynchronous(config)
    if found.in_step and mode is not LOCAL:
        raise TranspilerError(
            f"mode {mode.name} has no asynchronous variant: its trainers synchronise at each step"
        )
    return found


def make_job(
    main: Program,
    startup: Program,
    mode: str | TrainingMode = "pserver",
    trainers: int | None = None,
    endpoints: int | str | Sequence[str] = 2,
    sync_mode: bool = True,
    config: DistributeTranspilerConfig | None = None,
) -> Job:
    """The distributed form of a training program.

    Parameters
    ----------
    mode: the name of one of `MODES`, or a mode.
    trainers: how many processes train (default: 2; mode "local" has one).
    endpoints: "ip:port,ip:port" of the servers (modes with servers) or of the trainers (the others), or how
        many there are: then 127.0.0.1:6174 and the ports after it. Without servers there are always as many
        as trainers.
    sync_mode: all trainers take each step together; False turns "pserver" into "async" or "half_async".

    TranspilerError where these do not fit together.
    """
    chosen = mode_called(mode) if isinstance(mode, str) else mode
    given = config or DistributeTranspilerConfig()
    if not sync_mode:
        chosen = _asynchronous(chosen, given)
    if trainers is None:
        trainers = 1 if chosen is LOCAL else 2
    if isinstance(trainers, bool) or not isinstance(trainers, int) or trainers < 1:
        raise TranspilerError(f"trainers should be a positive number, not {trainers!r}")
    of_trainers = isinstance(endpoints, int) and not chosen.has_servers
    places = endpoints_of(trainers if of_trainers else endpoints)
    if not chosen.has_servers and len(places) != trainers:
        raise TranspilerError(
            f"mode {chosen.name!r} has no servers: {trainers} trainers need as many endpoints, "
            f"not {len(places)}"
        )
    return Job(main, startup, chosen, trainers, places, chosen.configured(given))
