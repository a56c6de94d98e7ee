"""Gradients of gradients are right, by differences, or refused by name: of every op, and of what ops make."""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from optest import Case, build, check_gradient, run
from second import check, differentiated, is_refused, second_of
from test_ops import CASES

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite import layers
from fluidlite.base import registry
from fluidlite.base.differentiation import GradientTape, NoDerivative, TracedModule, plain, pull
from fluidlite.base.errors import UnsupportedError
from fluidlite.base.flags import FIRST_OF_2X
from fluidlite.paddle import static
from fluidlite.paddle.nn import functional

WITH_GRADIENT = [case for case in CASES if case.grad]
FIRST_OF_EACH = list({case.op: case for case in reversed(WITH_GRADIENT)}.values())
WITH_SEVERAL = [case for case in FIRST_OF_EACH if len(registry.get(case.op).outputs) > 1]


@pytest.fixture(autouse=True, scope="module")
def nothing_holds_a_tape() -> Iterator[None]:
    """A tape holds all arrays of its call: no cache of a kernel may keep one."""
    yield
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, GradientTape)]


@pytest.fixture(autouse=True)
def a_tape_belongs_to_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that share the rows of a kernel would lose each other's steps, one time in a hundred."""
    begin, note = GradientTape.__init__, GradientTape.note

    def begins(tape: Any, level: int) -> None:
        begin(tape, level)
        tape.thread = threading.get_ident()

    def noted(tape: Any, parents: Any) -> int:
        assert tape.thread == threading.get_ident()
        return note(tape, parents)

    monkeypatch.setattr(GradientTape, "__init__", begins)
    monkeypatch.setattr(GradientTape, "note", noted)


def test_every_gradient_op_has_a_gradient_or_says_why_not() -> None:
    ops = [registry.get(name) for name in registry.known_types()]
    gradient_ops = [op for op in ops if op.forward is not None or op.type.endswith("_grad")]
    assert len(gradient_ops) > 300
    assert [op.type for op in gradient_ops if op.differentiable == bool(op.opaque)] == []


def check_second(case: Case, whole: bool, saved: Sequence[str] = ()) -> None:
    if not is_refused(case):
        check(second_of(case, saved), str(case), whole=whole)
        return
    with pytest.raises(UnsupportedError, match=f"op '{case.op}"):
        second_of(case, saved)


@pytest.mark.parametrize("case", FIRST_OF_EACH, ids=str)
def test_second_derivative(case: Case) -> None:
    check_second(case, whole=False)


@pytest.mark.parametrize("case", WITH_SEVERAL, ids=str)
def test_second_derivative_by_what_was_saved(case: Case) -> None:
    taken = case.wants or [next(iter(registry.get(case.op).outputs))]
    check_second(case, False, [slot for slot in registry.get(case.op).outputs if slot not in taken])


@pytest.mark.slow
@pytest.mark.parametrize("case", WITH_GRADIENT, ids=str)
def test_second_derivative_in_every_element(case: Case) -> None:
    check_second(case, whole=True)


# ---------------------------------------------------------------------- every output
def other_outputs(case: Case) -> list[str]:
    """Output slots of real numbers that the row's gradient is not taken of."""
    op = registry.get(case.op)
    taken = case.wants or [next(iter(op.outputs))]
    slots = [slot for slot in op.outputs if slot not in (*taken, *op.constants, "W_Out", "ReserveSpace")]
    return [slot for slot in slots if _is_real(case, slot)]


def _of_output(case: Case, slot: str) -> Case:
    return dataclasses.replace(case, wants=[slot], ignore=[*case.ignore, slot])


def _is_real(case: Case, slot: str) -> bool:
    program, feeds, outputs = build(_of_output(case, slot), "float64")
    values = [np.asarray(value) for value in run(program, feeds, outputs[slot])]
    return all(value.dtype.kind == "f" and value.size for value in values)


