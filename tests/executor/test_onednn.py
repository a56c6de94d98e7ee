"""Convolutions by oneDNN against NumPy's, for each direction, layout and number of threads; plans with and
without it; what happens where it is missing.
"""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base import choice
from fluidlite.executor.fast import conv as fast_conv
from fluidlite.executor.fast.conv import FastConv, has_fast_conv
from fluidlite.executor.fast.onednn import conv as onednn_conv
from fluidlite.executor.fast.onednn import library
from fluidlite.executor.fast.onednn.conv import (
    FORWARD,
    GRAD_FILTER,
    GRAD_INPUT,
    ChannelBands,
    ConvKernel,
    Epilogue,
)
from fluidlite.executor.fast.onednn.library import OneDnnError
from fluidlite.executor.fast.onednn.primitive import Desc, PrimitiveDesc
from fluidlite.executor.run import feeding
from fluidlite.ops.kernels.convolution import Geometry, conv_plan

pytestmark = pytest.mark.skipif(
    library.library() is None, reason="oneDNN's wheel is for x86-64 processors under Linux"
)

F32 = np.dtype("float32")
NONE, ONE = ((0, 0), (0, 0)), ((1, 1), (1, 1))


def geometry(
    x: tuple[int, ...],
    w: tuple[int, ...],
    pads: Any = ONE,
    strides: tuple[int, ...] = (1, 1),
    dilations: tuple[int, ...] = (1, 1),
    groups: int = 1,
) -> Geometry:
    return Geometry(x, w, strides, pads, dilations, groups)


GEOMETRIES = {
    "many channels": geometry((4, 20, 12, 12), (50, 20, 5, 5), NONE),
    "one channel": geometry((3, 1, 9, 8), (7, 1, 3, 3)),
    "three channels": geometry((3, 3, 9, 7), (6, 3, 3, 3)),
    "odd sizes": geometry((3, 5, 7, 11), (13, 5, 3, 2), ((2, 0), (0, 1)), (2, 1)),
    "one image": geometry((1, 8, 9, 7), (6, 8, 3, 3), ((1, 2), (0, 1)), (2, 1)),
    "one image, dilated": geometry((1, 8, 9, 7), (6, 8, 3, 3), ONE, (2, 1), (2, 1)),
    "one image in wide padding": geometry((1, 5, 2, 2), (12, 5, 1, 1), ((3, 3), (3, 3))),
    "one image, large": geometry((1, 3, 40, 33), (8, 3, 5, 3), ((2, 1), (1, 1)), (1, 1)),
    "one image, large, strided": geometry((1, 9, 57, 48), (16, 9, 3, 3), ONE, (2, 2)),
    "one image, rows passed by": geometry((1, 9, 12, 8), (16, 9, 1, 1), NONE, (2, 2)),
    "one row of results": geometry((1, 4, 3, 9), (4, 4, 3, 3), NONE),
    "depthwise": geometry((3, 8, 9, 7), (8, 1, 3, 3), groups=8),
    "depthwise, two filters": geometry((3, 8, 9, 7), (16, 1, 3, 3), groups=8),
    "groups": geometry((3, 8, 9, 7), (12, 4, 3, 3), strides=(1, 2), groups=2),
    "pointwise": geometry((3, 33, 9, 7), (12, 33, 1, 1), NONE),
    "pointwise, strided": geometry((3, 33, 9, 7), (12, 33, 1, 1), NONE, (2, 2)),
    "three dimensions": geometry((2, 5, 4, 5, 6), (12, 5, 3, 3, 3), (*ONE, (1, 1)), (1, 1, 2), (1, 1, 1)),
}


