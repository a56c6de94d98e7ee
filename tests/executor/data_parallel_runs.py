"""Small jobs for several CPU devices, and what they hold."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import data_parallel_programs as programs
import numpy as np

import fluidlite as fluid

X = np.random.default_rng(1).standard_normal((12, 5)).astype("float32")
Y = np.random.default_rng(2).standard_normal((12, 1)).astype("float32")
FEED = {"x": X, "y": Y}


def job(exe: Any, name: str = "sgd", make: Callable[..., Any] | None = None) -> SimpleNamespace:
    """A program of data_parallel_programs, or one that `make` builds, in a scope of its own."""
    item = (
        programs.Case(name, make, None)
        if make
        else next(case for case in programs.CASES if case.name == name)
    )
    main, startup, loss, fetches = programs.build(fluid, item)
    scope = fluid.Scope()
    exe.run(startup, scope=scope)
    programs.initialise(fluid, main, scope)
    return SimpleNamespace(main=main, startup=startup, loss=loss, fetches=fetches, scope=scope)


def on(devices: int, found: SimpleNamespace, build: Any = None, run: Any = None, **more: Any) -> Any:
    return fluid.CompiledProgram(found.main).with_data_parallel(
        found.loss.name, build, run, places=fluid.cpu_places(devices), **more
    )


def held(found: SimpleNamespace) -> dict[str, Any]:
    return {name: np.array(found.scope.find_var(name).get_tensor()) for name in found.scope.local_var_names()}
