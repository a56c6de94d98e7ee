"""Names of 2.6.2 around programs: profiles, hubs, ONNX files, devices, derivatives, sound, checks."""

from __future__ import annotations

import glob
import pathlib
import wave
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import fluidlite.paddle as paddle
from fluidlite.base.errors import (
    FormatError,
    MissingExtraError,
    MissingFileError,
    NanInfError,
    UnsupportedError,
)

X = np.arange(1, 7, dtype="float32").reshape(2, 3)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


def _run(fetches: list[Any], feed: dict[str, Any] | None = None) -> list[Any]:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    found: list[Any] = exe.run(paddle.static.default_main_program(), feed=feed or {}, fetch_list=fetches)
    return found


def _x() -> Any:
    x = paddle.static.data("x", [2, 3], "float32")
    x.stop_gradient = False
    return x


# ---------------------------------------------------------------------- profiles
def test_schedules_are_those_of_paddle() -> None:
    twice = paddle.profiler.make_scheduler(closed=1, ready=1, record=2, repeat=2, skip_first=1)
    names = [twice(step).name for step in range(11)]
    cycle = ["CLOSED", "READY", "RECORD", "RECORD_AND_RETURN"]
    assert names == ["CLOSED", *cycle, *cycle, "CLOSED", "CLOSED"]
    always = paddle.profiler.make_scheduler(closed=1, ready=1, record=1)
    assert [always(step).name for step in range(4)] == ["CLOSED", "READY", "RECORD_AND_RETURN", "CLOSED"]
    with pytest.raises(AssertionError, match="Invalid profiler scheduler"):
        paddle.profiler.make_scheduler(closed=0, ready=0, record=0)


def test_a_profile(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    profiler, seen = paddle.profiler, []
    y = paddle.tanh(_x())
    with profiler.Profiler(scheduler=(1, 3), on_trace_ready=lambda each: seen.append(each.step_num)) as made:
        for _ in range(5):
            with profiler.RecordEvent("mine"):
                _run([y], {"x": X})
            made.step(num_samples=2)
    assert seen == [3] and "samples/s" in made.step_info() and made.step_info() == ""
    made.summary(sorted_by=profiler.SortedKeys.CPUMax)
    table = capsys.readouterr().out
    assert "mine" in table and "tanh" in table
    folder = str(tmp_path / "traces")
    with profiler.Profiler(on_trace_ready=profiler.export_chrome_tracing(folder, "worker")):
        _run([y], {"x": X})
    assert len(glob.glob(f"{folder}/worker_time_*.paddle_trace.json")) == 1
    made.export(str(tmp_path / "one.pb"), "pb")
    assert {event.name for event in profiler.load_profiler_result(str(tmp_path / "one.pb")).events} >= {
        "mine"
    }
    with profiler.Profiler(timer_only=True) as timed:
        timed.step()
    with pytest.raises(ValueError, match="nothing was recorded"):
        timed.summary()
    for scheduler in ((3, 1), (-1, 1), 3):
        with pytest.raises(ValueError, match="two steps such as"):
            profiler.Profiler(scheduler=scheduler)
    (tmp_path / "bad.pb").write_bytes(b"\xff" * 9)
    with pytest.raises(FormatError, match="is not a profile"):
        profiler.load_profiler_result(str(tmp_path / "bad.pb"))


# ---------------------------------------------------------------------- hubs, ONNX, other libraries
def test_a_hub(tmp_path: pathlib.Path) -> None:
    (tmp_path / "parts.py").write_text("WIDTH = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['numpy']\nfrom parts import WIDTH\n\n"
        "def net(scale=1):\n    'A net.'\n    return WIDTH * scale\n"
    )
    folder = str(tmp_path)
    assert paddle.hub.list(folder, source="local") == ["net"]
    assert paddle.hub.help(folder, "net", source="local") == "A net."
    assert paddle.hub.load(folder, "net", source="local", scale=2) == 6
    with pytest.raises(RuntimeError, match="Cannot find callable nett .*did you mean 'net'"):
        paddle.hub.load(folder, "nett", source="local")
    with pytest.raises(UnsupportedError, match="does not download 'a/b' from github"):
        paddle.hub.load("a/b", "net")
    with pytest.raises(ValueError, match="Unknown source"):
        paddle.hub.list(folder, source="x")
    with pytest.raises(MissingFileError, match="hubconf.py not found"):
        paddle.hub.list(str(tmp_path / "none"), source="local")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package.part']\n")
    with pytest.raises(MissingExtraError, match="Missing dependencies: no_such_package.part"):
        paddle.hub.list(folder, source="local")


def test_a_layer_as_onnx(tmp_path: pathlib.Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Dropout(0.5), paddle.nn.Tanh())
    y = net(_x())
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    spec = [paddle.static.InputSpec([None, 3], "float32", "rows")]
    paddle.onnx.export(net, str(tmp_path / "net"), input_spec=spec)
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"rows": X})
    program = paddle.static.default_main_program().clone(for_test=True)
    np.testing.assert_allclose(found, exe.run(program, feed={"x": X}, fetch_list=[y])[0], rtol=1e-5)
    assert net.training and net[1].training
    with pytest.raises(ValueError, match="file_prefix received in path is empty"):
        paddle.onnx.export(net, str(tmp_path) + "/", input_spec=spec)
    with pytest.raises(ValueError, match="needs input_spec"):
        paddle.onnx.export(net, str(tmp_path / "net"))


