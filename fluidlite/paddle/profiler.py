"""`paddle.profiler`: when to record what runs take, and how to show it. What is recorded are the ops of
executors, and the spans of `RecordEvent`.
"""

from __future__ import annotations

import enum
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from fluidlite.base.errors import FormatError
from fluidlite.base.records import dataclass
from fluidlite.ir import framework_pb
from fluidlite.profiler import Profile, TimedOp, message_of, recorder, timeline_messages, write_whole
from fluidlite.values.serialize import file_bytes

__all__ = [
    "Profiler",
    "ProfilerState",
    "ProfilerTarget",
    "RecordEvent",
    "SortedKeys",
    "SummaryView",
    "export_chrome_tracing",
    "export_protobuf",
    "load_profiler_result",
    "make_scheduler",
]


class ProfilerState(enum.Enum):
    """States of a profiler: in the last one it records, and shows what it has recorded afterwards."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


class ProfilerTarget(enum.Enum):
    """Devices."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


class SortedKeys(enum.Enum):
    """Orders of a summary: times on the host, and on devices."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


SummaryView = enum.Enum(  # type: ignore[misc]  # nine names, each of which is its own number
    "SummaryView",
    "DeviceView OverView ModelView DistributedView KernelView OperatorView MemoryView "
    "MemoryManipulationView UDFView",
    start=0,
)
# of a summary by SortedKeys -> of a table of fluid
_COLUMNS = {"Total": "total", "Avg": "ave", "Max": "max", "Min": "min"}


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerState]:
    """A function from the number of a step to a state: behind `skip_first` steps, `closed` steps without
    recording, `ready` steps before it and `record` steps of it follow each other, `repeat` times (0: always).
    """
    assert closed >= 0 and ready >= 0 and record > 0 and repeat >= 0 and skip_first >= 0, (
        "Invalid profiler scheduler arguments"
    )
    period = closed + ready + record

    def state(step: int) -> ProfilerState:
        at = step - skip_first
        if at < 0 or (repeat > 0 and at >= repeat * period):
            return ProfilerState.CLOSED
        at %= period
        if at < closed:
            return ProfilerState.CLOSED
        if at < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD_AND_RETURN if at == period - 1 else ProfilerState.RECORD

    return state


def _file(dir_name: str, worker_name: str | None, suffix: str) -> str:
    os.makedirs(dir_name, exist_ok=True)
    worker = worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}"
    now = time.strftime("%Y_%m_%d_%H_%M_%S") + f"_{time.time_ns() // 1000 % 1_000_000}"
    return os.path.join(dir_name, f"{worker}_time_{now}.paddle_trace.{suffix}")


def export_chrome_tracing(dir_name: str, worker_name: str | None = None) -> Callable[[Profiler], None]:
    """For `on_trace_ready`: write a file for chrome://tracing into a folder."""
    return lambda profiler: profiler.export(_file(dir_name, worker_name, "json"), "json")


def export_protobuf(dir_name: str, worker_name: str | None = None) -> Callable[[Profiler], None]:
    """For `on_trace_ready`: write a file for `load_profiler_result` into a folder."""
    return lambda profiler: profiler.export(_file(dir_name, worker_name, "pb"), "pb")


def load_profiler_result(filename: str) -> Profile:
    """The profile that `export` wrote in the format "pb"; FormatError for another file."""
    message = timeline_messages()["Profile"]()
    try:
        message.ParseFromString(file_bytes(filename))
    except framework_pb.DecodeError as error:
        raise FormatError(f"{filename} is not a profile: {error}") from error
    spans = [
        TimedOp(event.name, event.detail_info, event.start_ns / 1e9, event.end_ns / 1e9, event.device_id)
        for event in message.events
    ]
    return Profile(spans)


