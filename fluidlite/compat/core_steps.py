"""Steps that programs take by hand through `fluid.core`: feeds and fetches, pruning, the profiler."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from fluidlite import profiler
from fluidlite.base.errors import NotFoundError
from fluidlite.base.place import Place
from fluidlite.compat.desc import ProgramDesc
from fluidlite.executor.by_desc import DescRunner
from fluidlite.executor.executor import Executor
from fluidlite.ir import prune as pruning
from fluidlite.reading.queues import BlockingQueue
from fluidlite.values.holders import get_fetch_variable, set_feed_variable
from fluidlite.values.scope import Scope, ScopeVariable
from fluidlite.values.tensor import LoDTensor

__all__ = [
    "CoreExecutor",
    "EventSortingKey",
    "ProfilerState",
    "TracerOption",
    "disable_profiler",
    "enable_profiler",
    "get_fetch_variable",
    "get_variable_tensor",
    "init_lod_tensor_blocking_queue",
    "is_profiler_enabled",
    "prune",
    "prune_backward",
    "set_feed_variable",
    "set_tracer_option",
]


class CoreExecutor(DescRunner):
    """`core.Executor`: runs the blocks of program descriptions on a place."""

    def __init__(self, place: Place) -> None:
        super().__init__(Executor(place._itself()))


# ------------------------------------------------------------------ values of a scope
def init_lod_tensor_blocking_queue(variable: ScopeVariable, capacity: int, is_ordered: bool) -> BlockingQueue:
    """A queue of batches, as the value of a variable of the scope; ordered or not, one process reads it."""
    queue = BlockingQueue(capacity)
    variable.set(queue)
    return queue


def get_variable_tensor(scope: Scope, var_name: str) -> LoDTensor:
    """The tensor of a variable of a scope."""
    found = scope.find_var(var_name)
    if found is None:
        raise NotFoundError(f"Variable {var_name} is not found in scope.")
    return found.get_tensor()


# ------------------------------------------------------------------ pruning
def prune(
    desc: ProgramDesc, feeded_var_names: Iterable[str], targets: Sequence[Sequence[int]]
) -> tuple[ProgramDesc, dict[int, int]]:
    """A copy with what the target ops need, and old block -> new block; `targets` are (block, position)."""
    program = desc.target
    ops = [program.blocks[block].ops[position] for block, position in targets]
    pruned = pruning.prune(program, ops, list(feeded_var_names))
    return ProgramDesc(pruned), {block.idx: block.idx for block in pruned.blocks}


def prune_backward(desc: ProgramDesc) -> tuple[ProgramDesc, dict[int, int]]:
    """A copy without backward pass and optimizer, and old block -> new block."""
    copy = desc.target.clone()
    before = list(copy.blocks)
    pruning.prune_backward(copy)
    kept = [index for index, block in enumerate(before) if any(block is other for other in copy.blocks)]
    return ProgramDesc(copy), {old: new for new, old in enumerate(kept)}


# ------------------------------------------------------------------ the profiler
class ProfilerState(enum.IntEnum):
    """The devices that are profiled."""

    kDisabled = 0
    kCPU = 1
    kCUDA = 2
    kAll = 3


class EventSortingKey(enum.IntEnum):
    """The order of a profile's table."""

    kDefault = 0
    kCalls = 1
    kTotal = 2
    kMin = 3
    kMax = 4
    kAve = 5


class TracerOption(enum.IntEnum):
    """How much of each op is profiled."""

    kDefault = 0
    kOpDetail = 1
    kAllOpDetail = 2


_STATES = {ProfilerState.kCPU: "CPU", ProfilerState.kCUDA: "GPU", ProfilerState.kAll: "All"}


def enable_profiler(state: ProfilerState) -> None:
    """Begin to record; nothing for kDisabled."""
    if state != ProfilerState.kDisabled:
        profiler.start_profiler(_STATES[state])


def disable_profiler(sorted_key: EventSortingKey, profile_path: str) -> None:
    """Stop recording, print the table and write the trace."""
    key = sorted_key.name.removeprefix("k").lower()
    profiler.stop_profiler(None if key == "default" else key, profile_path)


def is_profiler_enabled() -> bool:
    """True while runs are recorded."""
    return profiler.recorder.active


def set_tracer_option(option: TracerOption) -> None:
    """Check that it is an option: every op is recorded as a whole here."""
    TracerOption(option)
