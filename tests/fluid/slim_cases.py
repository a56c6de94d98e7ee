"""Quantised models, in code that runs under PaddlePaddle 1.8.5 (`make_slim.py` records) and FluidLite alike.

Parameters and data come from NumPy's generator, so results can be compared number by number.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

NUMBERED = re.compile(r"\b(quant_dequant\.|scale_)?(state|accum|scales|channel_scale)(@?)_\d+")
KEPT = (
    *("op_role", "bit_length", "window_size", "moving_rate", "is_test", "max_range", "quant_bits"),
    *("quantization_type", "skip_quant", "out_threshold", "activation_bits", "quantize_weight_bits", "step"),
)


def named(name: str) -> str:
    """Names without numbers that depend on the order of sets in PaddlePaddle."""
    return NUMBERED.sub(r"\1\2\3_N", name)


def lines(program: Any) -> list[str]:
    """The ops of a program: slots, and the attributes that quantising is about."""
    found = []
    for op in program.global_block().ops:
        slots = [f"{slot}={','.join(map(named, op.input(slot)))}" for slot in sorted(op.input_names)]
        outs = [f"{slot}={','.join(map(named, op.output(slot)))}" for slot in sorted(op.output_names)]
        kept = {name: op.attr(name) for name in sorted(op.attr_names) if name in KEPT}
        attrs = [
            f"{name}={float(v):.4g}" if isinstance(v, float) else f"{name}={v}" for name, v in kept.items()
        ]
        made = [one for one in outs if not one.endswith("=")]
        found.append(
            " ".join([op.type, *[one for one in slots if not one.endswith("=")], "->", *made, *attrs])
        )
    return found


def numbers(values: Any) -> list[float]:
    """The first numbers of an array and its sums, enough to tell arrays apart."""
    flat = np.asarray(values, "float64").ravel()
    return [float(one) for one in (*flat[:6], flat.sum(), np.abs(flat).sum())]


def persistables(program: Any, scope: Any) -> dict[str, Any]:
    """The values of a program's persistable variables."""
    found = {}
    for var in program.list_vars():
        if var.persistable and var.name not in ("feed", "fetch"):
            found[var.name] = np.array(scope.find_var(var.name).get_tensor())
    # numbered ones in the order of what they hold, which does not depend on their numbers
    unnumbered = {name: numbers(value) for name, value in found.items() if named(name) == name}
    numbered = sorted((named(name), numbers(value)) for name, value in found.items() if named(name) != name)
    kinds = {name: str(value.dtype) for name, value in found.items() if named(name) == name}
    return {"values": unnumbered, "numbered": numbered, "kinds": kinds}


def fill(program: Any, scope: Any, fluid: Any) -> None:
    """Give parameters values from NumPy's generator, in the order of their names."""
    rng = np.random.RandomState(5)
    for var in sorted(program.all_parameters(), key=lambda var: var.name):
        value = rng.uniform(-0.4, 0.4, var.shape).astype("float32")
        if var.name.startswith("batch_norm"):
            value = np.abs(value) + np.float32(0.5)
        scope.find_var(var.name).get_tensor().set(value, fluid.CPUPlace())


def batches(count: int) -> Iterator[dict[str, Any]]:
    rng = np.random.RandomState(9)
    for _ in range(count):
        image = rng.uniform(-1, 1, (4, 1, 14, 14)).astype("float32")
        yield {"image": image, "label": rng.randint(0, 10, (4, 1)).astype("int64")}


def lenet(fluid: Any) -> tuple[Any, Any]:
    """Loss and prediction of a small LeNet with a residual branch."""
    layers = fluid.layers
    image = fluid.data("image", [None, 1, 14, 14])
    label = fluid.data("label", [None, 1], "int64")
    first = fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act="relu")
    normal = layers.batch_norm(first)
    both = layers.elementwise_add(layers.conv2d(normal, 4, 3, padding=1), normal)
    pooled = layers.pool2d(both, 2, "avg", 2)
    with fluid.name_scope("skip_quant"):
        hidden = layers.fc(pooled, 12, act="relu")
    prediction = layers.fc(hidden, 10, act="softmax")
    return layers.mean(layers.cross_entropy(prediction, label)), prediction