@pytest.mark.parametrize("case", WITH_SEVERAL, ids=str)
def test_gradients_into_every_output(case: Case) -> None:
    """They go back to the inputs, also where 1.8.5 drops them; where numbers are drawn, there is an error."""
    for slot in other_outputs(case):
        try:
            check_gradient(_of_output(case, slot))
        except UnsupportedError as error:
            assert registry.get(case.op).random and f"output {slot}" in str(error)


# ---------------------------------------------------------------------- a few layers
_STEPS: list[Callable[[Any], Any]] = [
    layers.tanh,
    layers.sigmoid,
    layers.softmax,
    layers.gelu,
    layers.exp,
    layers.softplus,
    layers.square,
    lambda x: layers.elementwise_mul(x, layers.reverse(x, [1])),
    lambda x: layers.elementwise_div(x, layers.square(x) + 1.0),
    lambda x: layers.elementwise_add(x, layers.reduce_mean(x, dim=1), axis=0),
    lambda x: layers.elementwise_mul(layers.reduce_sum(x, dim=0), x),
    lambda x: layers.matmul(x, x, transpose_y=True),
    lambda x: layers.transpose(x, [1, 0]),
    lambda x: layers.concat([x, layers.sin(x)], axis=1),
    lambda x: layers.stack([x, x * x])[1],
    lambda x: layers.layer_norm(x, scale=False, shift=False),
    lambda x: layers.l2_normalize(x, axis=1),
    lambda x: layers.cumsum(x, axis=1),
    lambda x: layers.pad(x, [1, 0, 0, 2], 0.5),
    lambda x: layers.gather(x, layers.assign(np.array([1, 0, 1], "int64")), overwrite=False),
    lambda x: layers.slice(x, [1], [0], [3]),
    lambda x: layers.reshape(x, [-1, 2])[0:2],
    lambda x: layers.log(layers.square(x) + 0.5),
    lambda x: layers.scale(x, 0.7, 0.1),
    lambda x: layers.pow(layers.square(x) + 0.5, 1.5),
]


def check_composition(seed: int) -> None:
    """Two to four random layers, one behind the other, beside a branch that joins them at the end."""
    rng = np.random.RandomState(seed)
    program = fluid.Program()
    with fluid.program_guard(program):
        x = fluid.data("x", [4, 4], "float64")
        x.stop_gradient = False
        chosen = rng.randint(len(_STEPS), size=rng.randint(2, 5))
        y = x
        for number in chosen:
            y = _STEPS[number](y * 0.5)
        loss = layers.reduce_sum(layers.square(y)) + layers.reduce_sum(x * layers.sin(x))
    feeds = {"x": rng.uniform(0.2, 0.9, (4, 4))}
    slopes = differentiated(program, feeds, loss, [x])
    check(slopes, f"layers {chosen.tolist()} (seed {seed})", tolerance=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_composition(seed: int) -> None:
    check_composition(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_compositions(seed: int) -> None:
    check_composition(seed)


# ---------------------------------------------------------------------- parts, constants, refusals
def fed(shape: list[int], of_2x: bool = False) -> tuple[fluid.Program, Any]:
    """A program with a variable `x` of float64 that has a gradient."""
    program = fluid.Program()
    if of_2x:
        program.file_version = FIRST_OF_2X
    with fluid.program_guard(program):
        x = fluid.data("x", shape, "float64")
        x.stop_gradient = False
    return program, x


def ones() -> Any:
    return layers.fill_constant([3, 4], "float64", 1.0)


@pytest.mark.parametrize(
    ("function", "of_2x"),
    [
        (lambda x: layers.split(x * x, 2, dim=1)[0], True),
        (lambda x: layers.meshgrid([layers.reshape(x * x, [-1]), layers.reshape(x, [-1])])[0], True),
        (lambda x: layers.concat([x * x, ones()]), False),
        (lambda x: layers.concat([x * x, ones()]), True),
        (lambda x: layers.stack([x * x, ones()])[0], False),
    ],
)
def test_parts_that_have_no_gradient(function: Callable[[Any], Any], of_2x: bool) -> None:
    program, x = fed([3, 4], of_2x)
    with fluid.program_guard(program):
        y = function(x)
        loss = layers.reduce_sum(y * y * y)
    feeds = {"x": np.random.RandomState(3).uniform(0.2, 0.9, (3, 4))}
    check(differentiated(program, feeds, loss, [x]), "parts")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: functional.layer_norm(x, [4], weight=w),
        lambda x, w: paddle.linalg.svd(x * w)[1],
        lambda x, w: paddle.topk(x * x * w, 2)[0],
    ],
)
def test_gradients_of_ones_by_default(function: Callable[[Any, Any], Any]) -> None:
    """Those of a target that nothing else reads are those of ones that are given."""
    with static.program_guard(static.Program()):
        inputs = [static.data("x", [3, 4], "float64"), static.data("w", [4], "float64")]
        for var in inputs:
            var.stop_gradient = False
        target = function(*inputs)
        seconds = []
        for incoming in (None, [paddle.cos(paddle.zeros(target.shape, "float64"))]):
            first = static.gradients([target], inputs, incoming)
            seconds += static.gradients([paddle.sum(one * one) for one in first], inputs)
        rng = np.random.RandomState(3)
        feed = {"x": rng.uniform(0.2, 0.9, (3, 4)), "w": rng.uniform(0.2, 0.9, 4)}
        found = static.Executor().run(feed=feed, fetch_list=seconds)
    for one, wanted in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-6)
        assert np.abs(wanted).max() > 1e-6