def test_memory_is_shared() -> None:
    tensor = paddle.static.Executor().run(fetch_list=[paddle.ones([2, 3])], return_numpy=False)[0]
    shared = paddle.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(tensor))
    np.testing.assert_array_equal(np.asarray(shared), np.ones((2, 3)))
    np.testing.assert_array_equal(np.asarray(paddle.utils.dlpack.from_dlpack(X)), X)
    with pytest.raises(TypeError, match="The type of 'x' in to_dlpack"):
        paddle.utils.dlpack.to_dlpack(3)


def test_utilities() -> None:
    @paddle.utils.deprecated(since="2.0", update_to="paddle.x", reason="it is old")
    def old(value: int) -> int:
        return value

    with pytest.warns(
        DeprecationWarning, match="deprecated since 2.0.*use paddle.x instead. Reason: it is old"
    ):
        assert old(3) == 3
    with pytest.raises(RuntimeError, match="is deprecated"):
        paddle.utils.deprecated(level=2)(len)([])
    assert paddle.utils.try_import("numpy") is np
    with pytest.raises(ImportError, match="no_such_module"):
        paddle.utils.try_import("no_such_module")
    assert paddle.version.cuda() == paddle.version.cudnn() == paddle.version.xpu() == "False"


# ---------------------------------------------------------------------- devices
def test_devices() -> None:
    device = paddle.device
    assert not any(getattr(device, f"is_compiled_with_{kind}")() for kind in ("ipu", "rocm", "cinn", "xpu"))
    assert device.get_available_device()[0] == "cpu" == device.get_all_device_type()[0]
    assert device.get_available_custom_device() == device.get_all_custom_device_type() == []
    if device.cuda.device_count() == 0:
        device.cuda.empty_cache()
        for name in ("synchronize", "memory_allocated", "memory_reserved", "get_device_name"):
            with pytest.raises(UnsupportedError, match="needs a CUDA device and CuPy"):
                getattr(device.cuda, name)()
    with pytest.raises(ValueError, match="no kernels for IPU"):
        device.IPUPlace()


