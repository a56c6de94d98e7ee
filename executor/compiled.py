"""Programs with a way of running, which `Executor.run` takes where it takes a Program."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from fluidlite.ir.program import Program

if TYPE_CHECKING:
    from fluidlite.executor.executor import Executor

__all__ = ["Compiled"]


class Compiled(abc.ABC):
    """A program with its way of running, which `Executor.run` takes where it takes a Program."""

    _program: Program  # old programs read it by this name
    _is_inference: bool

    @property
    @abc.abstractmethod
    def _executor(self) -> Any:
        """The object that runs the program, once it is bound to a scope and a place; None before."""

    @abc.abstractmethod
    def _run(
        self,
        executor: Executor,
        feed: Any,
        fetch_list: Any,
        scope: Any,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """One step on `executor`; what is fetched, merged over devices or for each of them."""

    @abc.abstractmethod
    def _compile(self, scope: Any, place: Any) -> Any:
        """Bind the program to the scope and the place of its first run."""

    @abc.abstractmethod
    def _sharing_with(self, first: Any) -> Any:
        """A copy that has not run yet, with the variables on several devices of `first` unless it is None."""
