"""Read the models that Paddle saved, use them, and write the same files again."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from .cases import construct
from .harness import Fetched, check_close, to_feed
from .model_programs import MODEL_PROGRAMS

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "models")
LAYOUTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("inference", {}),
    ("inference_combined", {"model_filename": "model", "params_filename": "__params__"}),
)


class SavedModel:
    """One recorded folder: paths, the example, and every persistable of the trained program."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = os.path.join(MODELS, name)
        with np.load(os.path.join(self.folder, "example.npz")) as archive:
            self.arrays = {key: archive[key] for key in archive.files}
        self.meta: dict[str, Any] = json.loads(self.arrays["meta"].tobytes().decode())

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        return {key[len(prefix) :]: value for key, value in self.arrays.items() if key.startswith(prefix)}

    def inputs(self) -> dict[str, Fetched]:
        lengths = self.meta["lengths"]
        return {name: Fetched(name, value, lengths[name]) for name, value in self.group("in/").items()}


def model_names() -> list[str]:
    return sorted(os.listdir(MODELS))


def check_inference(fluid: Any, model: SavedModel, layout: str, files: dict[str, str]) -> None:
    """The model loads, feeds and fetches in Paddle's order, and gives Paddle's numbers."""
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        program, feed_names, targets = fluid.io.load_inference_model(model.path(layout), exe, **files)
        assert list(feed_names) == model.meta["feeds"]
        feeds = {name: to_feed(fluid, fed) for name, fed in model.inputs().items()}
        made = exe.run(program, feed=feeds, fetch_list=targets, return_numpy=False)
    assert len(made) == len(model.group("out/"))
    for number, value in enumerate(made):
        check_close(f"output {number} of {layout}", np.array(value), model.arrays[f"out/{number}"])


def trained_program(fluid: Any, model: SavedModel) -> Any:
    return fluid.Program.parse_from_string(model.arrays["program"].tobytes())


def check_scope(fluid: Any, wanted: dict[str, np.ndarray]) -> None:
    for name, value in wanted.items():
        found = fluid.global_scope().find_var(name)
        assert found is not None, name + " was not loaded"
        np.testing.assert_array_equal(np.array(found.get_tensor()), value, err_msg=name)


def check_persistables(fluid: Any, model: SavedModel, folder: str, again: str) -> None:
    """Persistables load bit by bit, one file each or all in one, and are saved again as the same bytes."""
    exe = fluid.Executor(fluid.CPUPlace())
    filename = "all" if folder.endswith("combined") else None
    program = trained_program(fluid, model)
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_persistables(exe, model.path(folder), program, filename=filename)
        check_scope(fluid, model.group("persistable/"))
        fluid.io.save_persistables(exe, again, program, filename=filename)
    names = sorted(os.listdir(model.path(folder)))
    assert sorted(os.listdir(again)) == names
    for name in names:
        with open(model.path(folder, name), "rb") as theirs, open(os.path.join(again, name), "rb") as mine:
            assert mine.read() == theirs.read(), f"{name} is written differently"


def check_saved(fluid: Any, model: SavedModel) -> None:
    """fluid.load reads what Paddle's fluid.save wrote; it needs Parameters, which the files do not mark."""
    program = construct(fluid, MODEL_PROGRAMS[model.name])[0].program
    with fluid.scope_guard(fluid.Scope()):
        fluid.load(program, model.path("saved"), fluid.Executor(fluid.CPUPlace()))
        check_scope(fluid, model.group("persistable/"))
