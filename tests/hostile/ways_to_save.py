"""A network of equal parameters, and the ways to save and load it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fluidlite as fluid
import fluidlite.paddle as paddle

VARIABLES = 12


def network() -> fluid.Program:
    """Parameters that a save writes a file each of."""
    main = fluid.default_main_program()
    for number in range(VARIABLES):
        fluid.layers.create_parameter([3, 2], "float32", name=f"w{number}")
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    return main


def fill(main: fluid.Program, value: float) -> None:
    for var in main.all_parameters():
        tensor = fluid.global_scope().find_var(var.name).get_tensor()
        tensor.set(np.full(var.shape, value, "float32"), fluid.CPUPlace())


def held(main: fluid.Program) -> set[float]:
    found = [np.array(fluid.global_scope().find_var(var.name).get_tensor()) for var in main.all_parameters()]
    return {float(number) for array in found for number in np.unique(array)}


EXE = fluid.Executor(fluid.CPUPlace())
WAYS: dict[str, tuple[Callable[[fluid.Program, str], Any], Callable[[fluid.Program, str], Any]]] = {
    "a file each": (
        lambda main, path: fluid.io.save_persistables(EXE, path, main),
        lambda main, path: fluid.io.load_persistables(EXE, path, main),
    ),
    "one file": (
        lambda main, path: fluid.io.save_persistables(EXE, path, main, filename="all"),
        lambda main, path: fluid.io.load_persistables(EXE, path, main, filename="all"),
    ),
    "a program": (
        lambda main, path: fluid.save(main, path + "/m"),
        lambda main, path: fluid.load(main, path + "/m", EXE),
    ),
    "a program of 2.x": (
        lambda main, path: paddle.static.save(main, path + "/m"),
        lambda main, path: paddle.static.load(main, path + "/m"),
    ),
}
