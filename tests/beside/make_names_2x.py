"""Records the names of PaddlePaddle 2.6.2: `cd tests && python -m beside.make_names_2x`, with its Python."""

from __future__ import annotations

import importlib
import json
import pathlib

MODULES = [
    "paddle",
    "paddle.nn",
    "paddle.nn.functional",
    "paddle.nn.initializer",
    "paddle.nn.utils",
    "paddle.static",
    "paddle.static.nn",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.incubate",
    "paddle.incubate.nn",
    "paddle.incubate.nn.functional",
    "paddle.geometric",
    "paddle.vision.ops",
    "paddle.metric",
    "paddle.optimizer",
    "paddle.optimizer.lr",
    "paddle.regularizer",
    "paddle.audio.functional",
    "paddle.text",
]


def main() -> None:
    """Write `names_2x.json`: the names of each module, and those of a Variable as paddle.Tensor."""
    found = {module: sorted(set(importlib.import_module(module).__all__)) for module in MODULES}
    paddle = importlib.import_module("paddle")
    paddle.enable_static()
    variable = paddle.static.data("x", [2], "float32")
    found["paddle.Tensor"] = [name for name in dir(variable) if name not in dir(object)]
    target = pathlib.Path(__file__).with_name("names_2x.json")
    lines = [f"{json.dumps(module)}: {json.dumps(' '.join(names))}" for module, names in found.items()]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
