"""`paddle.optimizer` and its schedules beside 2.6.2."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import optimizers_2x as cases

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.base.errors import ArgumentError
from fluidlite.paddle.optimizer import lr

RECORDED = json.loads(pathlib.Path(cases.PATH).read_text())


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_schedules(name: str) -> None:
    assert cases.schedule(lr, name) == pytest.approx(RECORDED["schedules"][name], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", cases.PLATEAUS)
def test_plateaus(name: str) -> None:
    assert cases.plateau(lr, name) == pytest.approx(RECORDED["plateaus"][name], rel=1e-12)


def parameter(name: str) -> Any:
    one = fluid.initializer.Constant(1.0)
    return fluid.layers.create_parameter([2], "float32", name=name, default_initializer=one)


def halves(optimizer: Any) -> None:
    """A program that trains a weight of half precision."""
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        weight = paddle.create_parameter([2], "float16")
        optimizer.minimize(paddle.sum(weight * weight))


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam", "AdamW", "Lamb"])
def test_weights_of_one_precision_need_no_copies(kind: str) -> None:
    def ops(**options: bool) -> list[Any]:
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            loss = paddle.mean(parameter("w"))
            made, _ = getattr(paddle.optimizer, kind)(0.1, **options).minimize(loss)
            marks = ("op_namescope", "op_callstack")
            return [{key: value for key, value in op.attrs.items() if key not in marks} for op in made]

    assert ops(multi_precision=True) == ops()


def test_a_clip_that_may_be_skipped() -> None:
    clip = paddle.nn.ClipGradByGlobalNorm(0.5, "group", auto_skip_clip=True)
    assert (clip.clip_norm, clip.group_name, clip.auto_skip_clip) == (0.5, "group", True)


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_updates(name: str) -> None:
    """Parameters after four steps, learning rates, the ops of the update and the shapes of its state."""
    found, recorded = cases.update(paddle, parameter, name), RECORDED["updates"][name]
    assert found["rates"] == pytest.approx(recorded["rates"])
    np.testing.assert_allclose(found["values"], recorded["values"], rtol=3e-6, atol=1e-7)
    assert found["ops"] == recorded["ops"] and found["shapes"] == recorded["shapes"]


def test_schedules_go_on_from_a_state() -> None:
    first = lr.LinearWarmup(lr.StepDecay(0.5, 3, 0.5), 2, 0.0, 0.5)
    for _ in range(4):
        first.step()
    second = lr.LinearWarmup(lr.StepDecay(0.5, 3, 0.5), 2, 0.0, 0.5)
    second.set_state_dict(first.state_dict())
    for _ in range(5):
        first.step()
        second.step()
        assert first() == second()
    with pytest.raises(RuntimeError, match="last_lr"):
        second.set_state_dict({"last_epoch": 3})
    with pytest.warns(UserWarning, match="unused values"):
        lr.StepDecay(0.5, 3).set_dict({"last_epoch": 1, "last_lr": 0.5, "more": 2})


def test_a_verbose_schedule(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        lr.ExponentialDecay(0.5, 0.5, verbose=True).step()
    assert "Epoch 1: ExponentialDecay set learning rate to 0.25." in caplog.text


def test_an_own_schedule_and_a_clone_for_tests() -> None:
    class Own(lr.LRScheduler):
        def get_lr(self) -> float:
            return self.base_lr / (1 + self.last_epoch)

    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        loss = paddle.sum(parameter("w") * paddle.static.data("x", [2]))
        test = main.clone(for_test=True)
        optimizer = paddle.optimizer.SGD(Own(1.0))
        optimizer.minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    rates = []
    with paddle.static.scope_guard(paddle.static.Scope()):
        exe.run(startup)
        for program in (main, main, test, paddle.static.CompiledProgram(main)):
            feed = {"x": np.ones(2, "float32")}
            rates.append(float(exe.run(program, feed=feed, fetch_list=[])[0:1] == [] and optimizer.get_lr()))
            optimizer._scheduler.step()
        found = np.array(fluid.global_scope().find_var(main.lr_var.name).get_tensor())
    assert rates == [1, 1 / 2, 1 / 3, 1 / 4] and float(found) == 0.25
    state = optimizer.state_dict()
    assert state["LR_Scheduler"] == {"last_epoch": 4, "last_lr": 0.2}
    optimizer.set_state_dict({"LR_Scheduler": {"last_epoch": 0, "last_lr": 1.0}})
    assert optimizer.get_lr() == 1


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: lr.LRScheduler(0.1), NotImplementedError),
        (lambda: lr.StepDecay("0.1", 3), TypeError),
        (lambda: lr.StepDecay(-0.1, 3), ValueError),
        (lambda: lr.StepDecay(0.1, 3.0), TypeError),
        (lambda: lr.StepDecay(0.1, 3, 1.0), ValueError),
        (lambda: lr.MultiStepDecay(0.1, [3, 2]), ValueError),
        (lambda: lr.PiecewiseDecay([3], [0.1]), ValueError),
        (lambda: lr.NoamDecay(0, 3), ValueError),
        (lambda: lr.PolynomialDecay(0.1, 0), AssertionError),
        (lambda: lr.LambdaDecay(0.1, 3), TypeError),
        (lambda: lr.CosineAnnealingDecay(0.1, 0), AssertionError),
        (lambda: lr.LinearWarmup(0.1, 5, 0.2, 0.1), AssertionError),
        (lambda: lr.ReduceOnPlateau(0.1, "least"), ValueError),
        (lambda: lr.OneCycleLR(0.1, 10, anneal_strategy="step"), ValueError),
        (lambda: lr.CyclicLR(0.1, 0.2, 0), ValueError),
        (lambda: lr.LinearLR(0.1, 0), ValueError),
        (lambda: lr.CosineAnnealingWarmRestarts(0.1, 0), ValueError),
        (lambda: paddle.optimizer.SGD("0.1"), TypeError),
        (lambda: paddle.optimizer.SGD(0.1, weight_decay="l2"), TypeError),
        (lambda: paddle.optimizer.Adam(beta1=1.0), ValueError),
        (lambda: paddle.optimizer.AdamW(weight_decay=None), TypeError),
        (lambda: halves(paddle.optimizer.SGD(multi_precision=True)), ArgumentError),
        (lambda: paddle.optimizer.Momentum(rescale_grad=0.0), ArgumentError),
        (lambda: paddle.optimizer.SGD().set_lr(0.1), RuntimeError),
        (lambda: paddle.optimizer.SGD().set_lr_scheduler(0.1), TypeError),
        (lambda: paddle.optimizer.SGD().step(), ArgumentError),
    ],
)
def test_wrong_use(wrong: Callable[[], object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        wrong()


def test_a_loss_of_many_numbers() -> None:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        loss = parameter("w") * paddle.static.data("x", [2])
        with pytest.raises(ArgumentError, match=r"its shape is \[2\]"):
            paddle.optimizer.SGD().minimize(loss)


def test_penalties_have_names_of_2x() -> None:
    x = paddle.static.data("x", [2, 3])
    attr = paddle.ParamAttr(regularizer=paddle.regularizer.L1Decay(coeff=0.5))
    loss = paddle.mean(paddle.nn.Linear(3, 1, weight_attr=attr)(x))
    paddle.optimizer.Momentum(0.1, weight_decay=paddle.regularizer.L2Decay(coeff=0.25)).minimize(loss)
    ops = paddle.static.default_main_program().global_block().ops
    assert [op.type for op in ops if op.type == "sign"] == ["sign"]
    decays = {op.input("Param")[0]: op.attr("regularization_coeff") for op in ops if op.type == "momentum"}
    assert sorted(decays.values()) == [0.0, 0.25]


CLIPS = {
    "value": (lambda: paddle.nn.ClipGradByValue(0.1), [0.9, 0.9]),
    "norm": (lambda: paddle.nn.ClipGradByNorm(0.1), [1 - 0.06, 1 - 0.08]),
    "global norm": (lambda: paddle.nn.ClipGradByGlobalNorm(0.1), [1 - 0.06, 1 - 0.08]),
}


@pytest.mark.parametrize("kind", CLIPS)
def test_gradients_that_need_no_clip(kind: str) -> None:
    """They keep their size, and count for no norm."""
    clip, clipped = CLIPS[kind]
    x = paddle.static.data("x", [2])
    attrs = [paddle.ParamAttr(name, paddle.nn.initializer.Constant(1.0)) for name in "ab"]
    attrs[1].need_clip = False
    a, b = (paddle.create_parameter([2], "float32", attr=attr) for attr in attrs)
    paddle.optimizer.SGD(1.0, grad_clip=clip()).minimize(paddle.sum((a + b) * x))
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    exe.run(feed={"x": np.array([3, 4], "float32")})
    found = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in "ab"}
    np.testing.assert_allclose(found["a"], clipped, rtol=1e-6)
    np.testing.assert_array_equal(found["b"], [-2, -3])


def trained(build: Callable[[Any], Any], steps: int, naive: bool = False) -> tuple[list[float], Any, Any]:
    """A parameter [2] that begins with 1 and has the loss w * w, after each step; what `build` gives; the
    executor.
    """
    one = paddle.nn.initializer.Constant(1.0)
    w = paddle.create_parameter([2], "float32", name="w", default_initializer=one)
    made = build(paddle.reshape(paddle.sum(w * w), [1]))
    exe = paddle.static.Executor()
    exe.naive = naive
    exe.run(paddle.static.default_startup_program())
    return [float(exe.run(fetch_list=[w])[0][0]) for _ in range(steps)], made, exe


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("decay", [None, 0.1])
@pytest.mark.parametrize("nesterov", [False, True])
def test_rescaled_gradients(naive: bool, decay: float | None, nesterov: bool) -> None:
    """2.6.2 takes the factor, and ignores it. The decay is not scaled with the gradient."""

    def build(loss: Any) -> Any:
        kwargs = {"weight_decay": decay, "use_nesterov": nesterov, "rescale_grad": 0.5}
        return paddle.optimizer.Momentum(0.1, 0.9, **kwargs).minimize(loss)

    found, _, _ = trained(build, 3, naive)
    w, velocity, wanted = 1.0, 0.0, []
    for _ in range(3):
        grad = 0.5 * 2 * w + (decay or 0.0) * w
        velocity = 0.9 * velocity + grad
        w -= 0.1 * (grad + 0.9 * velocity if nesterov else velocity)
        wanted.append(w)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("naive", [False, True])
def test_look_ahead(naive: bool) -> None:
    def build(loss: Any) -> Any:
        return paddle.incubate.LookAhead(paddle.optimizer.SGD(0.1), alpha=0.4, k=2).minimize(loss)

    found, (ops, pairs), _ = trained(build, 4, naive)
    assert [op.type for op in ops] == ["sgd"] and [param.name for param, _ in pairs] == ["w"]
    w, slow, wanted = 1.0, 0.0, []
    for step in range(1, 5):
        w *= 0.8
        slow = w if step == 1 else slow
        if step % 2 == 0:
            w = slow = 0.4 * w + 0.6 * slow
        wanted.append(w)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    with pytest.raises(AssertionError, match="k should be a positive integer"):
        paddle.incubate.LookAhead(paddle.optimizer.SGD(), k=0)


def test_model_average() -> None:
    def build(loss: Any) -> Any:
        paddle.optimizer.SGD(0.1).minimize(loss)
        average = paddle.incubate.ModelAverage(1.0, min_average_window=10, max_average_window=20)
        assert average.minimize(loss) is None
        return average

    found, average, exe = trained(build, 4)
    value = fluid.global_scope().find_var("w").get_tensor
    with average.apply(exe):
        np.testing.assert_allclose(np.array(value()), np.mean(found), rtol=1e-6)
    np.testing.assert_allclose(np.array(value()), found[-1])
    with pytest.raises(RuntimeError, match="Executor should not be None"):
        average.restore()
