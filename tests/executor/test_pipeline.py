"""The pipeline that makes plans: passes change nothing that they are given, wrong plans are found between
them, and a plan reads well.
"""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import KernelError, NotFoundError
from fluidlite.executor import passes
from fluidlite.executor.compile import pipeline
from fluidlite.executor.compile.render import render
from fluidlite.executor.passes import PASSES, Pass
from fluidlite.executor.plan.actions import Bound, Call, Elementwise, Function, Out, Show
from fluidlite.executor.plan.objects import PlanObject
from fluidlite.executor.plan.plan import BufferLayout, FeedSpec, Plan, Remark, Target
from fluidlite.executor.plan.steps import Step, flat, shown
from fluidlite.executor.plan.values import Reshape, Slices, Storage, Transpose, Value, ValueFactory
from fluidlite.executor.plan.verify import PlanError, verify
from fluidlite.proto.profiler import profiler_pb2

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: fluid.optimizer.Adam(0.1),
    "adamax": lambda: fluid.optimizer.Adamax(0.1),
    "adadelta": lambda: fluid.optimizer.Adadelta(0.1, 1e-6, 0.95),
    "decayed_adagrad": lambda: fluid.optimizer.DecayedAdagrad(0.1),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.1),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1),
    "lamb": lambda: fluid.optimizer.Lamb(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "decay": lambda: fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 10, 0.5)),
}


