"""Saving and loading: the files are 1.8.5's byte for byte, models go both ways, and files are whole or not
there.
"""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import io
from fluidlite.base.registry import find
from fluidlite.core import EnforceNotMet
from fluidlite.errors import FormatError
from fluidlite.saving.pickles import dump_arrays, load_arrays
from fluidlite.values import serialize
from fluidlite.values.tensor import LoDTensor, SelectedRows, offsets_of

MODELS = pathlib.Path(__file__).parents[1] / "golden" / "models"
NAMES = sorted(path.name for path in MODELS.iterdir())


@pytest.fixture(autouse=True)
def scope() -> Iterator[fluid.Scope]:
    """A global scope of its own for each test."""
    fresh = fluid.Scope()
    with fluid.scope_guard(fresh), fluid.unique_name.guard():
        yield fresh


@pytest.fixture
def exe() -> fluid.Executor:
    return fluid.Executor(fluid.CPUPlace())


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

    def can_run(self) -> bool:
        program = fluid.Program.parse_from_string((self.folder / "inference" / "__model__").read_bytes())
        return all(find(op.type) is not None for op in program.global_block().ops)


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


def held(names: Any) -> dict[str, np.ndarray]:
    return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].tobytes() == value.tobytes(), name


# ---------- 1.8.5's files
@pytest.mark.parametrize(
    ("folder", "files"),
    [("inference", {}), ("inference_combined", {"model_filename": "model", "params_filename": "__params__"})],
)
def test_inference_models_of_paddle_run(
    golden: Golden, exe: fluid.Executor, folder: str, files: dict[str, str]
) -> None:
    if not golden.can_run():
        pytest.skip("an op of the model is missing")
    program, feeds, targets = io.load_inference_model(str(golden.folder / folder), exe, **files)
    assert feeds == golden.meta["feeds"]
    if folder == "inference":
        assert [target.name for target in targets] == golden.meta["targets"]
    found = exe.run(program, feed=golden.feed(), fetch_list=targets)
    for number, value in enumerate(found):
        np.testing.assert_allclose(value, golden.arrays[f"out/{number}"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("filename", [None, "all"])
def test_persistables_of_paddle_load_and_are_written_again(
    golden: Golden, tmp_path: pathlib.Path, filename: str | None
) -> None:
    folder = golden.folder / ("persistables" if filename is None else "persistables_combined")
    io.load_persistables(None, str(folder), golden.program, filename)
    assert_same(held(golden.persistables), golden.persistables)
    io.save_persistables(None, str(tmp_path / "again"), golden.program, filename)
    assert sorted(os.listdir(tmp_path / "again")) == sorted(os.listdir(folder))
    for path in folder.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_what_fluid_save_of_paddle_wrote_loads(golden: Golden) -> None:
    prefix = str(golden.folder / "saved")
    assert_same(fluid.load_program_state(prefix), golden.persistables)
    fluid.load(golden.program, prefix)
    assert_same(held(golden.persistables), golden.persistables)
    program = fluid.Program.parse_from_string((golden.folder / "saved.pdmodel").read_bytes())
    assert {var.name for var in program.list_vars() if var.persistable} == golden.persistables.keys()


# ---------- a model of our own
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


@pytest.fixture
def net(exe: fluid.Executor) -> Net:
    return Net(exe)


def test_kinds_of_variables(net: Net) -> None:
    params = ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
    assert net.names(io.is_parameter) == params == [var.name for var in io.get_program_parameter(net.main)]
    state = net.names(io.is_belong_to_optimizer)
    assert len(state) == 17 and "learning_rate_0" in state and not set(state) & set(params)
    assert {var.name for var in io.get_program_persistable_vars(net.main)} == {*params, *state}
    assert not io.is_parameter("x") and not io.is_persistable(net.out)
    w = held(params)["fc_0.w_0"]
    assert (io.get_parameter_value(net.main.global_block().var("fc_0.w_0"), net.exe) == w).all()
    assert (io.get_parameter_value_by_name("fc_0.w_0", net.exe, net.main) == w).all()
    with pytest.raises(AssertionError, match="not parameter"):
        io.get_parameter_value(net.out, net.exe)


@pytest.mark.parametrize("filename", [None, "all"])
@pytest.mark.parametrize(
    ("save", "load", "kind"),
    [
        (io.save_params, io.load_params, io.is_parameter),
        (io.save_persistables, io.load_persistables, io.is_persistable),
    ],
)
def test_what_is_saved_is_loaded(
    net: Net, tmp_path: pathlib.Path, save: Any, load: Any, kind: Any, filename: str | None
) -> None:
    before = held(net.names())
    save(net.exe, str(tmp_path / "a" / "b"), net.main, filename=filename)
    assert sorted(os.listdir(tmp_path / "a" / "b")) == (
        sorted(net.names(kind)) if filename is None else ["all"]
    )
    net.exe.run(net.startup)
    load(net.exe, str(tmp_path / "a" / "b"), net.main, filename=filename)
    assert_same(held(net.names(kind)), {name: before[name] for name in net.names(kind)})


def test_chosen_variables(net: Net, tmp_path: pathlib.Path) -> None:
    io.save_vars(net.exe, str(tmp_path / "w"), net.main, predicate=lambda var: var.name.endswith(".w_0"))
    assert sorted(os.listdir(tmp_path / "w")) == ["fc_0.w_0", "fc_1.w_0"]
    one = net.main.global_block().var("fc_0.w_0")
    io.save_vars(net.exe, str(tmp_path / "v"), net.main, vars=[one, "fc_0.b_0"])
    assert sorted(os.listdir(tmp_path / "v")) == ["fc_0.b_0", "fc_0.w_0"]
    before = held(["fc_0.w_0"])
    net.exe.run(net.startup)
    io.load_vars(net.exe, str(tmp_path / "v"), net.main, vars=[one])
    assert_same(held(["fc_0.w_0"]), before)


def test_saving_to_memory(net: Net) -> None:
    before = held(net.names(io.is_parameter))
    data = io.save_params(net.exe, None, net.main)
    assert isinstance(data, bytes)
    net.exe.run(net.startup)
    io.load_params(net.exe, None, net.main, filename=data)
    assert_same(held(before), before)
    with pytest.raises(ValueError, match="cannot be None at the same time"):
        io.load_params(net.exe, None, net.main)
    with pytest.raises(ValueError, match="needs the folder"):
        io.save_params(net.exe, None, net.main, filename="x")


def test_loading_keeps_the_storage_that_plans_are_bound_to(net: Net, tmp_path: pathlib.Path) -> None:
    io.save_params(net.exe, str(tmp_path), net.main)
    array = fluid.global_scope().find_var("fc_0.w_0").get_tensor().array
    expected = net.infer()
    net.exe.run(net.startup)
    io.load_params(net.exe, str(tmp_path), net.main)
    assert fluid.global_scope().find_var("fc_0.w_0").get_tensor().array is array
    np.testing.assert_array_equal(net.infer(), expected)


def test_sparse_values_and_levels_of_detail(tmp_path: pathlib.Path) -> None:
    program = fluid.Program()
    block = program.global_block()
    block.create_var(
        name="rows",
        type=fluid.core.VarDesc.VarType.SELECTED_ROWS,
        shape=[9, 2],
        dtype="float32",
        persistable=True,
    )
    block.create_var(name="lod", shape=[3, 1], dtype="int64", persistable=True, lod_level=1)
    scope = fluid.global_scope()
    scope.var("rows").set(SelectedRows([7, 2, 7], 9, np.arange(6, dtype="float32").reshape(3, 2)))
    scope.var("lod").set(np.array([[1], [2], [3]]))
    scope.var("lod").get_tensor().set_recursive_sequence_lengths([[2, 1]])
    io.save_persistables(None, str(tmp_path), program)
    with fluid.scope_guard(fluid.Scope()):
        io.load_persistables(None, str(tmp_path), program)
        rows = fluid.global_scope().find_var("rows").get_selected_rows()
        assert (
            rows.rows() == [7, 2, 7]
            and rows.height() == 9
            and rows.array.tolist() == [[0, 1], [2, 3], [4, 5]]
        )
        assert fluid.global_scope().find_var("lod").get_tensor().recursive_sequence_lengths() == [[2, 1]]
    with pytest.raises(ValueError, match="'rows' holds SelectedRows"):
        io.save_persistables(None, str(tmp_path), program, filename="all")


# ---------- what goes wrong
def test_mistakes_in_saving(net: Net, tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="no variable in your model"):
        assert io.save_vars(net.exe, str(tmp_path / "none"), fluid.Program()) is None
    with pytest.raises(TypeError, match="expected type is fluid.Program, but received <class 'int'>"):
        io.save_params(net.exe, str(tmp_path), 3)
    with pytest.raises(TypeError, match="should be a list of Variables"):
        io.save_vars(net.exe, str(tmp_path), net.main, vars=[3])
    with (
        fluid.scope_guard(fluid.Scope()),
        pytest.raises(EnforceNotMet, match="'fc_0.w_0' holds no value .* run the startup program"),
    ):
        io.save_params(net.exe, str(tmp_path / "empty"), net.main)
    assert list(tmp_path.iterdir()) == []


def test_a_compiled_program_is_its_program(net: Net, tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="CompiledProgram"):
        io.save_params(net.exe, str(tmp_path), fluid.CompiledProgram(net.main))
    assert len(os.listdir(tmp_path)) == 4


def test_missing_and_broken_files(net: Net, tmp_path: pathlib.Path) -> None:
    before = held(net.names())
    for filename in (None, "all"):
        with pytest.raises(EnforceNotMet, match="cannot open"):
            io.load_params(net.exe, str(tmp_path / "nowhere"), net.main, filename=filename)
        with pytest.raises(FileNotFoundError):
            io.load_params(net.exe, str(tmp_path / "nowhere"), net.main, filename=filename)
    io.save_params(net.exe, str(tmp_path), net.main)
    net.exe.run(net.startup)
    fresh = held(net.names())
    (tmp_path / "fc_1.w_0").write_bytes(b"\0" * 9)
    with pytest.raises(FormatError, match=r"fc_1.w_0"):
        io.load_params(net.exe, str(tmp_path), net.main)
    assert_same(held(fresh), fresh)  # nothing of it was loaded
    assert before.keys() == fresh.keys()
    io.save_persistables(net.exe, str(tmp_path), net.main, filename="all")
    with pytest.raises(FormatError, match="left over"):
        io.load_params(net.exe, str(tmp_path), net.main, filename="all")


def test_parameters_of_another_shape(net: Net, tmp_path: pathlib.Path) -> None:
    io.save_params(net.exe, str(tmp_path), net.main)
    fluid.save(net.main, str(tmp_path / "model"))
    other = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(other, fluid.Program()):
        fluid.layers.fc(fluid.data("x", [None, 4]), 5)
    before = held(["fc_0.w_0"])
    for load in (
        lambda: io.load_params(net.exe, str(tmp_path), other),
        lambda: fluid.load(other, str(tmp_path / "model")),
    ):
        with pytest.raises(
            RuntimeError, match=r"requires a parameter with the shape of \(\(4, 5\)\).*fc_0.w_0.*\(4, 3\)"
        ):
            load()
    assert_same(held(["fc_0.w_0"]), before)


class Stop(Exception):
    """Stands for anything that goes wrong while a file is written."""


def test_files_are_whole_or_not_there(
    net: Net, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    io.save_params(net.exe, str(folder), net.main)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    net.exe.run(net.startup)
    made = []

    def failing(value: Any, dtype: Any = None) -> bytes:
        made.append(value)
        if len(made) > 2:
            raise Stop
        return b"half"

    monkeypatch.setattr("fluidlite.saving.variables.value_bytes", failing)
    with pytest.raises(Stop):
        io.save_params(net.exe, str(folder), net.main)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    made.clear()
    with pytest.raises(Stop):
        io.save_params(net.exe, str(tmp_path / "new"), net.main)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise Stop

    with pytest.raises(Stop):
        serialize.replace_file(folder / "fc_0.w_0", pieces())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_in_the_place_of_a_folder(net: Net, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        io.save_inference_model(str(tmp_path / "file"), ["x"], [net.out], net.exe, net.main)


# ---------- inference models
@pytest.mark.parametrize("files", [{}, {"model_filename": "model", "params_filename": "params"}])
def test_inference_models(net: Net, tmp_path: pathlib.Path, files: dict[str, str]) -> None:
    before, expected = str(net.main), net.infer()
    names = io.save_inference_model(str(tmp_path), ["x"], [net.out, net.hidden], net.exe, net.main, **files)
    assert names == ["save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"]
    params = net.names(io.is_parameter)
    assert sorted(os.listdir(tmp_path)) == (
        sorted(files.values()) if files else sorted(["__model__", *params])
    )
    assert str(net.main) == before
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = io.load_inference_model(str(tmp_path), net.exe, **files)
        assert feeds == ["x"] and [target.name for target in targets] == names
        assert [op.type for op in program.global_block().ops] == [
            "feed",
            "mul",
            "elementwise_add",
            "relu",
            "dropout",
            "mul",
            "elementwise_add",
            "scale",
            "scale",
            "fetch",
            "fetch",
        ]
        assert program.global_block().ops[4].attr("is_test") and not program.global_block().has_var("y")
        assert [var.name for var in program.all_parameters()] == params
        program.verify()
        np.testing.assert_allclose(
            net.exe.run(program, feed={"x": net.x}, fetch_list=targets)[0], expected, rtol=1e-6
        )


def test_feeds_stand_in_reverse_order(exe: fluid.Executor, tmp_path: pathlib.Path) -> None:
    main = fluid.Program()
    with fluid.program_guard(main):
        a, b = fluid.data("a", [None, 2]), fluid.data("b", [None, 2])
        out = fluid.layers.elementwise_sub(a, b)
    io.save_inference_model(str(tmp_path), ["b", "a"], out, exe, main)
    program, feeds, targets = io.load_inference_model(str(tmp_path), exe)
    assert feeds == ["b", "a"]
    assert [(op.output("Out"), op.attr("col")) for op in program.global_block().ops[:2]] == [
        (["a"], 1),
        (["b"], 0),
    ]
    value = exe.run(
        program, feed={"a": np.ones((1, 2), "float32"), "b": np.zeros((1, 2), "float32")}, fetch_list=targets
    )[0]
    assert value.tolist() == [[1, 1]]


def test_other_ways_to_save_a_model(net: Net, tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="program_only"):
        io.save_inference_model(
            str(tmp_path / "only"), ["x"], [net.out], net.exe, net.main, program_only=True
        )
    assert os.listdir(tmp_path / "only") == ["__model__"]
    io.save_inference_model(
        str(tmp_path / "all"), ["x"], [net.out], net.exe, net.main, export_for_deployment=False
    )
    assert sorted(os.listdir(tmp_path / "all")) == sorted(["__model__.main_program", *net.names()])
    io.save_inference_model(
        str(tmp_path / "mem"), ["x"], [net.out], net.exe, net.main, params_filename="params"
    )
    parts = [(tmp_path / "mem" / name).read_bytes() for name in ("__model__", "params")]
    program, feeds, targets = io.load_inference_model(None, net.exe, *parts)
    np.testing.assert_allclose(
        net.exe.run(program, feed={feeds[0]: net.x}, fetch_list=targets)[0], net.infer(), rtol=1e-6
    )


def test_mistakes_in_inference_models(net: Net, tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "model")
    for feeds, targets, match in (
        ([3], [net.out], "'feed_var_names' should be a list of str"),
        (["x"], ["out"], "'target_vars' should be a list of Variable"),
        (["x"], [], "'target_vars' should be a list of Variable"),
        (["zz"], [net.out], "var zz not in this block"),
        (["x", "y"], [net.out], "no target depends on"),
    ):
        with pytest.raises(ValueError, match=match):
            io.save_inference_model(folder, feeds, targets, net.exe, net.main)
    with pytest.raises(ValueError, match="There is no directory named"):
        io.load_inference_model(folder, net.exe)
    io.save_params(net.exe, folder, net.main)
    with pytest.raises(FileNotFoundError, match="__model__"):
        io.load_inference_model(folder, net.exe)
    (tmp_path / "model" / "__model__").write_bytes(b"garbage")
    with pytest.raises(FormatError):
        io.load_inference_model(folder, net.exe)
    with pytest.raises(ValueError, match="params_filename cannot be None"):
        io.load_inference_model(None, net.exe, b"x")


def test_endpoints_of_a_distributed_table(exe: fluid.Executor, tmp_path: pathlib.Path) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        out = fluid.layers.embedding(ids, [9, 2])
    exe.run(startup)
    io.save_inference_model(str(tmp_path), ["ids"], [out], exe, main)
    program, _, _ = io.load_inference_model(str(tmp_path), exe, pserver_endpoints=["1.2.3.4:1"])
    assert [op.attr("epmap") for op in program.global_block().ops if op.has_attr("epmap")] == [["1.2.3.4:1"]]


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
        FileNotFoundError, match=r"cannot open .*nowhere/fc_0.w_0: the model's files are not complete"
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
        b"\x80\x02}q\x01U\x01wcnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85q\x04U\x01bq\x05\x87q\x06Rq\x07"
        b"(K\x01K\x02\x85q\x08cnumpy\ndtype\nq\tU\x02f4q\nK\x00K\x01\x87q\x0bRq\x0c"
        b"(K\x03U\x01<q\rNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb\x89U\x08"
        + np.array([1.5, -2], "<f4").tobytes()
        + b"q\x0ftq\x10bs."
    )
    assert load_arrays(data)["w"].tolist() == [1.5, -2]


# ------------------------------------------------------------------------------------------------ ops
def test_ops_that_save_and_load(exe: fluid.Executor, tmp_path: pathlib.Path) -> None:
    value = np.arange(6, dtype="float32").reshape(2, 3)
    save = fluid.Program()
    block = save.global_block()
    for name in ("a", "b"):
        block.create_var(name=name, shape=[2, 3], dtype="float32", is_data=True)
    block.append_op(type="save", inputs={"X": ["a"]}, attrs={"file_path": str(tmp_path / "d" / "a")})
    block.append_op(
        type="save", inputs={"X": ["a"]}, attrs={"file_path": str(tmp_path / "half"), "save_as_fp16": True}
    )
    block.append_op(
        type="save_combine", inputs={"X": ["a", "b"]}, attrs={"file_path": str(tmp_path / "both")}
    )
    for _ in range(2):
        exe.run(save, feed={"a": value, "b": value + 1})
    load = fluid.Program()
    with fluid.program_guard(load):
        names = ["a", "half", "c", "d", "slice"]
        a, half, c, d, part = (
            load.global_block().create_var(name=name, shape=[2, 3], dtype="float32") for name in names
        )
        fluid.layers.load(a, str(tmp_path / "d" / "a"))
        fluid.layers.load(half, str(tmp_path / "half"))
        load.global_block().append_op(
            type="load_combine", outputs={"Out": [c, d]}, attrs={"file_path": str(tmp_path / "both")}
        )
        load.global_block().append_op(
            type="load",
            outputs={"Out": [part]},
            attrs={"file_path": str(tmp_path / "d" / "a"), "seek": 3, "shape": [1, 3]},
        )
    for _ in range(2):
        found = exe.run(load, fetch_list=[a, half, c, d, part])
        assert [one.tolist() for one in found] == [
            one.tolist() for one in (value, value, value, value + 1, value[1:])
        ]
        assert found[1].dtype == np.float16
    block.ops[0]._set_attr("overwrite", False)
    with pytest.raises(EnforceNotMet, match="exists, and overwrite is False"):
        exe.run(save, feed={"a": value, "b": value})
    os.unlink(tmp_path / "both")
    with pytest.raises(FileNotFoundError):
        exe.run(load, fetch_list=[a])


STREAMS = pathlib.Path(__file__).parents[1] / "golden" / "io"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64"])
def test_every_dtype_is_stored_as_paddle_stores_it(dtype: str) -> None:
    value = np.arange(6).reshape(2, 3).astype(dtype)
    with serialize.Source.open(STREAMS / dtype) as source:
        found = source.tensors(1)[0].array
    assert found.dtype == value.dtype and found.tolist() == value.tolist()
    assert serialize.tensor_bytes(LoDTensor(value)) == (STREAMS / dtype).read_bytes()


def test_sequences_and_rows_are_stored_as_paddle_stores_them() -> None:
    with serialize.Source.open(STREAMS / "sequence") as source:
        tensor = source.tensors(1)[0]
    assert tensor.recursive_sequence_lengths() == [[2, 1], [1, 3, 1]] and np.asarray(
        tensor
    ).ravel().tolist() == [0, 1, 2, 3, 4]
    assert serialize.value_bytes(tensor) == (STREAMS / "sequence").read_bytes()
    with serialize.Source.open(STREAMS / "rows") as source:
        rows = source.selected_rows()
        source.end()
    assert rows.rows() == [7, 2, 7] and rows.height() == 9 and rows.array.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert serialize.value_bytes(rows) == (STREAMS / "rows").read_bytes()