def test_given_gradients_of_a_gradient() -> None:
    program, x = fed([2])
    with fluid.program_guard(program):
        w = fluid.data("w", [2], "float64")
        first = fluid.gradients([layers.reduce_sum(x * x * x * x)], [x])
        second = fluid.gradients(first, [x], target_gradients=[w])
    feed = {"x": np.array([0.5, 2.0]), "w": np.array([1.0, 3.0])}
    (found,) = fluid.Executor(fluid.CPUPlace()).run(program, feed=feed, fetch_list=second)
    np.testing.assert_allclose(found, [3, 144])


@pytest.mark.parametrize("slope", [1.0, 0.5])
def test_constants_stay_constant(slope: float) -> None:
    """Comparisons, places of maxima, whole numbers: nothing goes through them, and nothing is refused."""
    program, x = fed([2, 2])
    with fluid.program_guard(program):
        first = fluid.gradients([layers.reduce_sum(x * x * slope)], [x])[0]
        steps = layers.cast(layers.greater_than(first, layers.zeros_like(first)), "float64")
        place = layers.cast(layers.argmax(first, axis=1), "float64")
        loss = layers.reduce_sum(first * first) + layers.reduce_sum(steps) + layers.reduce_sum(place)
        second = fluid.gradients([loss], [x])
    points = np.array([[0.5, -1.0], [2.0, 3.0]])
    (found,) = fluid.Executor(fluid.CPUPlace()).run(program, feed={"x": points}, fetch_list=second)
    np.testing.assert_allclose(found, 8 * slope * slope * points)


def _loop(x: Any) -> Any:
    start = [layers.fill_constant([1], "int64", 0), x * 1.0]
    return layers.while_loop(lambda i, _: i < 3, lambda i, v: [i + 1, v * x], start)[1]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (_loop, "while_grad"),
        (lambda x: layers.cond(layers.reduce_sum(x) > 0, lambda: x * x, lambda: x), "conditional_block_grad"),
    ],
)
def test_what_is_refused(function: Callable[[Any], Any], name: str) -> None:
    """The op and the user's line, where a gradient goes through it; nothing where none does."""
    program, x = fed([3, 4])
    with fluid.program_guard(program):
        y = function(x)
        (first,) = fluid.gradients([layers.reduce_sum(y * y)], [x])
        loss = layers.reduce_sum(first * first)
        assert fluid.gradients([layers.reduce_sum(x * x)], [x])[0] is not None
        with pytest.raises(UnsupportedError, match=f"op '{name}' has no gradient.*(?s:.)*built at .*py:"):
            fluid.gradients([loss], [x])


