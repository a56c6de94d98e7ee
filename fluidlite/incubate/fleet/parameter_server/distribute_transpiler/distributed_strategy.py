"""Strategies of a parameter-server fleet: the mode of synchronisation, and the configuration of each part."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fluidlite.base.abstract import abstract
from fluidlite.base.errors import did_you_mean
from fluidlite.base.imported_names import imported_names
from fluidlite.base.strategies import BuildStrategy, ExecutionStrategy
from fluidlite.ir.warned import warn_user
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig

__all__ = [
    "AsyncStrategy",
    "DistributedStrategy",
    "GeoStrategy",
    "HalfAsyncStrategy",
    "StrategyFactory",
    "SyncStrategy",
    "TrainerRuntimeConfig",
]

# what a trainer's communicator may be told, with what it is told by default; as text, as in fluid. None: as
# many as CPU_NUM says
_RUNTIME: Mapping[str, str | None] = {
    "communicator_max_merge_var_num": None,
    "communicator_send_queue_size": None,
    "communicator_independent_recv_thread": "1",
    "communicator_min_send_grad_num_before_recv": None,
    "communicator_thread_pool_size": "5",
    "communicator_send_wait_times": "5",
    "communicator_is_sgd_optimizer": "1",
    "rpc_deadline": "180000",
    "rpc_retry_times": "3",
}
_IN_STEP = (
    "communicator_max_merge_var_num",
    "communicator_send_wait_times",
    "communicator_thread_pool_size",
    "communicator_send_queue_size",
)
_READ_IN: Mapping[DistributedMode | None, tuple[str, ...]] = {
    DistributedMode.SYNC: _IN_STEP,
    DistributedMode.HALF_ASYNC: _IN_STEP,
    DistributedMode.GEO: ("communicator_thread_pool_size", "communicator_send_wait_times"),
    DistributedMode.ASYNC: tuple(_RUNTIME),
    None: tuple(_RUNTIME),
}
_DUMPING: Mapping[str, Any] = {
    "dump_slot": False,
    "dump_converter": "",
    "dump_fields": [],
    "dump_file_num": 16,
    "dump_fields_path": "",
    "dump_param": [],
}


def _threads() -> str:
    return os.environ.get("CPU_NUM", "1")


class TrainerRuntimeConfig:
    """Options of a trainer's communicator; `runtime_configs` holds all of them, as text.

    The environment variables `FLAGS_communicator_max_merge_var_num` and so on change the defaults.
    """

    def __init__(self) -> None:
        self.mode: DistributedMode | None = None
        self.runtime_configs = {
            name: os.environ.get("FLAGS_" + name, default if default is not None else _threads())
            for name, default in _RUNTIME.items()
        }

    def get_communicator_flags(self) -> dict[str, str]:
        """Options that this mode reads.

        Trainers in step merge and queue as many gradients as they have threads: other numbers give way to
        that.
        """
        if self.mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC):
            for name in ("communicator_max_merge_var_num", "communicator_send_queue_size"):
                self.runtime_configs[name] = _threads()
        return {name: str(self.runtime_configs[name]) for name in _READ_IN[self.mode]}

    def display(self, configs: Mapping[str, Any]) -> str:
        """Such values as a table."""
        names = max(map(len, [*_RUNTIME, *configs])) + 3
        rows = [f"{name:<{names}}{value!s:<5}" for name, value in configs.items()]
        double, single = "=" * (names + 5), "-" * (names + 5)
        return "\n".join(
            ["", double, f"{'TrainerRuntimeConfig Overview':^{names}}Value", single, *rows, double, ""]
        )

    def __repr__(self) -> str:
        return self.display(self.get_communicator_flags())


class DistributedStrategy:
    """Base of the strategies: configurations of program, trainers, servers, building and executing.

    Each part is set from an object of its class, or from a dict of its fields; TypeError for anything else,
    ValueError for a field that it does not have. Derived classes then set what follows from how they keep in
    step.
    """

    def __init__(self) -> None:
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy, self._build_strategy = ExecutionStrategy(), BuildStrategy()
        self._execute_strategy.set_unasked(num_threads=int(_threads()))
        if int(_threads()) > 1:
            self._build_strategy.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
        self.debug_opt: dict[str, Any] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # fields of its parts, and misspelt ones: 1.8.5 keeps them, and they change nothing
        if not name.startswith("_") and name not in (*self.__dict__, "debug_opt"):
            near = did_you_mean(name, ["debug_opt"])
            warn_user(
                f"{type(self).__name__} has no field {name!r}: nothing reads it{near} (its parts are set by "
                f"set_program_config, set_trainer_runtime_config and their like)"
            )
        object.__setattr__(self, name, value)

    # ------------------------------------------------------------------ debugging
    def set_debug_opt(self, opt_info: Any) -> None:
        """Take what shall be dumped while training from data sets: `dump_fields`, `dump_param`, ...; nothing
        if it is not a dict.
        """
        given = isinstance(opt_info, dict)
        self.debug_opt = {name: opt_info.get(name, _DUMPING[name]) for name in _DUMPING} if given else None

    def get_debug_opt(self) -> dict[str, Any]:
        """Options of dumping; {} for none."""
        return self.debug_opt if self.debug_opt else {}

    # ------------------------------------------------------------------ the program
    def get_program_config(self) -> DistributeTranspilerConfig:
        """Configuration of the transpiler."""
        return self._program_config

    def set_program_config(self, config: Any) -> None:
        """Set the configuration of the transpiler."""
        self._program_config = _given(
            "program_config", config, DistributeTranspilerConfig, self._program_config
        )
        self.check_program_config()

    def check_program_config(self) -> None:
        """Set what follows from the strategy."""
        abstract(_UNKNOWN.format("check_program_config"))

    # ------------------------------------------------------------------ trainers
    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """Configuration of the trainers' communicators."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config: Any) -> None:
        """Set the configuration of the trainers' communicators."""
        if isinstance(config, dict):
            for name, value in config.items():
                _check_name("TrainerRuntimeConfig", name, self._trainer_runtime_config.runtime_configs)
                self._trainer_runtime_config.runtime_configs[name] = value
        else:
            self._trainer_runtime_config = _given(
                "trainer_runtime_config", config, TrainerRuntimeConfig, self._trainer_runtime_config
            )
        self.check_trainer_runtime_config()

    def check_trainer_runtime_config(self) -> None:
        """Set what follows from the strategy."""
        abstract(_UNKNOWN.format("check_trainer_runtime_config"))

    # ------------------------------------------------------------------ servers
    def get_server_runtime_config(self) -> ServerRuntimeConfig:
        """Configuration of the servers."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config: Any) -> None:
        """Set the configuration of the servers."""
        self._server_runtime_config = _given(
            "server_runtime_config", config, ServerRuntimeConfig, self._server_runtime_config
        )
        self.check_server_runtime_config()

    def check_server_runtime_config(self) -> None:
        """Set what follows from the strategy."""
        abstract(_UNKNOWN.format("check_server_runtime_config"))

    # ------------------------------------------------------------------ executing and building
    def get_execute_strategy(self) -> ExecutionStrategy:
        """Strategy by which the trainers' programs run."""
        return self._execute_strategy

    def set_execute_strategy(self, config: Any) -> None:
        """Set how the trainers' programs are run."""
        self._execute_strategy = _given("execute_strategy", config, ExecutionStrategy, self._execute_strategy)
        self.check_execute_strategy()

    def check_execute_strategy(self) -> None:
        """Set what follows from the strategy."""
        abstract(_UNKNOWN.format("check_execute_strategy"))

    def get_build_strategy(self) -> BuildStrategy:
        """Strategy by which the trainers' programs are compiled."""
        return self._build_strategy

    def set_build_strategy(self, config: Any) -> None:
        """Set how the trainers' programs are compiled."""
        self._build_strategy = _given("build_strategy", config, BuildStrategy, self._build_strategy)
        self.check_build_strategy()

    def check_build_strategy(self) -> None:
        """Set what follows from the strategy."""
        abstract(_UNKNOWN.format("check_build_strategy"))


