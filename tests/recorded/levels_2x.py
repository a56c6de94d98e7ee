"""The levels of detail that functions of 2.6.2 give for an operand with sequences: `levels_2x.json`.

Each line of `levels_2x.txt` is a name, a colon, and a call on x, [3, 2, 2] of two
sequences, or on x3, whose number of rows is declared. Under a Python
with PaddlePaddle 2.6.2, `cd tests && python recorded/levels_2x.py` records what they give; the same source
runs under FluidLite (`tests/paddle/test_levels_2x.py`): `paddle` and `fluid` are arguments.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).parent
PATH = HERE / "levels_2x.json"
LENGTHS = [[1, 2]]


def calls() -> dict[str, str]:
    """Name -> call."""
    lines = (HERE / "levels_2x.txt").read_text().splitlines()
    return {name: code.strip() for name, _, code in (line.partition(":") for line in lines)}


def observe(paddle: Any, fluid: Any, call: str, naive: bool = False) -> Any:
    """The number of levels that the result declares, and its sequence lengths."""
    static = paddle.static
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [-1, 2, 2], "float32", lod_level=1)
        x3 = static.data("x3", [3, 2, 2], "float32", lod_level=1)
        made = eval(call, {"paddle": paddle, "F": paddle.nn.functional, "x": x, "x3": x3})
    exe = static.Executor(fluid.CPUPlace())
    exe.naive = naive
    value = np.stack([np.eye(2) + 0.1] * 3).astype("float32")
    with static.scope_guard(static.Scope()):
        exe.run(startup)
        fed = {name: fluid.create_lod_tensor(value, LENGTHS, fluid.CPUPlace()) for name in ("x", "x3")}
        (found,) = exe.run(main, feed=fed, fetch_list=[made], return_numpy=False)
    return [made.lod_level, found.recursive_sequence_lengths()]


def load() -> dict[str, Any]:
    """Name -> what `observe` gives."""
    found: dict[str, Any] = json.loads(PATH.read_text())
    return found


def main() -> None:
    """Write what 2.6.2 gives."""
    import paddle
    import paddle.base as fluid

    paddle.enable_static()
    rows = (
        f"{json.dumps(name)}: {json.dumps(observe(paddle, fluid, call))}" for name, call in calls().items()
    )
    PATH.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
