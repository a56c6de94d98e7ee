"""The scale of a loss in the ops of 2.x on a device: steps with them are one graph, and leave what the naive
interpreter leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_cuda_branches import check_on_both, classifier, feeds

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.paddle.static import amp

pytestmark = pytest.mark.gpu
OPTIONS = {"init_loss_scaling": 64.0, "incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 1}


@pytest.mark.parametrize("options", [{}, {"level": "O2"}], ids=str)
@pytest.mark.parametrize("broken", [(), (3,), (2, 3, 6)], ids=str)
def test_training(broken: tuple[int, ...], options: dict[str, Any]) -> None:
    optimizer = amp.decorate(paddle.optimizer.Momentum(0.01), **OPTIONS, **options)
    optimizer.minimize(classifier())
    states = check_on_both(feeds(9, broken), 4e-3)
    wanted = {(): 64 * 2**4, (3,): 64 * 2**2, (2, 3, 6): 64}[broken]
    assert states[optimizer.get_loss_scaling().name] == pytest.approx(wanted)


def variable(name: str, value: Any) -> Any:
    array = np.asarray(value)
    var = (
        fluid.default_main_program()
        .global_block()
        .create_var(name=name, shape=array.shape, dtype=str(array.dtype), persistable=True)
    )
    return var.name, array


def run_op(op_type: str, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """The outputs of the op on the host and on a device; its variables are named by slot and number."""
    with fluid.program_guard(fluid.Program()):
        given = {slot: [variable(f"{slot}{i}", v) for i, v in enumerate(vs)] for slot, vs in inputs.items()}
        made = {slot: [variable(f"{slot}{i}", v) for i, v in enumerate(vs)] for slot, vs in outputs.items()}
        names = [{slot: [name for name, _ in vs] for slot, vs in some.items()} for some in (given, made)]
        fluid.default_main_program().global_block().append_op(op_type, *names, attrs)
        results = []
        for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
            scope, exe = fluid.Scope(), fluid.Executor(place)
            for name, array in (pair for pairs in given.values() for pair in pairs):
                scope.var(name).get_tensor().set(array, place)
            fetched = [name for some in names[1].values() for name in some]
            text = ""
            for _ in range(3):
                results.append(exe.run(feed={}, fetch_list=fetched, scope=scope))
            text = exe.explain(feed={}, fetch_list=fetched, scope=scope, full=True)
        assert "graph: the whole step is one launch" in text
    return results[0], results[-1]


@pytest.mark.parametrize("broken", [None, 0, 1, 2])
def test_gradients_from_the_first_broken_one_on(broken: int | None) -> None:
    random = np.random.default_rng(1)
    dtypes = ("float32", "float16", "float64", "float32")
    gradients = [random.normal(size=(3, 300 + i)).astype(dtype) for i, dtype in enumerate(dtypes)]
    if broken is not None:
        gradients[broken][1, 299] = (np.nan, np.inf, -np.inf)[broken]
    like = [np.zeros_like(each) for each in gradients]
    host, device = run_op(
        "check_finite_and_unscale",
        {"X": gradients, "Scale": [np.full(1, 3.0, "float32")]},
        {"Out": like, "FoundInfinite": [np.zeros(1, bool)]},
        {},
    )
    assert bool(host[-1][0]) == (broken is not None)
    for wanted, found in zip(host, device, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("is_found", [False, True])
@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (0, 1)], ids=str)
@pytest.mark.parametrize(("scale", "stop"), [(8.0, False), (1.5, False), (3e38, False), (8.0, True)])
def test_the_scale_alone(is_found: bool, counts: tuple[int, int], scale: float, stop: bool) -> None:
    x = np.full((3, 5), 2.0, "float16")
    states = [np.full(1, count, "int32") for count in counts]
    host, device = run_op(
        "update_loss_scaling",
        {
            "X": [x],
            "FoundInfinite": [np.full(1, is_found)],
            "PrevLossScaling": [np.full(1, scale, "float32")],
            "InGoodSteps": states[:1],
            "InBadSteps": states[1:],
        },
        {
            "Out": [x],
            "LossScaling": [np.zeros(1, "float32")],
            "OutGoodSteps": states[:1],
            "OutBadSteps": states[1:],
        },
        {"incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 2, "stop_update": stop},
    )
    for wanted, found in zip(host, device, strict=True):
        np.testing.assert_array_equal(found, wanted)
