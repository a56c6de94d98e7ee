"""One framework in one process: reads lines `<file> <row> <size> <seconds>` from stdin, runs that op so long,
answers with the median milliseconds, or null and the reason. Its Python may be 3.7.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def program_of(fluid: Any, row: dict[str, Any], scope: Any) -> tuple[Any, list[str]]:
    """A program with the op, and its gradients, and what to fetch; its inputs are put into the scope once."""
    main = fluid.Program()
    block = main.global_block()
    inputs: dict[str, list[Any]] = {}
    for slot, value in row["inputs"].items():
        array, lengths = value if isinstance(value, tuple) else (value, None)
        shape = ((-1,) + array.shape[1:]) if lengths else array.shape
        var = block.create_var(
            name=slot, shape=shape, dtype=str(array.dtype), persistable=True, lod_level=len(lengths or ())
        )
        var.stop_gradient = False
        tensor = scope.var(slot).get_tensor()
        tensor.set(array, fluid.CPUPlace())
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
        inputs[slot] = [var]
    slots = [text.partition(":") for text in row["outputs"]]
    outputs = {
        slot: [block.create_var(name=slot + "_out", dtype=kind or "float32")] for slot, _, kind in slots
    }
    block.append_op(type=row["op"], inputs=inputs, outputs=outputs, attrs=row["attrs"])
    fetches = [slot + "_out" for slot, _, _ in slots]
    if row["grad"]:
        with fluid.program_guard(main):
            loss = fluid.layers.reduce_sum(block.var(fetches[0]))
            fetches += [
                var.name for var in fluid.gradients([loss], [inputs[slot][0] for slot in row["grad"]])
            ]
    return main, fetches


def step_of(fluid: Any, file: str, name: str, size: int) -> Callable[[], Any]:
    """One run of a row."""
    row = importlib.import_module("op_rows." + file).ROWS[name][size]()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    main, fetches = program_of(fluid, row, scope)
    return lambda: exe.run(main, fetch_list=fetches, scope=scope, return_numpy=False)


def median_ms(step: Callable[[], Any], seconds: float) -> float:
    """The median time of a run, after two that make plans and kernels."""
    step()
    step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def main() -> None:
    """Answer each line; the steps stay, so that a later round of the same row begins warm."""
    sys.path.insert(0, HERE)
    if sys.argv[1] == "fluidlite":
        import fluidlite as fluid
    else:
        import paddle.fluid as fluid
    answers, steps = os.fdopen(os.dup(1), "w"), {}
    os.dup2(2, 1)  # what the framework prints is no answer
    for line in sys.stdin:
        *key, seconds = json.loads(line)
        try:
            if tuple(key) not in steps:
                steps = {tuple(key): step_of(fluid, *key)}  # type: ignore[arg-type]
            answer: Any = median_ms(steps[tuple(key)], seconds)
        except Exception as error:  # a row that one of both cannot run is a row of the table
            answer = f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
