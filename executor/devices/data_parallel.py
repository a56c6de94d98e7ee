"""Runs of a program on several devices: their programs and scopes, and the way of a batch through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import (
    CommunicatorError,
    EOFException,
    NotFoundError,
    UninitializedError,
    did_you_mean,
)
from fluidlite.base.place import Place
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.transports import find_session
from fluidlite.executor.devices.batches import merged, share_out
from fluidlite.executor.devices.parallel import Devices
from fluidlite.executor.fetching import as_numpy, present, split_fetches
from fluidlite.executor.run.feeding import check_declared_size
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, host, rebinds

__all__ = ["DevicePrograms", "Divide", "RunOptions", "Runner"]


class DevicePrograms(Protocol):
    """Programs for the devices of one process, made from one version of a program."""

    @property
    def makers(self) -> Program | None:
        """The ops that make readers, which the devices share: they run once, on the first device."""

    @property
    def shared(self) -> frozenset[str]:
        """Persistable variables that all devices use in one place, each written by one of them."""

    @property
    def own(self) -> Sequence[Sequence[str]]:
        """For each device the persistable variables of which it has its own."""

    @property
    def readers(self) -> Sequence[str]:
        """The variables that `read` ops take batches from."""

    @property
    def partial(self) -> frozenset[str]:
        """Those of which the last batches are read too where they are fewer than the devices."""

    def made_by(self, name: str) -> int | None:
        """The one device that makes a variable; None where each makes its own."""

    def programs_for(self, fetches: Iterable[str]) -> Sequence[Program]:
        """The program of each device, for a run that fetches these variables."""


class Divide(Protocol):
    """Division of the user's program, as it is now, among devices."""

    def __call__(self, devices: int, one_memory: bool) -> DevicePrograms:
        """The programs of so many devices, which may have one memory."""


@dataclass(frozen=True)
class RunOptions:
    """The part of a build and an execution strategy that a run depends on.

    Attributes
    ----------
    steps: steps that one call takes, all with the same batch.
    dry: nothing is run; fetches are None.
    trains: the devices wait for each other, so that none of them can be left out of a batch.
    starts: gradients of losses that every device is fed, because the program has no op that makes them.
    trainer, trainers: the number of this process among those that train together, and how many these are.
    """

    steps: int
    dry: bool
    trains: bool
    starts: tuple[str, ...] = ()
    trainer: int = 0
    trainers: int = 1


class _NextBatch:
    """A reader of one batch, put in by `Runner` before each run: what a device's `read` op takes from."""

    def __init__(self) -> None:
        self.batch: list[LoDTensor] = []

    def read_next(self) -> list[LoDTensor]:
        """The batch."""
        return self.batch