def trained(optimizer: str = "adam", width: int = 300) -> Plan:
    """The lowered plan of a training step with two products, a relu and a softmax."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = fluid.data("x", [256, 64], "float32"), fluid.data("label", [256, 1], "int64")
        logits = fluid.layers.fc(fluid.layers.fc(x, width, act="relu"), 10)
        loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
        OPTIMIZERS[optimizer]().minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    feeds = {"x": FeedSpec((256, 64), np.dtype("float32")), "label": FeedSpec((256, 1), np.dtype("int64"))}
    block = main.global_block()
    return pipeline.lower(block, block.ops, feeds, [loss.name], scope, Target(threads=2))


# ---------------------------------------------------------------------- passes
def test_passes_change_nothing_that_they_are_given() -> None:
    plan = trained()
    for change in PASSES:
        before, steps = render(plan).text(), plan.steps
        after = change(plan)
        assert render(plan).text() == before and plan.steps is steps, change.__name__
        plan = after


@pytest.mark.parametrize("name", ["lower", *(change.__name__ for change in PASSES)])
def test_a_plan_can_be_looked_at_after_each_pass(name: str) -> None:
    x = fluid.data("x", [4, 3], "float32")
    out = fluid.layers.tanh(fluid.layers.fc(x, 2))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    text = exe.explain(feed={"x": np.ones((4, 3), "float32")}, fetch_list=[out], after=name)
    assert "tanh(" in text and ("buffers are not placed yet" in text) == (name != "place_buffers")


def test_an_unknown_pass_gets_the_nearest_name() -> None:
    exe, out = fluid.Executor(fluid.CPUPlace()), fluid.layers.fill_constant([1], "float32", 1.0)
    with pytest.raises(NotFoundError, match="no pass 'drop'.*did you mean 'drop_dead'"):
        exe.explain(fetch_list=[out], after="drop")


def test_passes_are_timed() -> None:
    times: dict[str, float] = {}
    pipeline.run_passes(trained(), times=times)
    assert list(times) == [change.__name__ for change in PASSES] and all(
        value >= 0 for value in times.values()
    )


def test_a_pass_is_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def halve_numbers(plan: Plan) -> Plan:
        """A toy: numbers in element-wise steps are halved."""

        def changed(step: Step) -> Step:
            if step.elementwise is None:
                return step
            halved = [item / 2 if isinstance(item, float) else item for item in step.elementwise.operands]
            return replace(step, action=Elementwise(step.elementwise.function, tuple(halved)))

        return replace(plan, steps=tuple(map(changed, plan.steps)))

    toy: tuple[Pass, ...] = (halve_numbers, *PASSES)
    monkeypatch.setattr(passes, "PASSES", toy)
    monkeypatch.setattr(pipeline, "PASSES", toy)
    out = fluid.layers.scale(fluid.data("x", [2], "float32"), 8.0)
    (found,) = fluid.Executor(fluid.CPUPlace()).run(
        fluid.default_main_program(), feed={"x": np.ones(2, "float32")}, fetch_list=[out]
    )
    assert found.tolist() == [4.0, 4.0]


# ---------------------------------------------------------------------- what is wrong is found
def values(count: int, shape: tuple[int, ...] = (4,)) -> list[Value]:
    """A fed value, then buffers."""
    factory = ValueFactory()
    fed = factory.make(shape, "float32", Storage.FEED)
    return [fed, *(factory.make(shape, "float32", Storage.BUFFER) for _ in range(count))]


def plan_of(*steps: Step, fetches: tuple[Value, ...] = (), layout: BufferLayout | None = None) -> Plan:
    return Plan(steps, {}, fetches, ValueFactory(), Target(), layout=layout)


def add(a: Value, b: Value, out: Value) -> Step:
    return Step(None, Elementwise("add", (a, b)), (out,))


def wrong_plans() -> dict[str, tuple[Plan, str]]:
    x, a, b, c = values(3)
    wide = ValueFactory().make((4,), "float64", Storage.BUFFER)
    long = ValueFactory().make((5,), "float32", Storage.BUFFER)
    matrix, product = values(1, (2, 3))
    param = ValueFactory().make((4,), "float32", Storage.PARAM, name="w")
    newer = replace(param, number=9)
    view = ValueFactory().make((2, 2), "float32", Storage.VIEW, base=param, view=Reshape((2, 2)), alias=True)
    bent = ValueFactory().make((3,), "float32", Storage.VIEW, base=x, view=Reshape((3,)))
    turned = ValueFactory().make((2, 3), "float32", Storage.VIEW, base=matrix, view=Transpose((1, 0)))
    cut = ValueFactory().make((4,), "float32", Storage.VIEW, base=x, view=Slices(((1, 5),)))
    flat = ValueFactory().make((6,), "float32", Storage.VIEW, base=turned, view=Reshape((6,)))
    copy = Step(None, Call(Function("copyto"), (Out(newer), x)))
    over = Step(None, Call(Bound("opaque", PlanObject()), (x, Out(a))))
    dot = Call(Function("dot"), (matrix, matrix), (("out", Out(product)),))
    same_place = BufferLayout({a: 0, b: 8, c: 64}, 128, 128)
    return {
        "undefined": (plan_of(add(x, a, b)), "is read before anything writes it"),
        "undefined fetch": (plan_of(fetches=(a,)), "is read before anything writes it"),
        "shapes": (plan_of(add(x, x, long)), "does not fit"),
        "wide": (plan_of(add(x, x, wide)), "is wider than"),
        "truth": (plan_of(Step(None, Elementwise("gt", (x, x)), (a,))), "gives booleans"),
        "reshape": (plan_of(shown(None, bent)), "is no"),
        "transpose": (plan_of(shown(None, turned)), "is no"),
        "slice": (plan_of(shown(None, cut)), "is no"),
        "lost": (plan_of(Step(None, Elementwise("copy", (0.0,)), (flat,))), "would be lost"),
        "product": (plan_of(Step(None, dot)), "times"),
        "alias": (plan_of(shown(None, view), copy, fetches=(view,)), "after 'w' has changed"),
        "overlap": (plan_of(over, add(x, x, b), add(a, b, c), layout=same_place), "another buffer has taken"),
    }


@pytest.mark.parametrize("name", wrong_plans())
def test_a_wrong_plan_is_found(name: str) -> None:
    plan, message = wrong_plans()[name]
    right = replace(plan, steps=(), fetches=(), layout=None)
    for before in (None, right):
        with pytest.raises(PlanError, match=f"after some_pass: [^\n]*{message}"):
            verify(plan, "some_pass", before)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_need_no_temporary_wider_than_the_parameter(optimizer: str) -> None:
    plan = pipeline.run_passes(trained(optimizer))
    wide = [value for value in plan.all_values() if value.dtype == np.float64]
    assert not wide, wide


# ---------------------------------------------------------------------- a plan reads well
@pytest.mark.parametrize("optimizer", ["adam", "decay"])
def test_the_source_speaks_of_the_program(optimizer: str) -> None:
    text = render(pipeline.run_passes(trained(optimizer))).text()
    # by NumPy, or cut for a team or by another library
    assert re.search(r"(dot|products_\d)\(x, fc_0_w_0, (out=)?fc_0_tmp_0\)", text)
    heads = [text.index(f"# ------------ {part} ------------") for part in ("forward", "backward", "update")]
    assert heads == sorted(heads) and text.index("# buffers") > text.index("return (")
    assert re.search(r"fc_1_w_0__grad = buffers\[\d+\]  # float32\[300, 10\] fc_1.w_0@GRAD", text)
    assert all(len(line) < 400 for line in text.splitlines())


def test_remarks_say_what_was_dropped_and_fused() -> None:
    plan = pipeline.run_passes(trained(width=2000))
    assert any(isinstance(remark, Remark) and remark.kind == "dropped" for remark in plan.remarks)
    fused = [remark.text for remark in plan.remarks if remark.kind == "fused"]
    assert any("adam" in text for text in fused) and any("relu" in text for text in fused)
    assert all(
        step.op is None or not isinstance(step.action, Show) or not step.fused for step in flat(plan.steps)
    )


def test_tracebacks_show_the_line_of_the_plan() -> None:
    table = fluid.layers.create_parameter([4, 2], "float32", name="table")
    ids = fluid.data("ids", [2, 1], "int64")
    out = fluid.layers.embedding(ids, [4, 2], param_attr="table")
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.set_flags({"FLAGS_call_stack_level": 2})
    try:
        with pytest.raises(KernelError, match="id 9 is outside") as raised:
            exe.run(feed={"ids": np.array([[1], [9]])}, fetch_list=[out, table])
    finally:
        fluid.set_flags({"FLAGS_call_stack_level": 1})
    frames = traceback.extract_tb(raised.value.__cause__.__traceback__)  # type: ignore[union-attr]
    assert any(
        frame.filename.startswith("<fluidlite plan") and "check_ids" in str(frame.line) for frame in frames
    )


def test_the_profiler_counts_an_op_once_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    x = fluid.data("x", [16, 3], "float32")
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 4, act="tanh"), 2))
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    with fluid.profiler.profiler("CPU", "total"):
        for _ in range(3):
            exe.run(feed={"x": np.ones((16, 3), "float32")}, fetch_list=[loss])
    rows = [line.split() for line in capsys.readouterr().err.splitlines() if len(line.split()) > 2]
    counts = {row[0]: row[1] for row in rows}
    assert (counts["adam"], counts["mul"], counts["tanh_grad"]) == ("12", "6", "3")


def test_a_profile_is_a_message_of_paddle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    y = fluid.layers.mean(fluid.layers.scale(fluid.data("x", [4]), 2.0))
    exe = fluid.Executor(fluid.CPUPlace())
    begin = time.time_ns()
    with fluid.profiler.profiler("CPU", "total", str(tmp_path / "profile")) as recorded:
        for _ in range(2):
            exe.run(feed={"x": np.ones(4, "float32")}, fetch_list=[y])
    found = profiler_pb2.Profile()
    found.ParseFromString((tmp_path / "profile").read_bytes())
    assert [(event.name, event.device_id, event.sub_device_id) for event in found.events] == [
        ("scale", 0, 0),
        ("mean", 0, 0),
    ] * 2
    assert all(event.type == profiler_pb2.Event.CPU for event in found.events)
    # clocks of the machine and of the process may differ by a few microseconds
    times = [at for event in found.events for at in (event.start_ns, event.end_ns)]
    assert times == sorted(times) and begin - 10**6 < times[0] and times[-1] < time.time_ns() + 10**6
    assert (found.start_ns, found.end_ns) == (times[0], times[-1])
    recorded.save_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert [event["name"] for event in trace["traceEvents"]] == ["scale", "mean"] * 2
