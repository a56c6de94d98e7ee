"""Convolutions on a device by cuDNN: against NumPy's in both layouts, the choice between it and the kernels
here, and what happens where it refuses or is wrong.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from both_places import run_on_both
from test_cuda_conv import EVEN, GEOMETRIES

import fluidlite as fluid
from fluidlite.base import choice
from fluidlite.executor.cuda import chosen_conv, cudnn, libraries
from fluidlite.executor.cuda.chosen_conv import ChosenConv
from fluidlite.executor.cuda.convolutions import ConvOptions, DeviceConvRecipe, device_conv
from fluidlite.executor.run.cuda import Namespace
from fluidlite.ops.kernels.convolution import Geometry, conv_plan

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("error")]

NONE = ((0, 0),) * 3
VOLUMES = {
    "volumes": Geometry((2, 3, 4, 5, 6), (4, 3, 3, 2, 3), (1, 2, 1), ((1, 1),) * 3, (1, 1, 1)),
    "volumes in groups": Geometry((2, 4, 4, 5, 3), (4, 2, 2, 2, 2), (1, 1, 1), NONE, (1, 2, 1), 2),
}
PLAIN = GEOMETRIES["3 x 3"]


def explained(*arguments: Any) -> str:
    """The line of a recipe with these arguments."""
    return DeviceConvRecipe(device_conv, arguments).explained()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has a library and has chosen nothing yet."""
    monkeypatch.setattr(choice, "_choices", {})
    monkeypatch.setattr(choice, "_kept", lambda _: {})
    monkeypatch.setattr(chosen_conv, "_refused", {})
    monkeypatch.setattr(chosen_conv, "_held", set())
    monkeypatch.setattr(libraries, "_found", {})
    if cudnn.find() is None:
        pytest.skip("needs cuDNN (pip install nvidia-cudnn-cu12, or nvidia-cudnn-cu13)")
    before = fluid.get_flags(["FLAGS_cudnn_deterministic", "FLAGS_use_cudnn"])
    yield
    fluid.set_flags(before)


@pytest.fixture()
def failing(fresh: None) -> Iterator[set[str]]:
    """Functions of the stand-in that fail, by name."""
    library = cudnn.find()
    assert library is not None
    if not hasattr(library.library, "failing"):
        pytest.skip("needs the stand-in, whose functions fail when they are told to")
    found: set[str] = library.library.failing
    yield found
    found.clear()
    type(library.library).wrong = 0.0


def arrays(geometry: Geometry, dtype: str, is_last: bool) -> Any:
    """Images, filters and gradients on the host; a function that puts one on the device."""
    import cupy

    random = np.random.default_rng(1)
    host = [random.normal(size=shape).astype(dtype) for shape in (geometry.x, geometry.w, geometry.out)]

    def there(array: Any, is_filter: bool = False) -> Any:
        if not is_last or is_filter:
            return cupy.asarray(array)
        return cupy.moveaxis(cupy.asarray(np.ascontiguousarray(np.moveaxis(array, 1, -1))), -1, 1)

    return (*host, there)


def held_against_numpy(geometry: Geometry, dtype: str, kernel: Any, is_last: bool, close: float) -> None:
    """Each direction of `kernel`, twice."""
    x, w, d, there = arrays(geometry, dtype, is_last)
    host = conv_plan(np, geometry, "float64")
    runs = {"forward": (x, w, d), "grad_input": (d, w, x), "grad_filter": (x, d, w)}
    for method, (left, right, like) in runs.items():
        wanted = np.empty(like.shape, "float64")
        getattr(host, method)(left.astype("float64"), right.astype("float64"), wanted)
        left, right, found = (there(array, array is w) for array in (left, right, np.zeros_like(like)))
        for _ in range(2):
            getattr(kernel, method)(left, right, found)
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(found.get(), wanted, rtol=0, atol=close * scale, err_msg=method)


