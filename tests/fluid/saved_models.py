"""Models that are saved and loaded: those of 1.8.5 in tests/golden/models, and a small one of our own."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite import io
from fluidlite.values.tensor import LoDTensor, offsets_of

MODELS = pathlib.Path(__file__).parents[1] / "golden" / "models"
NAMES = sorted(path.name for path in MODELS.iterdir())


class Golden:
    """A model that 1.8.5 trained and saved."""

    def __init__(self, name: str) -> None:
        self.folder = MODELS / name
        with np.load(self.folder / "example.npz") as arrays:
            self.arrays = {key: arrays[key] for key in arrays.files}
        self.meta = json.loads(self.arrays["meta"].tobytes())
        self.program = fluid.Program.parse_from_string(self.arrays["program"].tobytes())

    @property
    def persistables(self) -> dict[str, np.ndarray]:
        return {
            key.removeprefix("persistable/"): value
            for key, value in self.arrays.items()
            if key.startswith("persistable/")
        }

    def feed(self) -> dict[str, Any]:
        lengths = self.meta["lengths"]
        return {
            name: LoDTensor(self.arrays["in/" + name], offsets_of(lengths[name]))
            if lengths[name]
            else self.arrays["in/" + name]
            for name in self.meta["feeds"]
        }


def held(names: Any) -> dict[str, np.ndarray]:
    return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].tobytes() == value.tobytes(), name


class Net:
    """A small net, trained for a step."""

    def __init__(self, exe: fluid.Executor) -> None:
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, self.startup):
            x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
            self.hidden = fluid.layers.fc(x, 3, act="relu")
            self.out = fluid.layers.fc(fluid.layers.dropout(self.hidden, 0.3), 1)
            self.loss = fluid.layers.mean(fluid.layers.square_error_cost(self.out, y))
            fluid.optimizer.Adam(0.1).minimize(self.loss)
        self.exe = exe
        exe.run(self.startup)
        self.x = np.random.RandomState(0).rand(5, 4).astype("float32")
        exe.run(self.main, feed={"x": self.x, "y": self.x[:, :1]}, fetch_list=[self.loss])

    def names(self, kind: Any = io.is_persistable) -> list[str]:
        return [var.name for var in self.main.list_vars() if kind(var)]

    def infer(self) -> np.ndarray:
        program = self.main.clone(for_test=True)
        return self.exe.run(program, feed={"x": self.x, "y": self.x[:, :1]}, fetch_list=[self.out.name])[0]


class Stop(Exception):
    """Stands for anything that goes wrong while a file is written."""
