"""Updates that are alike: lowered once, and made loops of once, with the results of the interpreter."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.compile.lowering import optimizer as rules
from fluidlite.executor.fast.loops import compiler
from fluidlite.executor.fast.loops.nest import Nest

layers = fluid.layers
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: fluid.optimizer.Adam(0.05),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.05),
    "adamax": lambda: fluid.optimizer.Adamax(0.05),
    "decayed": lambda: fluid.optimizer.Momentum(
        0.05, 0.9, regularization=fluid.regularizer.L2Decay(0.1), use_nesterov=True
    ),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.05, momentum=0.9, centered=True),
}


def trained(optimizer: str, naive: bool) -> list[np.ndarray[Any, Any]]:
    """Losses of six steps, and the parameters after them."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 24])
        h = x
        for _ in range(4):
            h = layers.fc(h, 24, act="tanh")
        # a parameter whose gradient is made by element-wise steps of its own shape, right before its update
        w = layers.create_parameter([24], "float32", name="alone")
        loss = layers.reduce_mean(layers.square(h)) + layers.reduce_sum(layers.square(layers.tanh(w)))
        OPTIMIZERS[optimizer]().minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope):
        exe.run(startup)
        exe.naive = naive
        feed = {"x": np.random.RandomState(1).randn(8, 24).astype("float32")}
        losses = [exe.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(6)]
        names = [each.name for each in main.all_parameters()]
        return [*losses, *(np.array(scope.find_var(name).get_tensor()) for name in names)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loops", ["off", "background", "wait"])
def test_equals_the_interpreter(optimizer: str, loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    for found, wanted in zip(trained(optimizer, False), trained(optimizer, True), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=2e-6)


def test_the_rule_runs_once_for_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    emit = rules._emit

    def counted(e: Any, *rest: Any) -> Any:
        lowered.append(e.op.inputs["Param"][0])
        return emit(e, *rest)

    monkeypatch.setattr(rules, "_emit", counted)
    trained("adam", False)
    # four weights and five vectors of 24, the one of them that is alone among them
    assert len(lowered) == 2


def test_a_loop_is_looked_at_once_for_a_shape(
    monkeypatch: pytest.MonkeyPatch, flags: Callable[..., None]
) -> None:
    flags(fast_loops="background")
    # the room has a function of that name
    compile_loops = importlib.import_module("fluidlite.executor.passes.compile_loops")
    found: list[Any] = []
    kernel_of = compile_loops._kernel_of

    def counted(step: Any, *rest: Any) -> Any:
        if step.op is not None and step.op.type == "adam":
            found.append(step)
        return kernel_of(step, *rest)

    monkeypatch.setattr(compile_loops, "_kernel_of", counted)
    trained("adam", False)
    assert len(found) == 2


def test_texts_are_written_when_they_are_compiled(
    monkeypatch: pytest.MonkeyPatch, flags: Callable[..., None]
) -> None:
    flags(fast_loops="background")
    compiler.LOOPS.known.clear()
    written: list[Nest] = []
    text = Nest.text

    def counted(nest: Nest, *rest: Any) -> str:
        written.append(nest)
        return text(nest, *rest)

    monkeypatch.setattr(Nest, "text", counted)
    x = fluid.data("x", [None, 4096])
    y = layers.scale(layers.tanh(layers.scale(layers.tanh(x), 1.375)), 2.625)
    exe = fluid.Executor(fluid.CPUPlace())
    results = []
    for step in range(5):
        results += exe.run(feed={"x": np.ones((8, 4096), "float32")}, fetch_list=[y])
        if step == 0:
            assert not written
    # asked for by the second run, and in use from the fourth on
    assert len(written) == 1
    np.testing.assert_allclose(results[4], results[0], rtol=1e-5)


def test_explain_counts_every_step_of_an_update(flags: Callable[..., None]) -> None:
    flags(fast_loops="off")
    x = fluid.data("x", [8, 24])
    h = x
    for _ in range(4):
        h = layers.fc(h, 24, act="tanh")
    loss = layers.reduce_mean(h)
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    text = exe.explain(feed={"x": np.ones((8, 24), "float32")}, fetch_list=[loss], full=True)
    steps, lowered = map(int, re.findall(r"\d+", text.splitlines()[0]))
    assert lowered >= steps > 8 * 4  # each of eight parameters and its two moments are written by some


def moved_nearer(op: str, naive: bool) -> np.ndarray[Any, Any]:
    """A parameter after three steps whose last part reads two results of the first."""
    program, scope = fluid.Program(), fluid.Scope()
    block = program.global_block()
    slots = {"Param": "w", "Grad": "g", "LearningRate": "rate", "Moment": "m"}
    outputs = {"ParamOut": ["w"]}
    if op == "proximal_gd":
        del slots["Moment"]
    else:
        outputs["MomentOut"] = ["m"]
    for name in slots.values():
        shape = [1] if name == "rate" else [5, 3]
        block.create_var(name=name, shape=shape, dtype="float32", persistable=True)
        value = np.random.RandomState(len(name)).rand(*shape).astype("float32") + 0.5
        scope.var(name).get_tensor().set(value, fluid.CPUPlace())
    inputs = {slot: [name] for slot, name in slots.items()}
    block.append_op(type=op, inputs=inputs, outputs=outputs, attrs={"l1": 0.1, "l2": 0.2})
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    for _ in range(3):
        exe.run(program, scope=scope)
    return np.array(scope.find_var("w").get_tensor())


@pytest.mark.parametrize("op", ["proximal_gd", "proximal_adagrad"])
@pytest.mark.parametrize("loops", ["off", "wait"])
def test_a_loop_leaves_what_later_parts_read(op: str, loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    np.testing.assert_allclose(moved_nearer(op, False), moved_nearer(op, True), rtol=1e-6)
