"""`paddle.save` and `paddle.load` of nested values, and the states of programs."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.errors import FormatError
from fluidlite.values.tensor import LoDTensor


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with unique_name.guard(), paddle.static.program_guard(main, startup):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


NESTED = {
    "a": np.ones(3, "float32"),
    "b": {"c": np.zeros((2, 0)), "flag": True, "none": None},
    "list": [1, -(2**40), 2.5, "text", np.int64(4)],
    "pair": (np.arange(3), False),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return bool(type(a) is type(b) and a == b)


def test_what_is_saved_comes_back(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "folder" / "state.pd")
    paddle.save(NESTED, path)
    found = paddle.load(path, return_numpy=True)
    expected = {**NESTED, "list": [1, -(2**40), 2.5, "text", np.array(4)]}
    assert same(found, expected)
    # pickles that Paddle's Python reads, which are made by NumPy in its own ways
    with open(path, "rb") as file:
        assert same(pickle.load(file), expected)
    assert isinstance(paddle.load(path)["b"]["c"], LoDTensor)
    paddle.save(np.ones(2), path)
    assert paddle.load(path).shape() == [2]


def test_tensors_of_paddle_are_read_and_nothing_is_evaluated(tmp_path: pathlib.Path) -> None:
    class Tensor:  # as 2.6.2 writes one
        def __reduce__(self) -> Any:
            return eval, ("data", {"data": np.ones(2)})

    class Code:
        def __reduce__(self) -> Any:
            return eval, ("1 + 1",)

    path = tmp_path / "tensor.pd"
    path.write_bytes(pickle.dumps([Tensor(), {"n": 1}], protocol=4))
    found = paddle.load(str(path), return_numpy=True)
    assert same(found, [np.ones(2), {"n": 1}])
    endless: list[Any] = []
    endless.append(endless)
    for hostile in (Code(), endless, {1: 2}, {1, 2}):
        path.write_bytes(pickle.dumps(hostile, protocol=4))
        with pytest.raises(FormatError, match=r"tensor\.pd"):
            paddle.load(str(path))


def test_states_of_programs_and_layers(tmp_path: pathlib.Path) -> None:
    x = paddle.static.data("x", [None, 3])
    layer = paddle.nn.Linear(3, 2)
    loss = paddle.mean(layer(x))
    optimizer = paddle.optimizer.Adam(0.1)
    optimizer.minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    program, path = paddle.static.default_main_program(), str(tmp_path / "state.pd")
    assert isinstance(program, paddle.static.Program)
    assert sorted(program.state_dict("param")) == ["linear_0.b_0", "linear_0.w_0"]
    assert "linear_0.w_0_moment1_0" in program.state_dict("opt")
    paddle.save(program.state_dict(), path)
    feed = {"x": np.ones((2, 3), "float32")}
    first = [executor.run(program, feed, [loss])[0] for _ in range(3)]
    program.set_state_dict(paddle.load(path))
    assert same([executor.run(program, feed, [loss])[0] for _ in range(3)], first)
    paddle.save({"layer": layer.state_dict(), "optimizer": optimizer.state_dict()}, path)
    state = paddle.load(path)
    assert state["layer"]["weight"].shape() == [3, 2] and layer.set_state_dict(state["layer"]) == ([], [])
    with pytest.warns(UserWarning, match=r"no variables named \['zz'\]"):
        program.set_state_dict({"zz": np.ones(1)})
    with pytest.raises(RuntimeError, match="shape"):
        program.set_state_dict({"linear_0.w_0": np.ones(1)})
    with pytest.raises(ValueError, match="'param', 'opt' or 'all'"):
        program.state_dict("some")
    with pytest.raises(TypeError, match="should be dict"):
        program.set_state_dict([1])


@pytest.mark.parametrize(
    ("value", "path", "protocol", "error"),
    [
        ({"a": object()}, "a.pd", 4, TypeError),
        ({1: 2}, "a.pd", 4, TypeError),
        ({"a": 1}, "", 4, ValueError),
        ({"a": 1}, "a.pd", 9, ValueError),
    ],
)
def test_mistakes(tmp_path: pathlib.Path, value: Any, path: str, protocol: int, error: type) -> None:
    with pytest.raises(error):
        paddle.save(value, str(tmp_path / path) if path else "", protocol)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="not exists"):
        paddle.load(str(tmp_path / "missing"))