@pytest.mark.parametrize(
    "call",
    [
        lambda: paddle.device.Stream(),
        lambda: paddle.device.cuda.Event(),
        lambda: paddle.device.xpu.synchronize(),
        lambda: paddle.sysconfig.get_include(),
        lambda: paddle.sparse.sparse_coo_tensor([[0]], [1]),
        lambda: paddle.sparse.nn.functional.relu(1),
        lambda: paddle.quantization.QAT(1),
        lambda: paddle.quantization.observers.AbsmaxObserver(),
        lambda: paddle.nn.quant.Stub(),
        lambda: paddle.nn.quant.quant_layers.QuantStub(),
        lambda: paddle.nn.utils.clip_grad_norm_([], 1.0),
        lambda: paddle.cost_model.CostModel(),
        lambda: paddle.distributed.passes.new_pass("x"),
        lambda: paddle.distributed.sharding.group_sharded_parallel(1, 2, 3),
        lambda: paddle.distributed.shard_tensor(1),
        lambda: paddle.utils.cpp_extension.load("x"),
        lambda: paddle.amp.debugging.compare_accuracy("a", "b", "c"),
        lambda: paddle.autograd.backward([]),
        lambda: paddle.optimizer.LBFGS(),
    ],
)
def test_what_is_refused_says_what_to_use(call: Callable[[], Any]) -> None:
    with pytest.raises(UnsupportedError, match=r": .* .* "):
        call()


def _ids() -> Any:
    return paddle.static.data("ids", [2, 1], "int64")


def test_a_table_of_servers() -> None:
    entry = paddle.distributed.CountFilterEntry(3)
    rows = paddle.static.nn.sparse_embedding(_ids(), [9, 2], 0, False, entry, "SSDSparseTable")
    (op,) = paddle.static.default_main_program().global_block().ops
    assert op.type == "lookup_table" and op.attr("is_distributed") and rows.shape == (2, 2)
    with pytest.raises(ValueError, match="table_class must be in .* 'x'"):
        paddle.static.nn.sparse_embedding(_ids(), [9, 2], table_class="x")


# ---------------------------------------------------------------------- derivatives
def test_matrices_of_derivatives() -> None:
    """As 2.6.2 has them, where it has them."""
    x, calls = _x(), paddle.incubate.autograd
    cubes = calls.Jacobian(lambda x: x * x * x, x)
    batches = calls.Jacobian(lambda x: x * x, x, is_batched=True)
    curves = calls.Hessian(lambda x: paddle.sum(x * x * x, 1, keepdim=True), x, is_batched=True)
    assert cubes.shape == [6, 6] and batches.shape == [2, 3, 3]
    wanted = np.diag(3 * X.ravel() ** 2)
    doubled = np.stack([np.diag(2 * row) for row in X])
    pairs = [
        (cubes[:], wanted),
        (cubes[1:3, 2], wanted[1:3, 2]),
        (cubes[-1], wanted[-1]),
        (batches[:], doubled),
        (batches[:, 1, :], doubled[:, 1]),
        (batches[0], doubled[0]),
        (curves[:], np.stack([np.diag(6 * row) for row in X])),
        (paddle.autograd.jacobian(x * x, x, batch_axis=0)[:], doubled),
        (paddle.autograd.hessian(paddle.sum(x * x * x, 1), x, batch_axis=0)[0, 1, 1], 6.0 * X[0, 1]),
    ]
    for found, right in zip(_run([pair[0] for pair in pairs], {"x": X}), (pair[1] for pair in pairs)):
        np.testing.assert_allclose(found, right, rtol=1e-6)


def test_products_with_derivatives() -> None:
    x, y = _x(), paddle.static.data("y", [3, 2], "float32")
    y.stop_gradient = False
    calls, feed = paddle.incubate.autograd, {"x": X, "y": np.arange(1, 7, dtype="float32").reshape(3, 2)}
    calls.enable_prim()
    _, backward = calls.vjp(paddle.matmul, [x, y], paddle.full([2, 2], 2.0))
    _, forward = calls.jvp(paddle.matmul, [x, y])
    nothing = calls.grad([y * 2], x)
    (found_x, found_y, ahead, none) = _run([*backward, forward, nothing], feed)
    calls.disable_prim()
    np.testing.assert_allclose(found_x, [[6, 14, 22]] * 2)
    np.testing.assert_allclose(found_y, [[10, 10], [14, 14], [18, 18]])
    np.testing.assert_allclose(ahead, [[15, 18], [24, 27]])
    assert not none.any()


