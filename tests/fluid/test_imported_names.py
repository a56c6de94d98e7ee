"""Names that fluid's modules had only imported, and the names of imperative mode."""

import importlib
import re

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base import left_out
from fluidlite.base.errors import UnsupportedError
from fluidlite.base.imported_names import _READ_OFF


@pytest.mark.parametrize("door", sorted(_READ_OFF))
def test_every_imported_name_can_be_read(door):
    module = importlib.import_module(door)
    for name in _READ_OFF[door].split():
        assert getattr(module, name) is getattr(module, name)  # the same each time, whatever it is
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name


def test_they_are_the_names_themselves():
    assert fluid.layers.Variable is fluid.framework.Variable
    assert fluid.layers.core is fluid.core
    assert fluid.layers.nn.concat is fluid.layers.concat
    assert fluid.executor.Program is fluid.Program
    assert fluid.framework.core is fluid.core
    assert fluid.io.np is np
    with pytest.raises(AttributeError, match="did you mean 'concat'"):
        _ = fluid.layers.nn.concta


def test_imperative_mode_says_why_it_is_not_there():
    class Net(fluid.dygraph.Layer):
        def __init__(self):
            self.made = True

    for use in (fluid.dygraph.guard, fluid.enable_dygraph, fluid.enable_imperative, Net):
        with pytest.raises(UnsupportedError, match="static graphs only"):
            use()
    with pytest.raises(AssertionError, match="static graphs only"):  # what 1.8.5 raises out of that mode
        fluid.dygraph.to_variable(np.ones(1))
    assert fluid.dygraph.enabled() is False
    fluid.disable_dygraph()  # what there is already


@pytest.mark.parametrize("module", sorted(left_out._MODULES))
def test_each_module_that_is_left_out_has_its_names(module):
    home = module.removeprefix("fluid.") if module.startswith("fluid.") else module
    found = importlib.import_module(f"fluidlite.{home}")
    refused = left_out.left_out(module)
    assert set(refused.names) <= set(found.__all__) and found.__doc__.startswith(f"`{module}`")
    for name in refused.names:
        with pytest.raises(UnsupportedError, match=re.escape(refused.reason)):
            getattr(found, name)(1, key=2)
        assert isinstance(getattr(found, name), type) == (name in refused.classes)
        assert getattr(found, name) is getattr(importlib.import_module(found.__name__), name)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = found.no_such_name


@pytest.mark.parametrize("module", left_out.below("fluid.dygraph"))
def test_imperative_names_are_those_of_their_modules(module):
    home = importlib.import_module(f"fluidlite.{module.removeprefix('fluid.')}")
    for name in left_out.left_out(module).names:
        assert getattr(fluid.dygraph, name) is getattr(home, name)


def test_a_module_below_none_is_not_found():
    for name in ("fluidlite.paddle.sparse.more", "fluidlite.dygraph.layer", "fluidlite.sparse"):
        with pytest.raises(ModuleNotFoundError, match=re.escape(name)):
            importlib.import_module(name)


def test_no_grad_changes_nothing():
    assert fluid.dygraph.no_grad(abs) is abs
    with fluid.dygraph.no_grad():
        assert not fluid.in_dygraph_mode()


def test_parallel_environment_is_read_from_the_launcher(monkeypatch):
    for name, value in {
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ID": "1",
        "FLAGS_selected_gpus": "3",
        "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2",
        "PADDLE_CURRENT_ENDPOINT": "b:2",
    }.items():
        monkeypatch.setenv(name, value)
    found = fluid.dygraph.ParallelEnv()
    assert (found.nranks, found.local_rank, found.dev_id) == (2, 1, 3)
    assert (found.current_endpoint, found.trainer_endpoints) == ("b:2", ["a:1", "b:2"])


# names of Paddle's own servers and trainers -> how programs use them
LEFT_OUT = {
    "fluidlite.trainer_desc": "MultiTrainer",
    "fluidlite.trainer_factory": "TrainerFactory",
    "fluidlite.device_worker": "Hogwild",
    "fluidlite.distributed.fleet": "Fleet",
    "fluidlite.distributed.helper": "MPIHelper",
    "fluidlite.distributed.ps_instance": "PaddlePSInstance",
    "fluidlite.distributed.downpour": "DownpourSGD",
    "fluidlite.incubate.fleet.parameter_server.pslib": "PSLib",
}


@pytest.mark.parametrize("module", LEFT_OUT)
def test_parts_that_are_left_out_say_why(module):
    with pytest.raises(UnsupportedError, match="here"):
        getattr(importlib.import_module(module), LEFT_OUT[module])()


def test_fleet_of_pslib_is_refused_when_it_is_used():
    module = importlib.import_module("fluidlite.incubate.fleet.parameter_server.pslib")
    with pytest.raises(UnsupportedError, match="pslib.fleet.init: "):
        module.fleet.init()


def test_programs_as_code(capsys):
    code = fluid.transpiler.details.program_utils
    fluid.layers.fc(fluid.data("x", [2, 3]), 2)
    program = fluid.default_main_program()
    code.program_to_code(program)
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "{ // block 0" and text[-1] == "}"
    assert ["mul(" in text[-3], "elementwise_add(" in text[-2]] == [True, True]
    assert all(line.startswith(code.get_indent_space(1)) for line in text[1:-1] if line)
    split = fluid.transpiler.distribute_transpiler.same_or_split_var
    assert split("w.block0", "w") and split("w", "w") and not split("w2", "w")


def test_value_of_a_saved_variable(tmp_path):
    fluid.layers.create_parameter([2, 3], "float32", name="w")
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fluid.io.save_params(executor, str(tmp_path))
    utils = importlib.import_module("fluidlite.incubate.fleet.utils.utils")
    held = np.array(fluid.global_scope().find_var("w").get_tensor())
    np.testing.assert_array_equal(utils.load_var("w", [2, 3], "float32", str(tmp_path)), held)
    with pytest.raises(ValueError, match="wanted"):
        utils.load_var("w", [3, 2], "float32", str(tmp_path))


def test_graph_of_a_program(tmp_path):
    fluid.layers.fc(fluid.data("x", [2, 3]), 2)
    path = tmp_path / "net.dot"
    drawer = fluid.net_drawer
    drawer.draw_graph(fluid.default_startup_program(), fluid.default_main_program(), filename=path)
    assert path.read_text(encoding="utf8").startswith("digraph")
    assert drawer.unique_id() != drawer.unique_id()