@pytest.mark.parametrize("is_last", [False, True], ids=["second", "last"])
@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-4), ("float64", 1e-11), ("float16", 0.02)])
@pytest.mark.parametrize("name", [*GEOMETRIES, *VOLUMES])
def test_against_numpy(name: str, dtype: str, close: float, is_last: bool) -> None:
    import cupy

    geometry = {**GEOMETRIES, **VOLUMES}[name]
    kernel = device_conv(Namespace(cupy), geometry, np.dtype(dtype), ConvOptions(is_last))
    assert isinstance(kernel, ChosenConv)
    held_against_numpy(geometry, dtype, kernel, is_last, close)


def test_a_choice_is_made_once(failing: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured at the first run of a geometry, and then holds for all convolutions of that geometry."""
    import cupy

    fluid.set_flags({"FLAGS_cudnn_deterministic": False})
    asked: list[list[str]] = []

    def fastest(key: str, libraries: str, candidates: Any) -> str:
        for run in candidates.values():
            run()
        asked.append(list(candidates))
        choice._choices[f"{libraries} {key}"] = asked[-1][-1]
        return asked[-1][-1]

    monkeypatch.setattr(chosen_conv, "fastest", fastest)
    options = ConvOptions(exhaustive=True)
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), options)
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    # what is not deterministic or wants more memory than the limit is no candidate
    assert asked == [["algorithm 1", "algorithm 3", "kernels here"]] * 3
    assert explained(PLAIN, np.dtype("float32"), options).count("slower (measured)") == 3
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"))
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)


def test_the_measurement_itself() -> None:
    import cupy

    fluid.set_flags({"FLAGS_cudnn_deterministic": False})
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    assert explained(PLAIN, np.dtype("float32"), ConvOptions()).count("(measured)") == 3


@pytest.mark.parametrize("function", ["Algorithm_v7", "WorkspaceSize", ""])
def test_what_cudnn_refuses_is_left_to_kernels(failing: set[str], function: str) -> None:
    import cupy

    way = "cudnnGetConvolution{}" if function else "cudnnConvolution{}"
    failing.update(way.format(name) + function for name in ("Forward", "BackwardData", "BackwardFilter"))
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    assert explained(PLAIN, np.dtype("float32"), ConvOptions()).count("not used") == 3


def test_what_fails_later_is_left_to_kernels(failing: set[str]) -> None:
    import cupy

    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    failing.add("cudnnConvolutionForward")
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    text = explained(PLAIN, np.dtype("float32"), ConvOptions())
    assert "forward not used (cudnnConvolutionForward fails with status 3000)" in text
    assert "grad_input by rule" in text


def test_a_wrong_result_is_noticed(failing: set[str]) -> None:
    import cupy

    library = cudnn.find()
    assert library is not None
    type(library.library).wrong = 0.5
    with pytest.warns(RuntimeWarning, match="is not used for .*off by 0.5 of") as warned:
        for _ in range(2):
            kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
            held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    assert len(warned) == 3  # one for each direction, once


def test_numbers_that_are_not_finite_say_nothing() -> None:
    import cupy

    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    x, w, d, there = arrays(PLAIN, "float32", False)
    x[0, 0, 0, 0] = np.nan
    out = there(d)
    kernel.forward(there(x), there(w), out)
    assert np.isnan(out.get()).any() and not np.isnan(out.get()).all()
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    assert "forward by rule" in explained(PLAIN, np.dtype("float32"), ConvOptions())


def test_arrays_at_odd_places(failing: set[str]) -> None:
    import cupy

    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    x, w, d, there = arrays(PLAIN, "float32", False)
    held = cupy.empty(x.size + 1, "float32")
    odd = held[1:].reshape(x.shape)
    odd[...] = there(x)
    out = there(np.zeros_like(d))
    kernel.forward(odd, there(w), out)
    wanted = np.empty_like(d)
    conv_plan(np, PLAIN, "float32").forward(x, w, wanted)
    np.testing.assert_allclose(out.get(), wanted, rtol=1e-4, atol=1e-4)


def test_a_machine_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    load = ctypes.CDLL

    def missing(name: Any, *arguments: Any, **options: Any) -> Any:
        if "cudnn" in str(name):
            raise OSError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(libraries, "_found", {})
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    assert not isinstance(kernel, ChosenConv)
    assert explained(PLAIN, np.dtype("float32"), ConvOptions()).startswith("CUDA kernels unfold")


# ---------------------------------------------------------------------- programs
def block(x: Any, channels: int, seed: int, **options: Any) -> Any:
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=seed))
    found = fluid.layers.conv2d(x, channels, 3, param_attr=start, bias_attr=False, **options)
    return fluid.layers.relu(found)


def network(data_format: str = "NCHW", **options: Any) -> tuple[list[dict[str, Any]], Any]:
    """Feeds, and the loss of a network that trains on them."""
    shape = [None, 4, 9, 8] if data_format == "NCHW" else [None, 9, 8, 4]
    x = fluid.data("x", shape)
    h = block(x, 8, 1, padding=1, stride=2, data_format=data_format, **options)
    h = block(h, 8, 2, padding=[0, 1, 2, 1], groups=2, data_format=data_format, **options)
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=4))
    h = fluid.layers.conv2d_transpose(
        h, 5, filter_size=3, stride=2, param_attr=start, data_format=data_format, **options
    )
    loss = fluid.layers.mean(fluid.layers.square(h))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    random = np.random.default_rng(2)
    sizes = (3, *shape[1:])
    return [{"x": random.normal(size=sizes).astype("float32")} for _ in range(4)], loss


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_a_networks_steps(data_format: str) -> None:
    """In one graph."""
    runs = run_on_both(*network(data_format))
    assert runs.host == pytest.approx(runs.device, rel=1e-3)
    text = f"cuDNN {getattr(cudnn.find(), 'version', '')}: forward "
    # a transposed one and its gradient have an object each
    assert runs.text.count(text) == 4 and "graph: the whole step is one launch" in runs.text


@pytest.mark.parametrize("by", ["switch", "attribute"])
def test_switched_off(by: str) -> None:
    fluid.set_flags({"FLAGS_use_cudnn": by != "switch"})
    runs = run_on_both(*network(**({} if by == "switch" else {"use_cudnn": False})))
    assert runs.host == pytest.approx(runs.device, rel=1e-3) and "cuDNN" not in runs.text


def test_volumes_in_a_program() -> None:
    x = fluid.data("x", [None, 3, 5, 6, 4])
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=3))
    h = fluid.layers.conv3d(x, 4, 3, padding=1, param_attr=start)
    h = fluid.layers.conv3d_transpose(h, 2, filter_size=2, stride=2, param_attr=start)
    loss = fluid.layers.mean(fluid.layers.square(h))
    fluid.optimizer.SGD(0.1).minimize(loss)
    random = np.random.default_rng(2)
    feeds = [{"x": random.normal(size=(2, 3, 5, 6, 4)).astype("float32")} for _ in range(3)]
    runs = run_on_both(feeds, loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-3)
    assert runs.text.count("cuDNN") == 3


def test_geometry_without_elements() -> None:
    import cupy

    geometry = Geometry((0, 3, 5, 6), (4, 3, 3, 3), (1, 1), EVEN, (1, 1))
    assert not isinstance(
        device_conv(Namespace(cupy), geometry, np.dtype("float32"), ConvOptions()), ChosenConv
    )


def test_descriptors_are_given_back(failing: set[str]) -> None:
    import cupy

    library: Any = cudnn.find()
    kernel = device_conv(Namespace(cupy), PLAIN, np.dtype("float32"), ConvOptions())
    held_against_numpy(PLAIN, "float32", kernel, False, 1e-4)
    kinds = [thing["kind"] for thing in library.library.things.values()]
    assert sorted(kinds) == ["Convolution", "Filter", "Tensor", "Tensor", "handle"]
    del kernel
    gc.collect()
    assert [thing["kind"] for thing in library.library.things.values()] == ["handle"]
