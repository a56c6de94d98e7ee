"""Numbers of windows that Variables say: what is computed is what numbers at building time give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import AssertError
from fluidlite.lod_tensor import create_lod_tensor

F = paddle.nn.functional
PICTURES = np.sin(np.arange(2.0 * 3 * 5 * 7)).reshape(2, 3, 5, 7)
FORMS: dict[str, Callable[[Any, list[int]], Any]] = {
    "a Variable each": lambda given, sizes: [given[0], given[1]],
    "a Variable and a number": lambda given, sizes: [given[0], sizes[1]],
    "one Variable of two": lambda given, sizes: given,
}


def means(pool: Callable[..., Any], sizes: list[int], form: str | None) -> list[np.ndarray]:
    """The means, and the gradient of the sum of their squares; `form` says how the sizes are given."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [-1, 3, -1, 7], "float64")
        x.stop_gradient = False
        given = paddle.static.data("sizes", [2], "int32")
        out = pool(x, FORMS[form](given, sizes) if form else sizes)
        fetches = [out, *paddle.static.gradients([out * out], [x])]
        feed = {"x": PICTURES, "sizes": np.array(sizes, "int32")}
        found: list[np.ndarray] = paddle.static.Executor().run(main, feed=feed, fetch_list=fetches)
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [[1, 1], [2, 3], [5, 7], [4, 9]], ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_means_of_windows(layout: str, sizes: list[int], form: str) -> None:
    def pool(x: Any, output_size: Any) -> Any:
        return F.adaptive_avg_pool2d(x, output_size, layout)

    for found, wanted in zip(means(pool, sizes, form), means(pool, sizes, None), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_one_variable_for_both_sides() -> None:
    """2.6.2 takes no Variable of one element."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [-1, 3, 5, 7], "float64")
        outs = [F.adaptive_avg_pool2d(x, size) for size in (paddle.full([1], 2, "int32"), 2)]
    found, wanted = paddle.static.Executor().run(main, feed={"x": PICTURES}, fetch_list=outs)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_images_of_a_sequence(layout: str) -> None:
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [-1, 3, 5, 7], "float64", lod_level=1)
        two = paddle.full([1], 2, "int32")
        outs = [F.adaptive_avg_pool2d(x, [size, 2], layout) for size in (2, two)]
    feed = {"x": create_lod_tensor(PICTURES, [[0, 2]], paddle.CPUPlace())}
    found = paddle.static.Executor().run(main, feed=feed, fetch_list=outs, return_numpy=False)
    assert [out.lod_level for out in outs] == [1, 1]
    assert [tensor.recursive_sequence_lengths() for tensor in found] == [[[0, 2]]] * 2


def test_infinities_stay_in_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = PICTURES.copy()
    pictures[0, 0, 0, 0], pictures[1, 2, 4, 6] = np.inf, np.nan
    monkeypatch.setitem(globals(), "PICTURES", pictures)
    found, wanted = (means(F.adaptive_avg_pool2d, [2, 3], form) for form in ("a Variable each", None))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_pictures_in_another_size(form: str) -> None:
    def resized(x: Any, size: Any) -> Any:
        return F.interpolate(x, size, mode="area")

    for found, wanted in zip(means(resized, [2, 4], form), means(resized, [2, 4], None), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [[9, 13], [10, 14], [9, 14]], ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_transposed_convolutions(layout: str, sizes: list[int], form: str) -> None:
    def grown(x: Any, size: Any) -> Any:
        x = x if layout == "NCHW" else paddle.transpose(x, [0, 2, 3, 1])
        weight = paddle.full([3, 2, 1, 1], 0.5, "float64")
        return F.conv2d_transpose(x, weight, stride=2, output_size=size, data_format=layout)

    for found, wanted in zip(means(grown, sizes, form), means(grown, sizes, None), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_a_size_that_no_stride_allows() -> None:
    def grown(x: Any, size: Any) -> Any:
        return F.conv2d_transpose(x, paddle.full([3, 2, 1, 1], 0.5, "float64"), stride=2, output_size=size)

    with pytest.raises(AssertError, match="8,13"):
        means(grown, [8, 13], "one Variable of two")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layers_of_transposed_convolutions(layout: str, form: str) -> None:
    """`static.nn.conv2d_transpose`, with a bias and an activation, is what numbers give."""

    sizes, stride = ([11, 7], 2) if layout == "NCHW" else ([4, 6], 1)

    def convolved(given_as: str | None) -> list[np.ndarray]:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup), paddle.static.scope_guard(paddle.static.Scope()):
            x = paddle.static.data("x", [2, 3, 5, 3], "float32")
            given = paddle.static.data("sizes", [2], "int32")
            size = sizes if given_as is None else FORMS[given_as](given, sizes)
            filled = {
                key: paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(value))
                for key, value in (("param_attr", 0.3), ("bias_attr", 0.1))
            }
            out = paddle.static.nn.conv2d_transpose(
                x, 4, size, 2, stride=stride, act="relu", data_format=layout, **filled
            )
            exe = paddle.static.Executor()
            exe.run(startup)
            pictures = np.sin(np.arange(90.0)).reshape(2, 3, 5, 3).astype("float32")
            feed = {"x": pictures, "sizes": np.array(sizes, "int32")}
            found: list[np.ndarray] = exe.run(main, feed=feed, fetch_list=[out])
        return found

    np.testing.assert_allclose(convolved(form)[0], convolved(None)[0], rtol=1e-6)


def test_a_size_alone_is_no_filter() -> None:
    with pytest.raises(ValueError, match="filter_size should not be None"):
        x = paddle.static.data("y", [1, 2, 4, 4], "float32")
        paddle.static.nn.conv2d_transpose(x, 2, paddle.static.data("s", [2], "int32"))
