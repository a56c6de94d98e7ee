"""Saving and loading: the files are 1.8.5's byte for byte, and files are whole or not there."""

from __future__ import annotations

import os
import pathlib
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from saved_models import NAMES, Golden, Net, Stop, assert_same, held

import fluidlite as fluid
from fluidlite import io
from fluidlite.core import EnforceNotMet
from fluidlite.errors import FormatError
from fluidlite.values import serialize
from fluidlite.values.tensor import LoDTensor, SelectedRows


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


# ---------- 1.8.5's files
@pytest.mark.parametrize(
    ("folder", "files"),
    [("inference", {}), ("inference_combined", {"model_filename": "model", "params_filename": "__params__"})],
)
def test_inference_models_of_paddle_run(
    golden: Golden, exe: fluid.Executor, folder: str, files: dict[str, str]
) -> None:
    program, feeds, targets = io.load_inference_model(str(golden.folder / folder), exe, **files)
    assert feeds == golden.meta["feeds"]
    if folder == "inference":
        assert [target.name for target in targets] == golden.meta["targets"]
    found = exe.run(program, feed=golden.feed(), fetch_list=targets, return_numpy=False)
    for number, value in enumerate(found):
        np.testing.assert_allclose(np.asarray(value), golden.arrays[f"out/{number}"], rtol=1e-5, atol=1e-6)


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


@pytest.mark.parametrize("together", [None, "all"])
def test_loading_over_a_model_needs_no_third_place(
    together: str | None, exe: fluid.Executor, tmp_path: pathlib.Path
) -> None:
    for number in range(8):
        fluid.layers.create_parameter([256, 1024], "float32", name=f"w{number}")
    exe.run(fluid.default_startup_program())
    fluid.io.save_params(exe, str(tmp_path), filename=together)
    tracemalloc.start()
    try:
        fluid.io.load_params(exe, str(tmp_path), filename=together)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # of one parameter's megabyte at a time, not of all eight
    assert 1 << 20 <= most < 5 << 19


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


def test_files_are_whole_or_not_there(
    net: Net, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    io.save_params(net.exe, str(folder), net.main)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    net.exe.run(net.startup)
    made = []

    def failing(value: Any, dtype: Any = None) -> Iterator[bytes]:
        made.append(value)
        yield b"half"
        if len(made) > 2:
            raise Stop

    monkeypatch.setattr("fluidlite.saving.variables.value_pieces", failing)
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
    with serialize.ValueReader.open(STREAMS / dtype) as source:
        found = source.tensors(1)[0].array
    assert found.dtype == value.dtype and found.tolist() == value.tolist()
    assert serialize.tensor_bytes(LoDTensor(value)) == (STREAMS / dtype).read_bytes()


@pytest.mark.parametrize(
    "value",
    [np.arange(6, dtype="float32").reshape(2, 3).T, np.zeros((0, 4), "int64"), np.array(True)],
    ids=["columns", "empty", "number"],
)
def test_arrays_of_any_order_are_written(value: np.ndarray, tmp_path: pathlib.Path) -> None:
    serialize.replace_file(tmp_path / "value", serialize.value_pieces(LoDTensor(value)))
    with serialize.ValueReader.open(tmp_path / "value") as source:
        found = source.tensors(1)[0].array
    assert found.shape == value.shape and found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


def test_saving_takes_no_second_place_for_values(tmp_path: pathlib.Path) -> None:
    tensor = LoDTensor(np.ones((1024, 1024), "float32"))
    tracemalloc.start()
    try:
        serialize.replace_file(tmp_path / "value", serialize.value_pieces(tensor))
        assert tracemalloc.get_traced_memory()[1] < tensor.array.nbytes // 8
    finally:
        tracemalloc.stop()


def test_sequences_and_rows_are_stored_as_paddle_stores_them() -> None:
    with serialize.ValueReader.open(STREAMS / "sequence") as source:
        tensor = source.tensors(1)[0]
    assert tensor.recursive_sequence_lengths() == [[2, 1], [1, 3, 1]] and np.asarray(
        tensor
    ).ravel().tolist() == [0, 1, 2, 3, 4]
    assert serialize.value_bytes(tensor) == (STREAMS / "sequence").read_bytes()
    with serialize.ValueReader.open(STREAMS / "rows") as source:
        rows = source.selected_rows()
        source.end()
    assert rows.rows() == [7, 2, 7] and rows.height() == 9 and rows.array.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert serialize.value_bytes(rows) == (STREAMS / "rows").read_bytes()
