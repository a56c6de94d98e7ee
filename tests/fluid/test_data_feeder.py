"""Rows of Python data become feeds, and layers' arguments are checked; expected values are 1.8.5's."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype
from fluidlite.values.tensor import LoDTensor

VarType = fluid.core.VarDesc.VarType


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (VarType.FP32, "float32"),
        (VarType.BOOL, "bool"),
        (np.float32, "float32"),
        (np.dtype("int64"), "int64"),
        ("int8", "int8"),
        (np.bool_, "bool"),
        (bool, "bool"),
        ("uint8", "uint8"),
        (VarType.FP16, "float16"),
    ],
)
def test_names_of_dtypes(dtype: object, name: str) -> None:
    assert convert_dtype(dtype) == name


@pytest.mark.parametrize(
    "dtype", ["FLOAT32", 5, int, float, "float", "uint16", np.uint16, "complex64", None, VarType.RAW]
)
def test_what_is_no_dtype(dtype: object) -> None:
    with pytest.raises(ValueError, match="dtype must be any of"):
        convert_dtype(dtype)


def test_checks_of_arguments() -> None:
    with fluid.program_guard(fluid.Program()):
        x = fluid.data("x", [None, 3])
    check_variable_and_dtype(x, "input", ["float32"], "fc")
    with pytest.raises(
        TypeError, match="The type of 'input' in fc must be .*Variable'>, but received <class 'int'>"
    ):
        check_variable_and_dtype(3, "input", ["float32"], "fc")
    with pytest.raises(
        TypeError, match=r"The data type of 'input' in fc must be \['int32'\], but received float32. Because."
    ):
        check_variable_and_dtype(x, "input", ["int32"], "fc", "Because.")
    with pytest.raises(TypeError, match="The type of 'shape' in fc must be"):
        check_type(3, "shape", (list, tuple), "fc")
    with pytest.raises(TypeError, match="but received int32"):
        check_dtype("int32", "input", ["float32"], "fc")


@pytest.fixture
def variables() -> dict[str, fluid.framework.Variable]:
    declared = {
        "x": ([None, 3], "float32", 0),
        "y": ([None, 1], "int64", 1),
        "z": ([-1, 2, 2], "float32", 0),
        "s": ([None], "float32", 0),
        "w": ([None, 2], "float32", 2),
        "free": ([None, None, 2], "float32", 0),
        "label": ([None, 1], "int64", 0),
    }
    with fluid.program_guard(fluid.Program()):
        return {
            name: fluid.data(name, shape, dtype, level) for name, (shape, dtype, level) in declared.items()
        }


def feed(
    variables: dict[str, fluid.framework.Variable], names: str, rows: list[object]
) -> dict[str, LoDTensor]:
    return fluid.DataFeeder([variables[name] for name in names.split()], fluid.CPUPlace()).feed(rows)


def shown(tensor: LoDTensor) -> tuple[list[int], list[list[int]], VarType]:
    return tensor.shape(), tensor.recursive_sequence_lengths(), tensor._dtype()


@pytest.mark.parametrize(
    ("names", "rows", "expected"),
    [
        (
            "x y",
            [([1, 2, 3], [[1], [2]]), ([4, 5, 6], [[3]])],
            [([2, 3], [], VarType.FP32), ([3, 1], [[2, 1]], VarType.INT64)],
        ),
        ("x y", [([1, 2, 3], [1, 2])], [([1, 3], [], VarType.FP32), ([2, 1], [[2]], VarType.INT64)]),
        ("x", [([1, 2, 3, 4],)], [([1, 4], [], VarType.FP32)]),
        ("z", [([1, 2, 3, 4],)], [([1, 2, 2], [], VarType.FP32)]),
        ("z", [([[1, 2], [3, 4]],)], [([1, 2, 2], [], VarType.FP32)]),
        ("z", [], [([0, 2, 2], [], VarType.FP32)]),
        ("w", [([[[1, 2], [3, 4]], [[5, 6]]],)], [([3, 2], [[2], [2, 1]], VarType.FP32)]),
        ("s", [(1,), (2,)], [([2], [], VarType.FP32)]),
        ("label", [(1,), (2,)], [([2, 1], [], VarType.INT64)]),
        ("free", [([[1, 2], [3, 4]],)], [([1, 2, 2], [], VarType.FP32)]),
        ("free", [([1, 2, 3, 4],)], [([1, 4], [], VarType.FP32)]),
    ],
)
def test_rows_become_tensors(
    variables: dict[str, fluid.framework.Variable], names: str, rows: list[object], expected: object
) -> None:
    found = feed(variables, names, rows)
    assert [shown(found[name]) for name in names.split()] == expected


def test_rows_that_do_not_fit(variables: dict[str, fluid.framework.Variable]) -> None:
    with pytest.raises(
        AssertionError, match=r"number of fields in data \(1\) does not match len\(feed_list\) \(2\)"
    ):
        feed(variables, "x y", [([1, 2, 3],)])
    with pytest.raises(
        ValueError, match=r"What is defined in data layer is \(-1, 2, 2\), but receive \(1, 3\)"
    ):
        feed(variables, "z", [([1, 2, 3],)])
    with pytest.raises(ValueError, match="variable 'x': the rows cannot be converted to a float32 array"):
        feed(variables, "x", [([1, 2, 3],), ([1, 2],)])
    with pytest.raises(TypeError, match="Feed list should contain a list of variable"):
        fluid.DataFeeder([3], fluid.CPUPlace())  # type: ignore[list-item]
    with pytest.raises(ValueError, match="var nope not in this block"):
        fluid.DataFeeder(["nope"], fluid.CPUPlace(), fluid.Program())


def test_names_in_place_of_variables() -> None:
    program = fluid.Program()
    with fluid.program_guard(program):
        fluid.data("x", [None, 2])
    feeder = fluid.DataFeeder(["x"], fluid.CPUPlace(), program)
    assert np.asarray(feeder.feed([([1, 2],)])["x"]).tolist() == [[1, 2]]
    assert feeder.feed_names == ["x"]


def test_several_devices(variables: dict[str, fluid.framework.Variable]) -> None:
    feeder = fluid.DataFeeder([variables["x"]], fluid.CPUPlace())
    batch = [([1, 2, 3],)]
    assert [shown(one["x"])[0] for one in feeder.feed_parallel([batch, batch], 2)] == [[1, 3], [1, 3]]
    with pytest.raises(ValueError, match="2 devices, 1 mini-batches"):
        list(feeder.feed_parallel([batch], 2))
    reader = lambda: iter([batch] * 5)
    assert len(list(feeder.decorate_reader(reader, False)())) == 5
    assert [len(group) for group in feeder.decorate_reader(reader, True, 2)()] == [2, 2]
    with pytest.raises(ValueError, match="last 1 batches"):
        list(feeder.decorate_reader(reader, True, 2, drop_last=False)())
