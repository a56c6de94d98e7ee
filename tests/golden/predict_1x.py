"""The models of `models` run by the predictors of `fluid.core`: one script for PaddlePaddle 1.8.5, which
records it in `predict_1x.json.gz`, and for FluidLite.

From the folder `tests`, with the Python that has PaddlePaddle 1.8.5:

    python -m golden.predict_1x
"""

from __future__ import annotations

import gzip
import io
import json
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).parent
MODELS = ("mlp", "convnet", "detector", "tagger")
CLASSES = [
    "AnalysisConfig",
    "AnalysisPredictor",
    "NativeConfig",
    "NativePaddlePredictor",
    "PaddleBuf",
    "PaddleDType",
    "PaddlePassBuilder",
    "PaddlePlace",
    "PaddlePredictor",
    "PaddleTensor",
    "ZeroCopyTensor",
]


def example(model: str) -> dict[str, tuple[np.ndarray, list[list[int]]]]:
    """Input -> array and offsets of the recorded example."""
    with np.load(str(HERE / "models" / model / "example.npz")) as arrays:
        meta = json.loads(arrays["meta"].tobytes().decode())
        found = {}
        for name in meta["feeds"]:
            levels = [[0, *np.cumsum(level).tolist()] for level in meta["lengths"][name]]
            found[name] = arrays["in/" + name], levels
        return found


def config_of(core: Any, model: str, layout: str) -> Any:
    """A configuration of a model in a folder, in two files, or in memory."""
    folder = HERE / "models" / model
    files = folder / "inference_combined" / "model", folder / "inference_combined" / "__params__"
    if layout == "folder":
        config = core.AnalysisConfig(str(folder / "inference"))
    elif layout == "files":
        config = core.AnalysisConfig(*map(str, files))
    else:
        config = core.AnalysisConfig("")
        program, params = (path.read_bytes() for path in files)
        config.set_model_buffer(program, len(program), params, len(params))
    config.disable_gpu()
    config.disable_glog_info()
    return config


def tensor_text(array: np.ndarray, lod: Any, dtype: Any) -> dict[str, Any]:
    """A result as JSON keeps it."""
    return {"values": array.tolist(), "shape": list(array.shape), "lod": lod, "dtype": str(dtype)}


def by_run(core: Any, predictor: Any, model: str, names: bool) -> list[Any]:
    """The results of `run`."""
    fed = [
        core.PaddleTensor(array, name if names else "", lod) for name, (array, lod) in example(model).items()
    ]
    if not names:
        by_name = dict(zip(example(model), fed))
        fed = [by_name[name] for name in predictor.get_input_names()]
    return [tensor_text(out.as_ndarray(), out.lod, out.dtype) for out in predictor.run(fed)]


def by_handles(core: Any, predictor: Any, model: str) -> list[Any]:
    """The results of `zero_copy_run`."""
    for name, (array, lod) in example(model).items():
        handle = predictor.get_input_tensor(name)
        handle.reshape(list(array.shape))
        handle.copy_from_cpu(array)
        handle.set_lod(lod)
    assert predictor.zero_copy_run()
    outs = [predictor.get_output_tensor(name) for name in predictor.get_output_names()]
    return [tensor_text(out.copy_to_cpu(), out.lod(), out.type()) for out in outs]


def methods(module: Any, names: Iterable[str]) -> dict[str, list[str]]:
    """Class -> its public methods and fields."""
    return {
        name: [key for key in dir(getattr(module, name)) if not key.startswith("_")] for name in sorted(names)
    }


def observe(core: Any) -> dict[str, Any]:
    """Model and way -> the results, and the names of inputs and outputs."""
    found: dict[str, Any] = {"methods": methods(core, CLASSES)}
    for model in MODELS:
        for layout in ("folder", "files", "memory"):
            config = config_of(core, model, layout)
            config.switch_specify_input_names(True)
            predictor = core.create_paddle_predictor(config)
            found[f"{model} {layout}"] = by_run(core, predictor, model, names=True)
        found[f"{model} in order"] = by_run(
            core, core.create_paddle_predictor(config_of(core, model, "folder")), model, names=False
        )
        config = config_of(core, model, "folder")
        config.switch_use_feed_fetch_ops(False)
        predictor = core.create_paddle_predictor(config)
        found[f"{model} handles"] = by_handles(core, predictor, model)
        found[f"{model} clone"] = by_handles(core, predictor.clone(), model)
        found[f"{model} names"] = [
            predictor.get_input_names(),
            predictor.get_output_names(),
            predictor.get_input_tensor_shape(),
        ]
    return found


def missing(module: Any, wanted: dict[str, list[str]]) -> list[str]:
    """Those of `methods` that a module lacks, on the class and on an object of it."""
    found = []
    for name, keys in wanted.items():
        kind = getattr(module, name)
        made = next(iter(kind)) if hasattr(kind, "__members__") else kind
        made = kind() if name in ("NativeConfig", "PaddleTensor", "XpuConfig") else made
        found += [f"{name}.{key}" for key in keys if not hasattr(made, key)]
    return found


def write(found: dict[str, Any], path: pathlib.Path) -> None:
    """Write observations; those equal to earlier ones as the name of these."""
    first: dict[str, str] = {}
    for key in sorted(found):
        earlier = first.setdefault(json.dumps(found[key]), key)
        if earlier != key:
            found[key] = earlier
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as file:
        file.write(text.encode())
    path.write_bytes(out.getvalue())


def read(path: pathlib.Path) -> dict[str, Any]:
    """The observations that `write` wrote."""
    found = json.loads(gzip.decompress(path.read_bytes()).decode())
    return {key: found[value] if isinstance(value, str) else value for key, value in found.items()}


def main() -> None:
    from paddle.fluid import core

    write(observe(core), HERE / "predict_1x.json.gz")


if __name__ == "__main__":
    main()