class Runner:
    """A program on several devices, in one scope; with `shared`, on the variables that each device of
    another program has.
    """

    def __init__(
        self,
        program: Program,
        divide: Divide,
        options: RunOptions,
        places: Sequence[Place],
        scope: Scope,
        shared: Runner | None,
    ) -> None:
        self.shared = shared
        self.program = program
        self.divide = divide
        self.options = options
        self.scope = scope
        scopes = [
            Scope(scope if shared is None else shared.devices.scopes[index]) for index in range(len(places))
        ]
        self.devices: Devices = Devices(places, scopes)
        self.one_memory = len(set(places)) == 1  # CPU places, or the same CUDA device again and again
        self.division: DevicePrograms | None = None
        self.own: list[list[str]] = []  # for each device the variables of which it has its own
        self.readers: dict[str, list[_NextBatch]] = {}
        self.partial: frozenset[str] = frozenset()  # readers whose last batches may be too few for all
        self.version = -1
        self.seen = (-1, -1, -1)  # how often the user's variables may have been changed from outside
        self.held: dict[str, tuple[Any, int]] = {}  # what they held when the devices were given copies

    def close(self) -> None:
        """End the devices' threads."""
        self.devices.close()

    def run(
        self, executor: Any, feed: Any, fetch_list: Any, return_numpy: bool, return_merged: bool
    ) -> list[Any]:
        """A step (or as many as the options say, all with this batch); the fetches of the last."""
        names, _ = split_fetches(fetch_list)
        self._check(names, feed)
        feeds = share_out(self.program.global_block(), feed, self.devices.places, self.options.trains)
        if self.options.dry:
            return [None] * len(names)
        division = self.prepare()
        feeds = self._keep(feeds)
        for _ in range(self.options.steps):
            parts = feeds[: self._read(len(feeds))]
            found = self._step(division, parts, names, executor.naive)
            self._note()
        if return_merged:
            return [_presented(value, return_numpy) for value in merged(names, found)]
        return [[_presented(values[index], return_numpy) for values in found] for index in range(len(names))]

    def _step(
        self, division: DevicePrograms, feeds: Sequence[Mapping[str, Any]], names: Sequence[str], naive: bool
    ) -> list[list[Any]]:
        """A step; for each device the fetches, of which it may leave some to another one to make."""
        made = {name: division.made_by(name) for name in names}
        fetches = [[name for name in names if made[name] in (None, device)] for device in range(len(feeds))]
        found = self.devices.run(division.programs_for(names), feeds, fetches, naive)
        values = [dict(zip(*pair, strict=True)) for pair in zip(fetches, found, strict=True)]
        return [[values[_first(made[name], device)][name] for name in names] for device in range(len(feeds))]

    def _check(self, names: Iterable[str], feed: Any) -> None:
        block = self.program.global_block()
        parts = feed if isinstance(feed, (list, tuple)) else [feed or {}]
        for name in self.options.starts:
            if not all(isinstance(part, Mapping) and name in part for part in parts):
                raise UninitializedError(
                    f"variable {name!r} holds no value: with GradientScaleStrategy.Customized, "
                    "feed the initial gradient of the loss to every device"
                )
        for name in names:
            if block._find_var_recursive(name) is None:
                raise NotFoundError(
                    f"Cannot find fetched variable({name}) in current computation graph: the program has no "
                    f"such variable"
                    f"{did_you_mean(name, list(block.vars))}"
                )

    def _keep(self, feeds: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Put what was fed to persistable variables where they live, for this run and later ones; the
        other feeds.
        """
        kept = _persistable_feeds(self.program, feeds)
        for index, feed in enumerate(feeds):
            for name in kept & feed.keys():
                self._give(index, name, feed[name])
        if kept:
            self._note()
        return [{name: value for name, value in feed.items() if name not in kept} for feed in feeds]

    def _give(self, index: int, name: str, value: Any) -> None:
        """Set a persistable variable of one device, which from now on has one of its own."""
        scope = self.devices.scopes[index]
        shared = index > 0 and isinstance(self.program.global_block()._var_recursive(name), Parameter)
        if shared and name not in self.own[index]:
            return  # device 0 has been given the same
        if index > 0 and name not in self.own[index]:
            self.own[index].append(name)
            scope.var(name)
        tensor = (scope.find_var(name) or self.scope.var(name)).get_tensor()
        tensor.set(_of_declared_size(self.program, name, value))
        tensor._lod = value._lod if isinstance(value, LoDTensor) else ()

    def _read(self, count: int) -> int:
        """Take a batch for each device, before any of them begins: at the end of the data none has done
        half a step. Gives the number of devices that have one, which may be smaller where `read` says that
        the last batches are not dropped and the devices do not wait for each other.
        """
        for name, batches in self.readers.items():
            held = self.scope.find_var(name)
            if held is None or not hasattr(held.value, "read_next"):
                raise UninitializedError(
                    f"reader {name!r} does not exist: run the startup program, which creates it"
                )
            # a batch for each device that takes part, and none for the others: it would be lost
            for index, batch in enumerate(batches[:count]):
                try:
                    batch.batch = held.value.read_next()
                except EOFException:
                    if index == 0 or self.options.trains or name not in self.partial:
                        raise
                    count = index
                    break
        return count

    # ------------------------------------------------------------------ getting ready
    def prepare(self) -> DevicePrograms:
        """Make the devices' programs and scopes, again where the program has changed; give them what the
        user has changed.
        """
        if self.shared is not None:
            self.shared.prepare()
        division = self.division
        if division is None or self.version != self.program.version:
            division = self.division = self._divided()
            self.version = self.program.version
            self._declare(division)
            self._join(division)
        if self.seen != self._state():
            self._hand_out()
            self._note()
        return division

    def _divided(self) -> DevicePrograms:
        """The program as it is now, divided among the devices; readers that it makes are made."""
        division = self.divide(len(self.devices.places), self.one_memory)
        if division.makers is not None:
            self.devices.executors[0].run(division.makers, scope=self.scope)
        self.own = [
            [name for name in names if not self._shares(index, name)]
            for index, names in enumerate(division.own)
        ]
        self.readers = {name: [_NextBatch() for _ in self.devices.places] for name in division.readers}
        self.partial = division.partial
        return division

    def _shares(self, index: int, name: str) -> bool:
        """True if the program with which this one shares its variables has one of this name for device
        `index`.
        """
        return index > 0 and self.shared is not None and name in self.shared.own[index]

    def _state(self) -> tuple[int, int, int]:
        # three counters, compared at each run in place of all variables of the user
        return rebinds.count, rebinds.sets, self.scope.runs

    def _declare(self, division: DevicePrograms) -> None:
        """A place for each variable: device 0's, and those that all devices see, are the user's."""
        for name in division.shared:
            if self.scope.find_var(name) is None:
                self.scope.var(name)
        for index, scope in enumerate(self.devices.scopes):
            for name in self.own[index]:
                if index > 0:
                    scope.var(name)
                elif scope.find_var(name) is None:
                    self.scope.var(name)
            for name, batches in self.readers.items():
                scope.var(name).set(batches[index])

    def _join(self, division: DevicePrograms) -> None:
        """Meet the other processes, where there are several, and take the variables of the first."""
        if self.options.trainers == 1:
            return
        outer = find_session(needs_servers=False)
        if outer is None:
            raise CommunicatorError(
                f"num_trainers is {self.options.trainers}, but this process is not connected to "
                "other processes: start the job with mpirun, or as roles of a local cluster"
            )
        if 0 not in outer.rings:
            outer.join(0, self.options.trainer, self.options.trainers)
        ring = outer.ring(0)
        for name in sorted({*self.own[0], *division.shared}):
            held = self.scope.find_var(name)
            if held is not None and isinstance(held.value, LoDTensor) and held.value.array is not None:
                held.value.set(ring.broadcast(host(held.value.array), 0))

    def _hand_out(self) -> None:
        """Give the other devices copies of those of their own variables that the user, or another program,
        has changed.
        """
        # another program has run in the user's scope, and plans write to arrays without anybody counting
        everything = self.seen[2] != self.scope.runs
        for index, scope in enumerate(self.devices.scopes[1:], 1):
            for name in self.own[index]:
                held = self.scope.find_var(name)
                if (
                    held is not None
                    and held.is_initialized()
                    and (everything or self.held.get(name) != _mark(held.value))
                ):
                    _copy(held.value, scope.var(name))

    def _note(self) -> None:
        """Remember what the user's variables hold, since it is what the devices have."""
        state = self._state()
        if self.seen != state:
            found = {name: self.scope.find_var(name) for names in self.own[1:] for name in names}
            self.held = {name: _mark(held.value) for name, held in found.items() if held is not None}
            self.seen = state


def _persistable_feeds(program: Program, feeds: Iterable[Mapping[str, Any]]) -> set[str]:
    """The persistable dense variables that are fed."""
    block = program.global_block()
    fed = {name for feed in feeds for name in feed}
    return {
        name
        for name in fed
        if (var := block._find_var_recursive(name)) is not None
        and var.persistable
        and var.type == VarType.LOD_TENSOR
    }


def _of_declared_size(program: Program, name: str, value: Any) -> Any:
    """A fed array in the declared type; FeedError where the variable must have another number of elements."""
    var = program.global_block()._var_recursive(name)
    array = np.asarray(value.array if isinstance(value, LoDTensor) else value, to_numpy(var.dtype))
    check_declared_size(var, array)
    return array


def _first(maker: int | None, device: int) -> int:
    return device if maker is None else maker


def _mark(value: Any) -> tuple[int, int]:
    """Another pair where another array is held, or `set` has written to it."""
    return (id(value.array), value._sets) if isinstance(value, LoDTensor) else (id(value), 0)


def _copy(value: Any, target: Any) -> None:
    if isinstance(value, LoDTensor):
        target.get_tensor().set(host(value.array))
        target.value._lod = value._lod
    elif isinstance(value, SelectedRows):
        target.set(SelectedRows(value.ids.copy(), value.height(), value.array.copy()))
    elif isinstance(value, LoDTensorArray):
        target.set(LoDTensorArray(LoDTensor(item.array.copy(), item._lod) for item in value))
    else:
        target.set(value)


def _presented(value: Any, return_numpy: bool) -> Any:
    if isinstance(value, LoDTensor):
        return present(value.array, value._lod, return_numpy) if return_numpy else value
    return as_numpy(value) if return_numpy and isinstance(value, LoDTensorArray) else value