def test_complex_numbers_are_refused() -> None:
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [3], "float64")
        x.stop_gradient = False
        size = paddle.abs(paddle.exp(paddle.complex(x, x * 2.0)))
        (first,) = static.gradients([(size * size).sum()], [x])
        with pytest.raises(UnsupportedError, match="its values are complex"):
            static.gradients([(first * first).sum()], [x])


def test_a_step_without_a_derivative_is_no_constant() -> None:
    """A kernel cannot lose what its arrays depend on: it fails instead."""
    tape = GradientTape(1)
    x = tape.variable(np.arange(3.0))
    xp: Any = TracedModule(np, tape)
    for step in (
        lambda: np.asarray(x),
        lambda: float(x[0]),
        lambda: np.sort(x),
        lambda: np.multiply(x, 2, out=np.empty(3)),
        lambda: np.zeros(3).__setitem__(slice(None), x),
        lambda: np.linalg.eigh(xp.diag(x)),
    ):
        with pytest.raises(NoDerivative):
            step()


def test_writes_through_views_are_seen() -> None:
    tape = GradientTape(1)
    x = tape.variable(np.arange(1.0, 7.0))
    xp: Any = TracedModule(np, tape)
    table = xp.zeros((2, 3))
    table.T[...] = (x * x).reshape(3, 2)
    table.reshape(-1)[1:3] *= 2.0
    xp.einsum("ij->ji", table)[0, 1] = 0.0
    np.testing.assert_array_equal(plain(table), [[1, 18, 50], [0, 16, 36]])
    (found,) = pull([(table, np.ones((2, 3)))], [x])
    np.testing.assert_array_equal(found, [2, 0, 12, 8, 20, 12])


# ---------------------------------------------------------------------- labels
LABELLED = {
    "sigmoid_cross_entropy_with_logits": layers.sigmoid_cross_entropy_with_logits,
    "kldiv_loss": layers.kldiv_loss,
    "smooth_l1": lambda x, y: layers.smooth_l1(x, layers.ones_like(x), y, layers.ones_like(x)),
}


@pytest.mark.parametrize("name", LABELLED)
def test_what_has_no_gradient_has_none_of_any_order(name: str) -> None:
    x, y = fluid.data("x", [2, 3], "float64"), fluid.data("y", [2, 3], "float64")
    x.stop_gradient = y.stop_gradient = False
    dx, none = fluid.gradients(layers.square(LABELLED[name](x, y)), [x, y])
    ddx, no_second = fluid.gradients(layers.reduce_sum(dx * dx), [x, y])
    assert none is None and no_second is None and ddx is not None


# ---------------------------------------------------------------------- recurrences in one call
RECURRENT: dict[str, Callable[[Any], Any]] = {
    "dynamic_gru": lambda x: layers.dynamic_gru(layers.fc(x, 6), 2),
    "dynamic_lstm": lambda x: layers.dynamic_lstm(layers.fc(x, 8), 8)[0],
    "dynamic_lstmp": lambda x: layers.dynamic_lstmp(layers.fc(x, 8), 8, 3)[0],
}


@pytest.mark.parametrize("name", RECURRENT)
def test_second_derivatives_beside_compiled_recurrences(name: str, flags: Callable[..., None]) -> None:
    x = fluid.data("x", [-1, 3], "float32", lod_level=1)
    x.stop_gradient = False
    (dx,) = fluid.gradients(RECURRENT[name](x), [x])
    (ddx,) = fluid.gradients(layers.reduce_sum(dx * dx), [x])
    values = np.random.RandomState(0).randn(5, 3).astype("float32")
    feed = {"x": fluid.create_lod_tensor(values, [[3, 2]], fluid.CPUPlace())}
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    found = []
    for loops in ("off", "wait"):
        flags(fast_loops=loops)
        exe = fluid.Executor(fluid.CPUPlace())
        found.append([exe.run(feed=feed, fetch_list=[ddx], return_numpy=False)[0] for _ in range(3)][-1])
    np.testing.assert_allclose(*map(np.array, found), rtol=1e-4, atol=1e-6)
