"""Save small trained models with PaddlePaddle 1.8.5, in every layout it has.

From the folder `tests`, with the Python that has PaddlePaddle 1.8.5:

    python -m golden.record_models [MODEL ...]

Each model becomes a folder `models/<name>/` with `inference/` (a file a parameter), `inference_combined/`
(`__params__` in one file), `persistables/`, `persistables_combined/all`, `params/`,
`saved.pdmodel|pdparams|pdopt` (from fluid.save) and `example.npz`: `meta`, one input, what the inference
model makes of it, every persistable.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.proto import framework_pb2

from .cases import Fed, construct, make_feeds
from .model_programs import MODEL_PROGRAMS, Model
from .record import distinct_seeds, persistables, program_bytes, to_tensor

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def without_callstacks(path: str) -> None:
    """Call stacks name folders of the recording machine; nothing else in the file changes."""
    with open(path, "rb") as source:
        desc = framework_pb2.ProgramDesc.FromString(source.read())
    for block in desc.blocks:
        for op in block.ops:
            for attr in op.attrs:
                if attr.name == "op_callstack":
                    del attr.strings[:]
    with open(path, "wb") as out:
        out.write(desc.SerializeToString())


def save_everywhere(exe: Any, model: Model, folder: str) -> None:
    program = model.program
    fluid.io.save_inference_model(
        os.path.join(folder, "inference"), model.inputs, model.outputs, exe, program
    )
    fluid.io.save_inference_model(
        os.path.join(folder, "inference_combined"),
        model.inputs,
        model.outputs,
        exe,
        program,
        model_filename="model",
        params_filename="__params__",
    )
    fluid.io.save_persistables(exe, os.path.join(folder, "persistables"), program)
    fluid.io.save_persistables(exe, os.path.join(folder, "persistables_combined"), program, filename="all")
    fluid.io.save_params(exe, os.path.join(folder, "params"), program)
    fluid.save(program, os.path.join(folder, "saved"))


def example(exe: Any, folder: str, fed: dict[str, Fed]) -> dict[str, Any]:
    """Results of the saved inference model on one input: arrays by name, and the names in order."""
    program, feed_names, targets = fluid.io.load_inference_model(os.path.join(folder, "inference"), exe)
    feeds = {name: to_tensor(fed[name]) for name in feed_names}
    made = exe.run(program, feed=feeds, fetch_list=targets, return_numpy=False)
    arrays = {"in/" + name: fed[name][0] for name in feed_names}
    arrays.update({f"out/{number}": np.array(value) for number, value in enumerate(made)})
    meta = {
        "paddle": paddle.__version__,
        "feeds": feed_names,
        "targets": [target.name for target in targets],
        "lengths": {name: fed[name][1] for name in feed_names},
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return arrays


def record(name: str, build: Callable[[Any], Any]) -> None:
    folder = os.path.join(MODELS, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model, startup = construct(fluid, build)
    exe, rng, scope = fluid.Executor(fluid.CPUPlace()), np.random.RandomState(5), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(distinct_seeds(startup))
        for step in range(3):
            made = make_feeds(model.feeds, rng, step)
            exe.run(model.program, feed={key: to_tensor(fed) for key, fed in made.items()})
        save_everywhere(exe, model, folder)
        values = persistables([model.program], scope)
    with fluid.scope_guard(fluid.Scope()):
        arrays = example(exe, folder, make_feeds(model.feeds, rng, 3))
    arrays.update({"persistable/" + key: value for key, value in values.items()})
    arrays["program"], arrays["startup"] = program_bytes(model.program), program_bytes(startup)
    np.savez_compressed(os.path.join(folder, "example.npz"), **arrays)
    for model_file in ("inference/__model__", "inference_combined/model", "saved.pdmodel"):
        without_callstacks(os.path.join(folder, model_file))


if __name__ == "__main__":
    for case_name in sys.argv[1:] or MODEL_PROGRAMS:
        record(case_name, MODEL_PROGRAMS[case_name])
