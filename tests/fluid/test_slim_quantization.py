"""Quantised models give PaddlePaddle 1.8.5's programs, scales, integers and losses (`slim_cases.py`)."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import slim_cases

import fluidlite as fluid
from fluidlite import core
from fluidlite.base.errors import UnsupportedError
from fluidlite.contrib.quantize import QuantizeTranspiler
from fluidlite.contrib.slim import quantization
from fluidlite.contrib.slim.quantization.mkldnn import REFUSED
from fluidlite.contrib.slim.quantization.thresholds import entropy_threshold, tail_threshold
from fluidlite.framework import IrGraph

HERE = pathlib.Path(__file__).parent
EXPECTED: dict[str, Any] = json.loads(gzip.decompress((HERE / "slim_expected.json.gz").read_bytes()))


@pytest.fixture(scope="module")
def found() -> Any:
    # a sum in another order may round to the next of 255 levels, from where training goes its own way:
    # 1.8.5's levels are those of NumPy's products
    fluid.set_flags({"FLAGS_use_onednn": False})
    results = slim_cases.all_results(fluid, quantization, QuantizeTranspiler)
    fluid.set_flags({"FLAGS_use_onednn": True})
    return json.loads(json.dumps(results))


def check(where: str, mine: Any, theirs: Any) -> None:
    """Equal texts, and numbers within rounding of the 32-bit numbers that 1.8.5 summed in another order."""
    if isinstance(theirs, dict):
        assert sorted(mine) == sorted(theirs), where
        for key, value in theirs.items():
            check(f"{where}, {key}", mine[key], value)
    elif isinstance(theirs, list) and theirs and not isinstance(theirs[0], (int, float)):
        assert len(mine) == len(theirs), f"{where}: {len(mine)} of {len(theirs)}"
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            check(f"{where}, {index}", one, other)
    elif isinstance(theirs, str):
        assert mine == theirs, where
    else:
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-4, err_msg=where)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_as_in_1_8_5(name: str, found: Any) -> None:
    check(name, found[name], EXPECTED[name])


def test_a_quantised_model_still_learns() -> None:
    """The same batches again and again: the loss of the quantised LeNet falls like that of the real one."""
    losses = {}
    for quantised in (False, True):
        model = slim_cases.Model(fluid)
        model.exe.run(model.startup, scope=model.scope)
        slim_cases.fill(model.main, model.scope, fluid)
        graph = IrGraph(core.Graph(model.main.desc))
        if quantised:
            quantization.QuantizationTransformPass(
                model.scope, fluid.CPUPlace(), activation_quantize_type="moving_average_abs_max"
            ).apply(graph)
        program = fluid.CompiledProgram(graph.graph).with_data_parallel(loss_name=model.loss.name)
        data = list(slim_cases.batches(3)) * 12
        losses[quantised] = [model.run(program, batch) for batch in data]
    for found in losses.values():
        assert np.mean(found[-3:]) < 0.8 * np.mean(found[:3])
    assert losses[True] != losses[False]
    np.testing.assert_allclose(np.mean(losses[True][-3:]), np.mean(losses[False][-3:]), rtol=0.1)


def learnt_clipping(x: Any) -> Any:
    """PACT (Choi et al. 2018): values above a limit, which is learnt, are cut off."""
    limit = fluid.layers.create_parameter(
        [1], "float32", x.name + "_limit", default_initializer=fluid.initializer.Constant(0.5)
    )
    return x - fluid.layers.relu(fluid.layers.elementwise_sub(x, limit))


def test_a_function_in_front_of_rounding_learns() -> None:
    model = slim_cases.Model(fluid)
    model.exe.run(model.startup, scope=model.scope)
    slim_cases.fill(model.main, model.scope, fluid)
    graph = IrGraph(core.Graph(model.main.desc))
    with fluid.unique_name.guard():
        quantization.QuantizationTransformPass(
            model.scope,
            fluid.CPUPlace(),
            activation_quantize_type="moving_average_abs_max",
            act_preprocess_func=learnt_clipping,
            weight_preprocess_func=lambda w: fluid.layers.scale(w, 0.5),
            optimizer_func=lambda: fluid.optimizer.SGD(0.05),
            executor=model.exe,
        ).apply(graph)
    program = graph.to_program()
    limits = [var.name for var in program.list_vars() if var.name.endswith("_limit")]
    assert len(limits) == 3  # of what two convolutions and a product read; one product is skipped
    weight = np.array(model.scope.find_var("conv2d_0.w_0").get_tensor())
    for batch in slim_cases.batches(3):
        model.run(program, batch)
    for name in limits:
        assert np.array(model.scope.find_var(name).get_tensor())[0] != 0.5
    # the gradient of a weight goes through the function: half of what it would be
    assert not np.array_equal(weight, np.array(model.scope.find_var("conv2d_0.w_0").get_tensor()))
    (maker,) = [op for op in program.global_block().ops if "conv2d_0.w_0@GRAD" in op.output_arg_names]
    assert (maker.type, maker.role_vars) == ("scale", ["conv2d_0.w_0", "conv2d_0.w_0@GRAD"])


def test_a_function_in_the_place_of_rounding() -> None:
    model = slim_cases.Model(fluid)
    graph = IrGraph(core.Graph(model.test.desc), for_test=True)
    quantization.QuantizationTransformPass(
        weight_quantize_func=lambda w: fluid.layers.scale(w, 0.5), act_quantize_func=fluid.layers.relu
    ).apply(graph)
    types = [op.type for op in graph.to_program().global_block().ops]
    assert types[:3] == ["scale", "relu", "conv2d"]
    assert not [one for one in types if one.startswith("fake")]


@pytest.mark.parametrize(
    "options, error, message",
    [
        (
            {"activation_quantize_type": "x"},
            ValueError,
            "Unknown activation_quantize_type : 'x'. It can only",
        ),
        ({"weight_quantize_type": "x"}, ValueError, "Unknown weight_quantize_type: 'x'. It can only be"),
        ({"activation_quantize_type": "channel_wise_abs_max"}, AssertionError, "does not support 'channel_"),
        ({"quantizable_op_type": ["pool2d"]}, AssertionError, "pool2d is not supported for quantization"),
    ],
)
def test_wrong_options(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        quantization.QuantizationTransformPass(**options)


def test_passes_need_a_graph_and_a_scope() -> None:
    graph = IrGraph(core.Graph(slim_cases.Model(fluid).main.desc))
    averages = quantization.QuantizationTransformPass(activation_quantize_type="moving_average_abs_max")
    with pytest.raises(AssertionError, match="The scope cannot be set None"):
        averages.apply(graph)
    with pytest.raises(AssertionError, match="graph must be the instance of IrGraph"):
        averages.apply(core.Graph())
    with pytest.raises(AssertionError, match="The place cannot be set None"):
        quantization.QuantizationFreezePass(fluid.Scope(), None)
    with pytest.raises(AssertionError, match=r"variable 'conv2d_0.tmp_0@scale' is not in the scope"):
        quantization.OutScaleForInferencePass(fluid.Scope()).apply(graph)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "The executor cannot be None"),
        ({"executor": fluid.Executor()}, "The model_dir cannot be None"),
        ({"executor": fluid.Executor(), "model_dir": "m"}, "cannot be None in the same time"),
        (
            {"executor": fluid.Executor(), "model_dir": "m", "sample_generator": list, "algo": "x"},
            "should be KL, abs_max or min_max",
        ),
        (
            {"executor": fluid.Executor(), "model_dir": "m", "sample_generator": list, "batch_size": 0},
            "batch_size should be greater than 0",
        ),
    ],
)
def test_wrong_options_after_training(options: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        quantization.PostTrainingQuantization(**options)


@pytest.mark.parametrize("name", sorted(REFUSED.names))
def test_mkldnn_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{name}: its programs are for MKL-DNN"):
        vars(quantization)[name]()


def test_entropy_threshold() -> None:
    """Values of 1.8.5 for the same numbers; where the tail is long, it is cut off."""
    rng = np.random.RandomState(0)
    normal = np.maximum(rng.randn(10000), 0)[5000:]
    assert entropy_threshold(np.ones(50, "float32")) == 0.500244140625
    assert 0.69 * normal.max() < entropy_threshold(normal) <= normal.max()
    outlier = np.append(normal, 3 * normal.max())
    assert entropy_threshold(outlier) < 2.2 * normal.max()


def test_tail_threshold() -> None:
    values = np.arange(-1000, 1001)
    assert tail_threshold(values, 0.1) == pytest.approx(900, abs=1)
    assert tail_threshold(values, 0.0) == 1000
