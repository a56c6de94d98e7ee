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


def variables_of(fluid: Any, row: dict[str, Any], block: Any, scope: Any) -> dict[str, Any]:
    """The inputs as variables of the block, their values put into the scope once."""
    found: dict[str, Any] = {}
    for name, value in row["inputs"].items():
        array, lengths = value if isinstance(value, tuple) else (value, None)
        shape = ((-1,) + array.shape[1:]) if lengths else array.shape
        var = block.create_var(
            name=name, shape=shape, dtype=str(array.dtype), persistable=True, lod_level=len(lengths or ())
        )
        var.stop_gradient = array.dtype.kind != "f"
        tensor = scope.var(name).get_tensor()
        tensor.set(array, fluid.CPUPlace())
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
        found[name] = var
    return found


def append_op(block: Any, row: dict[str, Any], variables: dict[str, Any]) -> list[Any]:
    """The outputs of the op that a row names."""
    slots = [text.partition(":") for text in row["outputs"]]
    outputs = [block.create_var(name=slot + "_out", dtype=kind or "float32") for slot, _, kind in slots]
    block.append_op(
        type=row["op"],
        inputs={slot: [var] for slot, var in variables.items()},
        outputs={slot: [var] for (slot, _, _), var in zip(slots, outputs)},
        attrs=row["attrs"],
    )
    return outputs


def built(fluid: Any, row: dict[str, Any], variables: dict[str, Any]) -> list[Any]:
    """The outputs of the layers that a row calls."""
    found = row["build"](fluid, **variables)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def gradients_of(fluid: Any, row: dict[str, Any], target: Any, variables: dict[str, Any]) -> list[Any]:
    """Gradients of the sum of `target`: by the inputs that the row names, or all of them and parameters."""
    if not row["grad"]:
        return []
    sources = [variables[name] for name in row["grad"]] if isinstance(row["grad"], list) else []
    if not sources:
        sources = [var for var in variables.values() if not var.stop_gradient]
        sources += [var for var in fluid.default_main_program().all_parameters() if var.trainable]
    loss = fluid.layers.reduce_sum(target)
    return [var for var in fluid.gradients([loss], sources) if var is not None]


def step_of(fluid: Any, file: str, name: str, size: int) -> Callable[[], Any]:
    """One run of a row."""
    row = importlib.import_module("op_rows." + file).ROWS[name][size]()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        variables = variables_of(fluid, row, main.global_block(), scope)
        if "op" in row:
            outputs = append_op(main.global_block(), row, variables)
        else:
            outputs = built(fluid, row, variables)
        fetches = [var.name for var in outputs + gradients_of(fluid, row, outputs[0], variables)]
    exe.run(startup, scope=scope)
    # without its cache 1.8.5 prepares the program anew for each run, which hides what an op costs
    return lambda: exe.run(main, fetch_list=fetches, scope=scope, return_numpy=False, use_program_cache=True)


def median_ms(step: Callable[[], Any], seconds: float) -> float:
    """The median of a run's processor time, after some that make plans and kernels: compiled code is waited
    for in the fourth and the eighth, and what its compiler takes meanwhile is no part of a run.

    The processor's time and not the clock's, which grows with whatever else the machine does.
    """
    end = time.perf_counter() + 2 * seconds
    for number in range(10):
        step()
        if number > 2 and time.perf_counter() > end:
            break
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
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