_UNKNOWN = (
    "{} must be implemented by derived class. You should use StrategyFactory to create DistributedStrategy."
)


def _given(part: str, config: Any, kind: type, held: Any) -> Any:
    """The object that was given, or the one that is held with the fields of the dict that was given."""
    if isinstance(config, kind):
        return config
    if not isinstance(config, dict):
        raise TypeError(f"{part} only accept input type: dict or {kind.__name__}")
    for name, value in config.items():
        if not hasattr(held, name):
            _check_name(kind.__name__, name, [])
        setattr(held, name, value)
    return held


def _check_name(kind: str, name: str, names: Any) -> None:
    if name not in names:
        raise ValueError(f"{kind} doesn't have key: {name}{did_you_mean(str(name), list(names))}")


class _Strategy(DistributedStrategy):
    """A strategy is what it sets in each part."""

    MODE: ClassVar[DistributedMode]
    IN_STEP: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.check_program_config()
        self.check_trainer_runtime_config()
        self.check_server_runtime_config()
        self.check_build_strategy()
        self.check_execute_strategy()

    def check_program_config(self) -> None:
        """Set how the trainers keep in step: pieces are cut when they are sent, by the communicator."""
        config = self._program_config
        config.sync_mode = False
        config.runtime_split_send_recv = True
        config.half_async = self.IN_STEP
        config.completely_not_async = self.MODE is DistributedMode.SYNC
        if self.MODE is DistributedMode.GEO:
            config.geo_sgd_mode = True

    def check_trainer_runtime_config(self) -> None:
        """Set the mode."""
        self._trainer_runtime_config.mode = self.MODE

    def check_server_runtime_config(self) -> None:
        """Do nothing: this mode has no conditions on the servers."""

    def check_execute_strategy(self) -> None:
        """Threads of a trainer in step wait for each other."""
        self._execute_strategy.set_unasked(use_thread_barrier=self.IN_STEP)

    def check_build_strategy(self) -> None:
        """Threads of a trainer share the parameters."""
        self._build_strategy.async_mode = True


class SyncStrategy(_Strategy):
    """All trainers take each step together."""

    MODE, IN_STEP = DistributedMode.SYNC, True


class HalfAsyncStrategy(_Strategy):
    """The threads of one trainer take each step together; trainers do not wait for each other."""

    MODE, IN_STEP = DistributedMode.HALF_ASYNC, True


class AsyncStrategy(_Strategy):
    """Asynchronous training: gradients are sent and parameters received in the background, no barriers."""

    MODE = DistributedMode.ASYNC


class GeoStrategy(_Strategy):
    """Trainers train on their own, and exchange what has changed every `update_frequency` steps."""

    MODE = DistributedMode.GEO

    def __init__(self, update_frequency: int = 100) -> None:
        super().__init__()
        self._program_config.geo_sgd_need_push_nums = update_frequency


class StrategyFactory:
    """Makes strategies."""

    @staticmethod
    def create_sync_strategy() -> SyncStrategy:
        """A new `SyncStrategy`."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy() -> HalfAsyncStrategy:
        """A new `HalfAsyncStrategy`."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy() -> AsyncStrategy:
        """A new `AsyncStrategy`."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> GeoStrategy:
        """A new `GeoStrategy`."""
        return GeoStrategy(update_frequency)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
