"""`fluid.contrib.memory_usage_calc`: an estimate of the memory that a program's results take."""

from __future__ import annotations

import math

from fluidlite.base.dtypes import to_numpy
from fluidlite.ir.program import Program

__all__ = ["memory_usage"]

LOW, HIGH = 0.05, 0.10  # what a device needs beside the results


def memory_usage(program: Program, batch_size: int) -> tuple[float, float, str]:
    """Least and most memory for the results of all ops of the global block, and their unit: "B", "KB" or
    "MB".

    Every result counts, as if nothing were ever freed; `Executor.explain` tells what a plan really holds.
    """
    if not isinstance(program, Program):
        raise TypeError(
            f"Calculating Memory Usage requires Program as its Parameter.But you passed in {type(program)}"
        )
    if batch_size <= 0:
        raise ValueError("The batch size need to be positive.")
    block = program.global_block()
    total = 0.0
    for name in dict.fromkeys(name for op in block.ops for name in op.output_arg_names):
        var = block.vars.get(name)
        if var is None or var.shape is None:
            continue
        if sum(dim < 0 for dim in var.shape) > 1:
            raise ValueError(f"Var {name} has more than one negative dim.")
        total += (
            math.prod(batch_size * -dim if dim < 0 else dim for dim in var.shape)
            * to_numpy(var.dtype).itemsize
        )
    unit = "B"
    for larger in ("KB", "MB"):
        if total > 1024:
            total, unit = total / 1024, larger
    return total * (1 + LOW), total * (1 + HIGH), unit
