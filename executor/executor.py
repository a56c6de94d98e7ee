"""`Executor`: runs programs on a place."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.executor.interpreter import Frame, Interpreter, missing
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.place import CPUPlace
from fluidlite.scope import Scope, global_scope
from fluidlite.tensor import LoDTensor, SelectedRows, host

__all__ = ["Executor", "global_scope"]


class Executor:
    """Runs programs on `place` (default: the CPU). PROVISIONAL: the plan-based executor replaces this file."""

    def __init__(self, place: Any = None) -> None:
        self.place = place if place is not None else CPUPlace()
        self.random = np.random.default_rng()

    def close(self) -> None:
        """End the job."""

    def run(self, program: Any = None, feed: Any = None, fetch_list: Any = None, feed_var_name: str = "feed",
            fetch_var_name: str = "fetch", scope: Scope | None = None, return_numpy: bool = True,
            use_program_cache: bool = False, return_merged: bool = True, use_prune: bool = False) -> list[Any]:
        """Run `program` once with `feed` (name -> array or LoDTensor) and return the values in `fetch_list`."""
        program = program if program is not None else default_main_program()
        assert isinstance(program, Program)
        scope = scope or global_scope()
        interpreter = Interpreter(self.place, scope, self.random)
        frame = Frame(program.global_block(), scope)
        for name, value in (feed or {}).items():
            _feed(frame, name, value)
        with np.errstate(all="ignore"):
            interpreter.run_block(program.global_block(), frame)
        return [_fetch(frame, item, return_numpy) for item in _names(fetch_list)]


def _names(fetch_list: Any) -> list[str]:
    items = fetch_list if isinstance(fetch_list, (list, tuple)) else ([] if fetch_list is None else [fetch_list])
    return [item.name if isinstance(item, Variable) else item for item in items]


def _feed(frame: Frame, name: str, value: Any) -> None:
    var = frame.block.var(name)
    if isinstance(value, LoDTensor):
        frame.values[name], frame.lods[name] = value.array, value._lod
        return
    from fluidlite.dtypes import to_numpy
    frame.values[name] = np.asarray(value, dtype=to_numpy(var.dtype) if not hasattr(value, "dtype") else None)


def _fetch(frame: Frame, name: str, return_numpy: bool) -> Any:
    value = frame.find(name)
    if value is None:
        raise missing(frame.block.ops[-1], "fetch", name, frame)
    if isinstance(value, (list, SelectedRows)):
        return value
    return host(value).copy() if return_numpy else LoDTensor(host(value).copy(), frame.lod(name))
