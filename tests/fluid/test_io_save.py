"""`fluid.save` and `fluid.load`, their pickles, and the state of a program."""

from __future__ import annotations

import os
import pathlib
import pickle
import warnings

import numpy as np
import pytest
from saved_models import Net, assert_same, held

import fluidlite as fluid
from fluidlite import io
from fluidlite.errors import FormatError
from fluidlite.saving.pickles import dump_arrays, load_arrays


@pytest.fixture
def net(exe: fluid.Executor) -> Net:
    return Net(exe)


# ------------------------------------------------------------------------------------------------ fluid.save
def test_save_and_load(net: Net, tmp_path: pathlib.Path) -> None:
    before = held(net.names())
    prefix = str(tmp_path / "a" / "model")
    fluid.save(net.main, prefix)
    assert sorted(os.listdir(tmp_path / "a")) == ["model.pdmodel", "model.pdopt", "model.pdparams"]
    state = fluid.load_program_state(prefix)
    assert_same({name: state[name] for name in before}, before)
    for path in (prefix, prefix + ".pdparams", prefix + ".pdopt", prefix + ".pdmodel"):
        net.exe.run(net.startup)
        fluid.load(net.main, path, net.exe)
        assert_same(held(before), before)
    net.exe.run(net.startup)
    fluid.set_program_state(net.main, state)
    assert_same(held(before), before)


def test_what_fluid_save_writes_is_a_pickle_of_protocol_2(net: Net, tmp_path: pathlib.Path) -> None:
    fluid.save(net.main, str(tmp_path / "model"))
    data = (tmp_path / "model.pdparams").read_bytes()
    assert data[:2] == b"\x80\x02" and b"numpy.core.multiarray" in data and b"_core" not in data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2 calls the module numpy._core
        assert_same(pickle.loads(data), held(net.names(io.is_parameter)))


def test_folders_and_files_of_save_vars(net: Net, tmp_path: pathlib.Path) -> None:
    before = held(net.names())
    io.save_persistables(net.exe, str(tmp_path / "many"), net.main)
    io.save_persistables(net.exe, str(tmp_path / "one"), net.main, filename="all")
    variables = io.get_program_persistable_vars(net.main)
    file = str(tmp_path / "one" / "all")
    assert_same(fluid.load_program_state(str(tmp_path / "many")), dict(sorted(before.items())))
    assert_same(fluid.load_program_state(file, variables), dict(sorted(before.items())))
    for arguments in ((str(tmp_path / "many"), net.exe), (file, net.exe, variables)):
        net.exe.run(net.startup)
        fluid.load(net.main, *arguments)
        assert_same(held(before), before)
    with pytest.raises(ValueError, match="var_list is required"):
        fluid.load(net.main, file, net.exe)
    for arguments in ((file, None, variables), (str(tmp_path / "many"),)):
        with pytest.raises(ValueError, match="executor is required"):
            fluid.load(net.main, *arguments)
    with pytest.raises(fluid.core.EnforceNotMet, match="'filename' should name a file"):
        io.save_params(net.exe, str(tmp_path / "one"), net.main, filename="")
    with pytest.raises(
        FileNotFoundError, match=r"cannot open .*nowhere/fc_0.w_0: the model's files are incomplete"
    ):
        io.load_persistables(net.exe, str(tmp_path / "nowhere"), net.main)
    with pytest.raises(ValueError, match="var_list can not be None"):
        fluid.load_program_state(file)
    stranger = fluid.Program().global_block().create_var(name="stranger", shape=[1])
    with pytest.raises(LookupError, match=r"\[stranger\] is not in program variable list"):
        fluid.load(net.main, file, net.exe, [stranger])
    (tmp_path / "many" / "extra").write_bytes(b"no tensor")
    with pytest.raises(RuntimeError, match="Failed to load model file"):
        fluid.load_program_state(str(tmp_path / "many"))


def test_mistakes_in_save_and_load(net: Net, tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match="MUST be format of dirname/filename"):
        fluid.save(net.main, str(tmp_path) + "/")
    prefix = str(tmp_path / "model")
    for load in (lambda: fluid.load(net.main, prefix), lambda: fluid.load_program_state(prefix)):
        with pytest.raises(FileNotFoundError):
            load()
    fluid.save(net.main, prefix)
    more = net.main.clone()
    more.global_block().create_parameter(name="more", shape=[2], dtype="float32")
    with pytest.raises(AssertionError, match=r"Can not find \[more\] in model file \[.*pdparams\]"):
        fluid.load(more, prefix)
    os.unlink(prefix + ".pdopt")
    with pytest.raises(AssertionError, match="Optimizer file"):
        fluid.load(net.main, prefix)
    pathlib.Path(prefix + ".pdparams").write_bytes(b"xx")
    with pytest.raises(FormatError, match="pdparams"):
        fluid.load(net.main, prefix)


def test_set_program_state_checks_first(net: Net) -> None:
    before = held(net.names())
    state = {name: np.zeros_like(value) for name, value in before.items()}
    for name, value, match in (
        ("fc_0.w_0", np.zeros((2, 2), "float32"), "shape does not match"),
        ("fc_0.w_0", np.zeros((4, 3)), "data type does not match"),
    ):
        with pytest.raises(AssertionError, match=match):
            fluid.set_program_state(net.main, {**state, name: value})
        assert_same(held(before), before)
    with (
        fluid.scope_guard(fluid.Scope()),
        pytest.raises(AssertionError, match="Please make sure run startup program"),
    ):
        fluid.set_program_state(net.main, state)
    with pytest.warns(UserWarning, match="junk"):
        fluid.set_program_state(net.main, {**state, "junk": np.zeros(1)})
    assert all((value == 0).all() for value in held(before).values())


def test_pickled_arrays_of_every_kind() -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "é": np.float32(2.5) * np.ones((), "float32"),
        "empty": np.zeros((0, 3), "int64"),
        "flags": np.array([True, False]),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "half": np.ones(3, "float16"),
        "long": np.arange(70000, dtype="int16"),
        "bytes": np.arange(4, dtype="uint8"),
        "big": np.arange(3, dtype=">i4"),
    }
    assert_equal(load_arrays(b"".join(dump_arrays(arrays))), arrays)
    for protocol in range(2, 6):
        assert_equal(
            load_arrays(pickle.dumps({**arrays, "StructuredToParameterName@@": {"a": "b"}}, protocol)), arrays
        )


def assert_equal(found: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
    assert found.keys() == arrays.keys()
    for name, value in arrays.items():
        assert found[name].dtype == value.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[name], value)


def test_strings_of_python_2() -> None:
    data = (
        b"\x80\x02}q\x01U\x01wcnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03"
        b"K\x00\x85q\x04U\x01bq\x05\x87q\x06Rq\x07"
        b"(K\x01K\x02\x85q\x08cnumpy\ndtype\nq\tU\x02f4q\nK\x00K\x01\x87q\x0bRq\x0c"
        b"(K\x03U\x01<q\rNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb\x89U\x08"
        + np.array([1.5, -2], "<f4").tobytes()
        + b"q\x0ftq\x10bs."
    )
    assert load_arrays(data)["w"].tolist() == [1.5, -2]