class RecordEvent:
    """A span of the user's between `begin` and `end`, or of a `with`; recorded while a profiler records."""

    def __init__(self, name: str, event_type: Any = None) -> None:
        self.name, self.event_type = name, event_type
        self._began: float | None = None

    def begin(self) -> None:
        """Begin the span."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """End the span; nothing without a beginning."""
        if self._began is not None and recorder.active:
            recorder.record(self.name, "", self._began, time.perf_counter())
        self._began = None

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(self, *unused: Any) -> None:
        self.end()


@dataclass
class _StepTimes:
    """Times of steps since the last `step_info`, in seconds, and how many samples they had."""

    times: list[float] = field(default_factory=list)
    samples: int = 0

    def text(self, unit: str) -> str:
        if not self.times:
            return ""
        mean = sum(self.times) / len(self.times)
        rate = f" ips: {self.samples / sum(self.times):.3f} {unit}/s" if self.samples else ""
        return f" batch_cost: {mean:.5f} s{rate}"


class Profiler:
    """Records while its scheduler says so; `step` goes on to the next step.

    scheduler: from the number of a step to a state, or the first step and the one behind the last; without it
    all steps are recorded. on_trace_ready: is called with the profiler when a recording is complete.
    timer_only: measure steps, and record nothing. The other switches concern devices.
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Callable[[int], ProfilerState] | tuple[int, int] | None = None,
        on_trace_ready: Callable[[Profiler], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: list[str] | None = None,
        with_flops: bool = False,
    ) -> None:
        self.targets = [ProfilerTarget.CPU] if targets is None else list(targets)
        self.scheduler = _scheduler(scheduler)
        self.on_trace_ready, self.timer_only = on_trace_ready, timer_only
        self.step_num, self.current_state = 0, ProfilerState.CLOSED
        self.profiler_result: Profile | None = None
        self._steps, self._began, self._first = _StepTimes(), 0.0, 0

    def start(self) -> None:
        """Begin with the first step."""
        self._began = time.perf_counter()
        self._enter(self.scheduler(self.step_num))

    def stop(self) -> None:
        """End the last step; a recording that is not complete is shown as well."""
        if self._is_recording():
            self._show()
        self.current_state = ProfilerState.CLOSED

    def step(self, num_samples: int | None = None) -> None:
        """Go on to the next step; `num_samples` is how many the last one had."""
        now = time.perf_counter()
        self._steps.times.append(now - self._began)
        self._steps.samples += num_samples or 0
        self._began = now
        self.step_num += 1
        if self.current_state == ProfilerState.RECORD_AND_RETURN:
            self._show()
        self._enter(self.scheduler(self.step_num))

    def step_info(self, unit: str | None = None) -> str:
        """Seconds a step, and samples a second, since the last call."""
        text, self._steps = self._steps.text(unit or "samples"), _StepTimes()
        return text

    def _is_recording(self) -> bool:
        return self.current_state in (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)

    def _enter(self, state: ProfilerState) -> None:
        was_recording, self.current_state = self._is_recording(), state
        if self._is_recording() and not was_recording and not self.timer_only:
            self._first = len(recorder.events)
            recorder.active = True

    def _show(self) -> None:
        """Keep what was recorded, and call the user."""
        self.current_state = ProfilerState.CLOSED
        if self.timer_only:
            return
        recorder.active = False
        self.profiler_result = Profile(recorder.events[self._first :])
        del recorder.events[self._first :]
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _result(self, function: str) -> Profile:
        if self.profiler_result is None:
            raise ValueError(
                f"Profiler.{function}: nothing was recorded; call it behind stop(), or in on_trace_ready"
            )
        return self.profiler_result

    def export(self, path: str = "", format: str = "json") -> None:
        """Write what was recorded: "json" for chrome://tracing, "pb" for `load_profiler_result`."""
        found = self._result("export")
        if format not in ("json", "pb"):
            raise ValueError(f"Profiler.export: format is 'json' or 'pb', not {format!r}")
        if format == "json":
            found.save_trace(path)
        else:
            write_whole(path, message_of(found.events).SerializeToString())

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: Any = None,
    ) -> None:
        """Print a table by type of op and name of span, the largest first."""
        found = self._result("summary")
        column = next(column for word, column in _COLUMNS.items() if sorted_by.name.endswith(word))
        sys.stdout.write(f"{Profile(found.events, column)}\n")

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *unused: Any) -> None:
        self.stop()


def _scheduler(given: Any) -> Callable[[int], ProfilerState]:
    """The function of a step that `scheduler=` means; ValueError for what is none."""
    if given is None:
        return lambda step: ProfilerState.RECORD
    if callable(given):
        made: Callable[[int], ProfilerState] = given
        return made
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not 0 <= given[0] < given[1]:
        raise ValueError(f"scheduler is a function, or two steps such as (1, 3), not {given!r}")
    start, end = given
    ready = 1 if start >= 1 else 0
    return make_scheduler(closed=start - ready, ready=ready, record=end - start, repeat=1)
