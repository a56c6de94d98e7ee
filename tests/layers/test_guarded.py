"""Errors at the door of the layers: accidents are told as what they are, the errors of users left alone."""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fluidlite as fluid

DOORS = "control_flow detection io learning_rate_scheduler loss metric_op nn ops rnn sequence_lod tensor"
LAYERS = [name for name in fluid.layers.__all__ if inspect.isfunction(getattr(fluid.layers, name))]


def test_an_accident_names_layer_arguments_and_line() -> None:
    image = fluid.data("image", [2, 3, 4, 4])
    with pytest.raises(fluid.core.EnforceNotMet) as found:
        fluid.layers.im2sequence(image, filter_size=2.5)
    text = str(found.value)
    assert "in layers.im2sequence(image, filter_size=2.5)" in text and "test_guarded.py" in text
    assert isinstance(found.value, (TypeError)) and isinstance(found.value.__context__, TypeError)
    assert type(pickle.loads(pickle.dumps(found.value))).__name__ == "ArgumentError"


def test_an_accident_is_of_the_class_that_python_raised() -> None:
    with pytest.raises(AttributeError):
        fluid.layers.unstack(3)


class Wrong(TypeError):
    """An error of the user's."""


def wrong(*args: Any) -> Any:
    raise Wrong("mine")


def plain(*args: Any) -> Any:
    raise ValueError("mine")


@pytest.mark.parametrize("raises, kind", [(wrong, Wrong), (plain, ValueError)])
@pytest.mark.parametrize(
    "call",
    [
        lambda function, x: fluid.layers.cond(fluid.layers.less_than(x, x), function, function),
        lambda function, x: fluid.layers.while_loop(function, function, [x]),
        lambda function, x: fluid.layers.case([(fluid.layers.less_than(x, x), function)]),
        lambda function, x: fluid.layers.switch_case(fluid.layers.cast(x, "int32"), {1: function}),
    ],
)
def test_errors_of_the_users_functions_are_left_alone(
    call: Callable[..., Any], raises: Callable[..., Any], kind: type[Exception]
) -> None:
    x = fluid.data("x", [1])
    with pytest.raises(ValueError if kind is ValueError else Wrong) as found:
        call(raises, x)
    assert type(found.value) is kind and str(found.value) == "mine"


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_guarded_and_found_by_its_name(name: str) -> None:
    layer = getattr(fluid.layers, name)
    assert inspect.unwrap(layer) is not layer
    assert pickle.loads(pickle.dumps(layer)) is layer
    doors = [importlib.import_module(f"fluidlite.layers.{door}") for door in DOORS.split()]
    assert all(vars(door)[name] is layer for door in doors if name in door.__all__)
    assert inspect.getfullargspec(layer).args == inspect.getfullargspec(inspect.unwrap(layer)).args
