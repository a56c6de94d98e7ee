"""The devices of a compiled program, fed and run in steps of their own, under Paddle's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fluidlite.executor.devices.data_parallel import Runner
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensorArray

__all__ = ["DeviceSteps"]


class DeviceSteps:
    """The devices that `CompiledProgram._compile_data_parallel` makes: they are fed, and then run."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._feed: Any = None  # of the next run, and of those after it until something else is fed

    def device_count(self) -> int:
        """The number of devices."""
        return len(self.runner.devices.places)

    def local_scopes(self) -> list[Scope]:
        """The scope of each device."""
        return list(self.runner.devices.scopes)

    def feed_and_split_tensor_into_local_scopes(self, feed: Mapping[str, Any]) -> None:
        """Feed a batch, of which each device gets a part."""
        self._feed = dict(feed)

    def feed_tensors_into_local_scopes(self, feeds: Sequence[Mapping[str, Any]]) -> None:
        """Feed a batch to each device."""
        self._feed = [dict(feed) for feed in feeds]

    def run(self, fetch_names: Sequence[str], return_merged: bool = True) -> Any:
        """A step; the fetched tensors, merged or for each device."""
        first = self.runner.devices.executors[0]
        return LoDTensorArray(self.runner.run(first, self._feed, list(fetch_names), False, return_merged))

    def _need_create_local_exe_scopes(self) -> bool:
        """True if the buffers of earlier runs were freed, or there were none."""
        return not any(executor._plans for executor in self.runner.devices.executors)

    def drop_local_exe_scopes(self) -> None:
        """Free the buffers of earlier runs."""
        self.runner.devices.drop()
