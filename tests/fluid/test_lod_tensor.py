"""LoDTensor, its arrays and scopes, held to what PaddlePaddle 1.8.5 was seen to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core

A = np.arange(10, dtype="float32").reshape(5, 2)
PLACE = fluid.CPUPlace()


def tensor(array: Any = A, lengths: list[list[int]] | None = None) -> fluid.LoDTensor:
    found = fluid.LoDTensor()
    found.set(array, PLACE)
    if lengths is not None:
        found.set_recursive_sequence_lengths(lengths)
    return found


# ---------- an empty tensor
def test_empty_tensors() -> None:
    empty = fluid.LoDTensor()
    assert (empty.shape(), empty.lod(), empty.recursive_sequence_lengths()) == ([0], [], [])
    assert empty.has_valid_recursive_sequence_lengths() and not empty._is_initialized()
    assert np.array(empty).shape == (0,) and np.array(empty).dtype == "float64"
    for ask in (empty._dtype, empty._place, empty.__str__, lambda: empty[0]):
        with pytest.raises(core.EnforceNotMet, match="Tensor not initialized yet"):
            ask()
    assert fluid.LoDTensor([[2, 3]]).lod() == [[0, 2, 5]]


@pytest.mark.parametrize(
    ("method", "dtype"), [("_alloc_float", "float32"), ("_alloc_double", "float64"), ("_alloc_int", "int32")]
)
def test_making_room(method: str, dtype: str) -> None:
    made = fluid.LoDTensor()
    made._set_dims([2, 5])
    assert made.shape() == [2, 5]
    getattr(made, method)(PLACE)
    assert made._is_initialized() and np.array(made).shape == (2, 5) and np.array(made).dtype == dtype
    assert (
        isinstance(made._mutable_data(PLACE, core.VarDesc.VarType.FP32), int)
        and made._dtype() == core.VarDesc.VarType.FP32
    )


def test_dimensions_change_over_the_same_values() -> None:
    made = tensor()
    made._set_dims([2, 5])
    assert np.array_equal(np.array(made), A.reshape(2, 5))
    made._clear()
    assert not made._is_initialized() and made.shape() == [2, 5]


def test_elements_sharing_and_copies() -> None:
    made, other = tensor(lengths=[[2, 3]]), fluid.LoDTensor()
    made._set_float_element(3, 9.5)
    assert made._get_float_element(3) == 9.5 and made._place().is_cpu_place()
    other._share_data_with(made)
    made._set_float_element(0, 7.0)
    assert other._get_float_element(0) == 7.0 and other.lod() == []
    place = core.Place()
    place.set_place(PLACE)
    copy = made._copy(place)
    made._set_float_element(0, 1.0)
    assert copy._get_float_element(0) == 7.0 and copy.lod() == [[0, 2, 5]]


# ------------------------------------------------------------------------------------------------ values
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_types_that_tensors_hold(dtype: str) -> None:
    values = np.array([[1, 0], [2, 3]]).astype(dtype)
    assert np.array(tensor(values)).dtype == dtype and np.array_equal(np.array(tensor(values)), values)


def test_values_of_other_kinds() -> None:
    assert np.array(tensor([1, 2, 3])).dtype == "int64" and np.array(tensor([1.5, 2])).dtype == "float64"
    assert np.array(tensor(np.array([1, 2], "uint16"))).dtype == "float16"
    for wrong in (np.array([1], "uint32"), np.array(["a"]), np.array([None]), None):
        with pytest.raises(core.EnforceNotMet, match="Incompatible data or style type"):
            tensor(wrong)
    with pytest.raises(TypeError):
        fluid.LoDTensor().set(A, 3)
    for view in (np.asfortranarray(A), A[::2], A[:, ::-1], np.zeros((0, 3), "float32")):
        assert np.array_equal(np.array(tensor(view)), view)


SLICES = {
    "0:2": np.s_[0:2],
    "0:4:2": np.s_[0:4:2],
    "-2:": np.s_[-2:],
    "::-1": np.s_[::-1],
    "2:2": np.s_[2:2],
    "1:3, 0:1": np.s_[1:3, 0:1],
}


@pytest.mark.parametrize("what", SLICES)
def test_slices_are_tensors(what: str) -> None:
    part = tensor(lengths=[[2, 3]])[SLICES[what]]
    assert (
        isinstance(part, core.Tensor) and np.array_equal(np.array(part), A[SLICES[what]]) and part.lod() == []
    )


def test_numbers_keep_their_dimension() -> None:
    whole = tensor()
    assert np.array(whole[1]).tolist() == [[2, 3]] and np.array(whole[1, 1]).tolist() == [[3]]
    for wrong in (7, 1.5):
        with pytest.raises(IndexError):
            whole[wrong]
    whole[0:1].set(np.zeros((1, 2), "float32"), PLACE)
    assert np.array_equal(np.array(whole), A)


@pytest.mark.parametrize(
    ("values", "lengths", "text"),
    [
        (
            A,
            [[2, 3]],
            (
                "\tlod: {{0, 2, 5}}\n\tdim: 5, 2\n\tlayout: NCHW\n\tdtype: float\n\tdata: [0 1 2 3 4 5 6 7 8 "
                "9]\n"
            ),
        ),
        (
            np.array([[1.5, 200000000.0]]),
            None,
            "\tlod: {}\n\tdim: 1, 2\n\tlayout: NCHW\n\tdtype: double\n\tdata: [1.5 2e+08]\n",
        ),
        (np.array([1, 0]), None, "\tlod: {}\n\tdim: 2\n\tlayout: NCHW\n\tdtype: int64_t\n\tdata: [1 0]\n"),
        (
            np.array([True, False]),
            None,
            "\tlod: {}\n\tdim: 2\n\tlayout: NCHW\n\tdtype: bool\n\tdata: [1 0]\n",
        ),
    ],
)
def test_text(values: np.ndarray, lengths: Any, text: str) -> None:
    assert str(tensor(values, lengths)) == text


# ---------- level of detail
@pytest.mark.parametrize(
    "lod", [[[0, 2, 5]], [], [[0, 1, 2], [0, 2, 5]], ((0, 2, 5),), [np.array([0, 2, 5])], [[0, 2, 2, 5]]]
)
def test_offsets_and_lengths(lod: Any) -> None:
    made = tensor()
    made.set_lod(lod)
    again = tensor(lengths=made.recursive_sequence_lengths())
    assert again.lod() == made.lod() == [list(level) for level in lod]
    assert made.recursive_sequence_lengths() == [np.diff(level).tolist() for level in lod]


@pytest.mark.parametrize(
    ("lod", "error"),
    [
        ([[0, 2, 4]], core.EnforceNotMet),
        ([[1, 2, 5]], core.EnforceNotMet),
        ([[0, 3, 2, 5]], core.EnforceNotMet),
        ([[0]], core.EnforceNotMet),
        ([[]], core.EnforceNotMet),
        ([[0, 1, 3], [0, 2, 5]], core.EnforceNotMet),
        ([0, 2, 5], TypeError),
        ([[0, 2.0, 5]], TypeError),
    ],
)
def test_wrong_offsets(lod: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        tensor().set_lod(lod)


def test_lengths_outlive_the_values_they_were_for() -> None:
    made = tensor(lengths=[[2, 3]])
    made.set(np.zeros((3, 2), "float32"), PLACE)
    assert made.lod() == [[0, 2, 5]] and not made.has_valid_recursive_sequence_lengths()


CREATED: dict[str, tuple[Callable[[], Any], list[list[int]], Any]] = {
    "a list": (lambda: [[1, 2], [3, 4, 5]], [[2, 3]], [[1], [2], [3], [4], [5]]),
    "a list of rows": (lambda: [[[1, 2], [3, 4]]], [[2]], [[[1], [2]], [[3], [4]]]),
    "an array": (lambda: A, [[2, 3]], A),
    "an array without sequences": (lambda: A, [], A),
    "a tensor": (lambda: tensor(lengths=[[2, 3]]), [[1, 1], [1, 4]], A),
}


@pytest.mark.parametrize("what", CREATED)
def test_create_lod_tensor(what: str) -> None:
    make, lengths, values = CREATED[what]
    made = fluid.create_lod_tensor(make(), lengths, PLACE)
    assert made.recursive_sequence_lengths() == lengths and np.array_equal(np.array(made), values)


@pytest.mark.parametrize(
    ("data", "lengths", "error"),
    [
        ([[1, 2], [3, 4, 5]], [[2, 2]], AssertionError),
        (A, [[2, 2]], core.EnforceNotMet),
        ("abc", [[1, 3]], TypeError),
        ((1, 2), [[2]], TypeError),
        (A, None, TypeError),
        (A, 5, TypeError),
    ],
)
def test_create_lod_tensor_refuses(data: Any, lengths: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        fluid.create_lod_tensor(data, lengths, PLACE)


def test_create_random_int_lodtensor() -> None:
    made = fluid.create_random_int_lodtensor([[2, 3]], [4], PLACE, 3, 4)
    values = np.array(made)
    assert (
        values.shape == (5, 4)
        and values.dtype == "int64"
        and made.lod() == [[0, 2, 5]]
        and {*values.reshape(-1)} <= {3, 4}
    )
    with pytest.raises(AssertionError, match="base_shape should be a list"):
        fluid.create_random_int_lodtensor([[2, 3]], 5, PLACE, 3, 4)
    with pytest.raises(ValueError, match="low >= high"):
        fluid.create_random_int_lodtensor([[2, 3]], [1], PLACE, 5, 4)


# ---------- arrays of tensors, rows
def test_arrays_share_the_values_of_their_tensors() -> None:
    array, part = fluid.LoDTensorArray(), tensor()
    array.append(part)
    part.set(np.zeros((5, 2), "float32"), PLACE)
    part.set_lod([[0, 2, 5]])
    assert len(array) == 1 and np.array(array[0]).sum() == 0 and array[0].lod() == []
    with pytest.raises(TypeError):
        array.append(A)
    with pytest.raises(IndexError):
        array[1]
    assert len(array._move_to_list()) == 1 and len(array) == 0


def test_selected_rows() -> None:
    rows = core.SelectedRows([0, 4, 7], 10)
    rows.get_tensor().set(np.ones((3, 2), "float32"), PLACE)
    assert (rows.rows(), rows.height(), rows.numel()) == ([0, 4, 7], 10, 6)
    rows.set_rows([1, 2])
    rows.set_height(12)
    assert (rows.rows(), rows.height()) == ([1, 2], 12)
    assert (core.SelectedRows().rows(), core.SelectedRows().height()) == ([], 0)


# ------------------------------------------------------------------------------------------------ scopes
def test_scopes() -> None:
    scope = core.Scope()
    scope.var("a").get_tensor().set(A, PLACE)
    kid = scope.new_scope()
    kid.var("b")
    assert (
        kid.find_var("a") is scope.find_var("a")
        and scope.find_var("b") is None
        and scope.find_var("zz") is None
    )
    assert scope._kids() == [kid] and np.array_equal(np.array(scope.find_var("a").get_tensor()), A)
    scope.drop_kids()
    assert scope._kids() == []
    for wrong in (None, 3):
        with pytest.raises(TypeError):
            scope.var(wrong)
    before = fluid.global_scope()
    with fluid.scope_guard(scope):
        assert fluid.global_scope() is scope is fluid.executor.global_scope()
    assert fluid.global_scope() is before


def test_variables_of_scopes() -> None:
    scope = core.Scope()
    number, part = scope.var("i"), scope.var("f")
    assert not number.is_int() and not number.is_float()
    number.set_int(10)
    part.set_float(2.5)
    assert (number.is_int(), number.get_int(), number.is_float()) == (True, 10, False)
    assert (part.is_int(), part.get_float(), part.is_float()) == (False, 2.5, True)
    assert scope.var("l").get_lod_tensor_array() is scope.find_var("l").get_lod_tensor_array()
    scope.var("r").get_selected_rows().set_height(5)
    assert scope.find_var("r").get_selected_rows().height() == 5
    for wrong in ("x", 2.5):
        with pytest.raises(TypeError):
            number.set_int(wrong)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("i", "get_tensor"),
        ("i", "get_float"),
        ("r", "get_tensor"),
        ("l", "get_tensor"),
        ("t", "get_selected_rows"),
        ("nothing", "get_int"),
    ],
)
def test_a_variable_keeps_its_kind(name: str, method: str) -> None:
    scope = core.Scope()
    scope.var("i").set_int(3)
    scope.var("r").get_selected_rows()
    scope.var("l").get_lod_tensor_array()
    scope.var("t").get_tensor()
    with pytest.raises(core.EnforceNotMet):
        getattr(scope.var(name), method)()
