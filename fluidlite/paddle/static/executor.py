"""`paddle.static.Executor`: fluid's, on the place that `paddle.set_device` chose."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import to_numpy
from fluidlite.base.place import CPUPlace, Place
from fluidlite.base.tracebacks import shorten
from fluidlite.compiler import CompiledProgram
from fluidlite.executor import executor as fluid
from fluidlite.paddle.defaults import generator
from fluidlite.paddle.device import current_place, place_of
from fluidlite.paddle.programs import Program, default_main_program
from fluidlite.values.scope import Scope, global_scope

__all__ = ["Executor"]


class Executor(fluid.Executor):
    """Runs programs on `place`: CPUPlace(), "cpu", CUDAPlace(0), "gpu:0"; or where `set_device` says."""

    def __init__(self, place: Place | str | None = None) -> None:
        if isinstance(place, str):
            place = place_of(place)
        super().__init__(current_place() if place is None else place)
        self.random = generator().numbers

    def run(  # type: ignore[override]  # 2.x has no `return_merged`
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run `program` once, with the learning rate that its schedule has at the moment, and return the
        values in `fetch_list`; as `fluid.Executor.run` otherwise.
        """
        try:
            _set_learning_rate(program, global_scope() if scope is None else scope)
            return super().run(
                program,
                feed,
                fetch_list,
                feed_var_name,
                fetch_var_name,
                scope,
                return_numpy,
                use_program_cache,
                use_prune=use_prune,
            )
        except Exception as error:
            shorten(error)
            raise


def _set_learning_rate(program: Any, scope: Scope) -> None:
    """Put the learning rate of a program's schedule into the scope."""
    if isinstance(program, CompiledProgram):
        program = program._program
    program = default_main_program() if program is None else program
    if not isinstance(program, Program) or program.lr_scheduler is None or program.lr_var is None:
        return
    if program.global_block().has_var(program.lr_var.name):  # a clone for tests has dropped it
        rate = np.array(program.lr_scheduler(), to_numpy(program.lr_var.dtype))
        scope.var(program.lr_var.name).get_tensor().set(rate, CPUPlace())
