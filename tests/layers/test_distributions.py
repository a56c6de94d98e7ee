"""`fluid.layers.distributions`: samples by their moments, and wrong arguments; the formulas are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.layers import distributions

layers = fluid.layers


def _run(build: Any, feed: dict[str, Any] | None = None) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = 9
    with fluid.program_guard(main, startup):
        return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[build()])[0]


def test_normal_sample() -> None:
    found = _run(lambda: layers.Normal([1.0, -2.0], [0.5, 3.0]).sample([20000]))
    assert found.shape == (20000, 2)
    np.testing.assert_allclose(found.mean(0), [1, -2], atol=0.08)
    np.testing.assert_allclose(found.std(0), [0.5, 3], rtol=0.03)


def test_numbers_alone_sample_in_the_shape_asked_for() -> None:
    assert _run(lambda: layers.Normal(0.0, 1.0).sample([4, 3])).shape == (4, 3)
    assert _run(lambda: layers.Uniform(0.0, 1.0).sample([4, 3])).shape == (4, 3)


def test_samples_of_variables() -> None:
    """The batch is known only in the run: rows of it come with each sample."""
    low = np.repeat([[0.0, 5.0]], 20000, axis=0).astype("float32")

    def uniform() -> Any:
        return layers.Uniform(fluid.data("low", [None, 2]), fluid.data("high", [None, 2])).sample([1])

    def normal() -> Any:
        return layers.Normal(fluid.data("low", [None, 2]), fluid.data("high", [None, 2])).sample([1])

    feed = {"low": low, "high": low + 2}
    found = _run(lambda: layers.reshape(uniform(), [-1, 2]), feed)
    assert (found >= low).all() and (found < low + 2).all()
    np.testing.assert_allclose(found.mean(0), [1, 6], atol=0.05)
    found = _run(lambda: layers.reshape(normal(), [-1, 2]), feed)
    np.testing.assert_allclose(found.mean(0), [0, 5], atol=0.2)
    np.testing.assert_allclose(found.std(0), [2, 7], rtol=0.05)


def test_uniform_log_prob() -> None:
    value = np.array([0.5, 3.0, 1.5], "float32")
    with np.errstate(divide="ignore"):
        found = _run(lambda: layers.Uniform(0.0, 2.0).log_prob(fluid.data("x", [3])), {"x": value})
    np.testing.assert_allclose(found, [-np.log(2), -np.inf, -np.log(2)], rtol=1e-6)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: layers.Normal(1, 2.0), TypeError, "The type of 'loc' in Normal"),
        (lambda x: layers.Uniform(0.0, x), ValueError, "all arguments should be Variable"),
        (lambda x: layers.Normal(0.0, 1.0).sample(3), TypeError, "The type of 'shape' in sample"),
        (lambda x: layers.Normal(0.0, 1.0).log_prob(3.0), TypeError, "The type of 'value' in log_prob"),
        (lambda x: layers.Categorical(x).kl_divergence(3), TypeError, "The type of 'other' in kl_divergence"),
        (lambda x: layers.Categorical(x).sample([2]), NotImplementedError, "Categorical has no sample"),
        (lambda x: distributions.Distribution().entropy(), NotImplementedError, "has no entropy"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], message: str) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.raises(error, match=message):
        call(fluid.data("x", [3]))


def test_other_types_are_converted_with_a_warning() -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.warns(UserWarning, match="will be convert to float32"),
    ):
        normal = layers.Normal(np.ones(2), 1.0)
    assert normal.loc.shape == (2,) and normal.scale.shape == (2,)
