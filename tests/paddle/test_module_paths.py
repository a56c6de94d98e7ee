"""Paths of 2.x's modules that FluidLite has no file for, and the names of layers' inputs."""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.cli.scripts.elsewhere import _table
from fluidlite.cli.scripts.names import paddle_names

ROOT = pathlib.Path(__file__).parents[2]
RECORDED = json.loads(gzip.decompress((ROOT / "tests" / "golden" / "module_names_2x.json.gz").read_bytes()))


def test_the_table_is_that_of_the_modules() -> None:
    # in a process of its own: imports of `paddle` leave names in modules
    program = "import elsewhere; print(elsewhere.written(), end='')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT / "tests" / "house", capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "fluidlite" / "cli" / "scripts" / "elsewhere.txt").read_text()


def test_names_outlive_the_name_paddle() -> None:
    with paddle_names():
        import paddle as shown
        import paddle.utils.unique_name as names

        utils, amp = shown.utils, shown.amp
        assert shown.amp.grad_scaler.GradScaler is shown.amp.GradScaler
    assert utils.unique_name.generate is names.generate is fluid.unique_name.generate
    assert amp.grad_scaler.GradScaler is amp.GradScaler


def test_every_name_is_found() -> None:
    with paddle_names():
        for module, names in _table().items():
            found = importlib.import_module(module)
            for name, home in names.items():
                there = importlib.import_module(home)
                assert getattr(found, name) is getattr(there, name, sys.modules.get(f"{home}.{name}")), name


def test_no_module_takes_the_place_of_a_function() -> None:
    with paddle_names():
        for module in _table():
            package, _, name = module.rpartition(".")
            before = getattr(importlib.import_module(package), name, None)
            importlib.import_module(module)
            after = getattr(importlib.import_module(package), name)
            assert before is None or isinstance(before, ModuleType) or after is before, module


def test_ways_to_a_name() -> None:
    with paddle_names():
        import paddle as shown
        from paddle.framework.core import VarDesc
        from paddle.nn.layer.distance import PairwiseDistance

        assert PairwiseDistance is shown.nn.PairwiseDistance is shown.nn.layer.distance.PairwiseDistance
        assert shown.nn.loss.MSELoss is shown.nn.MSELoss
        assert shown.tensor.stat.mean is shown.mean
        assert shown.base.core is shown.fluid.core and VarDesc is shown.fluid.core.VarDesc
        with pytest.raises(AttributeError, match="has no attribute 'meen'"):
            shown.tensor.stat.meen  # noqa: B018
        with pytest.raises(ModuleNotFoundError, match="No module named 'paddle.tensor.stats'"):
            importlib.import_module("paddle.tensor.stats")


@pytest.mark.parametrize("name", sorted(RECORDED["inputs"]))
def test_inputs_have_names(name: str) -> None:
    layer, wanted = getattr(paddle.nn, name), RECORDED["inputs"][name]
    if layer.forward is paddle.nn.layer.base.Function.forward:
        assert [*layer._takes] == wanted
        return
    names = [*inspect.signature(layer.forward).parameters][1:]
    assert names == wanted


def test_inputs_by_name() -> None:
    paddle.enable_static()
    x, y = (paddle.static.data(name, [2, 3]) for name in "xy")
    paddle.nn.ReLU()(x=x)
    paddle.nn.MSELoss()(x, label=y)
    (op,) = (op for op in x.block.ops if op.type == "elementwise_sub")
    assert op.input("X") == ["x"] and op.input("Y") == ["y"]
    with pytest.raises(TypeError, match="ReLU takes x, but input is unknown"):
        paddle.nn.ReLU()(input=x)
