"""The models of `paddle.vision.models` as PaddlePaddle 2.6.2 builds them.

cd tests && python -m golden.vision_models_2x        (with the Python that has 2.6.2)

writes `vision_models_2x.json.xz`: for each case of `CASES` its state (key in the layer, name of the variable,
shape, how it is initialised) and the ops of its program, each with what it reads and its attributes.
"""

from __future__ import annotations

import json
import lzma
import pathlib
from typing import Any

PATH = pathlib.Path(__file__).with_name("vision_models_2x.json.xz")

_NAMES = """
alexnet densenet121 densenet161 densenet169 densenet201 densenet264 googlenet inception_v3 mobilenet_v1
mobilenet_v2 mobilenet_v3_large mobilenet_v3_small resnet18 resnet34 resnet50 resnet101 resnet152
resnext50_32x4d resnext50_64x4d resnext101_32x4d resnext101_64x4d resnext152_32x4d resnext152_64x4d
shufflenet_v2_swish shufflenet_v2_x0_25 shufflenet_v2_x0_33 shufflenet_v2_x0_5 shufflenet_v2_x1_0
shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0 squeezenet1_1 vgg11 vgg13 vgg16 vgg19 wide_resnet50_2
wide_resnet101_2 LeNet
"""
_NO_TOP = (
    "resnet18 vgg11 mobilenet_v1 mobilenet_v2 mobilenet_v3_small densenet121 googlenet inception_v3 "
    "shufflenet_v2_x0_25"
)
# (function or class, its arguments)
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in _NAMES.split()),
    *((name, {"num_classes": 0}) for name in ["alexnet", "LeNet", *_NO_TOP.split()]),
    # without both, 2.6.2 fails to build a DenseNet
    *((name, {"num_classes": 0, "with_pool": False}) for name in _NO_TOP.split() if name != "densenet121"),
    ("squeezenet1_0", {"with_pool": False}),
    ("squeezenet1_1", {"num_classes": 7}),
    ("vgg13", {"batch_norm": True, "num_classes": 5}),
    ("mobilenet_v1", {"scale": 0.25}),
    ("mobilenet_v2", {"scale": 1.4}),
    ("mobilenet_v2", {"scale": 0.35, "num_classes": 3}),
    ("mobilenet_v3_small", {"scale": 0.5}),
    ("mobilenet_v3_large", {"scale": 1.25}),
    ("DenseNet", {"layers": 121, "dropout": 0.2, "bn_size": 2}),
    ("ShuffleNetV2", {"scale": 0.5, "act": None}),
    ("resnet50", {"groups": 2, "width": 32}),
]
_LEFT_OUT = [
    "op_callstack",
    "op_device",
    "op_namescope",
    "op_role",
    "op_role_var",
    "with_quant_attr",
    "use_quantizer",
]
# where Paddle's kernels run
_DEVICE = "mkldnn cudnn"


def label(name: str, arguments: dict[str, Any]) -> str:
    """A case as it is called."""
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def build(paddle: Any, name: str, arguments: dict[str, Any], size: int | None = None) -> Any:
    """(main program, startup program, model, input, output) of a case."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        model = getattr(paddle.vision.models, name)(**arguments)
        sizes = {"LeNet": 28, "inception_v3": 299}
        size = size or sizes.get(name, 224)
        x = paddle.static.data("x", [None, 1 if name == "LeNet" else 3, size, size], "float32")
        return main, startup, model, x, model(x)


def described(program: Any) -> list[Any]:
    """The ops of a program: type, inputs (results of ops by their number, as temporary names differ),
    attributes.
    """
    found = []
    sources: dict[str, str] = {}
    for number, op in enumerate(program.global_block().ops):
        inputs = {slot: op.input(slot) for slot in sorted(op.input_names) if op.input(slot)}
        inputs = {slot: [sources.get(name, name) for name in names] for slot, names in inputs.items()}
        for slot in op.output_names:
            sources |= {name: f"{number}:{place}" for place, name in enumerate(op.output(slot))}
        attrs = {}
        for key in sorted(op.attr_names):
            value = op.attr(key)
            device = any(word in key for word in _DEVICE.split())
            if key not in _LEFT_OUT and not device and isinstance(value, (int, float, str, list)):
                attrs[key] = round(value, 6) if isinstance(value, float) else value
        found.append([op.type, inputs, attrs])
    return found


def initialised(startup: Any) -> dict[str, list[Any]]:
    """Variable -> the op that fills it, and that one's numbers."""
    found = {}
    for op in startup.global_block().ops:
        keys = sorted({"value", "min", "max", "mean", "std"}.intersection(op.attr_names))
        for slot in op.output_names:
            for name in op.output(slot):
                found[name] = [op.type, *(round(op.attr(key), 5) for key in keys)]
    return found


def recorded_of(paddle: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The facts of a case that are kept."""
    main, startup, model, _, out = build(paddle, name, arguments)
    filled = initialised(startup)
    state = [[key, var.name, list(var.shape), filled[var.name]] for key, var in model.state_dict().items()]
    outs = [list(var.shape) for var in (out if isinstance(out, (list, tuple)) else [out])]
    return {"state": state, "ops": described(main), "outs": outs}


def main() -> None:
    """Write the file."""
    import paddle

    paddle.enable_static()
    found = {label(*case): recorded_of(paddle, *case) for case in CASES}
    PATH.write_bytes(lzma.compress(json.dumps(found, separators=(",", ":")).encode()))


if __name__ == "__main__":
    main()
