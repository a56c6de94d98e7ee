"""Models of 1.8.5 under the interface of its inference library."""

from __future__ import annotations

import json
import pathlib
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core
from fluidlite.compat.inference import config as config_module
from fluidlite.values.tensor import rebinds

MODEL = pathlib.Path(__file__).parents[1] / "golden" / "models" / "mlp"


def configs() -> list[core.AnalysisConfig]:
    return [
        core.AnalysisConfig(str(MODEL / "inference")),
        core.AnalysisConfig(
            str(MODEL / "inference_combined" / "model"), str(MODEL / "inference_combined" / "__params__")
        ),
    ]


def example() -> tuple[np.ndarray, np.ndarray, str]:
    with np.load(MODEL / "example.npz") as arrays:
        return arrays["in/x"], arrays["out/0"], json.loads(arrays["meta"].tobytes())["targets"][0]


@pytest.mark.parametrize("config", configs())
def test_run(config: core.AnalysisConfig) -> None:
    x, expected, _ = example()
    config.disable_gpu()
    config.switch_ir_optim(True)
    predictor = core.create_paddle_predictor(config)
    for name in ("", "x"):
        found = predictor.run([core.PaddleTensor(x, name)])
        np.testing.assert_allclose(found[0].as_ndarray(), expected, rtol=1e-5)
        assert found[0].shape == list(expected.shape) and found[0].name in predictor.get_output_names()
    with pytest.raises(ValueError, match="takes 1 inputs"):
        predictor.run([])


def test_zero_copy_run() -> None:
    x, expected, target = example()
    predictor = core.create_paddle_predictor(configs()[0]).clone()
    assert predictor.get_input_names() == ["x"] and predictor.get_output_names() == [target]
    for times in (1, 2):
        predictor.get_input_tensor("x").copy_from_cpu(np.concatenate([x] * times))
        assert predictor.zero_copy_run()
        out = predictor.get_output_tensor(target)
        np.testing.assert_allclose(out.copy_to_cpu(), np.concatenate([expected] * times), rtol=1e-5)
        assert out.shape() == [times * len(x), 1] and out.lod() == []
    with pytest.raises(core.EnforceNotMet, match="no tensor 'y'"):
        predictor.get_input_tensor("y")


def test_what_is_fed_is_no_reason_to_look_at_the_parameters() -> None:
    x, _, _ = example()
    predictor = core.create_paddle_predictor(configs()[0])
    handle = predictor.get_input_tensor("x")
    handle.copy_from_cpu(x)
    predictor.zero_copy_run()
    before = rebinds.state()
    handle.copy_from_cpu(x + 1)
    predictor.zero_copy_run()
    core.LoDTensor().set(x, core.CPUPlace())
    assert rebinds.state() == before


def test_clones_share_parameters_and_plans_and_nothing_that_goes_in_or_out() -> None:
    x, expected, target = example()
    first = core.create_paddle_predictor(configs()[0])
    second = first.clone()
    assert type(second) is type(first)
    for predictor, fed in ((first, x), (second, 2 * x)):
        predictor.get_input_tensor("x").copy_from_cpu(fed)
        predictor.zero_copy_run()
    outs = [predictor.get_output_tensor(target).copy_to_cpu() for predictor in (first, second)]
    np.testing.assert_allclose(outs[0], expected, rtol=1e-5)
    assert not np.allclose(outs[1], expected)
    assert second._model is first._model
    assert first._model.executor._plans.made == 1


def test_clones_in_threads_give_what_one_predictor_gives() -> None:
    x, _, _ = example()
    parent = core.create_paddle_predictor(configs()[0])
    feeds = [np.ascontiguousarray(x * factor) for factor in (1, 2, 3, 4)]
    expected = [parent.clone().run([core.PaddleTensor(fed)])[0].as_ndarray() for fed in feeds]
    fresh = core.create_paddle_predictor(configs()[0])

    def serve(number: int) -> list[np.ndarray]:
        predictor = fresh.clone()
        return [predictor.run([core.PaddleTensor(feeds[number])])[0].as_ndarray() for _ in range(20)]

    with ThreadPoolExecutor(len(feeds)) as pool:
        for found, wanted in zip(pool.map(serve, range(len(feeds))), expected, strict=True):
            for out in found:
                np.testing.assert_array_equal(out, wanted)
    assert fresh._model.executor._plans.made == 1


