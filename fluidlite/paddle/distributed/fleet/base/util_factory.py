"""`fleet.util`: what a script of a job needs besides training."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fluidlite.base.errors import CommunicatorError

__all__ = ["UtilBase", "UtilFactory"]


class UtilBase:
    """Exchanges between the processes of a job, shares of its files, and printing by one of them.

    `comm_world` is "worker", "server" or "all".
    """

    def __init__(self) -> None:
        self.role_maker: Any = None
        self.dist_strategy: Any = None
        self.fs_client: Any = None

    def _set_strategy(self, dist_strategy: Any) -> None:
        self.dist_strategy = dist_strategy

    def _set_role_maker(self, role_maker: Any) -> None:
        self.role_maker = role_maker

    def _set_file_system(self, fs_client: Any) -> None:
        self.fs_client = fs_client

    def _role(self) -> Any:
        if self.role_maker is None:
            raise CommunicatorError("fleet.util is not initialised: call fleet.init() first")
        return self.role_maker

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        """The "sum", "max" or "min" of `input` (a number, a list, an array) over all processes."""
        return self._role()._all_reduce(input, mode, comm_world)

    def barrier(self, comm_world: str = "worker") -> None:
        """Wait for all processes."""
        self._role()._barrier(comm_world)

    def all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        """The values of all processes, by their numbers: what JSON can say, or arrays."""
        found: list[Any] = self._role()._all_gather(input, comm_world)
        return found

    def get_file_shard(self, files: list[str]) -> list[str]:
        """This worker's share of the files: neighbours, and the first workers get one more where they do not
        come out even.
        """
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        index = self._role()._worker_index()
        workers = self._role()._worker_num()
        each, more = divmod(len(files), workers)
        first = index * each + min(index, more)
        return files[first : first + each + (index < more)]

    def get_heter_file_shard(self, files: list[str]) -> list[str]:
        """The same: all workers are of one kind."""
        return self.get_file_shard(files)

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Print in worker `rank_id` alone."""
        if self._role()._worker_index() == rank_id:
            sys.stdout.write(f"{message}\n")


class UtilFactory:
    """Makes the tools of a job."""

    def _create_util(self, context: Mapping[str, Any] | None = None) -> UtilBase:
        util = UtilBase()
        util._set_strategy((context or {}).get("valid_strategy"))
        util._set_role_maker((context or {}).get("role_maker"))
        return util
