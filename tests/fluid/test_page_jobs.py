"""The page of a job, and of a saved model, in a browser: its processes first, ways from op to op across them,
the whole of a graph in sight, and pictures that are saved.
"""

from __future__ import annotations

import io
import pathlib
import time
import xml.etree.ElementTree

import numpy as np
import page_programs
import pytest
from page_browser import BROWSER_MARKS, LARGE, SMALL, Page, write
from PIL import Image

import fluidlite as fluid
from fluidlite import layers
from fluidlite.cli.show import main
from fluidlite.distributed.exchange import exchange_of
from fluidlite.transpiler.modes import make_job

pytestmark = BROWSER_MARKS
NAMES = "return [...document.querySelectorAll('.process .name')].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    target = tmp_path_factory.mktemp("jobs")
    for name in ("lenet", "resnet50"):
        write(target, name, name)
    write(target, "job", "resnet50", "--mode=pserver", "--trainers=8", "--pservers=4")
    write(target, "small_job", "lenet", "--mode=pserver", "--trainers=2", "--pservers=2")
    write(target, "ranks", "lenet", "--mode=grad_allreduce", "--trainers=4")
    saved = save_in_a_loop(target / "model")
    assert main([str(saved), "--output", str(target / "saved.html")]) == 0
    return target


def save_in_a_loop(path: pathlib.Path) -> pathlib.Path:
    """A model as scripts save it: in the loop of the training, by a release that marks no parameters."""
    main_program, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main_program, startup):
        x = fluid.data("x", [None, 13])
        guess = layers.fc(layers.fc(x, 32, act="relu"), 3, act="softmax")
        best = layers.fc(x, 1)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for _ in range(2):
            fluid.io.save_inference_model(str(path), ["x"], [guess, best], exe)
    saved = fluid.Program.parse_from_string((path / "__model__").read_bytes())
    desc = saved.desc if isinstance(saved.desc, bytes) else None
    assert desc is None or desc
    return unmarked(path / "__model__")


def unmarked(path: pathlib.Path) -> pathlib.Path:
    """The same program, whose file tells no parameter from another variable: PaddlePaddle 1.8.5's."""
    from fluidlite.ir.proto import framework_pb2

    desc = framework_pb2.ProgramDesc.FromString(path.read_bytes())
    for var in desc.blocks[0].vars:
        var.ClearField("is_parameter")
    path.write_bytes(desc.SerializeToString())
    return path
