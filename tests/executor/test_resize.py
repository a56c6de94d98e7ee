"""Resized images in plans, in every layout, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run import resize
from fluidlite.ops.neural import interpolate

SIZES = {"larger": (9, 14), "twice": (10, 14), "smaller": (3, 2), "rows alone": (8, 7), "columns": (5, 3)}


def program(method: str, size: tuple[int, int], corners: bool, mode: int, convolved: bool) -> list[str]:
    """Images that are resized, between convolutions or not; the names of what is compared."""
    x = fluid.data("x", [-1, 3, 5, 7])
    x.stop_gradient = False
    h = fluid.layers.conv2d(x, 6, 3, padding=1, bias_attr=False) if convolved else x
    options = (
        {"align_corners": corners} if method == "NEAREST" else {"align_corners": corners, "align_mode": mode}
    )
    if method == "BICUBIC":
        h = bicubic(h, size, corners)
    else:
        h = fluid.layers.image_resize(h, size, resample=method, **options)
    h = fluid.layers.conv2d(h, 2, 3, padding=1, bias_attr=False) if convolved else h
    loss = fluid.layers.mean(h * h)
    grads = fluid.gradients(loss, x)
    return [h.name, grads[0].name]


def bicubic(x: fluid.framework.Variable, size: tuple[int, int], corners: bool) -> fluid.framework.Variable:
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="cubic", dtype="float32")
    attrs = {"out_h": size[0], "out_w": size[1], "interp_method": "bicubic", "align_corners": corners}
    block.append_op("bicubic_interp", {"X": [x]}, {"Out": [out]}, attrs)
    return out


def results(names: list[str], batch: int) -> tuple[list[np.ndarray], list[np.ndarray], str]:
    """The results of a plan and of the interpreter, and the plan as text."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.random.RandomState(0).randn(batch, 3, 5, 7).astype("float32")}
    found = exe.run(feed=feed, fetch_list=names)
    text = exe.explain(feed=feed, fetch_list=names, full=True)
    exe.naive = True
    return found, exe.run(feed=feed, fetch_list=names), text


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
@pytest.mark.parametrize("convolved", [True, False], ids=["convolved", "plain"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    ("method", "corners", "mode"),
    [
        ("NEAREST", True, 1),
        ("NEAREST", False, 1),
        ("BILINEAR", True, 1),
        ("BILINEAR", False, 0),
        ("BILINEAR", False, 1),
        ("BICUBIC", False, 1),
    ],
)
def test_as_the_interpreter(
    fast: bool,
    convolved: bool,
    size: tuple[int, int],
    method: str,
    corners: bool,
    mode: int,
    flags: Callable[..., None],
) -> None:
    flags(use_onednn=fast)
    names = program(method, size, corners, mode, convolved)
    found, wanted, text = results(names, 2)
    assert "resize_" in text.split("# objects")[1]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("letters", ["NCHW", "NHWC", "HNWC"])
def test_blocks_and_threads(letters: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize, "_BLOCK", 40)
    monkeypatch.setattr(resize, "_SHARED", 1)
    attrs = {
        "data_layout": "NCHW",
        "out_d": 0,
        "out_h": 11,
        "out_w": 4,
        "scale": 0.0,
        "interp_method": "bilinear",
        "align_corners": True,
        "align_mode": 1,
    }
    order = ["NCHW".index(letter) for letter in letters]
    rng = np.random.RandomState(0)
    x, d = rng.randn(2, 3, 5, 7), rng.randn(2, 3, 11, 4)

    def laid(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.transpose(order))

    def both(count: int) -> tuple[np.ndarray, np.ndarray]:
        made = resize.ResizedImages(np, "bilinear_interp", x.shape, x.dtype, attrs, letters, count)
        out, dx = np.empty_like(laid(d)), np.empty_like(laid(x))
        made.forward(laid(x), out)
        made.backward(laid(d), dx)
        return out, dx

    out, dx = both(threads)
    again, dx_again = both(1)
    np.testing.assert_array_equal(out, again)
    np.testing.assert_array_equal(dx, dx_again)
    # the gradient is the transposed map
    np.testing.assert_allclose((out * laid(d)).sum(), (dx * laid(x)).sum())


@pytest.mark.parametrize("letters", ["NCHW", "NHWC"])
def test_many_bands_are_the_sums(letters: str) -> None:
    attrs = {
        "data_layout": "NCHW",
        "out_d": 0,
        "out_h": 70,
        "out_w": 90,
        "scale": 0.0,
        "interp_method": "bilinear",
        "align_corners": False,
        "align_mode": 0,
    }
    order = ["NCHW".index(letter) for letter in letters]
    rng = np.random.RandomState(0)
    x = np.ascontiguousarray(rng.randn(3, 4, 40, 50).transpose(order))
    d = np.ascontiguousarray(rng.randn(3, 4, 70, 90).transpose(order))
    made = resize.ResizedImages(np, "bilinear_interp", (3, 4, 40, 50), x.dtype, attrs, letters, 2)
    out, wanted, dx, dx_wanted = (np.empty_like(one) for one in (d, d, x, x))
    made.forward(x, out)
    made.forward_of(x, wanted)
    np.testing.assert_allclose(out, wanted, atol=1e-12)
    made.backward(d, dx)
    made.gradient_of(d, dx_wanted)
    np.testing.assert_allclose(dx, dx_wanted, atol=1e-12)


def test_an_infinite_gradient_reaches_its_own_elements_alone() -> None:
    x = fluid.data("x", [1, 1, 4, 4])
    x.stop_gradient = False
    weight = fluid.data("weight", [1, 1, 9, 9])
    h = fluid.layers.image_resize(x, (9, 9), resample="BILINEAR")
    names = [fluid.gradients(fluid.layers.reduce_sum(h * weight), x)[0].name]
    exe = fluid.Executor(fluid.CPUPlace())
    values = np.ones((1, 1, 9, 9), "float32")
    values[0, 0, 4, 5] = np.inf
    feed = {"x": np.ones((1, 1, 4, 4), "float32"), "weight": values}
    (found,) = exe.run(feed=feed, fetch_list=names)
    exe.naive = True
    np.testing.assert_allclose(found, exe.run(feed=feed, fetch_list=names)[0], rtol=1e-6)


def test_other_batches_use_the_same_plan() -> None:
    names = program("BILINEAR", (9, 14), False, 0, True)
    for batch in (2, 5, 3):
        found, wanted, _ = results(names, batch)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("special", [None, np.inf, np.nan])
def test_volumes_by_products_as_tap_by_tap(special: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = fluid.data("x", [2, 3, 4, 5, 7])
    x.stop_gradient = False
    h = fluid.layers.resize_trilinear(x, [7, 9, 5])
    names = [h.name, fluid.gradients(fluid.layers.mean(h * h), x)[0].name]
    feed = {"x": np.random.RandomState(0).randn(2, 3, 4, 5, 7).astype("float32")}
    if special is not None:
        feed["x"][1, 2, 3, 1, 4] = special
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(feed=feed, fetch_list=names)
    monkeypatch.setattr(interpolate, "_DENSE", 0)
    wanted = exe.run(feed=feed, fetch_list=names)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
