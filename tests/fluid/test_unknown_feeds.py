"""A name that no variable of a program has, fed: compiled programs refuse it on any number of devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

X = np.ones((4, 3), "float32")


def compiled(loss: Any, places: int) -> Any:
    program = fluid.CompiledProgram(fluid.default_main_program())
    return program.with_data_parallel(loss.name, places=[fluid.CPUPlace()] * places) if places else program


def built() -> tuple[fluid.Executor, Any]:
    loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 3]), 2))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, loss


@pytest.mark.parametrize("places", [0, 1, 2])
@pytest.mark.parametrize("feed", [{"x": X, "nope": X}, {"nope": X}, [{"x": X, "nope": X}]])
def test_a_compiled_program_refuses_an_unknown_name(places: int, feed: Any) -> None:
    exe, loss = built()
    with pytest.raises(ValueError, match="var nope not in this block"):
        exe.run(compiled(loss, places), feed=feed, fetch_list=[loss])


def test_a_plain_program_leaves_it_out() -> None:
    exe, loss = built()
    with pytest.warns(UserWarning, match="nope is not found in program"):
        exe.run(feed={"x": X, "nope": X}, fetch_list=[loss])
