"""`fluid.install_check`: whether a small program trains here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fluidlite import optimizer, unique_name
from fluidlite.base.imported_names import imported_names
from fluidlite.executor.executor import Executor
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, program_guard
from fluidlite.layers.arithmetic.products import fc
from fluidlite.layers.arithmetic.reduce import reduce_mean
from fluidlite.layers.loss import square_error_cost
from fluidlite.layers.tensors.inputs import data
from fluidlite.values.scope import Scope

__all__ = ["run_check"]


def run_check() -> None:
    """Train a linear layer for two steps; RuntimeError unless the loss falls. Says so on success."""
    main, startup, scope = Program(), Program(), Scope()
    startup.random_seed = 1
    with program_guard(main, startup), unique_name.guard():
        x, y = data("x", [2], dtype="float32"), data("y", [1], dtype="float32")
        loss = reduce_mean(square_error_cost(fc(x, 1), y))
        optimizer.SGD(0.1).minimize(loss)
        exe = Executor()
        exe.run(startup, scope=scope)
        feed = {"x": np.ones((4, 2), "float32"), "y": np.zeros((4, 1), "float32")}
        first, second = (
            float(exe.run(main, feed=feed, fetch_list=[loss], scope=scope)[0][0]) for _ in range(2)
        )
    if not second < first:
        raise RuntimeError(f"a linear layer does not learn here: loss {first}, then {second}")
    import sys

    sys.stdout.write(f"FluidLite works on {exe.place}.\n")


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
