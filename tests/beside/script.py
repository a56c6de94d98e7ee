"""A case as a script of its own, which prints what it gets: `fl`, `pp` (1.8.5) or `pd` (2.6.2) as
argument.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from beside.language import Case, array_text, statements

__all__ = ["script"]

HEAD = {
    "18": ["import paddle.fluid as fluid", "import operator as op"],
    "26": ["import operator as op, paddle", "import paddle.base as fluid", "paddle.enable_static()"],
}
DATA = {"18": "fluid.data", "26": "paddle.static.data"}
EXECUTOR = {"18": "fluid", "26": "paddle.static"}
GRADIENTS = {"18": "fluid.gradients", "26": "paddle.static.gradients"}


def script(case: Case, remarks: list[str]) -> str:
    """The source; `remarks` stand in its docstring, such as what differs."""
    return "\n".join(_lines(copy.deepcopy(case), remarks)) + "\n"


def _lines(case: Case, remarks: list[str]) -> Iterator[str]:
    door = case["door"]
    yield '"""' + "\n".join(line.replace('"""', "'''").replace("\\", "/") for line in remarks) + '"""'
    yield "import sys, numpy as np"
    yield 'if sys.argv[1:] == ["fl"]: import fluidlite; fluidlite.install_as_paddle(shadow=True)'
    yield from HEAD[door]
    feeds = []
    for name, feed in case["feeds"].items():
        level = len(feed.get("lengths", ()))
        lod = f", lod_level={level}" if level else ""
        yield f'{name} = {DATA[door]}("{name}", {feed["declared"]}, "{feed["dtype"]}"{lod})'
        if not feed["stop"]:
            yield f"{name}.stop_gradient = False"
        array = array_text(feed)
        value = f"fluid.create_lod_tensor({array}, {feed['lengths']}, fluid.CPUPlace())" if level else array
        feeds.append(f'    "{name}": {value},')
    yield from statements(case["calls"])
    yield f"fetches = [{', '.join(case['outputs'])}]"
    if case["wrt"]:
        targets, inputs = f"[{', '.join(case['outputs'])}]", f"[{', '.join(case['wrt'])}]"
        yield f"fetches += [g for g in {GRADIENTS[door]}({targets}, {inputs}) if g is not None]"
    system = EXECUTOR[door]
    place = "fluid.CPUPlace()" if door == "18" else "paddle.CPUPlace()"
    yield f"exe = {system}.Executor({place})"
    yield f"exe.run({system}.default_startup_program())"
    yield "feed = {"
    yield from feeds
    yield "}"
    yield "for value in exe.run(feed=feed, fetch_list=fetches, return_numpy=False):"
    yield "    print(np.array(value).tolist(), value.recursive_sequence_lengths())"