def test_an_input_keeps_its_place_and_is_a_copy() -> None:
    x, expected, target = example()
    predictor = core.create_paddle_predictor(configs()[0])
    handle = predictor.get_input_tensor("x")
    handle.copy_from_cpu(x + 1)
    place = handle._tensor.array
    mine = x.copy()
    handle.copy_from_cpu(mine)
    mine[...] = 0
    assert handle._tensor.array is place
    predictor.zero_copy_run()
    out = predictor.get_output_tensor(target)
    out.copy_to_cpu()[...] = 0
    np.testing.assert_allclose(out.copy_to_cpu(), expected, rtol=1e-5)


def test_parameters_of_a_predictor_may_be_set() -> None:
    x, expected, _ = example()
    predictor = core.create_paddle_predictor(configs()[0])
    (first,) = predictor.run([core.PaddleTensor(x)])
    for held in predictor._model.scope.variables.values():
        held.get_tensor().set(np.zeros_like(np.asarray(held.get_tensor())), core.CPUPlace())
    (second,) = predictor.run([core.PaddleTensor(x)])
    np.testing.assert_allclose(first.as_ndarray(), expected, rtol=1e-5)
    assert np.ptp(second.as_ndarray()) == 0


def test_files_of_one_folder_and_of_two(tmp_path: pathlib.Path) -> None:
    x, expected, _ = example()
    files = MODEL / "inference_combined"
    (tmp_path / "elsewhere").mkdir()
    apart = tmp_path / "model", tmp_path / "elsewhere" / "__params__"
    for target in apart:
        shutil.copy(files / target.name, target)
    for pair in ((files / "model", files / "__params__"), apart):
        predictor = core.create_paddle_predictor(core.AnalysisConfig(*map(str, pair)))
        (found,) = predictor.run([core.PaddleTensor(x)])
        np.testing.assert_allclose(found.as_ndarray(), expected, rtol=1e-5)
    apart[1].unlink()
    with pytest.raises(core.EnforceNotMet, match="Cannot open file .*elsewhere"):
        core.create_paddle_predictor(core.AnalysisConfig(*map(str, apart)))


def test_a_model_is_not_in_memory_twice(tmp_path: pathlib.Path) -> None:
    fluid.layers.fc(fluid.data("x", [-1, 1024]), 1024, bias_attr=False)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    out = fluid.default_main_program().global_block().ops[-1].output_arg_names[0]
    targets = [fluid.default_main_program().global_block().var(out)]
    fluid.io.save_inference_model(str(tmp_path), ["x"], targets, exe, None, "model", "values")
    config = core.AnalysisConfig(str(tmp_path / "model"), str(tmp_path / "values"))
    tracemalloc.start()
    try:
        predictor = core.create_paddle_predictor(config)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert predictor.get_input_names() == ["x"]
    # a weight of 4 MB
    assert 4 << 20 <= most < 6 << 20


def test_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, files = configs()
    assert folder.model_dir() and not folder.prog_file() and not files.model_dir() and files.params_file()
    monkeypatch.setattr(config_module, "is_compiled_with_cuda", lambda: True)
    folder.enable_use_gpu(100, 1)
    assert folder.use_gpu() and folder.gpu_device_id() == 1 and folder.place() == core.CUDAPlace(1)
    folder.disable_gpu()
    assert folder.place() == core.CPUPlace()
    with pytest.raises(core.EnforceNotMet, match="Cannot open file"):
        core.create_paddle_predictor(core.AnalysisConfig("/nope"))
    with pytest.raises(TypeError):
        core.create_paddle_predictor(3)


def test_older_configurations_and_bytes() -> None:
    x, expected, _ = example()
    native, memory = core.NativeConfig(), core.AnalysisConfig("")
    assert (native.use_gpu, native.device, native.model_dir, native.prog_file, native.param_file) == (
        False,
        0,
        "",
        "",
        "",
    )
    native.model_dir = str(MODEL / "inference")
    program, params = ((MODEL / "inference_combined" / name).read_bytes() for name in ("model", "__params__"))
    memory.set_model_buffer(program, len(program), params, len(params))
    assert memory.model_from_memory()
    for config in (native, memory):
        (found,) = core.create_paddle_predictor(config).run([core.PaddleTensor(x)])
        np.testing.assert_allclose(found.as_ndarray(), expected, rtol=1e-5)
        np.testing.assert_allclose(found.data.float_data(), expected.reshape(-1), rtol=1e-5)


