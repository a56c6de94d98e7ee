"""`fluid.io`: saving and loading, data loaders, and readers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.dataloader import BatchSampler, Dataset
from fluidlite.ir.guarded import guarded
from fluidlite.reader import DataLoader, PyReader, default_collate_fn
from fluidlite.reading.decorators import (
    ComposeNotAligned,
    batch,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from fluidlite.saving.inference import (
    append_fetch_ops,
    load_inference_model,
    prepend_feed_ops,
    save_inference_model,
)
from fluidlite.saving.state import load, load_program_state, save, set_program_state
from fluidlite.saving.trainable import Trainable, trainable
from fluidlite.saving.variables import (
    get_parameter_value,
    get_parameter_value_by_name,
    get_program_parameter,
    get_program_persistable_vars,
    is_belong_to_optimizer,
    is_parameter,
    is_persistable,
    load_params,
    load_persistables,
    load_vars,
    save_params,
    save_persistables,
    save_vars,
)

if TYPE_CHECKING:
    from fluidlite.saving.onnx.loading.load import OnnxModel
    from fluidlite.values.scope import Scope

__all__ = [
    "BatchSampler",
    "ComposeNotAligned",
    "DataLoader",
    "Dataset",
    "PyReader",
    "Trainable",
    "append_fetch_ops",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "default_collate_fn",
    "firstn",
    "get_parameter_value",
    "get_parameter_value_by_name",
    "get_program_parameter",
    "get_program_persistable_vars",
    "is_belong_to_optimizer",
    "is_parameter",
    "is_persistable",
    "load",
    "load_inference_model",
    "load_onnx",
    "load_params",
    "load_persistables",
    "load_program_state",
    "load_vars",
    "map_readers",
    "multiprocess_reader",
    "prepend_feed_ops",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_vars",
    "set_program_state",
    "shuffle",
    "trainable",
    "xmap_readers",
]


def load_onnx(path: str | os.PathLike[str], scope: Scope | None = None) -> OnnxModel:
    """The program that computes what an ONNX file does, the names of its inputs, and its results; its weights
    go into `scope`, or the global one (`fluidlite.saving.onnx.loading.load.load_onnx`).
    """
    # rules for all ops of ONNX, which programs without such files need not wait for
    from fluidlite.saving.onnx.loading import load as loading

    return loading.load_onnx(path, scope)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
