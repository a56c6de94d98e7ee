"""`paddle.nn.functional` beside 2.6.2: the ops, the values, the gradients."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import nn_functions as cases

import fluidlite.paddle as paddle
from fluidlite.paddle.nn import functional as F

RECORDED = np.load(cases.PATH)
META = json.loads(str(RECORDED["meta"]))


def recorded() -> dict[str, list[np.ndarray]]:
    """Case -> arrays."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in cases.CASES}
    start = dict.fromkeys(RECORDED.files, 0)
    for key, (dtype, shape) in META["index"].items():
        size = int(np.prod(shape))
        flat = RECORDED[dtype][start[dtype] : start[dtype] + size]
        start[dtype] += size
        found[key.rpartition("/")[0]].append(flat.reshape(shape))
    return found


VALUES = recorded()


@pytest.mark.parametrize("name", cases.CASES)
def test_as_recorded(name: str) -> None:
    found, ops = cases.run(paddle, name)
    expected_ops = META["ops"][name].split()
    if len(expected_ops) == 1:  # what 2.6.2 puts together of several ops may be put together otherwise
        assert ops == expected_ops
    assert len(found) == len(VALUES[name])
    for value, expected in zip(found, VALUES[name], strict=True):
        assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: F.dropout(x, 0.25), (64, 64)),
        (lambda x: F.dropout(x, 0.25, axis=0), (64, 64)),
        (lambda x: F.dropout2d(x, 0.25), (32, 32, 4, 4)),
        (lambda x: F.dropout3d(x, 0.25), (16, 16, 2, 2, 2)),
        (lambda x: F.dropout(x, 1.0), (4, 4)),
    ],
)
def test_dropout(function: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    """Zeros in the right places, the rest scaled; sizes that only the run knows, too."""
    for declared in (shape, (None, *shape[1:])):
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            out = function(paddle.static.data("x", list(declared), "float32"))
            exe = paddle.static.Executor(paddle.CPUPlace())
            (found,) = exe.run(feed={"x": np.ones(shape, "float32")}, fetch_list=[out])
        assert set(np.unique(found.round(4))) <= {0.0, np.float32(1.3333)}
        if len(shape) > 2:
            whole = found.reshape(*shape[:2], -1)
            assert (whole == whole[..., :1]).all()
        if shape != (4, 4):
            assert 0.1 < (found == 0).mean() < 0.4


def test_alpha_dropout_of_a_number_is_a_number() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        out = F.alpha_dropout(paddle.full([], 2.0), 0.3)
        (found,) = paddle.static.Executor().run(fetch_list=[out])
    assert out.shape == () and found.shape == ()


@pytest.mark.parametrize("shape", [[0, 2, 4], [1, 0, 4]])
def test_largest_elements_of_nothing(shape: list[int]) -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", shape, "float64")
        x.stop_gradient = False
        out, places = F.max_pool1d(x, 2, stride=2, return_mask=True)
        back = F.max_unpool1d(out, places, 2, stride=2)
        wanted = [out, back, *paddle.static.gradients([back], [x])]
        found = paddle.static.Executor().run(feed={"x": np.zeros(shape)}, fetch_list=wanted)
    assert [value.shape for value in found] == [(*shape[:2], 2), tuple(shape), tuple(shape)]


def test_lgamma_of_infinities() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [3], "float32")
        fed = np.array([-np.inf, np.inf, 1], "float32")
        (found,) = paddle.static.Executor().run(feed={"x": fed}, fetch_list=[paddle.lgamma(x)])
    assert found.dtype == "float32" and found.tolist() == [np.inf, np.inf, 0]


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        out = F.alpha_dropout(paddle.static.data("x", [400, 100]), 0.3)
        exe = paddle.static.Executor(paddle.CPUPlace())
        x = np.random.RandomState(0).standard_normal((400, 100)).astype("float32")
        (found,) = exe.run(feed={"x": x}, fetch_list=[out])
    assert abs(found.mean()) < 0.03 and abs(found.std() - 1) < 0.03


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: F.mse_loss(x, x, "middle"),
        lambda x: F.dropout(x, 1.5),
        lambda x: F.dropout(x, 0.5, mode="up"),
        lambda x: F.dropout(x, 0.5, axis=4),
        lambda x: F.selu(x, scale=0.5),
        lambda x: F.softshrink(x, -1),
        lambda x: F.embedding(x, x, padding_idx=9),
        lambda x: F.label_smooth(x, epsilon=2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 2, data_format="NCL"),
        lambda x: F.conv2d(x, x, groups=0),
        lambda x: F.interpolate(x, [2], mode="cubic"),
        lambda x: F.interpolate(x, mode="nearest"),
        lambda x: F.pad(x, 1, mode="mirror"),
        lambda x: F.grid_sample(x, x, mode="linear"),
        lambda x: F.layer_norm(x, [4]),
        lambda x: F.nll_loss(x, x),
        lambda x: F.pixel_shuffle(x, 2, "CHW"),
    ],
)
def test_wrong_use(wrong: Callable[[Any], Any]) -> None:
    with (
        paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
        pytest.raises(ValueError, match=r"."),
    ):
        wrong(paddle.static.data("x", [2, 3]))
