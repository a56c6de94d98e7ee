"""`paddle.inference`: models of 1.8.5 and 2.6.2 give 2.6.2's numbers, and every switch says what it does."""

from __future__ import annotations

import inspect
import pathlib
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from golden import predict_1x, predict_2x

import fluidlite.paddle as paddle
from fluidlite import core
from fluidlite.compat.inference import config as config_module
from fluidlite.errors import (
    FeedError,
    FluidWarning,
    FormatError,
    MissingFileError,
    NotFoundError,
    UninitializedError,
    UnsupportedError,
    UntrustedError,
)
from fluidlite.paddle import inference
from fluidlite.paddle.inference import Config, Predictor, create_predictor
from fluidlite.values.tensor import LoDTensor

PREFIX = predict_2x.HERE / "models_2x" / "classifier"
WANTED = predict_1x.read(predict_2x.HERE / "predict_2x.json.gz")


def example() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture, ids, and the shares that 2.6.2 makes of them."""
    with np.load(PREFIX.with_suffix(".npz")) as recorded:
        return recorded["img"], recorded["ids"], recorded["shares"]


def predictor() -> Predictor:
    return create_predictor(Config(str(PREFIX)))


# ---------------------------------------------------------------------- beside 2.6.2
@pytest.mark.filterwarnings("ignore:'x' is fed as")
def test_models_of_both_versions_give_the_numbers_of_paddle() -> None:
    found = predict_2x.observe(inference)
    assert not predict_1x.missing(inference, WANTED.pop("methods"))
    assert set(found) == {"methods", *WANTED}
    for case, wanted in WANTED.items():
        if case.endswith(" names"):
            assert found[case] == wanted, case
            continue
        for out, expected in zip(found[case], wanted, strict=True):
            assert {**out, "values": None} == {**expected, "values": None}, case
            np.testing.assert_allclose(out["values"], expected["values"], rtol=1e-4, atol=1e-5, err_msg=case)


def test_one_row_in_the_file_is_said_when_five_are_fed() -> None:
    made = create_predictor(Config(str(PREFIX.with_name("one_row"))))
    with pytest.warns(FluidWarning, match=r"fed as \[5, 6\], but declared as \[1, 6\]"):
        (out,) = made.run([np.ones((5, 6), "float32")]) or ()
    assert out.shape == (5, 2)


# ---------------------------------------------------------------------- where models lie
def test_a_model_is_named_by_folder_prefix_files_and_bytes(tmp_path: pathlib.Path) -> None:
    img, ids, shares = example()
    files = [PREFIX.with_suffix(suffix) for suffix in (".pdmodel", ".pdiparams")]
    for file in files:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    in_memory = Config()
    program, params = (file.read_bytes() for file in files)
    in_memory.set_model_buffer(program, len(program), params, len(params))
    assert in_memory.model_from_memory()
    later = Config()
    later.set_prog_file(str(files[0]))
    later.set_params_file(str(files[1]))
    again = Config()
    again.set_model(*map(str, files))
    configs = [Config(str(tmp_path)), Config(str(PREFIX)), Config(str(files[0])), in_memory, later, again]
    # 2.6.2 has one class for both versions' names
    older = core.AnalysisConfig(*map(str, files))
    for config in [*configs, Config(again), older]:
        found = create_predictor(config).run([img, ids])
        assert found is not None
        np.testing.assert_allclose(found[0], shares, rtol=2e-5, atol=1e-6)
    assert (again.prog_file(), again.params_file(), again.model_dir()) == (*map(str, files), "")
    assert Config(str(tmp_path)).model_dir() == str(tmp_path)


def test_models_that_are_not_there(tmp_path: pathlib.Path) -> None:
    program, params = (str(PREFIX.with_suffix(suffix)) for suffix in (".pdmodel", ".pdiparams"))
    for config, error, text in (
        (Config("/nope"), MissingFileError, "Cannot open file /nope/__model__"),
        (Config("/nope.pdmodel", params), MissingFileError, "Cannot open file /nope.pdmodel"),
        (Config(program, "/nope"), MissingFileError, "Cannot open file /nope"),
        (Config(), UnsupportedError, "Config names no model"),
        (Config(params, program), FormatError, "is not a model"),
    ):
        with pytest.raises(error, match=text):
            create_predictor(config)
    for name in ("a", "b"):
        (tmp_path / f"{name}.pdmodel").write_bytes(b"")
    with pytest.raises(MissingFileError, match="holds 2 models"):
        create_predictor(Config(str(tmp_path)))
    with pytest.raises(TypeError, match=r"paddle\.inference\.Config"):
        create_predictor(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes bytes"):
        Config().set_model_buffer("a", 1, "b", 1)  # type: ignore[arg-type]


def test_a_model_that_writes_files_is_refused(tmp_path: pathlib.Path) -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [2, 3])
        y = paddle.scale(x, 2.0)
        exe = paddle.static.Executor(paddle.CPUPlace())
        paddle.static.save_inference_model(str(tmp_path / "m"), [x], [y], exe)
    file = tmp_path / "m.pdmodel"
    program = paddle.static.deserialize_program(file.read_bytes())
    written = tmp_path / "written"
    program.global_block().append_op(type="save", inputs={"X": ["x"]}, attrs={"file_path": str(written)})
    file.write_bytes(program.desc.serialize_to_string())
    config = Config(str(tmp_path / "m"))
    for make in (create_predictor, lambda config: inference.PredictorPool(config, 2)):
        with pytest.raises(UntrustedError, match=r"'save' of this model writes a file .*trust=True"):
            make(config)  # type: ignore[operator]  # of the two
    with pytest.raises(UntrustedError):
        paddle.jit.load(str(tmp_path / "m"))
    create_predictor(config, trust=True).run([np.ones((2, 3), "float32")])
    assert written.exists()


# ---------------------------------------------------------------------- tensors
def test_wrong_inputs_are_one_clear_error() -> None:
    img, ids, _ = example()
    made = predictor()
    with pytest.raises(
        NotFoundError, match=r"no tensor 'imgs' among its inputs \(img, ids\); did you mean 'img'"
    ):
        made.get_input_handle("imgs")
    with pytest.raises(NotFoundError, match=r"among its outputs \(save_infer"):
        made.get_output_handle("img")
    with pytest.raises(FeedError, match=r"input 'img' holds no value: copy_from_cpu\(array\)"):
        made.run()
    picture = made.get_input_handle("img")
    made.get_input_handle("ids").copy_from_cpu(ids)
    for array, text in (
        (img.astype("float64"), r"of float32, but was given an array of float64: array.astype\('float32'\)"),
        (img[:, :, :4], r"of shape \[None, 1, 8, 8\], but was given an array of shape \[4, 1, 4, 8\]"),
        (img.reshape(4, 64), r"of shape \[None, 1, 8, 8\], but was given an array of shape \[4, 64\]"),
    ):
        picture.copy_from_cpu(array)
        with pytest.raises(FeedError, match=f"input 'img' is {text}"):
            made.run()
    picture.copy_from_cpu(img)
    picture.set_lod([[0, 3]])
    with pytest.raises(FeedError, match=r"4 rows and the level of detail \[\[0, 3\]\]"):
        made.run()
    with pytest.raises(FeedError, match=r"takes 2 inputs \(img, ids\), and 1 were given"):
        made.run([img])
    variable = paddle.static.data("v", [2])
    for wrong, text in (([1.0], "not list"), (variable, "'v'.*has no value")):
        with pytest.raises(TypeError, match=text):
            picture.copy_from_cpu(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=text):
            made.run([wrong, ids])  # type: ignore[list-item]


def test_handles_of_outputs_are_read() -> None:
    made = predictor()
    out = made.get_output_handle(made.get_output_names()[0])
    assert (out.shape(), out.lod(), out.type()) == ([0], [], inference.DataType.FLOAT32)
    with pytest.raises(UninitializedError, match="has a value after a run"):
        out.copy_to_cpu()
    for method, argument in (("copy_from_cpu", np.ones(2)), ("reshape", [2]), ("set_lod", [[0, 1]])):
        with pytest.raises(FeedError, match=f"is an output of the model, and {method} is for inputs"):
            getattr(out, method)(argument)


def test_shared_arrays_are_read_and_never_written() -> None:
    img, ids, shares = example()
    mine = img.copy()
    made = predictor()
    handle = made.get_input_handle("img")
    made.get_input_handle("ids").share_external_data(LoDTensor(ids))
    handle.share_external_data(mine)
    made.run()
    out = made.get_output_handle(made.get_output_names()[0])
    np.testing.assert_allclose(out.copy_to_cpu(), shares, rtol=2e-5, atol=1e-6)
    mine *= 2
    made.run()
    assert not np.allclose(out.copy_to_cpu(), shares)
    handle.copy_from_cpu(img)
    np.testing.assert_array_equal(mine, 2 * img)
    made.run()
    np.testing.assert_allclose(out.copy_to_cpu(), shares, rtol=2e-5, atol=1e-6)
    with pytest.raises(TypeError, match="takes an array or a LoDTensor, and not list"):
        handle.share_external_data([1])  # type: ignore[arg-type]


# ---------------------------------------------------------------------- threads and memory
def test_clones_and_pools_run_at_the_same_time_on_shared_weights() -> None:
    img, ids, _ = example()
    feeds = [np.ascontiguousarray(img * factor) for factor in (1, 2, 3, 4)]
    wanted = [predictor().run([feed, ids]) for feed in feeds]
    first = predictor()
    pool = inference.PredictorPool(Config(str(PREFIX)), 4)
    assert first.clone()._model is first._model and pool.retrive(0)._model is pool.retrive(3)._model

    def serve(number: int) -> None:
        clone = first.clone()
        for made in (clone, pool.retrive(number)):
            for _ in range(25):
                found = made.run([feeds[number], ids])
                for out, expected in zip(found or (), wanted[number] or (), strict=True):
                    np.testing.assert_array_equal(out, expected)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(serve, range(4)))
    with pytest.raises(IndexError, match="predictors 0 to 3, and not 4"):
        pool.retrive(4)
    with pytest.raises(ValueError, match="at least one"):
        inference.PredictorPool(Config(str(PREFIX)), 0)


def test_memory_of_intermediate_results_is_given_back() -> None:
    img, ids, shares = example()
    made = predictor()
    for _ in range(2):
        found = made.run([img, ids])
        assert found is not None
        np.testing.assert_allclose(found[0], shares, rtol=2e-5, atol=1e-6)
        assert made.try_shrink_memory() > 0 and made.try_shrink_memory() == 0
    made.run([img, ids])
    made.clear_intermediate_tensor()
    assert made.try_shrink_memory() == 0
    out = made.get_output_handle(made.get_output_names()[0])
    np.testing.assert_allclose(out.copy_to_cpu(), shares, rtol=2e-5, atol=1e-6)


def test_hooks_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="register_output_hook: a plan fuses ops"):
        predictor().register_output_hook(lambda op, name, value: None)


# ---------------------------------------------------------------------- switches
SILENT = [
    "disable_glog_info",
    "disable_gpu",
    "disable_mkldnn",
    "disable_mkldnn_fc_passes",
    "disable_onnxruntime",
    "enable_memory_optim",
    "enable_new_executor",
    "enable_save_optim_model",
    "switch_ir_optim",
    "switch_specify_input_names",
    "switch_use_feed_fetch_ops",
]
REFUSED = [
    "collect_shape_range_info",
    "dist_config",
    "enable_custom_device",
    "enable_ipu",
    "enable_low_precision_io",
    "enable_opencl",
    "enable_xpu",
    "load_ipu_config",
    "nnadapter",
    "quantizer_config",
    "set_dist_config",
    "set_ipu_config",
    "set_ipu_custom_info",
    "set_xpu_config",
    "set_xpu_device_id",
    "xpu_config",
]
WARNS = [
    "delete_pass",
    "enable_dlnne",
    "enable_lite_engine",
    "enable_mkldnn",
    "enable_mkldnn_bfloat16",
    "enable_mkldnn_int8",
    "enable_onnxruntime",
    "enable_ort_optimization",
    "enable_profile",
    "enable_quantizer",
    "enable_tensorrt_dla",
    "enable_tensorrt_engine",
    "enable_tensorrt_explicit_quantization",
    "enable_tensorrt_inspector",
    "enable_tensorrt_memory_optim",
    "enable_tensorrt_varseqlen",
    "enable_tuned_tensorrt_dynamic_shape",
    "enable_use_gpu",
    "exp_disable_mixed_precision_ops",
    "exp_disable_tensorrt_ops",
    "exp_enable_mixed_precision_ops",
    "exp_enable_use_cutlass",
    "mark_trt_engine_outputs",
    "set_bfloat16_op",
    "set_mkldnn_cache_capacity",
    "set_mkldnn_op",
    "set_optim_cache_dir",
    "set_tensorrt_optimization_level",
    "set_trt_dynamic_shape_info",
    "switch_ir_debug",
]


def call(config: Config, name: str) -> Any:
    """Call a method with a text or a number for each argument that it needs."""
    method = getattr(config, name)
    needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    return method(*(1 if p.annotation in ("int", int) else "a" for p in needed))


@pytest.mark.parametrize("name", SILENT)
def test_switches_that_ask_for_what_happens_anyway_are_silent(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(Config(str(PREFIX)), name) is None


@pytest.mark.parametrize("name", WARNS)
def test_switches_without_effect_say_so_at_the_line_of_the_user(name: str) -> None:
    with pytest.warns(FluidWarning, match=rf"^Config\.{name} changes nothing here: ") as caught:
        call(Config(str(PREFIX)), name)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", REFUSED)
def test_switches_that_would_change_results_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"^Config\.{name}: "):
        call(Config(str(PREFIX)), name)


def test_every_other_method_reads() -> None:
    writes = {"set_model", "set_model_buffer", "set_params_file", "set_prog_file"}
    fields = {"Bfloat16", "Float32", "Half", "Int8", "Precision", "threads"}
    writes |= {"set_cpu_math_library_num_threads", *SILENT, *WARNS, *REFUSED, *fields}
    config = Config(str(PREFIX))
    for name in sorted({key for key in dir(Config) if not key.startswith("_")} - writes):
        assert getattr(config, name)() is not None, name
    assert config.summary().count(str(PREFIX)) == 1
    with pytest.raises(AttributeError, match="no attribute 'use_gpus'; did you mean 'use_gpu'"):
        config.use_gpus = True  # type: ignore[attr-defined]


def test_switches_that_are_asked_for_otherwise() -> None:
    config = Config()
    for text, switch in (
        ("switch_ir_optim.False.", lambda: config.switch_ir_optim(False)),
        ("enable_memory_optim.False.", lambda: config.enable_memory_optim(False)),
    ):
        with pytest.warns(FluidWarning, match=text):
            switch()
    assert not config.ir_optim() and not config.use_feed_fetch_ops_enabled()
    with pytest.raises(UnsupportedError, match="enable_save_optim_model"):
        config.enable_save_optim_model(True)
    config.enable_low_precision_io(False)
    builder = config.pass_builder()
    for edit in (builder.append_pass, builder.delete_pass, builder.turn_on_debug):
        with pytest.warns(FluidWarning, match=rf"Config.pass_builder\(\).{edit.__name__} changes nothing"):
            edit(*["a"] * (edit.__name__ != "turn_on_debug"))
    assert builder.all_passes() == [] and builder.debug_string() == ""
    with pytest.warns(FluidWarning, match="TensorRT is not here"):
        inference.InternalUtils.set_transformer_posid(config, "a")


def test_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_module, "is_compiled_with_cuda", lambda: True)
    config = Config()
    config.enable_use_gpu(200, 1)
    assert (config.use_gpu(), config.gpu_device_id(), config.memory_pool_init_size_mb()) == (True, 1, 200)
    assert config.place() == paddle.CUDAPlace(1) and config.to_native_config().device == 1
    with pytest.warns(FluidWarning, match="precision_mode=PrecisionType.Half.*precision of its files"):
        config.enable_use_gpu(200, 1, inference.PrecisionType.Half)


def test_threads_are_those_that_were_asked_for() -> None:
    img, ids, shares = example()
    config = Config(str(PREFIX))
    config.set_cpu_math_library_num_threads(1)
    made = create_predictor(config)
    found = made.run([img, ids])
    assert found is not None and config.cpu_math_library_num_threads() == 1
    np.testing.assert_allclose(found[0], shares, rtol=2e-5, atol=1e-6)
    (bound,) = made._model.executor._plans.bounds()
    assert bound.plan.plan.target.threads == 1


# ---------------------------------------------------------------------- the rest
def test_kinds_and_versions() -> None:
    sizes = {kind.name: inference.get_num_bytes_of_data_type(kind) for kind in inference.DataType}
    assert sizes == {
        "FLOAT32": 4,
        "INT64": 8,
        "INT32": 4,
        "UINT8": 1,
        "INT8": 1,
        "FLOAT16": 2,
        "BOOL": 1,
        "FLOAT64": 8,
    }
    assert [int(kind) for kind in inference.PlaceType] == [-1, 0, 1, 2, 4]
    assert "2.6.2" in inference.get_version()
    assert inference.get_trt_compile_version() == inference.get_trt_runtime_version() == (0, 0, 0)
    assert inference.XpuConfig().device_id == 0
    with pytest.raises(AttributeError, match="did you mean 'create_predictor'"):
        inference.create_predictors  # noqa: B018


@pytest.mark.parametrize("precision", ["Half", "Bfloat16"])
def test_mixed_precision(precision: str, tmp_path: pathlib.Path) -> None:
    img, ids, shares = example()
    files = [str(PREFIX.with_suffix(suffix)) for suffix in (".pdmodel", ".pdiparams")]
    made = [str(tmp_path / "sub" / f"m{suffix}") for suffix in (".pdmodel", ".pdiparams")]
    kind, place = inference.PrecisionType[precision], inference.PlaceType.GPU
    inference.convert_to_mixed_precision(*files, *made, kind, place)
    found = create_predictor(Config(*made)).run([img, ids])
    assert found is not None and found[0].dtype == np.float32
    assert 0 < np.abs(found[0] - shares).max() < 1e-2
    if precision == "Half":
        assert pathlib.Path(made[1]).stat().st_size < 0.8 * pathlib.Path(files[1]).stat().st_size
    with pytest.raises(ValueError, match="not PrecisionType.Int8"):
        inference.convert_to_mixed_precision(*files, *made, inference.PrecisionType.Int8, place)
    with pytest.raises(ValueError, match="keep_io_types=True"):
        inference.convert_to_mixed_precision(*files, *made, kind, place, keep_io_types=False)