def test_tensors_of_predictors() -> None:
    tensor = core.PaddleTensor(data=np.arange(3), name="a", lod=[[0, 1, 3]])
    assert (tensor.name, tensor.shape, tensor.lod, tensor.dtype) == (
        "a",
        [3],
        [[0, 1, 3]],
        core.PaddleDType.INT64,
    )
    assert (
        str(tensor.dtype) == "PaddleDType.INT64"
        and tensor.data.int64_data() == [0, 1, 2]
        and tensor.data.length() == 24
    )
    buffer = core.PaddleBuf([1.0, 2.0])
    assert (
        not buffer.empty()
        and buffer.length() == 8
        and buffer.float_data() == [1.0, 2.0]
        and core.PaddleBuf(16).length() == 16
    )
    assert [core.paddle_dtype_size(kind) for kind in core.PaddleDType] == [4, 8, 4]


@pytest.mark.parametrize("is_sized", [True, False])
def test_declared_sizes_count_where_they_count_in_programs(is_sized: bool, tmp_path: pathlib.Path) -> None:
    x = fluid.data("x", [-1, 3, 4]) if is_sized else fluid.layers.data("x", [3, 4])
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.io.save_inference_model(str(tmp_path), ["x"], [fluid.layers.reduce_sum(x, dim=[1, 2])], exe)
    predictor = core.create_paddle_predictor(core.AnalysisConfig(str(tmp_path)))
    other = [core.PaddleTensor(np.ones((2, 3, 5), "float32"))]
    if is_sized:
        with pytest.raises(core.EnforceNotMet, match=r"shape \[None, 3, 4\], .* of shape \[2, 3, 5\]"):
            predictor.run(other)
        return
    with pytest.warns(fluid.FluidWarning, match="fed as"):
        (out,) = predictor.run(other)
    assert out.as_ndarray().tolist() == [15, 15]
    with pytest.raises(core.EnforceNotMet, match=r"of shape \[2, 15\]"):
        predictor.run([core.PaddleTensor(np.ones((2, 15), "float32"))])


def test_names_say_which_input_is_meant(tmp_path: pathlib.Path) -> None:
    x, y = fluid.data("x", [-1, 2]), fluid.data("y", [-1, 2])
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.io.save_inference_model(str(tmp_path), ["x", "y"], [x - y], exe)
    config = core.AnalysisConfig(str(tmp_path))
    ones, twos = np.ones((1, 2), "float32"), np.full((1, 2), 2, "float32")
    for names in (("x", "y"), ("", ""), ("a", "b")):
        fed = [core.PaddleTensor(array, name) for array, name in zip((ones, twos), names, strict=True)]
        (out,) = core.create_paddle_predictor(config).run(fed)
        assert out.as_ndarray().tolist() == [[-1, -1]]
    swapped = [core.PaddleTensor(twos, "y"), core.PaddleTensor(ones, "x")]
    (out,) = core.create_paddle_predictor(config).run(swapped)
    assert out.as_ndarray().tolist() == [[-1, -1]]
    half = [core.PaddleTensor(ones, "x"), core.PaddleTensor(twos, "yy")]
    with pytest.raises(core.EnforceNotMet, match="no input 'yy'; did you mean 'y'"):
        core.create_paddle_predictor(config).run(half)
    config.switch_specify_input_names(True)
    with pytest.raises(core.EnforceNotMet, match="no input ''"):
        core.create_paddle_predictor(config).run([core.PaddleTensor(ones), core.PaddleTensor(twos)])
    same = [core.PaddleTensor(ones, "x"), core.PaddleTensor(twos, "x")]
    with pytest.raises(core.EnforceNotMet, match="inputs are x, y, and x, x are given"):
        core.create_paddle_predictor(config).run(same)


def test_switches_of_1x_say_what_they_do() -> None:
    config = core.AnalysisConfig("a")
    config.switch_use_feed_fetch_ops(False)
    config.switch_specify_input_names(True)
    config.enable_memory_optim()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(3)
    assert not config.use_feed_fetch_ops_enabled() and config.specify_input_name()
    assert config.glog_info_disabled() and config.cpu_math_library_num_threads() == 3
    for switch in ("enable_mkldnn", "enable_tensorrt_engine", "enable_profile", "enable_quantizer"):
        with pytest.warns(fluid.FluidWarning, match=f"AnalysisConfig.{switch} changes nothing here"):
            getattr(config, switch)()
    assert not config.mkldnn_enabled() and not config.tensorrt_engine_enabled()
    with pytest.warns(fluid.FluidWarning, match="no CUDA device"):
        config.enable_use_gpu(100)
    with pytest.raises(core.EnforceNotMet, match="quantizer"):
        config.quantizer_config()
    copy = core.AnalysisConfig(config)
    assert copy.specify_input_name() and copy.to_native_config().model_dir == "a"
    with pytest.raises(core.EnforceNotMet, match="does all"):
        core.create_paddle_predictor(configs()[0]).SaveOptimModel("a")
