"""`paddle.distributed.InMemoryDataset`, `QueueDataset`: fluid's data sets with 2.x's way to set them up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite import dataset as fluid_dataset
from fluidlite.base.errors import ArgumentError, did_you_mean
from fluidlite.ir.warned import warn_user

__all__ = ["CountFilterEntry", "InMemoryDataset", "ProbabilityEntry", "QueueDataset", "ShowClickEntry"]

# settings of all data sets, each with what `init` takes where nothing is said
_SETTINGS: dict[str, Any] = {
    "batch_size": 1,
    "thread_num": 1,
    "use_var": [],
    "pipe_command": "cat",
    "input_type": 0,
    "fs_name": "",
    "fs_ugi": "",
    "download_cmd": "cat",
}
_IN_MEMORY: dict[str, Any] = {
    "merge_size": -1,
    "parse_ins_id": False,
    "parse_content": False,
    "fleet_send_batch_size": None,
    "fleet_send_sleep_seconds": None,
    "fea_eval": False,
    "candidate_size": 10000,
    "data_feed_type": "MultiSlotInMemoryDataFeed",
    "queue_num": -1,
}


def _apply(dataset: Any, given: Mapping[str, Any]) -> None:
    """Give a data set some settings of all data sets."""
    if given.get("input_type", 0) not in (0, 1):
        raise ArgumentError(
            f"input_type is {given['input_type']!r}, but only 0 and 1 (lines of slots) are supported"
        )
    setters = {
        "batch_size": dataset.set_batch_size,
        "thread_num": dataset.set_thread,
        "pipe_command": dataset.set_pipe_command,
        "download_cmd": dataset.set_download_cmd,
    }
    for name, setter in setters.items():
        if name in given:
            setter(given[name])
    if "use_var" in given:
        dataset.use_vars.clear()
        del dataset.proto_desc.multi_slot_desc.slots[:]
        dataset.set_use_var(given["use_var"])
    if "fs_name" in given or "fs_ugi" in given:
        dataset.set_hdfs_config(given.get("fs_name", ""), given.get("fs_ugi", ""))


def _apply_in_memory(dataset: Any, given: Mapping[str, Any]) -> None:
    """Give a data set some settings of those in memory."""
    if given.get("merge_size", -1) > 0:
        dataset.set_merge_by_lineid(given["merge_size"])
    if given.get("fea_eval"):
        dataset.set_fea_eval(given.get("candidate_size", _IN_MEMORY["candidate_size"]), True)
    setters = {
        "parse_ins_id": dataset.set_parse_ins_id,
        "parse_content": dataset.set_parse_content,
        "fleet_send_batch_size": dataset.set_fleet_send_batch_size,
        "fleet_send_sleep_seconds": dataset.set_fleet_send_sleep_seconds,
        "data_feed_type": dataset.set_feed_type,
        "queue_num": dataset.set_queue_num,
    }
    for name, setter in setters.items():
        if given.get(name) is not None:
            setter(given[name])


def _check(kind: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Warn of settings that nobody reads: 2.6.2 says nothing of them."""
    for name in given:
        if name not in known:
            warn_user(f"{kind} has no setting {name!r}{did_you_mean(name, known)}", category=UserWarning)