def random(shape: tuple[int, ...], seed: int, last: bool = False) -> np.ndarray:
    array = np.random.RandomState(seed).standard_normal(shape).astype("float32")
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1) if last else array


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * float(np.abs(wanted).max(initial=1)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_directions_equal_numpy(name: str, last: bool, threads: int) -> None:
    g = GEOMETRIES[name]
    x, w, d = random(g.x, 0, last), random(g.w, 1), random(g.out, 2, last)
    for direction, computed in ((FORWARD, 2), (GRAD_INPUT, 0), (GRAD_FILTER, 1)):
        wanted = [x.copy("C"), w.copy("C"), d.copy("C")]
        portable = conv_plan(np, g, F32)
        (wx, ww, wd) = wanted
        if direction is FORWARD:
            portable.forward(wx, ww, wd)
        elif direction is GRAD_INPUT:
            portable.grad_input(wd, ww, wx)
        else:
            portable.grad_filter(wx, wd, ww)
        found = [x.copy("K"), w.copy("K"), d.copy("K")]
        kernel = ConvKernel(direction, g, threads, (x.strides, w.strides, d.strides))
        for _ in range(2):  # the second time nothing is made any more
            kernel.run(*found)
            close(found[computed], wanted[computed])


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
@pytest.mark.parametrize("direction", [FORWARD, GRAD_INPUT, GRAD_FILTER], ids=lambda d: d.kind)
def test_channels_of_small_images_are_shared(direction: Any, strides: tuple[int, int], last: bool) -> None:
    g = geometry((3, 136, 7, 9), (200, 136, 3, 3), ONE, strides)
    arrays = random(g.x, 0, last), random(g.w, 1), random(g.out, 2, last)
    assert ChannelBands.fit(direction, g, 2)
    said = [
        FastConv.explained(g, np.float32, threads, None, fixed)
        for threads, fixed in ((2, False), (1, False), (2, True))
    ]
    assert [text.count("share the channels") for text in said] == [3, 0, 0]
    found, wanted = ([array.copy("K") for array in arrays] for _ in range(2))
    form = tuple(array.strides for array in arrays)
    ChannelBands(direction, g, 2, form).run(*found)
    ConvKernel(direction, g, 1, form).run(*wanted)
    for mine, plain in zip(found, wanted, strict=True):
        close(mine, plain)
    assert not all(map(np.array_equal, found, arrays))


def test_threads_may_share_kernels_of_alike_layers() -> None:
    g = GEOMETRIES["many channels"]
    kernels, given = [], []
    for number in range(4):
        rng = np.random.RandomState(number)
        x, w, d = (rng.rand(*shape).astype(F32) for shape in (g.x, g.w, g.out))
        kernels.append(ConvKernel(FORWARD, g, 1, (x.strides, w.strides, d.strides)))
        given.append((x, w, d))
    assert len({kernel._parts[0] for kernel in kernels}) == 1

    def work(number: int) -> None:
        for _ in range(20):
            kernels[number].run(*given[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, w, d in given:
        wanted = np.empty_like(d)
        conv_plan(np, g, F32).forward(x, w, wanted)
        np.testing.assert_allclose(d, wanted, rtol=1e-4)


def test_batches_of_a_like_size_share_a_choice() -> None:
    _key = fast_conv._key
    form = (1, 8, 8), (4, 1, 3, 3)
    keys = [_key(FORWARD, geometry((n, *form[0]), form[1]), 1, "LL") for n in (16, 17, 31, 32, 33)]
    assert len(set(keys[1:4])) == 1
    assert len(set(keys)) == 3


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_epilogue_adds_a_bias_and_what_was_there(last: bool) -> None:
    g = GEOMETRIES["many channels"]
    x, w, bias = random(g.x, 0, last), random(g.w, 1), random((g.w[0],), 3)
    before = random(g.out, 2, last)
    wanted = np.empty(g.out, "float32")
    conv_plan(np, g, F32).forward(x.copy("C"), w, wanted)
    found = before.copy("K")
    strides = (x.strides, w.strides, found.strides)
    ConvKernel(FORWARD, g, 2, strides, Epilogue(bias=True, sum=True, relu=True)).run(x, w, found, bias)
    close(found, np.maximum(wanted + bias[:, None, None] + before, 0))


def test_refusals_name_primitive_and_shapes() -> None:
    x, w = Desc.any((2, 3, 4, 4)), Desc.any((5, 7, 3, 3))
    with pytest.raises(OneDnnError, match="matmul of two descriptors: invalid arguments"):
        PrimitiveDesc("matmul", "two descriptors", library.engine(), x, w, None, x, None)


# ---------------------------------------------------------------------- in plans
def network(channels: int = 6) -> tuple[fluid.Executor, Any]:
    img = fluid.data("img", [None, 3, 12, 11], "float32")
    hidden = fluid.layers.conv2d(img, channels, 3, padding=1, act="relu")
    hidden = fluid.layers.conv2d(hidden, channels, 3, stride=2, groups=2, dilation=2, padding=2)
    hidden = fluid.layers.conv2d(hidden, channels, 3, groups=channels, use_cudnn=False)
    loss = fluid.layers.reduce_mean(fluid.layers.square(hidden))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, loss


def losses(exe: fluid.Executor, loss: Any, batches: list[int]) -> list[float]:
    """The losses of steps with batches of these sizes, from the parameters that the scope holds."""
    held = fluid.global_scope()
    names = [param.name for param in fluid.default_main_program().all_parameters()]
    before = {name: np.array(held.find_var(name).get_tensor()) for name in names}
    found = []
    for step, batch in enumerate(batches):
        feed = {"img": random((batch, 3, 12, 11), step)}
        found.append(float(np.mean(exe.run(feed=feed, fetch_list=[loss])[0])))
    for name, array in before.items():
        held.find_var(name).get_tensor().set(array, fluid.CPUPlace())
    return found


def test_training_is_the_same_with_and_without(flags: Callable[..., None]) -> None:
    exe, loss = network()
    batches = [5, 5, 3, 1]
    found = losses(exe, loss, batches)
    flags(use_onednn=False)
    np.testing.assert_allclose(losses(exe, loss, batches), found, rtol=1e-5)
    exe.naive = True
    np.testing.assert_allclose(losses(exe, loss, batches), found, rtol=1e-5)


def test_explain_names_the_kernels(flags: Callable[..., None]) -> None:
    exe, loss = network()
    feed = {"img": random((4, 3, 12, 11), 0)}
    assert "forward oneDNN" in exe.explain(feed=feed, fetch_list=[loss], full=True)
    flags(use_onednn=False)
    assert "oneDNN" not in exe.explain(feed=feed, fetch_list=[loss], full=True)


def test_threads_share_many_channels_of_few_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "blas_threads", lambda: 2)
    x = fluid.data("x", [None, 512, 7, 7])
    x.stop_gradient = False
    loss = fluid.layers.mean(fluid.layers.conv2d(x, 1024, 3, padding=1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    text = exe.explain(feed={"x": random((1, 512, 7, 7), 0)}, fetch_list=[loss], full=True)
    assert text.count("threads share the channels") == 3, text


def test_an_empty_batch_is_left_to_numpy() -> None:
    assert not has_fast_conv(geometry((0, 3, 4, 4), (2, 3, 3, 3)), F32)
    assert not has_fast_conv(geometry((2, 3, 4, 4), (2, 3, 3, 3)), np.dtype("float64"))


# ---------------------------------------------------------------------- the choice
@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """An empty cache, in a process that has chosen nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(choice, "_choices", {})
    choice._kept.cache_clear()
    yield tmp_path
    choice._kept.cache_clear()


def candidates(fast: str, runs: list[str]) -> dict[str, Callable[[], object]]:
    def kernel(name: str) -> Callable[[], object]:
        def run() -> object:
            runs.append(name)
            return None if name == fast else [i * i for i in range(20000)]

        return run

    return {name: kernel(name) for name in ("one", "two")}


def test_the_fastest_is_measured_once_and_kept(cache: pathlib.Path) -> None:
    runs: list[str] = []
    assert choice.fastest("sum (3,)", "v1", candidates("two", runs)) == "two"
    count = len(runs)
    assert choice.fastest("sum (3,)", "v1", candidates("one", runs)) == "two" and len(runs) == count
    choice._keep(choice._machine("v1"))
    choice._choices.clear()
    choice._kept.cache_clear()
    # another process finds it in the file; another version of the library measures anew
    assert choice.fastest("sum (3,)", "v1", candidates("one", runs)) == "two" and len(runs) == count
    assert choice.fastest("sum (3,)", "v2", candidates("one", runs)) == "one" and len(runs) > count


@pytest.mark.parametrize("content", ["", "[1]", '{"sum (3,)": 3}', '{"sum (3,)": "gone"}', "\0"])
def test_a_spoilt_file_is_measured_anew(cache: pathlib.Path, content: str) -> None:
    path = choice._file(choice._machine("v1"))
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf8")
    assert choice.fastest("sum (3,)", "v1", candidates("two", [])) == "two"


def test_by_rule_nothing_is_measured(cache: pathlib.Path, flags: Callable[..., None]) -> None:
    flags(cpu_deterministic=True)
    runs: list[str] = []
    assert choice.fastest("sum (3,)", "v1", candidates("two", runs)) == "one" and not runs


class Portable:
    """Stands for NumPy's kernel, which the measurement finds faster."""

    def __init__(self, *_: Any) -> None:
        self.calls: list[tuple[str, bool]] = []

    def forward(self, x: Any, w: Any, out: Any) -> None:
        self.calls.append(("forward", False))

    def grad_filter(self, x: Any, d: Any, out: Any, reuse: bool) -> None:
        self.calls.append(("grad_filter", reuse))


def test_numpy_reuses_only_what_numpy_has_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    g = GEOMETRIES["groups"]
    x, w, d = random(g.x, 0), random(g.w, 1), random(g.out, 2)
    for forward, reuse in (("oneDNN", False), ("NumPy", True)):
        names = iter([forward, "NumPy"])
        monkeypatch.setattr("fluidlite.executor.fast.conv.fastest", lambda *_, names=names: next(names))
        both = FastConv(np, g, F32, 1, Portable)
        both.forward(x, w, d)
        both.grad_filter(x, d, w, True)
        assert both.portable.calls[-1] == ("grad_filter", reuse)


def test_small_convolutions_have_kernels_when_their_size_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    g = GEOMETRIES["groups"]
    x, w, d = random(g.x, 0), random(g.w, 1), random(g.out, 2)
    monkeypatch.setattr("fluidlite.executor.fast.conv.fastest", lambda *_: "oneDNN")
    both = FastConv(np, g, F32, 1, Portable, asked=2)
    first = both.portable
    for calls in (1, 1):
        both.forward(x, w, d)
        assert len(first.calls) == calls
    assert both.portable is not first, "its scratch memory is given back"


# ---------------------------------------------------------------------- without the library
@pytest.fixture
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The library is looked for in this folder."""
    monkeypatch.setattr(library, "_places", lambda: sorted(tmp_path.glob("libdnnl*")))
    library.library.cache_clear()
    yield tmp_path
    library.library.cache_clear()


@pytest.mark.parametrize("content", [None, b"", b"no library", b"\x7fELF\x02\x01\x01" + bytes(200)])
def test_a_library_that_does_not_load_is_not_there(elsewhere: pathlib.Path, content: bytes | None) -> None:
    if content is not None:
        (elsewhere / "libdnnl.so.3").write_bytes(content)
    assert not library.available() and not has_fast_conv(GEOMETRIES["groups"], F32)


def test_a_primitive_that_cannot_be_made_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OneDnnError("oneDNN: convolution: not implemented")

    monkeypatch.setattr(onednn_conv, "_share_kernel", refuse)
    g = GEOMETRIES["groups"]
    both = FastConv(np, g, F32, 1, Portable)
    both.forward(random(g.x, 0), random(g.w, 1), random(g.out, 2))
    assert both.portable.calls == [("forward", False)]
