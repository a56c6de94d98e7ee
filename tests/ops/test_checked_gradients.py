"""Gradients of gradients as a checker asks for them, beside central differences of the program's own values.

Inputs are no feeds but persistable variables, whose values stand in the scope; so are the gradients of the
targets, which have the names that `gradients` would give them (`y@GRAD`), and at will the targets themselves.
`gradients` is called once for all targets, and again for each of what that gave, in one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

L = fluid.layers
STEP = 1e-5


def numbers(*shape: int, low: float = 0.3, high: float = 1.4) -> np.ndarray:
    """Numbers between `low` and `high`, with both signs where `low` is negative, and none close to 0."""
    found = np.random.RandomState(sum(shape)).uniform(low, high, shape)
    return found + np.where(np.abs(found) < 0.1, 0.3, 0.0)


def signed(*shape: int) -> np.ndarray:
    return numbers(*shape, low=-1.0, high=1.0)


def along(name: str) -> Callable[..., Any]:
    """An element-wise op whose second operand stands at the first axis."""
    return lambda x, y: getattr(L, name)(x, y, axis=0)


IMAGES, LAST = (2, 3, 2, 2), (2, 2, 2, 3)
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    **{name: (getattr(L, name), (signed(2, 3),)) for name in ("abs", "square", "relu", "leaky_relu", "elu")},
    **{name: (getattr(L, name), (signed(2, 3),)) for name in ("exp", "tanh", "sigmoid", "softmax", "gelu")},
    **{name: (getattr(L, name), (numbers(2, 3),)) for name in ("log", "sqrt", "rsqrt", "reciprocal")},
    "squeeze": (lambda x: L.squeeze(x, [0, 2]), (signed(1, 3, 1, 4),)),
    "unsqueeze": (lambda x: L.unsqueeze(x, [1, 2]), (signed(2, 3),)),
    "reshape": (lambda x: L.reshape(x, [3, -1]), (signed(2, 6),)),
    "expand": (lambda x: L.expand(x, [2, 3]), (signed(2, 3),)),
    "transpose": (lambda x: L.transpose(x, [1, 0, 2]), (signed(2, 3, 4),)),
    "slice": (lambda x: L.slice(x, [0, 1], [0, 1], [1, 3]), (signed(2, 4),)),
    "concat": (lambda x, y: L.concat([x, y], 1), (signed(2, 3), signed(2, 2))),
    "matmul": (L.matmul, (signed(2, 2, 3), signed(2, 3, 4))),
    "matmul of one matrix": (L.matmul, (signed(2, 2, 3), signed(3, 4))),
    "matmul transposed": (lambda x, y: L.matmul(x, y, True, True, 0.5), (signed(3, 2), signed(4, 3))),
    "mul": (lambda x, y: L.mul(x, y, 2, 1), (signed(2, 1, 3), signed(3, 2))),
    **{
        f"elementwise_{name}": (getattr(L, f"elementwise_{name}"), (numbers(2, 3), numbers(2, 3) + 0.05))
        for name in ("add", "sub", "mul", "div", "max", "min", "pow")
    },
    **{
        f"elementwise_{name} at an axis": (along(f"elementwise_{name}"), (numbers(2, 3, 4), numbers(2, 3)))
        for name in ("add", "sub", "mul", "div")
    },
    "reduce_mean": (lambda x: L.reduce_mean(x, [1], keep_dim=True), (signed(2, 3, 2),)),
    "reduce_sum": (lambda x: L.reduce_sum(x, [0, 2]), (signed(2, 3, 2),)),
    "mean": (L.mean, (signed(2, 3),)),
    "sums": (lambda x, y: L.sums([x, y]), (signed(2, 3), signed(2, 3))),
    "two targets": (lambda x: [L.square(x), L.tanh(x)], (signed(2, 3),)),
    "fc": (lambda x: L.fc(x, 2, act="tanh"), (signed(2, 3),)),
    "conv2d": (lambda x: L.conv2d(x, 2, 2, padding=1, stride=2), (signed(1, 2, 4, 4),)),
    "conv2d of groups": (lambda x: L.conv2d(x, 2, 2, groups=2, use_cudnn=False), (signed(1, 2, 4, 4),)),
    "conv2d, channels last": (lambda x: L.conv2d(x, 2, 2, data_format="NHWC"), (signed(1, 4, 4, 2),)),
    "conv2d_transpose": (lambda x: L.conv2d_transpose(x, 2, filter_size=2), (signed(1, 2, 3, 3),)),
    "pool2d": (lambda x: L.pool2d(x, 2, "avg", pool_padding=1), (signed(1, 2, 4, 4),)),
    "pool2d of largest": (lambda x: L.pool2d(x, 2, "max"), (signed(1, 2, 4, 4),)),
    "batch_norm": (L.batch_norm, (signed(*IMAGES),)),
    "batch_norm, channels last": (lambda x: L.batch_norm(x, data_layout="NHWC"), (signed(*LAST),)),
    "batch_norm of a test": (lambda x: L.batch_norm(x, is_test=True), (signed(*IMAGES),)),
    "batch_norm of a test, channels last": (
        lambda x: L.batch_norm(x, is_test=True, data_layout="NHWC"),
        (signed(*LAST),),
    ),
    "batch_norm of global statistics": (lambda x: L.batch_norm(x, use_global_stats=True), (signed(*IMAGES),)),
    "instance_norm": (L.instance_norm, (signed(2, 3, 3, 2),)),
    "layer_norm": (L.layer_norm, (signed(2, 3),)),
}


@dataclass
class Checker:
    """One program, with the values of the variables that its gradients are taken by."""

    is_kept: bool
    main: Any = field(default_factory=fluid.Program)
    startup: Any = field(default_factory=fluid.Program)
    scope: Any = field(default_factory=fluid.Scope)
    exe: Any = field(default_factory=lambda: fluid.Executor(fluid.CPUPlace()))
    inputs: dict[Any, np.ndarray] = field(default_factory=dict)

    def build(self, layer: Callable[..., Any], values: tuple[np.ndarray, ...]) -> list[Any]:
        """The targets; inputs and parameters get their values."""
        with fluid.program_guard(self.main, self.startup):
            for at, value in enumerate(values):
                self.inputs[L.data(f"x{at}", list(value.shape), False, "float64")] = value
            made = layer(*self.inputs)
        self.exe.run(self.startup, scope=self.scope)
        trained = [parameter for parameter in self.main.all_parameters() if parameter.trainable]
        self.inputs.update((one, numbers(*one.shape)) for one in trained)
        for var in self.inputs:
            var.stop_gradient, var.persistable = False, True
        return self.kept(made if isinstance(made, list) else [made])

    def kept(self, targets: list[Any]) -> list[Any]:
        for target in targets:
            target.persistable = self.is_kept
        return targets

    def incoming(self, targets: list[Any]) -> dict[Any, np.ndarray]:
        """Gradients of targets, declared by the caller under their own names, with values."""
        block = self.main.global_block()
        return {
            block.create_var(
                name=f"{one.name}@GRAD", shape=one.shape, dtype=one.dtype, persistable=True
            ): np.cos(len(one.name) + np.arange(float(np.prod(one.shape, dtype=int)))).reshape(one.shape)
            for one in targets
        }

    def gradients(self, targets: list[Any], incoming: dict[Any, np.ndarray]) -> list[Any]:
        with fluid.program_guard(self.main, self.startup):
            return fluid.gradients(targets, list(self.inputs), list(incoming))

    def values(self, fetches: list[Any], moved: dict[Any, np.ndarray], given: Any) -> list[np.ndarray]:
        """The results of a run where some inputs have other values."""
        for var, value in {**self.inputs, **given, **moved}.items():
            self.scope.var(var.name).get_tensor().set(value.astype("float64"), fluid.CPUPlace())
        return self.exe.run(self.main, fetch_list=fetches, scope=self.scope)

    def check(self, targets: list[Any]) -> None:
        """The gradients of each target by all inputs, beside differences."""
        for target in targets:
            given = self.incoming([target])
            (weights,) = given.values()
            gradients = self.gradients([target], given)
            found = iter(self.values([one for one in gradients if one is not None], {}, given))
            for (var, value), gradient in zip(self.inputs.items(), gradients, strict=True):
                way = np.sin(1.0 + np.arange(value.size)).reshape(value.shape)
                ends = [self.values([target], {var: value + at * way}, given)[0] for at in (STEP, -STEP)]
                wanted = (weights * (ends[0] - ends[1])).sum() / (2 * STEP)
                slope = 0.0 if gradient is None else (next(found) * way).sum()
                assert slope == pytest.approx(wanted, rel=1e-5, abs=1e-5), (target.name, var.name)


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_what_a_scope_holds(name: str, order: int, is_kept: bool) -> None:
    checker = Checker(is_kept)
    with fluid.unique_name.guard():
        targets = checker.build(*CASES[name])
        for _ in range(order - 1):
            given = checker.incoming(targets)
            found = checker.gradients(targets, given)
            checker.inputs.update(given)
            for var in given:
                var.stop_gradient = False
            targets = checker.kept([gradient for gradient in found if gradient is not None])
        checker.check(targets)


def test_what_no_gradient_goes_through() -> None:
    checker = Checker(True)
    x, y = (L.data(name, [3], False, "float64") for name in "xy")
    with fluid.unique_name.guard():
        (target,) = checker.build(lambda x, y: L.elementwise_mul(L.square(x), y), (numbers(3), numbers(3)))
    x, y = checker.inputs
    with fluid.program_guard(checker.main):
        of_x, of_y = fluid.gradients(target, [x, y], no_grad_set={y.name})
        assert of_x is not None and of_y is None
        (second,) = fluid.gradients(of_x, [x], no_grad_set={y.name})
    (found,) = checker.values([second], {}, {})
    assert found == pytest.approx(2 * numbers(3))


def test_third_derivatives_of_products_with_what_has_no_gradient() -> None:
    checker = Checker(False)
    factor = numbers(2, 3)
    with fluid.unique_name.guard():
        (target,) = checker.build(
            lambda x: x * x * x * L.cast(L.assign(factor.astype("float32")), "float64"), (signed(2, 3),)
        )
    (x,) = checker.inputs
    with fluid.program_guard(checker.main):
        for _ in range(3):
            (target,) = fluid.gradients(target, x)
    (found,) = checker.values([target], {}, {})
    assert found == pytest.approx(6 * factor, rel=1e-6)