def test_what_has_no_matrix() -> None:
    x = _x()
    with pytest.raises(IndexError, match="row 6 of a matrix of derivatives with 6 rows"):
        paddle.incubate.autograd.Jacobian(lambda x: x * 2, x)[6]
    with pytest.raises(RuntimeError, match="single element"):
        paddle.incubate.autograd.Hessian(lambda x: x * x, x)
    with pytest.raises(ValueError, match="ys.ndim should be 0 or 1"):
        paddle.autograd.jacobian(x * 2, x)
    with pytest.raises(ValueError, match="ys must be one number"):
        paddle.autograd.hessian(x, x)
    with pytest.raises(ValueError, match="batch_axis is None or 0"):
        paddle.autograd.jacobian(x, x, batch_axis=1)
    with pytest.raises(ValueError, match="derivatives by all elements need known sizes"):
        paddle.incubate.autograd.Jacobian(lambda x: x, paddle.static.data("open", [None]))


class _Doubled(paddle.autograd.PyLayer):
    """tanh, whose gradient is twice as large."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float = 1.0) -> Any:
        y = paddle.tanh(x)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (y,) = ctx.saved_tensor()
        return dy * (1 - y * y) * ctx.scale


def test_a_function_with_a_gradient_of_its_own() -> None:
    x = _x()
    y = _Doubled.apply(x, scale=2.0)
    (slope,) = paddle.static.gradients([paddle.sum(y)], [x])
    found, slopes = _run([y, slope], {"x": X})
    np.testing.assert_allclose(found, np.tanh(X), rtol=1e-6)
    np.testing.assert_allclose(slopes, 2 * (1 - np.tanh(X) ** 2), rtol=1e-3)
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        paddle.autograd.PyLayer.apply(x)


# ---------------------------------------------------------------------- sound
SOUND = np.random.RandomState(0).uniform(-1, 1, (2, 4000)).astype("float32")
_HAMMING = {
    "n_fft": 256,
    "hop_length": 64,
    "win_length": 200,
    "window": "hamming",
    "power": 2.0,
    "center": False,
}
_HTK = {
    "sr": 16000,
    "n_fft": 400,
    "hop_length": 160,
    "n_mels": 40,
    "f_min": 0.0,
    "f_max": 8000.0,
    "htk": True,
}


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "first", "mean"),
    [
        ("Spectrogram", {}, (2, 257, 8), [0.167, 2.916, 1.321], 6.9395),
        ("Spectrogram", _HAMMING, (2, 129, 59), [2.209, 20.675, 31.964], 26.6465),
        ("Spectrogram", {"window": ("gaussian", 7.0)}, (2, 257, 8), [0.702, 0.696, 0.677], 1.7193),
        ("MelSpectrogram", {"n_fft": 512}, (2, 64, 8), [0.17, 0.92, 3.505], 1.5109),
        ("MelSpectrogram", {**_HTK, "norm": 2.0}, (2, 40, 26), [17.267, 159.179, 175.9], 127.7439),
        ("LogMelSpectrogram", {}, (2, 64, 32), [2.492, 8.524, 6.888], 0.6287),
        (
            "LogMelSpectrogram",
            {"top_db": 20.0, "ref_value": 2.0},
            (2, 64, 32),
            [-0.519, 5.513, 3.878],
            -2.3458,
        ),
        ("MFCC", {}, (2, 40, 32), [5.632, 1.442, 2.214], -0.0271),
        ("MFCC", {"n_mfcc": 13, "n_mels": 32, "norm": "slaney"}, (2, 13, 32), [6.442, 2.257, 1.592], 0.3264),
    ],
)
def test_spectra_are_those_of_imperative_paddle(
    name: str, arguments: dict[str, Any], shape: tuple[int, ...], first: list[float], mean: float
) -> None:
    """Its programs cannot be built: `attribute 'fft_window' already exists`."""
    layer = getattr(paddle.audio.features, name)(**arguments)
    found = _run([layer(paddle.static.data("s", [2, 4000]))], {"s": SOUND})[0]
    assert found.shape == shape
    np.testing.assert_allclose(found[0, :3, 1], first, atol=6e-4, rtol=1e-5)
    np.testing.assert_allclose(found.astype("float64").mean(), mean, atol=6e-5)


def test_sound_in_files(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.wav")
    paddle.audio.save(path, SOUND, 8000)
    facts = paddle.audio.info(path)
    assert (facts.sample_rate, facts.num_samples, facts.num_channels) == (8000, 4000, 2)
    whole, rate = paddle.audio.load(path)
    part, _ = paddle.audio.load(path, frame_offset=10, num_frames=5, normalize=False, channels_first=False)
    found, few = _run([whole, part])
    assert rate == 8000 and few.shape == (5, 2)
    np.testing.assert_allclose(found, SOUND, atol=1 / 32768)
    np.testing.assert_allclose(few / 32768, SOUND[:, 10:15].T, atol=1 / 32768)
    (tmp_path / "b.wav").write_bytes(b"RIFF")
    with pytest.raises(FormatError, match="is not a WAV file"):
        paddle.audio.load(str(tmp_path / "b.wav"))
    with wave.open(str(tmp_path / "c.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(b"\0" * 9)
    assert paddle.audio.info(str(tmp_path / "c.wav")).bits_per_sample == 8
    with open(path, "rb") as opened:
        assert paddle.audio.info(opened) == facts
    with pytest.raises(MissingFileError, match="d.wav not found"):
        paddle.audio.load(str(tmp_path / "d.wav"))
    with pytest.raises(UnsupportedError, match="samples of 8 bits"):
        paddle.audio.load(str(tmp_path / "c.wav"))
    with pytest.raises(UnsupportedError, match="'x' is not one of wave_backend"):
        paddle.audio.backends.set_backend("x")
    with pytest.raises(ValueError, match="only support 16 bit"):
        paddle.audio.save(path, SOUND, 8000, bits_per_sample=24)


# ---------------------------------------------------------------------- checks, pictures, matrices
def test_a_look_at_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    debugging, x = paddle.amp.debugging, _x()
    stats, values = debugging.check_numerics(x, "op", "x", debugging.DebugMode.CHECK_NAN_INF)
    bad = np.array([[1, np.nan, 0], [np.inf, 2, 3]], "float32")
    found = _run([stats, values], {"x": bad})
    assert found[0].tolist() == [1, 1, 1]
    assert "[PRECISION] [ERROR] in [op=op, tensor=x, dtype=fp32], numel=6," in capsys.readouterr().out
    strict, _ = debugging.check_numerics(x, "op", "x")
    with pytest.raises(NanInfError, match=r"tensor=x, dtype=fp32\], numel=6, num_nan=1, num_inf=1"):
        _run([strict], {"x": bad})
    debugging.enable_tensor_checker(debugging.TensorCheckerConfig(enable=True))
    assert paddle.get_flags("FLAGS_check_nan_inf")["FLAGS_check_nan_inf"]
    debugging.disable_tensor_checker()
    paddle.static.amp.debugging.collect_operator_stats(print_subblocks=True)
    assert "op count: 1" in capsys.readouterr().out


@pytest.mark.parametrize(("mode", "channels"), [("unchanged", 3), ("gray", 1), ("rgb", 3)])
def test_pictures_in_programs(tmp_path: pathlib.Path, mode: str, channels: int) -> None:
    path = str(tmp_path / "a.jpg")
    Image.fromarray(np.full((8, 9, 3), 100, "uint8")).save(path)
    picture = paddle.vision.ops.decode_jpeg(paddle.vision.ops.read_file(path), mode)
    found = _run([picture])[0]
    assert found.shape == (channels, 8, 9) and np.abs(found.astype(int) - 100).max() <= 3
    whole = pathlib.Path(path).read_bytes()
    (tmp_path / "b.jpg").write_bytes(whole[:200])
    sizes = whole.index(b"\xff\xc0") + 5  # of a picture that would fill 12 GB
    (tmp_path / "c.jpg").write_bytes(whole[:sizes] + b"\xff" * 4 + whole[sizes + 4 :])
    for half in (str(tmp_path / "b.jpg"), str(tmp_path / "c.jpg"), __file__):
        with pytest.raises(FormatError, match="op 'decode_jpeg': the [0-9]+ bytes of X are not a"):
            _run([paddle.vision.ops.decode_jpeg(paddle.vision.ops.read_file(half))])
    with pytest.raises(MissingFileError, match="op 'read_file': file .* not found"):
        _run([paddle.vision.ops.read_file(str(tmp_path / "none"))])


@pytest.mark.parametrize("shape", [(5, 4), (4, 5), (2, 6, 3)])
def test_principal_components(shape: tuple[int, ...]) -> None:
    values = np.random.RandomState(1).rand(*shape)
    x = paddle.static.data("x", list(shape), "float64")
    left, sizes, right = paddle.linalg.pca_lowrank(x, q=min(shape[-2:]))
    u, s, v = _run([left, sizes, right], {"x": values})
    centred = values - values.mean(-2, keepdims=True)
    np.testing.assert_allclose((u * s[..., None, :]) @ np.swapaxes(v, -1, -2), centred, atol=1e-12)
    with pytest.raises(ValueError, match="not greater than min"):
        paddle.linalg.pca_lowrank(x, q=9)


def test_a_margin() -> None:
    cosines = paddle.static.data("c", [2, 3], "float32")
    label = paddle.static.data("l", [2], "int64")
    loss, softmax = paddle.nn.functional.margin_cross_entropy(cosines, label, scale=4.0, return_softmax=True)
    each = paddle.nn.functional.margin_cross_entropy(cosines, label, scale=4.0, reduction=None)
    feed = {"c": np.array([[0.1, 0.2, 0.3], [0.9, -0.5, 0.1]], "float32"), "l": np.array([0, 2])}
    found, shares, losses = _run([loss, softmax, each], feed)
    moved = feed["c"].copy()
    moved[[0, 1], [0, 2]] = np.cos(np.arccos(moved[[0, 1], [0, 2]]) + 0.5)
    right = np.exp(4 * moved) / np.exp(4 * moved).sum(1, keepdims=True)
    np.testing.assert_allclose(shares, right, rtol=1e-5)
    np.testing.assert_allclose(losses[:, 0], -np.log(right[[0, 1], [0, 2]]), rtol=1e-5)
    np.testing.assert_allclose(found, losses.mean(), rtol=1e-5)
    with pytest.raises(TypeError, match="The data type of 'label'"):
        paddle.nn.functional.margin_cross_entropy(cosines, cosines)


def test_a_softmax_of_what_came_before() -> None:
    x = paddle.static.data("x", [1, 1, 2, 2])
    feed = {"x": np.array([[[[1, 9], [2, 2]]]], "float32")}
    found = _run([paddle.incubate.softmax_mask_fuse_upper_triangle(x)], feed)[0]
    np.testing.assert_allclose(found[0, 0], [[1, 0], [0.5, 0.5]], atol=1e-20)


def test_numbers_as_tensors_of_a_rank() -> None:
    two = paddle.atleast_2d(1.5, _x())
    found = _run([paddle.atleast_1d(3), *two, paddle.atleast_3d(X)], {"x": X})
    assert [(value.dtype.name, value.shape) for value in found] == [
        ("int64", (1,)),
        ("float32", (1, 1)),
        ("float32", (2, 3)),
        ("float32", (2, 3, 1)),
    ]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSProp", "Lamb"])
def test_an_optimizer_needs_a_learning_rate(kind: str) -> None:
    """2.6.2 raises a ValueError or an AssertionError."""
    with pytest.raises((ValueError, AssertionError), match="learning_rate is not set"):
        getattr(paddle.optimizer, kind)(None)


def test_settings_of_measurements(tmp_path: pathlib.Path) -> None:
    (tmp_path / "set.json").write_text('{"kernel": {"enable": true}}')
    paddle.incubate.autotune.set_config(str(tmp_path / "set.json"))
    with pytest.raises(ValueError, match="colour is not one of kernel"):
        paddle.incubate.autotune.set_config({"colour": 1})