class Model:
    """Programs, scope and executor of one small LeNet."""

    def __init__(self, fluid: Any) -> None:
        self.fluid, self.scope = fluid, fluid.Scope()
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), fluid.program_guard(self.main, self.startup):
            self.loss, self.prediction = lenet(fluid)
            self.test = self.main.clone(for_test=True)
            fluid.optimizer.SGD(0.05).minimize(self.loss)
        self.exe = fluid.Executor(fluid.CPUPlace())

    def run(self, program: Any, batch: dict[str, Any]) -> float:
        found = self.exe.run(program, feed=batch, fetch_list=[self.loss.name], scope=self.scope)
        return float(np.asarray(found[0]).ravel()[0])


def trained(fluid: Any, activation: str, weight: str, passes: Any) -> dict[str, Any]:
    """Quantisation-aware training, then the frozen model and the one with integers."""
    model = Model(fluid)
    place, result = fluid.CPUPlace(), {}  # type: Any, Any
    with fluid.scope_guard(model.scope), fluid.unique_name.guard():
        model.exe.run(model.startup)
        fill(model.main, model.scope, fluid)
        graphs = []
        for program, for_test in ((model.test, True), (model.main, False)):
            graph = fluid.framework.IrGraph(fluid.core.Graph(program.desc), for_test=for_test)
            passes.QuantizationTransformPass(
                scope=model.scope,
                place=place,
                activation_quantize_type=activation,
                weight_quantize_type=weight,
                window_size=3,
            ).apply(graph)
            passes.AddQuantDequantPass(scope=model.scope, place=place).apply(graph)
            result["test program" if for_test else "program"] = lines(graph.to_program())
            graphs.append(graph)
        test, main = graphs
        passes.OutScaleForTrainingPass(scope=model.scope, place=place).apply(main)
        program = main.to_program()
        result["losses"] = [model.run(program, batch) for batch in batches(5)]
        passes.OutScaleForInferencePass(scope=model.scope).apply(test)
        passes.QuantizationFreezePass(model.scope, place, weight_quantize_type=weight).apply(test)
        result["frozen"] = lines(test.to_program())
        result["frozen values"] = persistables(test.to_program(), model.scope)
        result["frozen losses"] = [model.run(test.to_program(), batch) for batch in batches(2)]
        passes.ConvertToInt8Pass(model.scope, place).apply(test)
        result["integers"] = persistables(test.to_program(), model.scope)
        passes.TransformForMobilePass().apply(test)
        result["mobile"] = lines(test.to_program())
    return result


def transpiled(fluid: Any, activation: str, transpiler: Any) -> dict[str, Any]:
    """The transpiler of programs, through the same steps."""
    model = Model(fluid)
    place, result = fluid.CPUPlace(), {}  # type: Any, Any
    quantizer = transpiler(activation_quantize_type=activation, weight_bits=7, window_size=3)
    with fluid.scope_guard(model.scope), fluid.unique_name.guard():
        quantizer.training_transpile(model.main, model.startup)
        result["program"], result["startup"] = lines(model.main), lines(model.startup)
        model.exe.run(model.startup)
        fill(model.test, model.scope, fluid)
        result["losses"] = [model.run(model.main, batch) for batch in batches(4)]
        quantizer.training_transpile(model.test, fluid.Program())
        for var in model.test.list_vars():  # no startup program fills those of this program
            if named(var.name) != var.name:
                first = np.full(var.shape, 0.0 if var.name.startswith("scales_") else 1.0, "float32")
                model.scope.var(var.name).get_tensor().set(first, place)
        quantizer.freeze_program(model.test, place, model.scope)
        result["frozen"] = lines(model.test)
        result["frozen losses"] = [model.run(model.test, batch) for batch in batches(2)]
        quantizer.convert_to_int8(model.test, place, model.scope)
        result["integers"] = persistables(model.test, model.scope)
    return result


