"""Methods of Variables of programs of 2.x, and switches that programs take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import UnsupportedError
from fluidlite.paddle.tensor.names import METHODS


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


def _run(fetches: list[Any], feed: dict[str, Any] | None = None) -> list[Any]:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    found: list[Any] = exe.run(paddle.static.default_main_program(), feed=feed or {}, fetch_list=fetches)
    return found


def test_a_hook_changes_the_gradient_of_all_uses() -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    x.stop_gradient = False
    y = x * 2
    seen = []

    def triple(gradient: Any) -> Any:
        seen.append(gradient)
        return gradient * 3

    assert y.register_hook(triple) is None
    (slope,) = paddle.static.gradients([paddle.sum(y * y)], [x])
    (found,) = _run([slope], {"x": np.ones((2, 3), "float32")})
    np.testing.assert_array_equal(found, np.full((2, 3), 24.0))
    np.testing.assert_array_equal(seen[0], np.full((2, 3), 4.0))


def test_values_in_a_scope() -> None:
    weight = paddle.create_parameter([2, 2], "float32")
    with pytest.raises(ValueError, match="Can not find Variable"):
        weight.get_value()
    _run([weight])
    weight.set_value(np.full((2, 2), 5, "float32"))
    np.testing.assert_array_equal(np.asarray(weight.get_value()), np.full((2, 2), 5))
    with pytest.raises(ValueError, match=r"expected a shape \[2, 2\], but the received shape is \[2, 3\]"):
        weight.set_value(np.ones((2, 3)))
    with pytest.raises(TypeError, match="`value` should be"):
        weight.set_value([1, 2])
    with pytest.raises(TypeError, match="`scope` should be None"):
        weight.get_value(3)


def test_arrays_grow() -> None:
    x = paddle.static.data("x", [2], "float32")
    array = paddle.tensor.create_array("float32")
    array.append(x)
    array.append(x + 1)
    length = paddle.tensor.array_length(array)
    last = paddle.tensor.array_read(array, length - 1)
    found = _run([length, last], {"x": np.array([3, 4], "float32")})
    assert int(found[0]) == 2 and found[1].tolist() == [4, 5]
    with pytest.raises(TypeError, match="Only Variable with VarType.LOD_TENSOR_ARRAY"):
        x.append(x)


def test_one_element() -> None:
    one, three = paddle.static.data("one", [1], "float32"), paddle.static.data("three", [3], "float32")
    assert one.item() is one and one.place() is None and not one.is_view_var
    with pytest.raises(TypeError, match=r"needs one element, not the shape \[3\]"):
        three.item()


def test_no_attribute_hides_a_method() -> None:
    x, weight = paddle.static.data("x", [3], "bool"), paddle.create_parameter([3], "float32")
    for var in (x, weight, weight + 1):
        hidden = {
            name for name in METHODS if name in vars(var) or not callable(getattr(type(var), name, len))
        }
        assert hidden == {"shape"}  # in 2.6.2, too
    (found,) = _run([x.where(weight * 0, weight * 0 + 1)], {"x": np.array([True, False, True])})
    np.testing.assert_array_equal(found, [0, 1, 0])


@pytest.mark.parametrize("name", [name for name, (home, _) in METHODS.items() if home.endswith("imperative")])
def test_methods_of_imperative_mode_say_so(name: str) -> None:
    x = paddle.static.data("x", [3], "float32")
    with pytest.raises(UnsupportedError, match=f"paddle.{name}: "):
        getattr(x, name)()


@pytest.mark.parametrize("name", ["LazyGuard", "as_strided", "normal_", "tolist", "view", "view_as"])
def test_functions_of_imperative_mode_say_so(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"paddle.{name}: .*(imperative mode|programs have)"):
        getattr(paddle, name)()


def test_switches_that_change_nothing() -> None:
    with paddle.enable_grad(), paddle.set_grad_enabled(True), paddle.no_grad():
        assert not paddle.is_grad_enabled()

    @paddle.no_grad()
    def one() -> int:
        return 1

    assert one() == 1 == paddle.no_grad(one)()
    paddle.set_printoptions(precision=3, sci_mode=False)
    paddle.disable_signal_handler()
    with pytest.raises(TypeError, match="precision"):
        paddle.set_printoptions(precision="a")


def test_random_numbers_go_on_from_a_state() -> None:
    x = paddle.rand([4])
    state = paddle.get_rng_state()
    first = _run([x])[0]
    paddle.set_rng_state(state)
    np.testing.assert_array_equal(_run([x])[0], first)
    with pytest.raises(ValueError, match="should be equal to 1, but received 2"):
        paddle.set_rng_state([1, 2])
    with pytest.raises(ValueError, match="The device must be a string"):
        paddle.get_rng_state("foo")


def _float() -> Any:
    return paddle.ones([2], "float32")


@pytest.mark.parametrize("shape", [lambda: 3, lambda: [2, "a"], _float, lambda: [_float()]])
def test_shapes_that_are_none(shape: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="in op must be"):
        paddle.check_shape(shape(), "op")


def test_shapes() -> None:
    for shape in ([2, -1], (), paddle.ones([2], "int32"), [2, paddle.ones([1], "int64")]):
        paddle.check_shape(shape, "op")