class _PrivateSetters:
    """Fluid's setters under the names that 2.x gives them, such as `_set_queue_num`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_set_"):
            return getattr(self, name.removeprefix("_"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class QueueDataset(_PrivateSetters, fluid_dataset.QueueDataset):
    """Samples are read while they are used, in the order of the files."""

    def init(self, **kwargs: Any) -> None:
        """Set it up: batch_size, thread_num, use_var (the variables that fields are fed to), pipe_command,
        fs_name, fs_ugi, download_cmd.
        """
        _check("QueueDataset", kwargs, _SETTINGS)
        _apply(self, {**_SETTINGS, **kwargs})


class InMemoryDataset(_PrivateSetters, fluid_dataset.InMemoryDataset):
    """Samples are read into memory first (`load_into_memory`), where they can be shuffled, also among the
    workers of a job.
    """

    def init(self, **kwargs: Any) -> None:
        """Set it up: what QueueDataset takes, data_feed_type and queue_num."""
        _check("InMemoryDataset", kwargs, {**_SETTINGS, **_IN_MEMORY})
        _apply(self, {**_SETTINGS, **kwargs})
        _apply_in_memory(self, {"queue_num": _IN_MEMORY["queue_num"], **kwargs})

    def _init_distributed_settings(self, **kwargs: Any) -> None:
        """Settings of jobs: merge_size, parse_ins_id, parse_content, fea_eval, candidate_size, and how
        samples are sent.
        """
        _check("InMemoryDataset", kwargs, _IN_MEMORY)
        _apply_in_memory(self, kwargs)

    def update_settings(self, **kwargs: Any) -> None:
        """Change some settings, and leave the others."""
        _check("InMemoryDataset", kwargs, {**_SETTINGS, **_IN_MEMORY})
        _apply(self, kwargs)
        _apply_in_memory(self, kwargs)

    def set_date(self, date: str) -> None:
        """Take the day of the samples, "20201001", which only tables of GPU servers would read."""
        if not re.fullmatch(r"\d{8}", date):
            raise ArgumentError(f"date is {date!r}, but it should have 8 digits: year, month and day")

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Read all files, and shuffle the samples if asked to."""
        super().load_into_memory()
        if is_shuffle:
            self.local_shuffle()

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Deal the samples of all workers of `fleet` out again; without it, shuffle those that are here."""
        super().global_shuffle(None if fleet is None else _FluidFleet(fleet), thread_num)

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """The number of samples here, or with `fleet` with all workers."""
        return super().get_memory_data_size(None if fleet is None else _FluidFleet(fleet))

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """The number of samples after the last global shuffle, here or with `fleet` with all workers."""
        return super().get_shuffle_data_size(None if fleet is None else _FluidFleet(fleet))


class _FluidFleet:
    """The workers of 2.x's fleet as fluid's data sets ask for them: it is its own role maker."""

    def __init__(self, fleet: Any) -> None:
        self.fleet = fleet
        self._role_maker = self

    def worker_num(self) -> int:
        """How many there are."""
        return int(self.fleet.worker_num())

    def worker_index(self) -> int:
        """Which one this is."""
        return int(self.fleet.worker_index())

    def _gather(self, world: str, data: bytes) -> list[bytes]:
        found = self.fleet.util.all_gather(np.frombuffer(data, np.uint8), "worker")
        return [np.asarray(part).tobytes() for part in found]

    def barrier_worker(self) -> None:
        """Do nothing: the exchange behind it waits for all."""

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """The sum over all workers, written to `output`."""
        output[...] = self.fleet.util.all_reduce(input, "sum", "worker")


# ---------------------------------------------------------------------- which rows of a table are kept
class ProbabilityEntry:
    """A row of a sparse table is kept with this probability."""

    def __init__(self, probability: float) -> None:
        if not isinstance(probability, float):
            raise ValueError("probability must be a float in (0,1)")
        if not 0 < probability < 1:
            raise ValueError("probability must be a float in (0,1)")
        self._name = "probability_entry"
        self._probability = probability

    def _to_attr(self) -> str:
        return f"{self._name}:{self._probability}"


class CountFilterEntry:
    """A row of a sparse table is kept once it has come so often."""

    def __init__(self, count_filter: int) -> None:
        if not isinstance(count_filter, int):
            raise ValueError("count_filter must be a valid integer greater than 0")
        if count_filter < 0:
            raise ValueError("count_filter must be a valid integer greater or equal than 0")
        self._name = "count_filter_entry"
        self._count_filter = count_filter

    def _to_attr(self) -> str:
        return f"{self._name}:{self._count_filter}"


class ShowClickEntry:
    """The variables that say how often a row of a sparse table was shown, and clicked."""

    def __init__(self, show_name: str, click_name: str) -> None:
        if not isinstance(show_name, str) or not isinstance(click_name, str):
            raise ValueError("show_name click_name must be a str")
        self._name = "show_click_entry"
        self._show_name = show_name
        self._click_name = click_name

    def _to_attr(self) -> str:
        return f"{self._name}:{self._show_name}:{self._click_name}"