def saved(fluid: Any, folder: str) -> None:
    """A model that infers, saved in a folder."""
    model = Model(fluid)
    with fluid.scope_guard(model.scope), fluid.unique_name.guard():
        model.exe.run(model.startup)
        fill(model.main, model.scope, fluid)
        test = model.test
        target = test.global_block().var(model.prediction.name)
        fluid.io.save_inference_model(folder, ["image"], [target], model.exe, main_program=test)


def posted(fluid: Any, algo: str, weight: str, full: bool, passes: Any) -> dict[str, Any]:
    """Post-training quantisation: the program, and its scales."""
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    types = ["conv2d", "mul", "pool2d", "elementwise_add"]
    with tempfile.TemporaryDirectory() as folder:
        saved(fluid, folder)
        with fluid.scope_guard(scope), fluid.unique_name.guard():
            program = passes.PostTrainingQuantization(
                executor=exe,
                scope=scope,
                model_dir=folder,
                sample_generator=lambda: ((image,) for batch in batches(5) for image in batch["image"]),
                batch_size=4,
                batch_nums=4,
                algo=algo,
                quantizable_op_type=types,
                is_full_quantize=full,
                weight_quantize_type=weight,
            ).quantize()
            return {"program": lines(program), "values": persistables(program, scope), **ranges(program)}


def ranges(program: Any) -> dict[str, Any]:
    """The smallest and largest values that ops have as attributes."""
    found = {}
    for index, op in enumerate(program.global_block().ops):
        for name in op.attr_names:
            if name.endswith((".min", ".max")):
                found[f"{index} {name}"] = numbers(op.attr(name))
    return {"ranges": found}


def weights(fluid: Any, options: dict[str, Any], passes: Any) -> dict[str, Any]:
    """Integer weights of a saved model, and the real numbers that they stand for."""
    exe, result = fluid.Executor(fluid.CPUPlace()), {}  # type: Any, Any
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        saved(fluid, folder)
        passes.WeightQuantization(folder).quantize_weight_to_int(out, generate_test_model=True, **options)
        for name in sorted(os.listdir(out)):
            scope = fluid.Scope()
            with fluid.scope_guard(scope):
                program = fluid.io.load_inference_model(os.path.join(out, name), exe)[0]
                scales = {
                    attr: numbers(op.attr(attr))
                    for op in program.global_block().ops
                    for attr in op.attr_names
                    if attr.endswith("_quant_scale")
                }
                result[name] = {"scales": scales, **persistables(program, scope)}
    return result


def all_results(fluid: Any, passes: Any, transpiler: Any) -> dict[str, dict[str, Any]]:
    """Every case, by name."""
    found = {}
    for activation, weight in (
        ("abs_max", "abs_max"),
        ("range_abs_max", "channel_wise_abs_max"),
        ("moving_average_abs_max", "channel_wise_abs_max"),
    ):
        found[f"trained {activation} {weight}"] = trained(fluid, activation, weight, passes)
    for activation in ("range_abs_max", "moving_average_abs_max"):
        found[f"transpiled {activation}"] = transpiled(fluid, activation, transpiler)
    for algo, weight, full in (
        ("KL", "channel_wise_abs_max", False),
        ("abs_max", "abs_max", True),
        ("min_max", "channel_wise_abs_max", False),
    ):
        found[f"post {algo}"] = posted(fluid, algo, weight, full, passes)
    for name, options in (
        ("weights 8", {}),
        ("weights 16", {"weight_bits": 16}),
        ("weights tail", {"weight_quantize_type": "abs_max", "threshold_rate": 0.02}),
    ):
        found[name] = weights(fluid, options, passes)
    return found
