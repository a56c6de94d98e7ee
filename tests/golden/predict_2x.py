"""Saved models run by `paddle.inference`: one script for PaddlePaddle 2.6.2, which records it in
`predict_2x.json.gz`, and for FluidLite. The models are those of 1.8.5 in `models`, `models_2x/classifier`,
which `record_model_2x` has saved, and `models_2x/layer`, which `paddle.jit.save` saves here.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2:

    python -m golden.predict_2x
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from golden.predict_1x import MODELS, example, methods, tensor_text, write

HERE = pathlib.Path(__file__).parent
CLASSES = [
    "Config",
    "DataType",
    "InternalUtils",
    "PlaceType",
    "PrecisionType",
    "Predictor",
    "PredictorPool",
    "Tensor",
    "XpuConfig",
]


def models() -> dict[str, tuple[tuple[str, ...], Any]]:
    """Name -> what a Config is made of, and what is fed."""
    found: dict[str, tuple[tuple[str, ...], Any]] = {}
    for name in MODELS:
        folder = HERE / "models" / name
        files = folder / "inference_combined" / "model", folder / "inference_combined" / "__params__"
        found[f"{name} folder"] = (str(folder / "inference"),), example(name)
        found[f"{name} files"] = tuple(map(str, files)), example(name)
    rng = np.random.RandomState(0)
    img, ids = rng.rand(4, 1, 8, 8).astype("float32"), rng.randint(0, 11, (4, 3)).astype("int64")
    prefix = HERE / "models_2x"
    classifier = str(prefix / "classifier.pdmodel"), str(prefix / "classifier.pdiparams")
    found["classifier"] = classifier, {"img": (img, []), "ids": (ids, [])}
    found["classifier of int32"] = classifier, {"img": (img, []), "ids": (ids.astype("int32"), [])}
    layer = str(prefix / "layer.pdmodel"), str(prefix / "layer.pdiparams")
    found["layer"] = layer, {"x": (rng.rand(2, 6).astype("float32"), [])}
    one_row = str(prefix / "one_row.pdmodel"), str(prefix / "one_row.pdiparams")
    found["five rows where the file says one"] = one_row, {"x": (rng.rand(5, 6).astype("float32"), [])}
    return found


def results(predictor: Any, fed: Any) -> list[Any]:
    """The values of the output handles after a run."""
    for name, (array, lod) in fed.items():
        handle = predictor.get_input_handle(name)
        handle.reshape(list(array.shape))
        handle.copy_from_cpu(array)
        handle.set_lod(lod)
    predictor.run()
    outs = [predictor.get_output_handle(name) for name in predictor.get_output_names()]
    texts = [tensor_text(out.copy_to_cpu(), out.lod(), int(out.type())) for out in outs]
    assert [out.shape() for out in outs] == [text["shape"] for text in texts]
    return texts


def observe(inference: Any) -> dict[str, Any]:
    """Model and way -> the results, and the names of inputs and outputs."""
    found: dict[str, Any] = {"methods": methods(inference, CLASSES)}
    for name, (source, fed) in models().items():
        config = inference.Config(*source)
        config.disable_gpu()
        config.disable_glog_info()
        predictor = inference.create_predictor(config)
        found[name] = results(predictor, fed)
        found[f"{name} again"] = results(predictor, fed)
        found[f"{name} clone"] = results(predictor.clone(), fed)
        found[f"{name} names"] = [predictor.get_input_names(), predictor.get_output_names()]
    return found


def save_layers(paddle: Any) -> None:
    """Save two layers that were traced."""

    class Small(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = paddle.nn.LSTM(3, 4)
            self.norm = paddle.nn.BatchNorm1D(4)
            self.last = paddle.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            hidden, _ = self.lstm(paddle.reshape(x, [-1, 2, 3]))
            hidden = self.norm(paddle.mean(hidden, axis=1))
            return self.last(paddle.nn.functional.dropout(hidden, 0.5, training=self.training))

    paddle.seed(1)
    for name, layer, rows in (("layer", Small(), None), ("one_row", paddle.nn.Linear(6, 2), 1)):
        layer.eval()
        prefix = HERE / "models_2x" / name
        paddle.jit.save(layer, str(prefix), [paddle.static.InputSpec([rows, 6], "float32", "x")])
        prefix.with_suffix(".pdiparams.info").unlink()
        without_callstacks(prefix.with_suffix(".pdmodel"))


def without_callstacks(path: pathlib.Path) -> None:
    """Call stacks name folders of the recording machine; nothing else in the file changes."""
    from paddle.base.proto import framework_pb2

    desc = framework_pb2.ProgramDesc.FromString(path.read_bytes())
    for op in (op for block in desc.blocks for op in block.ops):
        for attr in op.attrs:
            if attr.name == "op_callstack":
                del attr.strings[:]
    path.write_bytes(desc.SerializeToString())


def main() -> None:
    import paddle

    save_layers(paddle)
    write(observe(paddle.inference), HERE / "predict_2x.json.gz")


if __name__ == "__main__":
    main()
