"""Gradient ops: the same as those of PaddlePaddle 1.8.5 op by op, and right by number."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import backward_cases
import numpy as np
import pytest
from backward_cases import Builder
from optest import differences

import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.errors import ShapeError
from fluidlite.ir.operator import OpRole

with open(backward_cases.FILE, encoding="utf8") as _file:
    EXPECTED: dict[str, list[str]] = json.load(_file)


@pytest.fixture
def b() -> Any:
    """A builder of ops in a fresh program."""
    main = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
        yield Builder(main)


def loss_of(b: Builder) -> Any:
    return b.op("mean", X=b.fc(b.data("x", [4, 8]), b.param("w", [8, 8])))


@pytest.mark.parametrize("name", EXPECTED)
def test_same_as_paddle(name: str) -> None:
    assert backward_cases.build(fluid, name) == EXPECTED[name]


def test_every_case_is_recorded() -> None:
    assert set(EXPECTED) == set(backward_cases.CASES)


# ---------------------------------------------------------------------- numbers
def run(program: Any, feeds: dict[str, Any], fetches: list[Any], **values: Any) -> list[np.ndarray]:
    scope = fluid.Scope()
    for name, value in values.items():
        scope.var(name).set(value)
    found: list[np.ndarray] = fluid.Executor(fluid.CPUPlace()).run(program, feeds, fetches, scope=scope)
    return found


def test_shared_parameter_by_number(b: Builder) -> None:
    x, w = b.data("x", [4, 8]), b.param("w", [8, 8])
    ((_, gradient),) = fluid.backward.append_backward(b.op("mean", X=b.fc(b.fc(x, w), w)))
    rng = np.random.RandomState(0)
    feed, weight = rng.rand(4, 8).astype("float32"), (rng.rand(8, 8) - 0.5).astype("float32")
    (found,) = run(b.block.program, {"x": feed}, [gradient], w=weight)
    hidden = np.maximum(feed @ weight, 0)
    outer = (hidden @ weight > 0) / 32
    wanted = hidden.T @ outer + feed.T @ ((outer @ weight.T) * (hidden > 0))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_checkpoints_change_no_number() -> None:
    values = {f"w{n}": np.random.RandomState(n).rand(8, 8).astype("float32") - 0.4 for n in range(4)}
    feed = {"x": np.random.RandomState(9).rand(3, 8).astype("float32")}
    found = []
    for kept in ([], [1, 3]):
        main = fluid.Program()
        with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
            b = Builder(main)
            layers = [b.data("x", [3, 8])]
            for name in values:
                layers.append(b.fc(layers[-1], b.param(name, [8, 8])))
            pairs = fluid.backward.append_backward(
                b.op("mean", X=layers[-1]), checkpoints=[layers[n] for n in kept]
            )
        found.append(run(main, feed, [gradient for _, gradient in pairs], **values))
    for plain, recomputed in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, recomputed)


def test_second_derivative(b: Builder) -> None:
    x = b.data("x", [3], stop=False)
    y = b.op("elementwise_mul", X=b.op("elementwise_mul", X=x, Y=x), Y=x)
    second = fluid.gradients(fluid.gradients(y, x)[0], x)[0]
    (found,) = run(b.block.program, {"x": np.array([1, 2, -3], "float32")}, [second])
    np.testing.assert_allclose(found, [6, 12, -18], rtol=1e-6)


SECOND: dict[str, Any] = {
    "relu": lambda b, x, y: b.op("square", X=b.op("relu", X=x)),
    "leaky_relu": lambda b, x, y: b.op("square", X=b.op("leaky_relu", {"alpha": 0.1}, X=x)),
    "elu": lambda b, x, y: b.op("elu", {"alpha": 0.5}, X=x),
    "sqrt": lambda b, x, y: b.op("sqrt", X=b.op("square", X=y)),
    "square": lambda b, x, y: b.op("square", X=x),
    "add": lambda b, x, y: b.op("square", X=b.op("elementwise_add", {"axis": 0}, X=x, Y=y)),
    "sub": lambda b, x, y: b.op("square", X=b.op("elementwise_sub", {"axis": 0}, X=x, Y=y)),
    "mul": lambda b, x, y: b.op("elementwise_mul", {"axis": 0}, X=x, Y=y),
    "div": lambda b, x, y: b.op("elementwise_div", {"axis": 0}, X=x, Y=y),
    "reduce_sum": lambda b, x, y: b.op("square", X=b.op("reduce_sum", {"dim": [1]}, X=x)),
    "reduce_mean": lambda b, x, y: b.op("square", X=b.op("reduce_mean", {"dim": [0]}, X=x)),
    "slice": lambda b, x, y: b.op(
        "square", X=b.op("slice", {"axes": [1], "starts": [1], "ends": [3]}, Input=x)
    ),
    "expand": lambda b, x, y: b.op("square", X=b.op("expand", {"expand_times": [2, 1]}, X=x)),
    "matrix": lambda b, x, y: b.op(
        "mul", X=b.op("square", X=x), Y=b.op("square", X=b.data("w", [3, 2], "float64", False))
    ),
}


@pytest.mark.parametrize("kind", SECOND)
def test_second_derivatives(b: Builder, kind: str) -> None:
    x, y = b.data("x", [4, 3], "float64", stop=False), b.data("y", [4], "float64", stop=False)
    slopes = [slope for slope in fluid.gradients([SECOND[kind](b, x, y)], [x, y]) if slope is not None]
    total = b.op("sum", X=[b.op("mean", X=b.op("square", X=slope)) for slope in slopes])
    forward = b.block.program.clone()
    names = [name for name in ("x", "y", "w") if name in b.block.vars]
    second = fluid.gradients([total], [b.block.var(name) for name in names])
    rng = np.random.RandomState(3)
    feeds = {"x": rng.uniform(-1, 1, (4, 3)), "y": rng.uniform(0.5, 1, 4), "w": rng.uniform(0.5, 1, (3, 2))}
    feeds = {name: feeds[name] for name in names}
    for name, gradient in zip(names, second, strict=True):
        wanted = differences(
            lambda feed: float(run(forward, dict(feed), [total.name])[0][0]), feeds, name, 1e-5
        )
        found = np.zeros_like(wanted) if gradient is None else run(b.block.program, feeds, [gradient])[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7, err_msg=name)


def test_target_gradients(b: Builder) -> None:
    x, given = b.data("x", [2, 2], stop=False), b.data("given", [2, 2])
    (gradient,) = fluid.gradients([b.op("square", X=x)], [x], target_gradients=[given])
    feed = {"x": np.array([[1, 2], [3, 4]], "float32"), "given": np.array([[1, 0], [10, 1]], "float32")}
    np.testing.assert_allclose(run(b.block.program, feed, [gradient])[0], [[2, 0], [60, 8]])


# ---------------------------------------------------------------------- properties
def test_gradient_ops_remember_the_users_line(b: Builder) -> None:
    fluid.backward.append_backward(loss_of(b))
    ops = b.block.ops
    assert all(op.where == ops[0].where for op in ops if op.type in ("mul", "mul_grad"))
    assert [op.role for op in ops[2:4]] == [OpRole.Loss, OpRole.Backward | OpRole.Loss]


def test_gradients_follow_device_and_name_scope(b: Builder) -> None:
    with fluid.name_scope("block"), fluid.device_guard("cpu"):
        loss = loss_of(b)
    fluid.backward.append_backward(loss)
    for op in b.block.ops:
        assert op.attr("op_namescope") == "/block/" and op.attr("op_device") == "cpu"


def test_loss_of_a_clone(b: Builder) -> None:
    name = loss_of(b).name
    copy = b.block.program.clone()
    ((param, gradient),) = fluid.backward.append_backward(copy.global_block().var(name))
    assert (param.name, gradient.name) == ("w", "w@GRAD")
    assert not b.block.has_var("w@GRAD")


# ---------------------------------------------------------------------- mistakes
def test_loss_must_be_a_variable() -> None:
    with pytest.raises(TypeError, match=r"'loss' in fluid\.backward\.append_backward must be"):
        fluid.backward.append_backward("loss")  # type: ignore[arg-type]


def test_loss_must_be_scalar(b: Builder) -> None:
    with pytest.raises(ShapeError, match=r"the loss 'v2' has shape \[4, 8\], wanted one element"):
        fluid.backward.append_backward(b.fc(b.data("x", [4, 8]), b.param("w", [8, 8])))


def test_loss_must_come_from_an_op(b: Builder) -> None:
    with pytest.raises(ValueError, match="no op of the program makes the loss 'x'"):
        fluid.backward.append_backward(b.data("x", [1]))


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"parameter_list": "w"}, TypeError, "'parameter_list'"),
        ({"parameter_list": [1]}, TypeError, r"'parameter_list\[0\]'"),
        ({"no_grad_set": "w"}, TypeError, "no_grad_set should be set or list or tuple"),
        ({"no_grad_set": [1]}, TypeError, "no_grad_set's member"),
        ({"callbacks": 3}, TypeError, "'callbacks'"),
        ({"callbacks": [3]}, ValueError, "must be a callable object"),
    ],
)
def test_wrong_arguments(b: Builder, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fluid.backward.append_backward(loss_of(b), **arguments)


def test_unknown_parameters_have_no_gradient(b: Builder) -> None:
    assert fluid.backward.append_backward(loss_of(b), parameter_list=["nobody"]) == []


def test_wrong_target_gradients(b: Builder) -> None:
    loss = loss_of(b)
    with pytest.raises(ValueError, match="same number of target_gradients"):
        fluid.gradients([loss], [b.block.var("w")], target_gradients=[None, None])
    with pytest.raises(ValueError, match="shapes of target and grad are different"):
        fluid.gradients([loss], [b.block.var("w")], target_gradients=[b.data("q", [2])])


def test_input_of_another_program(b: Builder) -> None:
    other = Builder(fluid.Program())
    with pytest.raises(ValueError, match="must be in the same program"):
        fluid.gradients([loss_of(b)], [other.data("z", [1])])


# ---------------------------------------------------------------------- which ops have gradients
_MAKERS = pathlib.Path(__file__).parents[1] / "golden" / "gradient_makers.json"
MAKERS: dict[str, list[str]] = json.loads(_MAKERS.read_text(encoding="utf8"))


def test_the_ops_that_have_gradients_in_paddle_have_them_here() -> None:
    ops = {name: registry.find(name) for name in MAKERS["first"] + MAKERS["none"]}
    here = {name for name, op in ops.items() if op is not None and op.differentiable}
    known = {name for name, op in ops.items() if op is not None}
    assert here == known & set(MAKERS["first"])


def test_the_gradients_that_have_gradients_in_paddle_have_them_here() -> None:
    ops = {name: registry.find(name + "_grad") for name in MAKERS["first"]}
    found = {name: op for name, op in ops.items() if op is not None and op.differentiable}
    assert found.keys() >= set(MAKERS["second"])
