"""Programs that 1.8.5 runs without a word and that are hardly meant: a FluidWarning says so, once a line.

Where 1.8.5 raises, so do we, with the op and the user's line; each case was run there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.core import AnalysisConfig
from fluidlite.incubate.fleet.collective import DistributedStrategy

ROWS = np.ones((8, 4), "float32")


def net() -> Any:
    return layers.mean(layers.fc(fluid.data("x", [None, 4]), 2))


def run(fetch: Any, **feed: Any) -> Any:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=[fetch])[0]


def seed_after_layers() -> None:
    net()
    fluid.default_startup_program().random_seed = 3


def loss_of_no_variable() -> None:
    net()
    fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name="mean_0.tmp")


def loss_without_parameters() -> None:
    fluid.optimizer.SGD(0.1).minimize(layers.mean(fluid.data("x", [None, 4])))


def loss_behind_argmax() -> None:
    x = layers.fc(fluid.data("x", [None, 4]), 2)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.cast(layers.argmax(x), "float32")))


def second_minimize() -> None:
    loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    fluid.optimizer.SGD(0.1).minimize(loss)


def unknown_parameter() -> None:
    fluid.optimizer.SGD(0.1).minimize(net(), parameter_list=["fc_0.w_0", "fc_0.b0"])


def unknown_constant() -> None:
    fluid.optimizer.SGD(0.1).minimize(net(), no_grad_set={"fc_0.w0"})


def momentum_above_one() -> None:
    fluid.optimizer.Adam(0.1, beta1=1.5)


def late_clip() -> None:
    fluid.optimizer.SGD(0.1).minimize(net())
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(1.0))


def falling_boundaries() -> None:
    layers.piecewise_decay([100, 50], [1.0, 0.5, 0.1])


def other_initialiser() -> None:
    x = fluid.data("x", [None, 4])
    for value in (1.0, 2.0):
        init = fluid.initializer.Constant(value)
        layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w", initializer=init))


def misspelt_config() -> None:
    fluid.DistributeTranspilerConfig().sync_mod = False  # type: ignore[attr-defined]


def misspelt_strategy() -> None:
    DistributedStrategy().forward_recompte = True


def misspelt_variable() -> None:
    fluid.data("x", [1]).stop_gradiant = False  # type: ignore[attr-defined]


def misspelt_program() -> None:
    fluid.default_main_program().random_sed = 1  # type: ignore[attr-defined]


def misspelt_attribute() -> None:
    fluid.ParamAttr().learning_rates = 2.0  # type: ignore[attr-defined]


def negative_size() -> None:
    fluid.data("x", [-2, 4])


def logits_as_probabilities() -> None:
    layers.cross_entropy(layers.fc(fluid.data("x", [None, 4]), 3), fluid.data("t", [None, 1], "int64"))


def softmax_twice() -> None:
    x = layers.fc(fluid.data("x", [None, 4]), 3, act="softmax")
    layers.softmax_with_cross_entropy(x, fluid.data("t", [None, 1], "int64"))


def floats_beside_integers() -> None:
    assert (fluid.data("i", [2], "int64") + fluid.data("x", [2])).shape == (2,)


def half_of_integers() -> None:
    assert (fluid.data("i", [2], "int64") / 2).shape == (2,)


def fraction_beside_integers() -> None:
    assert (fluid.data("i", [2], "int64") > 0.5).shape == (2,)


def variable_in_a_list() -> None:
    assert fluid.data("x", [2]) in [fluid.data("y", [2])]


def column_fed_as_row() -> None:
    cost = layers.square_error_cost(fluid.data("x", [None, 4])[:, :1], fluid.data("y", [None, 1]))
    run(cost, x=ROWS, y=np.ones(8, "float32"))


def other_columns() -> None:
    run(layers.relu(layers.data("x", [5])), x=ROWS)


def model_without_a_feed() -> None:
    out = layers.fc(fluid.data("x", [None, 4]), 2) + fluid.data("z", [None, 2])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    with tempfile.TemporaryDirectory() as folder:
        fluid.io.save_inference_model(folder, ["x"], [out], exe)


def nothing_to_load() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fluid.io.load_persistables(fluid.Executor(fluid.CPUPlace()), folder)


def nothing_to_run() -> None:
    fluid.Executor(fluid.CPUPlace()).run()


DOUBTS: list[tuple[Callable[[], None], str]] = [
    (seed_after_layers, "random_seed = 3 is set after .* 'uniform_random' of 'fc_0.w_0', built at"),
    (loss_of_no_variable, "no variable 'mean_0.tmp' .*did you mean 'mean_0.tmp_0'"),
    (loss_without_parameters, "updates no parameter: the program has no parameter"),
    (loss_behind_argmax, "updates no parameter: it does not depend on fc_0.w_0"),
    (second_minimize, "fc_0.b_0, fc_0.w_0 would be updated twice"),
    (unknown_parameter, "parameter_list: .* no variable 'fc_0.b0'; did you mean 'fc_0.b_0'"),
    (unknown_constant, "no_grad_set: .* no variable 'fc_0.w0'"),
    (momentum_above_one, "beta1 is 1.5"),
    (late_clip, "set_gradient_clip was called after minimize"),
    (falling_boundaries, r"boundaries \[100, 50\] are not in ascending order"),
    (other_initialiser, "parameter 'w' is already initialised by ConstantInitializer"),
    (misspelt_config, "no field 'sync_mod'.*did you mean 'sync_mode'"),
    (misspelt_strategy, "no field 'forward_recompte'.*did you mean 'forward_recompute'"),
    (misspelt_variable, "Variable 'x' has no 'stop_gradiant'.*did you mean 'stop_gradient'"),
    (misspelt_program, "Program has no 'random_sed'.*did you mean 'random_seed'"),
    (misspelt_attribute, "ParamAttr has no 'learning_rates'.*did you mean 'learning_rate'"),
    (negative_size, r"data 'x' has the shape \[-2, 4\]"),
    (logits_as_probabilities, "comes from 'elementwise_add' without a softmax"),
    (softmax_twice, "is the output of a softmax, which would be applied twice"),
    (floats_beside_integers, r"'x' \(float32\) is truncated to integers"),
    (half_of_integers, "divided as integers"),
    (fraction_beside_integers, "0.5 combined with 'i' .* is used as 0"),
    (variable_in_a_list, "is always True as a Python condition"),
    (model_without_a_feed, "depend on 'z' as well, which is not among the feeds"),
    (nothing_to_load, "nothing is loaded: the default main program"),
    (nothing_to_run, "There are no operators in the program"),
    (column_fed_as_row, "'y', declared .* fed with 1 dimensions: op 'elementwise_sub' broadcasts"),
    (other_columns, r"'x' is fed as \[-?\d+, 4\], but declared as \[-1, 5\]"),
]


@pytest.mark.parametrize("doubt, text", DOUBTS, ids=lambda value: getattr(value, "__name__", ""))
def test_it_is_said_at_the_users_line(doubt: Callable[[], None], text: str) -> None:
    with pytest.warns(fluid.FluidWarning, match=text) as said:
        doubt()
    assert [warning.filename for warning in said] == [__file__] * len(said)


def test_a_line_says_it_once_and_filters_decide() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            momentum_above_one()
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fluid.FluidWarning)
        momentum_above_one()


def test_two_optimizers_of_one_loss_may_share_it_out() -> None:
    loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=["fc_0.w_0"])
    fluid.optimizer.Adam(0.1).minimize(loss, parameter_list=["fc_0.b_0"])


def test_a_condition_in_python_is_an_error() -> None:
    x = fluid.data("x", [1])
    with pytest.raises(TypeError, match=r"op 'greater_than' of x and tmp_0[\s\S]*built at .*test_doubts.py"):
        bool(x > 5)
    with pytest.raises(TypeError, match="has no truth value"):
        bool(layers.logical_not(x > 5))
    assert x  # as of an optional argument


def test_numbers_of_numpy_are_numbers() -> None:
    x = fluid.data("x", [2])
    out = np.float32(2) * x + np.float64(1) - np.array([3.0])
    assert run(out, x=np.array([1, 2], "float32")).tolist() == [0, 2]
    with pytest.raises(TypeError, match=r"not array of shape \[3\]"):
        x + np.ones(3)
    with pytest.raises(TypeError, match="np.add takes arrays"):
        np.ones(3) + x


def test_shapes_are_whole_numbers() -> None:
    x = fluid.data("x", [None, 4])
    with pytest.raises(TypeError, match=r"fc: parameter 'fc_0.w_0' would have the shape \[4, 3.5\]"):
        layers.fc(x, 3.5)  # type: ignore[arg-type]
    with pytest.raises(fluid.core.EnforceNotMet, match="fc: size must be at least 1, but is 0"):
        layers.fc(x, 0)
    with pytest.raises(TypeError, match="dimension 0 of the shape"):
        fluid.data("z", [2.5, 4])  # type: ignore[list-item]


@pytest.mark.parametrize("axis", [2, -3])
def test_axes_of_concat(axis: int) -> None:
    x = fluid.data("x", [2, 3])
    with pytest.raises(fluid.core.EnforceNotMet, match=f"axis {axis} is outside of 2 dimensions"):
        layers.concat([x, x], axis=axis)


def test_limits_in_order() -> None:
    with pytest.raises(fluid.core.EnforceNotMet, match=r"min \(1.0\) is greater than max \(0.0\)"):
        layers.clip(fluid.data("x", [2]), 1.0, 0.0)


PAIRS = [layers.elementwise_add, layers.elementwise_mod, layers.less_than, layers.matmul]


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("layer", PAIRS, ids=lambda value: str(value.__name__))
def test_operands_have_one_type(layer: Any, naive: bool) -> None:
    x, i = fluid.data("x", [2, 2]), fluid.data("i", [2, 2], "float64")
    out = layer(x, i)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    text = r"wrong type: op .* takes 'x' as float32 and 'i' as float64[\s\S]*built at .*test_doubts.py"
    with pytest.raises(fluid.core.EnforceNotMet, match=text):
        exe.run(feed={"x": np.ones((2, 2), "float32"), "i": np.ones((2, 2))}, fetch_list=[out])


@pytest.mark.parametrize("naive", [False, True])
def test_an_id_of_minus_one_is_no_row(naive: bool) -> None:
    ids = fluid.data("ids", [None, 1], "int64")
    out = layers.embedding(ids, [5, 2])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.naive = naive
    with pytest.raises(fluid.core.EnforceNotMet, match="id -1 is outside the table of 5 rows"):
        exe.run(feed={"ids": np.array([[-1]])}, fetch_list=[out])


def test_fields_of_an_analysis() -> None:
    with pytest.raises(AttributeError, match="no attribute 'use_gpus'"):
        AnalysisConfig("").use_gpus = True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "schedule, text",
    [
        (lambda: layers.exponential_decay(0.1, 0, 0.5), "exponential_decay: decay_steps is 0"),
        (lambda: layers.cosine_decay(0.1, 0, 10), "cosine_decay: step_each_epoch is 0"),
        (lambda: layers.noam_decay(64, 0), "noam_decay: warmup_steps is 0"),
        (lambda: layers.linear_lr_warmup(0.1, 0, 0.0, 0.1), "linear_lr_warmup: warmup_steps is 0"),
    ],
    ids=["exponential", "cosine", "noam", "warmup"],
)
def test_schedules_of_no_steps(schedule: Callable[[], Any], text: str) -> None:
    with pytest.raises(ZeroDivisionError, match=text):
        schedule()


FLAGS = [
    (
        {"FLAGS_check_nan_infs": "1"},
        "the environment variable FLAGS_check_nan_infs has no effect: there is no such flag; did you mean",
    ),
    ({"FLAGS_check_nan_inf": "ture"}, "FLAGS_check_nan_inf is 'ture', but its type must be boolean"),
    ({"FLAGS_rpc_deadline": "abc"}, "FLAGS_rpc_deadline is 'abc', but its type must be int"),
    ({"FLAGS_check_nan_inf": "", "FLAGS_check_nan_inf_level": "1"}, ""),
]


@pytest.mark.parametrize("given, text", FLAGS, ids=["misspelt", "no boolean", "no number", "fine"])
def test_flags_in_the_environment(given: dict[str, str], text: str) -> None:
    command = [sys.executable, "-c", "import fluidlite.base.flags"]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=False)
    assert text in done.stderr and bool(done.stderr) == bool(text)
