"""Configuration of a job, with fluid's names, types and defaults."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.strategies import DistributedMode
from fluidlite.ir.warned import warn_user

__all__ = ["DistributedMode", "DistributeTranspilerConfig", "ServerRuntimeConfig"]


class DistributeTranspilerConfig:
    """Choices of how `DistributeTranspiler` cuts a program up.

    Attributes
    ----------
    slice_var_up: cut parameters into pieces for several servers (default True).
    split_method: `RoundRobin` (default) or `HashName`: which server gets a piece.
    min_block_size: a piece has at least this many elements (default 8192).
    enable_dc_asgd: servers correct delayed gradients (asynchronous only).
    mode: "pserver" (default), "nccl2" or "collective".
    collective_mode: "grad_allreduce", "local_sgd" or "single_process_multi_thread", with mode "collective".
    wait_port: `get_trainer_program` waits until the servers listen.
    runtime_split_send_recv: pieces are cut when they are sent, not by ops of the program (asynchronous only).
    sync_mode, half_async, completely_not_async, geo_sgd_mode, geo_sgd_need_push_nums: how the trainers keep
        in step.
    nccl_comm_num, use_hierarchical_allreduce, hierarchical_allreduce_inter_nranks: rings of mode "nccl2".
    bucket_bytes: gradients travel together in all-reduces of about so many bytes (collective modes; 0: each
        alone, as in fluid).

    `make` refuses names that are none of these.
    """

    slice_var_up: bool = True
    split_method: type | None = None
    min_block_size: int = 8192
    enable_dc_asgd: bool = False
    mode: str = "pserver"
    collective_mode: str | None = None
    print_log: bool = False
    wait_port: bool = True
    half_async: bool = False
    completely_not_async: bool = False
    geo_sgd_mode: bool = False
    geo_sgd_need_push_nums: int = 100
    nccl_comm_num: int = 1
    use_hierarchical_allreduce: bool = False
    hierarchical_allreduce_inter_nranks: int = 0
    bucket_bytes: int = 0

    def __init__(self) -> None:
        # each of the two is checked against the other when it is set, with fluid's own messages
        self._runtime_split_send_recv = False
        self._sync_mode = True

    def __setattr__(self, name: str, value: Any) -> None:
        # 1.8.5 keeps any attribute, and a misspelt one changes nothing
        if not name.startswith("_") and name not in self.names():
            near = did_you_mean(name, self.names())
            warn_user(f"{type(self).__name__} has no field {name!r}, so setting it has no effect{near}")
        object.__setattr__(self, name, value)

    @property
    def runtime_split_send_recv(self) -> bool:
        """True if pieces are cut when they are sent; ValueError for None, and for True while `sync_mode`
        is True.
        """
        return self._runtime_split_send_recv

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value: bool) -> None:
        if value is None:
            raise ValueError("runtime_split_send_recv can't be None")
        if value and self._sync_mode:
            raise ValueError(
                "if you want to set runtime_split_send_recv to be true, make ensure config.sync_mode is "
                "false at first"
            )
        self._runtime_split_send_recv = value

    @property
    def sync_mode(self) -> bool:
        """True if all trainers take each step together; ValueError for None, and for True while pieces are
        cut at run time.
        """
        return self._sync_mode

    @sync_mode.setter
    def sync_mode(self, value: bool) -> None:
        if value is None:
            raise ValueError("sync_mode can't be None")
        if value and self._runtime_split_send_recv:
            raise ValueError(
                "if you want to set sync_mode to be true, make ensure config.runtime_split_send_recv is "
                "false at first"
            )
        self._sync_mode = value

    @classmethod
    def names(cls) -> list[str]:
        """The names of all fields."""
        return sorted(
            name
            for name, value in vars(cls).items()
            if not name.startswith("_")
            and not isinstance(value, classmethod)
            and (isinstance(value, property) or not callable(value))
        )

    def copy(self) -> DistributeTranspilerConfig:
        """The same choices in an object of their own."""
        config = DistributeTranspilerConfig()
        config.__dict__.update(self.__dict__)
        return config

    def waiting(self, sync_mode: bool) -> DistributeTranspilerConfig:
        """A copy with this `sync_mode`, whatever `runtime_split_send_recv` is: a job's mode decides."""
        config = self.copy()
        config._sync_mode = sync_mode
        return config

    @classmethod
    def make(cls, **fields: Any) -> DistributeTranspilerConfig:
        """A configuration with these fields; TranspilerError with the nearest name for one that it does
        not have.
        """
        config = cls()
        for name in sorted(fields, key=lambda field: field != "sync_mode"):  # others are checked against it
            if name not in cls.names():
                raise TranspilerError(
                    f"DistributeTranspilerConfig has no field {name!r}{did_you_mean(name, cls.names())}"
                )
            setattr(config, name, fields[name])
        return config


class ServerRuntimeConfig:
    """Numbers of threads that a server has for each kind of request."""

    def __init__(self) -> None:
        # fluid's numbers where its FLAGS_rpc_*_thread_num are not set
        self._rpc_send_thread_num = 12
        self._rpc_get_thread_num = 12
        self._rpc_prefetch_thread_num = 12

    def attributes(self) -> dict[str, int]:
        """The attributes of `listen_and_serv` that say so."""
        return {
            "rpc_get_thread_num": self._rpc_get_thread_num,
            "rpc_send_thread_num": self._rpc_send_thread_num,
            "rpc_prefetch_thread_num": self._rpc_prefetch_thread_num,
        }
